"""The characters of texts: their kinds, by which words end, and their forms when compared.

Words end where Unicode ends them (UAX 29), and at apostrophes and points ("Peru's" names Peru).
Scripts without spaces are read sign by sign: Han, kana but for runs of katakana, Hangul, Thai, Lao,
Khmer and Myanmar, where a sign is a consonant with its vowels and marks.
"""

import unicodedata
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import regex
from numpy.typing import NDArray

from drike.text.fingerprints import BASE, BASE_INVERSE, MODULUS, SALT

# Chinese and Japanese words of one sign that stand before a name.
_FUNCTION_WORDS = (
    "的是在和与與及跟同或对對于於从從到由向往被把给給让讓问問说說讲講谈談有了着過过去来來为為以比离離距住访訪找叫称稱即如像关關将將用因至自"
    "当當请請我你他她它这這那哪谁誰何其某每各该該本此前后後现現位座个個名家はがをにへとでのもやか"
)
_SPACELESS = r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
# Diacritics, points of Hebrew and Arabic, tatweel, signs of format and variation.
_OPTIONAL = (
    r"[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc"
    r"\u06df-\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
    r"\U000e0100-\U000e01ef\p{Cf}]"
)
# In the order in which they are tried.
_KINDS = {
    "suffix": r"[+#]",  # of C++ and C#
    "function": f"[{_FUNCTION_WORDS}]",
    "han": r"\p{Han}",
    "hiragana": r"\p{Hiragana}",
    "katakana": r"\p{WB=Katakana}",
    "leading": r"\p{Logical_Order_Exception}",  # a vowel that is written before its consonant
    "link": r"[\u1039\u17d2]",  # puts the next consonant below this one
    "following": (  # a vowel or mark behind its consonant
        r"[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\u1160-\u11ff]"
        rf"|(?=\p{{M}}){_SPACELESS}"
    ),
    "spaceless": rf"(?=\p{{L}}){_SPACELESS}",
    "hangul": r"\p{Hangul}",
    "mark": rf"{_OPTIONAL}|\p{{M}}",
    "letter": r"[\p{L}\p{N}_]",
    "gap": r"(?s:.)",
}
_KIND = regex.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))

_NUMBER = {kind: number for number, kind in enumerate(_KINDS, 1)}  # 0: not looked up yet
GAP = _NUMBER["gap"]

_SIGNS = ("function", "han", "hiragana", "leading", "link", "following", "spaceless", "hangul")
_SIGNS_OF_SYLLABLES = ("leading", "link", "following", "spaceless")
_JOINED_TO_BEFORE = ("mark", "suffix", "following", "link")
_SIGN_NUMBERS = frozenset(_NUMBER[kind] for kind in _SIGNS)

_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)
_DROPPED = regex.compile(rf"{_OPTIONAL}|[^\p{{L}}\p{{N}}\p{{M}}_+#]")

# What `NAME_SIZES` says of places where no name begins.
INSIDE_KOREAN_WORD = 255
INSIDE_WORD = 254


def _word_breaks(before: str, behind: str) -> bool:
    """Whether a word begins or ends between two kinds of characters."""
    if "gap" in (before, behind):
        return before != behind
    if behind in _JOINED_TO_BEFORE:
        return False
    if before in ("leading", "link"):
        return behind != "spaceless"
    if behind in _SIGNS or before in _SIGNS:
        return True
    return before == "suffix" or before not in ("mark", behind)


def _boundary(before: str, behind: str) -> int:
    """Which of `BEGINS` and `ENDS` hold between two kinds of characters."""
    if not _word_breaks(before, behind):
        return 0
    begins = BEGINS if behind not in ("gap", "suffix") else 0
    ends = ENDS if before != "gap" else 0
    return begins + ends


def _name_size(before: str, behind: str) -> int:
    """How many words a name must have to begin between two words that adjoin, by characters."""
    if behind == "hangul":
        return INSIDE_KOREAN_WORD if before in ("hangul", "following") else 1
    if before == behind == "hiragana":
        return INSIDE_WORD
    if before == "han":
        return 3 if behind in ("han", "function") else 1
    inside_syllables = before in _SIGNS_OF_SYLLABLES and behind in _SIGNS_OF_SYLLABLES
    return 2 if inside_syllables else 1


def pair_number(before: NDArray[np.uint8], behind: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The places in `BOUNDARIES` and `NAME_SIZES` of pairs of kinds."""
    return 16 * before + behind


def _table(rule: Callable[[str, str], int]) -> NDArray[np.uint8]:
    """What a rule says of each pair of kinds, by `pair_number`."""
    table = np.zeros((16, 16), np.uint8)
    for before, behind in product(_KINDS, repeat=2):
        table[_NUMBER[before], _NUMBER[behind]] = rule(before, behind)
    return table.ravel()


BEGINS, ENDS = 1, 2  # bits: a word begins at a place in a text, a word ends there
BOUNDARIES = _table(_boundary).tobytes()  # for `bytes.translate`
NAME_SIZES = _table(_name_size)

# By code point, filled when a character is first met: its kind, and what it adds to the fingerprint
# of its word: its letters, and the powers of the base and of its inverse for as many letters.
KIND_OF = np.zeros(0x110000, np.uint8)
LETTERS_OF = np.zeros(0x110000, np.uint64)
POWER_OF = np.zeros(0x110000, np.uint64)
INVERSE_OF = np.zeros(0x110000, np.uint64)


class _Folds(dict[int, str]):
    """Characters as they are compared: without case, forms of letters and optional marks."""

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code)).casefold()
        letters = unicodedata.normalize("NFKD", decomposed).translate(_LETTERS)
        self[code] = _DROPPED.sub("", letters)
        return self[code]


_FOLDS = _Folds()


def folded(text: str) -> str:
    """A word as it is compared."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def learn(codes: Iterable[int]) -> None:
    """Fill the tables for characters."""
    for code in codes:
        kind = next(_KIND.finditer(chr(code))).lastgroup or "gap"
        letters = "" if kind == "gap" else _FOLDS[code]
        numbers = (ord(letter) * SALT + SALT // 3 for letter in letters)
        powers = (number * BASE**place for place, number in enumerate(numbers))
        LETTERS_OF[code] = sum(powers) % MODULUS
        POWER_OF[code] = pow(BASE, len(letters), MODULUS)
        INVERSE_OF[code] = pow(BASE_INVERSE, len(letters), MODULUS)
        # Last, since other threads look at it to see whether the others are filled.
        KIND_OF[code] = _NUMBER[kind]


def is_sign(character: str) -> bool:
    """Whether a character is a word, or a part of one, in a script without spaces.

    `learn` must have met it.
    """
    return KIND_OF[ord(character)] in _SIGN_NUMBERS
