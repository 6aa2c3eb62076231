"""The words by which policies say things: what tells something, and what says the same.

They are compared by their stems, with one for all words of a line of `policy_words.txt`.
"""

import re
from functools import cache, lru_cache

from drike.text.relation_words import is_empty
from drike.text.word_lists import data_sections

_STEM = 5  # letters by which forms of a word are told from other words
_FILE = "answers/policy_words.txt"
_WORD = re.compile(r"[^\W\d_]+")
_FIRST = re.compile(r"[^\W_]+")  # the first word of a phrase
_ENDINGS = ("", "s", "ed", "d", "ing")  # that it may have
_GAP = r"(?:\W+\w+){0,3}?"  # for the "..." of a phrase
_SHORTEST_PLURAL = 4
_MOST_WORDS = 1 << 14  # whose stems are kept
# "unworn" as "not worn"
_UN = re.compile(r"\bun(?P<rest>[a-z]{2,}(?:ed|able)|worn|paid|read|sold|known)\b(?<!united)", re.I)


@lru_cache(maxsize=_MOST_WORDS)
def stem(word: str) -> str:
    """The letters by which a word is told from others, or those of the first that says the same."""
    return _stem_of_same().get(_plain_stem(word), _plain_stem(word))


def _plain_stem(word: str) -> str:
    word = _irregular().get(word.lower(), word.lower())
    if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:_STEM]


@cache
def _irregular() -> dict[str, str]:
    """The verbs by their forms that share no beginning with them: frozen, of freeze."""
    lines = [line.split(", ") for line in data_sections(_FILE)["irregular"]]
    return {form: forms[0] for forms in lines for form in forms[1:]}


@cache
def _lines() -> list[list[str]]:
    return [line.split(", ") for line in data_sections(_FILE)["same"]]


@cache
def _stem_of_same() -> dict[str, str]:
    """The stem of the first word of its line, by that of each word; of two lines the first."""
    stems: dict[str, str] = {}
    for names in _lines():
        for name in names:
            if _WORD.fullmatch(name):
                stems.setdefault(_plain_stem(name), _plain_stem(names[0]))
    return stems


@cache
def _light() -> frozenset[str]:
    """The stems of words that tell nothing of a policy."""
    return frozenset(map(_plain_stem, _light_words()))


@cache
def _light_words() -> frozenset[str]:
    return frozenset(", ".join(data_sections(_FILE)["light"]).split(", "))


@cache
def _phrases() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """The phrases of several words, each with the word that says it, by their first words."""
    phrases: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for names in _lines():
        for name in names:
            if _WORD.fullmatch(name):
                continue
            pattern = re.compile(_phrase(name), re.IGNORECASE)
            first = _FIRST.findall(name)[0]
            for ending in _ENDINGS:
                phrases.setdefault(f"{first}{ending}", []).append((pattern, names[0]))
    return phrases


def _phrase(text: str) -> str:
    """A pattern of a phrase, whose first word may have another ending."""
    words = [word for word in text.split() if word != "..."]
    first, *others = (re.escape(word) for word in words)
    gap = _GAP if "..." in text else ""
    ending = rf"(?:{'|'.join(filter(None, _ENDINGS))})?" if first.isalpha() else ""
    return "".join((first, ending, gap, *(rf"\W+{word}" for word in others), r"(?!\w)"))


def with_words_for_phrases(text: str) -> str:
    """A text with the one word that says it behind each phrase, and "not worn;" for "unworn"."""
    text = _UN.sub(r"not \g<rest>;", text)
    phrases = _phrases()
    parts: list[str] = []
    copied = 0
    for word in _FIRST.finditer(text):
        if word.start() < copied:
            continue
        for pattern, head in phrases.get(word[0].lower(), ()):
            match = pattern.match(text, word.start())
            if match:
                parts += (text[copied : match.end()], f" {head}")
                copied = match.end()
                break
    return "".join((*parts, text[copied:]))


@lru_cache(maxsize=_MOST_WORDS)
def is_telling(word: str) -> bool:
    """Whether a word tells something of a policy."""
    plain = _plain_stem(word)
    if word not in _light_words() and plain in _stem_of_same():
        return True
    return len(word) > 1 and not is_empty(word) and plain not in _light()


@lru_cache(maxsize=1 << 8)  # conditions of edits are read many times
def telling_stems(text: str) -> frozenset[str]:
    """The stems of the words of a text that tell something of a policy."""
    words = set(_WORD.findall(with_words_for_phrases(text).lower()))
    return frozenset(stem(word) for word in words if is_telling(word))
