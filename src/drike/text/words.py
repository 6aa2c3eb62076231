"""The words of a text and the names among them: one segmentation for stores, gates and editors, linear in the text.

Words end where Unicode ends them (UAX 29), and at apostrophes and points ("Peru's" names Peru). Scripts without spaces
are read sign by sign: Han, kana but for runs of katakana, Hangul, Thai, Lao, Khmer and Myanmar, where a sign is a
consonant with its vowels and marks. There a name stands in Han or hiragana behind another script or a word such as 在
or の, and three signs of Han anywhere (京都 is not in 東京都); in Hangul at the start of a word, if only particles
follow in it (서울 is in 서울에서는, not in 서울대); in the others where its signs stand, if they are two at least.

Words are compared without case, forms of letters (NFKC) and optional marks such as accents, by fingerprints of 64 bits,
computed with a random base, so that nobody can make two words of the same one.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, product

import numpy as np
import regex
from numpy.typing import NDArray

Fingerprints = NDArray[np.uint64]
Places = NDArray[np.int64]

MODULUS = 1 << 64
MAX_NAME, MAX_NAME_WORDS = 200, 12  # characters and words of a name
_SIGNS_OF_WORD = (
    4  # so many signs of a script without spaces count as a word where words are counted
)
MAX_NAME_PARTS = MAX_NAME_WORDS * _SIGNS_OF_WORD

_BLOCK = 1 << 16  # characters at once, so that the arrays stay in a processor's cache
_INNER, NEVER = (
    255,
    254,
)  # of `Words.least`, where no name begins: inside a Korean word, inside another one
_MOST_PARTICLES = 4  # behind a name
_FEW = 8  # texts that are read one by one, as they may be known
_SHORT = 300  # characters of a text whose words are kept
_MOST_MARKS = regex.compile(
    r"(\p{M}{30})\p{M}+"
)  # more on a letter are no text; composing n takes n^2 steps

_FUNCTION_WORDS = (
    "的是在和与與及跟同或对對于於从從到由向往被把给給让讓问問说說讲講谈談有了着过過去来來为為以比离離距住访訪找叫称稱即如像关關将將用因至自"
    "当當请請我你他她它这這那哪谁誰何其某每各该該本此前后後现現位座个個名家はがをにへとでのもやか"
)
_ASCII_WORD = re.compile("[a-z0-9_]+[+#]*")
_PLAIN_RUN = regex.compile(
    "[A-Za-z0-9]+"
)  # of the ASCII letters of a word, which compare as they are in lower case
_SPACELESS = r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_OPTIONAL = (  # diacritics, points of Hebrew and Arabic, tatweel, signs of format and variation
    r"[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8"
    r"\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef\p{Cf}]"
)
_KINDS = {  # of characters, in the order in which they are tried
    "suffix": r"[+#]",  # of C++ and C#
    "function": f"[{_FUNCTION_WORDS}]",  # a sign that is a word before a name
    "han": r"\p{Han}",
    "hiragana": r"\p{Hiragana}",
    "katakana": r"\p{WB=Katakana}",
    "leading": r"\p{Logical_Order_Exception}",  # a vowel that is written before its consonant
    "link": r"[\u1039\u17d2]",  # puts the next consonant below this one
    "following": rf"[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\u1160-\u11ff]|(?=\p{{M}}){_SPACELESS}",
    "spaceless": rf"(?=\p{{L}}){_SPACELESS}",
    "hangul": r"\p{Hangul}",
    "mark": rf"{_OPTIONAL}|\p{{M}}",
    "letter": r"[\p{L}\p{N}_]",
    "gap": r"(?s:.)",
}
_KIND = regex.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_NUMBER = {
    kind: number for number, kind in enumerate(_KINDS, 1)
}  # 0 is for characters that were not looked up
_SIGNS = ("function", "han", "hiragana", "leading", "link", "following", "spaceless", "hangul")
_JOINED = ("mark", "suffix", "following", "link")  # to what stands before
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)
_DROPPED = regex.compile(rf"{_OPTIONAL}|[^\p{{L}}\p{{N}}\p{{M}}_+#]")
_PARTICLES = (  # of Korean, which follow a name without a space, up to four of them
    "에게서 입니다 인가요 에서 에게 한테 께서 으로 이나 이란 라는 이라 까지 부터 보다 처럼 마다 조차 밖에 이다 이고"
    " 인가 의 은 는 이 가 을 를 에 와 과 도 만 로 란 라 랑 나 께 야 서 요 씨 님"
)


def _breaks(before: str, now: str) -> bool:
    if "gap" in (before, now):
        return before != now
    if now in _JOINED:
        return False
    if before in ("leading", "link"):
        return now != "spaceless"
    return now in _SIGNS or before in (*_SIGNS, "suffix") or before not in ("mark", now)


def _least(before: str, now: str) -> int:
    """How many words a name must have that begins between two words that adjoin, by the kinds of these characters."""
    if now == "hangul":
        return _INNER if before in ("hangul", "following") else 1
    if before == now == "hiragana":
        return NEVER
    if before == "han":
        return 3 if now in ("han", "function") else 1
    return 2 if before in _SIGNS[3:7] and now in _SIGNS[3:7] else 1


def _table(rule: Callable[[str, str], int]) -> NDArray[np.uint8]:
    table = np.zeros((16, 16), np.uint8)  # for two kinds, by 16 * the first + the second
    for (before, i), (now, j) in product(_NUMBER.items(), repeat=2):
        table[i, j] = rule(before, now)
    return table.ravel()


_LEAST = _table(_least)
_BEGINS, _ENDS = 1, 2  # of the table for places in a text: a word begins there, and ends there
_PLACES = _table(
    lambda before, now: (
        _breaks(before, now)
        * (_BEGINS * (now not in ("gap", "suffix")) + _ENDS * (before != "gap"))
    )
).tobytes()
_SIGN_NUMBERS = frozenset(_NUMBER[kind] for kind in _SIGNS)
_BASE = secrets.randbits(64) | 1
_INVERSE = pow(_BASE, -1, MODULUS)
_HALF, _MIXER = np.uint64(32), np.uint64(secrets.randbits(64) | 1)
_SALT = secrets.randbits(64) | 1
NEXT = np.uint64(
    secrets.randbits(64) | 1
)  # the fingerprint of some words, times this, plus that of one more

# By code point, filled when a character is first met: its kind, and what it adds to the fingerprint of its word, which
# is the sum of the letters times powers of the base.
_KIND_OF = np.zeros(0x110000, np.uint8)
_LETTER_OF, _POWER_OF, _INVERSE_OF = (np.zeros(0x110000, np.uint64) for _ in range(3))


class _Folds(dict[int, str]):  # characters as they are compared, for `str.translate`
    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code)).casefold()
        self[code] = _DROPPED.sub("", unicodedata.normalize("NFKD", decomposed).translate(_LETTERS))
        return self[code]


_FOLDS = _Folds()


def _learn(codes: Iterable[int]) -> None:
    """Fill the tables for characters. The kind comes last, since other threads look at it."""
    for code in codes:
        kind = next(_KIND.finditer(chr(code))).lastgroup or "gap"
        folded = "" if kind == "gap" else _FOLDS[code]
        letters = (ord(letter) * _SALT + _SALT // 3 for letter in folded)
        _LETTER_OF[code] = sum(letter * _BASE**i for i, letter in enumerate(letters)) % MODULUS
        _POWER_OF[code] = pow(_BASE, len(folded), MODULUS)
        _INVERSE_OF[code] = pow(_INVERSE, len(folded), MODULUS)
        _KIND_OF[code] = _NUMBER[kind]


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text, by number: where each begins and ends in the text, and its fingerprint.

    least: how many words a name must have to begin with this one. last: whether a name may end with it.
    """

    text: str
    begins: Places
    ends: Places
    keys: Fingerprints
    least: NDArray[np.uint8]
    last: NDArray[np.bool_]

    @classmethod
    def of(cls, text: str) -> Words:
        """The words of a text."""
        return _short(text) if len(text) <= _SHORT else _words(text)

    @classmethod
    def of_each(cls, texts: Sequence[str]) -> list[Words]:
        """The words of each text; of many at once this takes less time."""
        if len(texts) < _FEW:
            return [cls.of(text) for text in texts]
        starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        all = _words("\n".join(texts))
        bounds = np.searchsorted(all.begins, starts).tolist()
        return [
            cls(
                text,
                all.begins[i:j] - start,
                all.ends[i:j] - start,
                all.keys[i:j],
                all.least[i:j],
                all.last[i:j],
            )
            for text, start, i, j in zip(texts, starts.tolist(), bounds, bounds[1:], strict=False)
        ]

    def __len__(self) -> int:
        return len(self.keys)

    def folded(self, begin: int = 0, end: int | None = None) -> list[str]:
        """Some of the words as they are compared."""
        text, bounds = (
            self.text,
            zip(self.begins[begin:end].tolist(), self.ends[begin:end].tolist(), strict=True),
        )
        plain = text.isascii()
        return [text[i:j].lower() if plain else text[i:j].translate(_FOLDS) for i, j in bounds]

    def between(self, begin: int, end: int) -> str:
        """The text from the beginning of a word to the end of the one before `end`."""
        return self.text[self.begins[begin] : self.ends[end - 1]]

    def spans(self, name: Words) -> Iterator[tuple[int, int]]:
        """Where the words of a name stand: the first of them and the one behind the last."""
        size, at = len(name), 0
        own, wanted = self.keys.tobytes(), name.keys.tobytes()
        while size and (at := own.find(wanted, at)) >= 0:
            begin, inside = divmod(at, 8)
            if not inside and self.least[begin] <= size and self.last[begin + size - 1]:
                yield begin, begin + size
                at += 8 * size - 1
            at += 1

    def replaced(
        self, others: Mapping[tuple[int, int], str], start: int = 0, stop: int | None = None
    ) -> str:
        """The text, or a part of it by characters, with others for the spans of its words that are in it, in order."""
        pieces, at, stop = [], start, len(self.text) if stop is None else stop
        for (begin, end), other in others.items():
            first, last = int(self.begins[begin]), int(self.ends[end - 1])
            if at <= first and last <= stop:
                pieces += [self.text[at:first], other]
                at = last
        return "".join([*pieces, self.text[at:stop]])

    @property
    def weight(self) -> int:
        """How many words they count for: signs of scripts without spaces count for less."""
        signs = sum(_KIND_OF[ord(self.text[begin])] in _SIGN_NUMBERS for begin in self.begins)
        return len(self) - signs + -(-signs // _SIGNS_OF_WORD)

    @property
    def fingerprint(self) -> int:
        """Of all words together in their order; 0 without any."""
        powers = np.full(len(self), NEXT)
        powers[:1] = 1
        return int((self.keys[::-1] * np.cumprod(powers)).sum())


def extended(prefix: int, key: int) -> int:
    """The fingerprint of several words and one more; 0 for none."""
    return (prefix * int(NEXT) + key) % MODULUS


def words(text: str) -> list[str]:
    """The words of a text as they are compared."""
    return _ASCII_WORD.findall(text.lower()) if text.isascii() else Words.of(text).folded()


def mentions(text: str, name: str) -> bool:
    """Whether a text names something in whole words, however they are written: "Tirana" does not name "Iran"."""
    plain = text.isascii() and name.isascii() and name[:1].isalnum() and name[-1:].isalnum()
    if (
        plain and f" {name} " in f" {text} "
    ):  # as most edits name their subjects; the rest takes ten times as long
        return True
    if plain and (first := _PLAIN_RUN.match(name)) and first[0].lower() not in text.lower():
        return False
    wanted = Words.of(name)
    if not len(wanted):
        return bool(name) and name in text
    return next(Words.of(text).spans(wanted), None) is not None


def composed(text: str) -> str:
    """The text with the usual forms of its letters (NFKC)."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _MOST_MARKS.sub(r"\1", text))


def masked(text: str, names: Sequence[str]) -> str:
    """A composed text with "it" for the first of the names that it mentions."""
    return masked_each([(text, names)])[0]


def masked_each(texts: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """`masked` for texts, each with its names."""
    split = iter(Words.of_each([part for text, names in texts for part in (text, *names)]))
    found = []
    for _, names in texts:
        own, *known = islice(split, 1 + len(names))
        spans = next(filter(None, (list(own.spans(name)) for name in known)), ())
        found.append(composed(own.replaced(dict.fromkeys(spans, "it"))))
    return found


def contains(known: Fingerprints, wanted: Fingerprints) -> NDArray[np.bool_]:
    """Which of the wanted fingerprints are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    found: NDArray[np.bool_] = (
        known[np.minimum(np.searchsorted(known, wanted), len(known) - 1)] == wanted
    )
    return found


def _words(text: str) -> Words:
    # Arrays that are large enough for any text: memory that is not touched takes no time.
    (begins, ends), keys = np.empty((2, len(text)), np.int64), np.empty(len(text), np.uint64)
    kinds, at, count = np.empty(len(text), np.uint8), 0, 0
    while at < len(text):
        stop = at + _BLOCK
        if stop < len(text):  # not inside a word, if it can be helped
            stop = max(text.rfind(" ", at, stop), text.rfind("\n", at, stop)) + 1 or stop
        first, last, some, kinds[at:stop] = _scanned(text[at:stop])
        was, count = count, count + len(some)
        begins[was:count], ends[was:count], keys[was:count] = first + at, last + at, some
        at = stop
    begins, ends, keys = begins[:count], ends[:count], keys[:count]
    least = np.ones(len(keys), np.uint8)
    adjoining = np.flatnonzero(begins[1:] == ends[:-1])
    places = ends[adjoining]
    least[1:][adjoining] = _LEAST[16 * kinds[places - 1] + kinds[places]]
    return Words(text, begins, ends, keys, least, _closing(keys, least == _INNER))


@lru_cache(maxsize=1 << 10)  # queries and names are compared many times
def _short(text: str) -> Words:
    if not text.isascii():
        return _words(text)
    found = [*_ASCII_WORD.finditer(text.lower())]  # takes a third of the time
    begins, ends = (
        np.array([of(word) for word in found], np.int64) for of in (re.Match.start, re.Match.end)
    )
    keys = np.array([_key(word[0]) for word in found], np.uint64)
    return Words(
        text, begins, ends, keys, np.ones(len(found), np.uint8), np.ones(len(found), np.bool_)
    )


@lru_cache(maxsize=1 << 12)
def _key(word: str) -> int:
    """The fingerprint of a word in ASCII, in lower case."""
    _ascii()  # so that the letters are known
    key = 0
    for code in reversed(word.encode()):
        key = (key * _BASE + int(_LETTER_OF[code])) % MODULUS
    return (key ^ key >> 32) * int(_MIXER) % MODULUS


def _closing(keys: Fingerprints, inner: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which words may be the last of a name. inner: which of them are syllables of a Korean word, but for its first."""
    closing = np.ones(len(keys), np.bool_)
    closing[:-1] = ~inner[1:]
    ends = np.flatnonzero(closing & inner)
    for _ in range(_MOST_PARTICLES if len(ends) else 0):
        before = []
        for size, known in _particles():
            begins = ends - size + 1
            whole = np.zeros(len(ends), np.uint64)
            for i in range(size):
                whole = whole * NEXT + keys[begins + i]
            hits = inner[begins] & (begins > 0) & contains(known, whole)
            before.append(begins[hits] - 1)
            ends = ends[~hits]
        ends = np.concatenate(before)
        closing[ends] = True
        ends = ends[inner[ends]]
    return closing


@cache
def _particles() -> list[tuple[int, Fingerprints]]:
    """The fingerprints of particles by their number of syllables, the longest first."""
    by_size: dict[int, list[int]] = {3: [], 2: [], 1: []}
    for particle in (Words.of(" ".join(syllables)) for syllables in _PARTICLES.split()):
        by_size[len(particle)].append(particle.fingerprint)
    return [(size, np.array(sorted(known), np.uint64)) for size, known in by_size.items()]


def _scanned(block: str) -> tuple[Places, Places, Fingerprints, NDArray[np.uint8]]:
    """Begins, ends and fingerprints of the words of a block, and the kinds of its characters."""
    if block.isascii():
        kind_of, powers, inverses = _ascii()
        codes: NDArray[np.uint32] | NDArray[np.uint8] = np.frombuffer(block.encode(), np.uint8)
        kinds = np.frombuffer(block.encode().translate(kind_of), np.uint8)
    else:
        codes = np.frombuffer(block.encode("utf-32-le", "surrogatepass"), "<u4")
        if not (kinds := _KIND_OF[codes]).all():
            _learn(set(codes[kinds == 0].tolist()))
            kinds = _KIND_OF[codes]
        powers, inverses = np.ones((2, len(codes) + 1), np.uint64)
        np.cumprod(_POWER_OF[codes], out=powers[1:])
        np.cumprod(_INVERSE_OF[codes], out=inverses[1:])
    around = np.full(len(kinds) + 2, _NUMBER["gap"], np.uint8)
    around[1:-1] = kinds
    places = np.frombuffer((16 * around[:-1] + around[1:]).tobytes().translate(_PLACES), np.uint8)
    begins, ends = (
        np.flatnonzero((places & _BEGINS).view(np.bool_)),
        np.flatnonzero(places >= _ENDS),
    )
    if len(begins) < len(ends):  # a suffix without a word
        ends = ends[np.searchsorted(ends, begins, side="right")]
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(_LETTER_OF.take(codes) * powers[: len(codes)], out=sums[1:])
    keys = (sums[ends] - sums[begins]) * inverses[begins]
    keys = (keys ^ keys >> _HALF) * _MIXER  # so that sums of fingerprints say nothing of letters
    if not keys.all():  # nothing is left of a mark that stands alone
        some = np.flatnonzero(keys)
        begins, ends, keys = begins[some], ends[some], keys[some]
    return begins, ends, keys, kinds


@cache
def _ascii() -> tuple[bytes, Fingerprints, Fingerprints]:
    """The kinds of ASCII, and of each number of letters the powers of the base and of its inverse."""
    _learn(range(128))
    powers, inverses = np.ones((2, _BLOCK), np.uint64)
    for values, factor in ((powers, _BASE), (inverses, _INVERSE)):
        np.cumprod(np.full(_BLOCK - 1, factor, np.uint64), out=values[1:])
    return _KIND_OF[:256].tobytes(), powers, inverses
