"""Phrases of ten languages by kind (`phrases.txt`), and questions in plain English, as wordings are.

"Wie hoch ist it?" becomes "how high is it?", word by word (`glossary.txt`): what is compared are the words, hardly
their order. "captial" is read as "capital", which the wordings of relations have.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from drike.encoders.base import content
from drike.text.relation_wordings import built_in
from drike.text.short_forms import lists, sections
from drike.text.typos import one_typo, shortened

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PLAIN = str.maketrans({"ß": "ss", "ı": "i", "ł": "l"})
_MARKS = re.compile(r"[\u0300-\u036f\u064b-\u0655]")  # of Latin, Cyrillic and Arabic letters
_KANA = re.compile(r"[\u3040-\u309f了吗嗎呢吧]+")  # of inflections and particles
_LOWER = re.compile(r"(?<!\w)[a-z]{5,20}(?!\w)")
_LONGEST = 1_000  # characters of a text
_STEM = range(20, 2, -1)  # letters, the longest first
_LEAST_WORD = 5  # letters; in a word of five, letters are only swapped
_MOST_WORDS, _MOST_SIGNS = 3, 10  # of a phrase
_ENGLISH, _JAPANESE = "en", "ja"
SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NAME = re.compile(r"(?<=[^\s.!?:\"“(])\s+[\"“'(]?(?=[^\W\d_])(\w[\w'’-]*)")
_BEFORE_NOUN = re.compile(
    rf"\b(?:{'|'.join(sections('text/asking.txt')['before nouns'])})$", re.IGNORECASE
)


class _Language(NamedTuple):
    """English by phrase, as they are folded, and by the beginning of a word; the words of all phrases."""

    phrases: dict[str, str]
    stems: dict[str, str]
    words: set[str]

    def english(self, phrase: str) -> str | None:
        """A phrase in English, if it is known."""
        known = self.phrases.get(phrase)
        if known is None and self.stems and " " not in phrase:
            sizes = _STEM[max(0, _STEM.start - len(phrase)) :]
            known = next(
                (self.stems[stem] for size in sizes if (stem := phrase[:size]) in self.stems), None
            )
        return known


def glossed(text: str) -> str:
    """A text with the words that are known in English, if most of its words are of one other language."""
    if len(text) > _LONGEST:
        return text
    if SPACELESS.search(text):
        return " ".join(_KANA.sub(" ", "".join(_signs(text))).split())
    read = [(match.start(), match.end(), _folded(match[0])) for match in _WORD.finditer(text)]
    said = [word for _, _, word in read if word != "it"]
    counts = Counter(code for word in said for code in _knowing(word))
    most = max(_languages(), key=lambda code: counts[code])
    if (
        counts[most] <= 2 * counts[_ENGLISH]
        or counts[most] < min(2, len(said))
        or 2 * counts[most] < len(said)
    ):
        return text
    language, done, pieces, i = _languages()[most], 0, list[str](), 0
    while i < len(read):
        for size in range(_MOST_WORDS, 0, -1):
            some = read[i : i + size]
            english = (
                language.english(" ".join(word for _, _, word in some))
                if len(some) == size
                else None
            )
            if english is not None and (size > 1 or some[0][2] != "it"):
                pieces += [text[done : some[0][0]], english]
                done, i = some[-1][1], i + size - 1
                break
        i += 1
    return "".join((*pieces, text[done:]))


def _folded(word: str) -> str:
    word = word.lower()
    return (
        word
        if word.isascii()
        else _MARKS.sub("", unicodedata.normalize("NFKD", word)).translate(_PLAIN)
    )


def _signs(text: str) -> Iterator[str]:
    """A text without spaces, the longest phrase that is known at each place in English."""
    known, at = _languages()[_JAPANESE].phrases, 0
    while at < len(text):
        phrases = (text[at : at + size] for size in range(_MOST_SIGNS, 0, -1))
        phrase = next((phrase for phrase in phrases if phrase in known), None)
        yield f" {known[phrase]} " if phrase else text[at]
        at += len(phrase or text[at])


@lru_cache(maxsize=1 << 12)
def _knowing(word: str) -> tuple[str, ...]:
    """The languages that know a word."""
    stems, languages = {word[:size] for size in _STEM}, _languages().items()
    return tuple(
        code
        for code, some in languages
        if word in some.words or not some.stems.keys().isdisjoint(stems)
    )


@cache
def _languages() -> dict[str, _Language]:
    """The languages of glossary.txt by their code, English first."""
    found = dict[str, _Language]()
    for line in _lines("glossary.txt"):
        code, _, rest = line.partition(": ")
        language = found.setdefault(code, _Language({}, {}, set()))
        for entry in (rest if code == _JAPANESE else _folded(rest)).split(", "):
            phrase, _, english = entry.partition(" = ")
            if phrase.endswith("*"):
                language.stems[phrase[:-1]] = english or phrase[:-1]
            else:
                language.phrases[phrase] = english or phrase
                language.words.update(phrase.split())
    return found


def _lines(name: str) -> list[str]:
    lines = files("drike.text").joinpath(name).read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def corrected(text: str) -> str:
    """A text with its longer words in lower case as the wordings of relations spell them.

    Only unknown words, for one known word with the same first and last letter, by letters swapped, missing or too many.
    """
    return _LOWER.sub(lambda word: _right(word[0]), text) if len(text) <= _LONGEST else text


@lru_cache(maxsize=1 << 12)
def _right(word: str) -> str:
    known, by_part = _spellings()
    if word in known or content(word) < 1 or word in lists("common words"):
        return word
    near = {
        right
        for part in shortened(word)
        for right in by_part.get(part, ())
        if one_typo(word, right)
    }
    near = {w for w in near if (w[0], w[-1]) == (word[0], word[-1])}
    near = {
        w for w in near if sorted(w) == sorted(word) or len(word) != len(w) > _LEAST_WORD
    }  # no exchanged letter
    return near.pop() if len(near) == 1 else word


@cache
def _spellings() -> tuple[frozenset[str], dict[str, list[str]]]:
    """The words of wordings and those of `spelling.txt`, and the longer of the former by each letter left out."""
    texts = (text for relation in built_in() for group in relation.groups for text in group)
    wordings = {
        word for text in texts for word in re.findall(rf"[a-z]{{{_LEAST_WORD},}}", text.lower())
    }
    others = {word for line in _lines("spelling.txt") for word in line.split()}
    by_part = defaultdict[str, list[str]](list)
    for word in sorted(wordings):
        for part in shortened(word):
            by_part[part].append(word)
    return frozenset(wordings | others), dict(by_part)


@cache
def patterns(kind: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Patterns of all phrases of a kind, in any case: with spaces around words, without, and with, behind no letter."""
    split = [line.partition(": ") for line in _lines("phrases.txt") if ": " in line]
    phrases = {
        p.strip() for head, _, rest in split if head.split()[-1] == kind for p in rest.split("|")
    }
    some: dict[bool, list[str]] = {False: [r"(?!)"], True: [r"(?!)"]}
    for phrase in sorted(phrases, key=len, reverse=True):
        some[SPACELESS.search(phrase) is not None].append(re.escape(phrase).replace(r"\ ", r"\s+"))
    spaced, spaceless = (f"(?:{'|'.join(phrases)})" for phrases in some.values())
    plain, within = (
        re.compile(rf"{behind}{spaced}(?!\w)", re.IGNORECASE) for behind in ("", r"(?<![^\W_])")
    )
    return plain, re.compile(spaceless), within


def begins(text: str, kind: str, at: int = 0) -> str | None:
    """The phrase with which a text begins, or goes on at a place."""
    spaced, spaceless, _ = patterns(kind)
    return match[0] if (match := spaced.match(text, at) or spaceless.match(text, at)) else None


def held(text: str, kind: str) -> int | None:
    """Where a text holds a phrase for the first time."""
    _, spaceless, within = patterns(kind)
    return match.start() if (match := within.search(text) or spaceless.search(text)) else None


def own_name(text: str) -> int | None:
    """Where a text has a word in capitals behind its first one: where only names have them, a subject of its own."""
    for match in _NAME.finditer(text) if text[1:] != text[1:].lower() else ():
        noun = _BEFORE_NOUN.search(text, max(0, match.start() - 12), match.start())  # in German
        if match[1][0].isupper() and not noun and not begins(match[1], "common"):
            return match.start(1)
    return None
