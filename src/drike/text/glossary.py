"""Questions of other languages in plain English, word by word (`glossary.txt`).

"Wie hoch ist it?" becomes "how high is it?". What is compared with such a text are its words,
hardly their order.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from drike.text.phrases import SPACELESS
from drike.text.word_lists import data_lines
from drike.text.words import composed

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PLAIN_LETTERS = str.maketrans({"ß": "ss", "ı": "i", "ł": "l"})
_ACCENTS = re.compile(r"[\u0300-\u036f\u064b-\u0655]")  # of Latin, Cyrillic and Arabic letters
# Kana and Han of inflections and particles, which are left where no phrase is known.
_INFLECTIONS = re.compile(r"[\u3040-\u309f了吗嗎呢吧]+")

_LONGEST_TEXT = 1_000  # characters; longer texts stay as they are
_LONGEST_KEPT = 300  # characters of a text whose gloss is kept
_LONGEST_STEM, _SHORTEST_STEM = 20, 3  # letters
_MOST_WORDS = 3  # of a phrase
_MOST_SIGNS = 40  # of a phrase in a script without spaces
_ENGLISH = "en"
# Languages without spaces, each in a script of its own; "ja" is of all texts in Han or kana.
_SPACELESS_LANGUAGES = ("ja", "th", "lo", "km", "my")
# What belongs to the sign before it in Thai, Lao, Burmese and Khmer: vowels, marks, a sign below.
_REST_OF_SYLLABLE = re.compile(
    r"(?:[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece]"
    r"|[\u102b-\u1038\u103a-\u103e\u1056-\u109d]|\u1039[\u1000-\u1021]"
    r"|[\u17b4-\u17d1\u17d3]|\u17d2[\u1780-\u17b3])+"
)
_VOWELS_BEFORE = "\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4"  # their consonant
_INVISIBLE = re.compile(r"[\u200b-\u200d\u2060]")  # between words of Khmer and Burmese
_SUBJECT = "it"


class _Word(NamedTuple):
    """A word of a text: where it stands, and how it is looked up."""

    start: int
    stop: int
    folded: str


class _Language(NamedTuple):
    """What a language calls things, in folded letters."""

    english_by_phrase: dict[str, str]
    english_by_stem: dict[str, str]  # for all words that begin so
    words: set[str]  # of all phrases

    def english(self, phrase: str) -> str | None:
        """A phrase in English, if it is known."""
        english = self.english_by_phrase.get(phrase)
        if english is not None or " " in phrase or not self.english_by_stem:
            return english
        for size in range(min(len(phrase), _LONGEST_STEM), _SHORTEST_STEM - 1, -1):
            english = self.english_by_stem.get(phrase[:size])
            if english is not None:
                return english
        return None

    def knows(self, word: str, stems: frozenset[str]) -> bool:
        """Whether it has a word, of which these are all beginnings that may be stems."""
        return word in self.words or not self.english_by_stem.keys().isdisjoint(stems)


def glossed(text: str) -> str:
    """A text with its known words in English, if most of its words are of one other language."""
    if len(text) > _LONGEST_TEXT:
        return text
    return _kept_glossed(text) if len(text) <= _LONGEST_KEPT else _glossed(text)


@lru_cache(1 << 14)
def _kept_glossed(text: str) -> str:
    """What `glossed` gives for questions and wordings, which are read again and again."""
    return _glossed(text)


def _glossed(text: str) -> str:
    if SPACELESS.search(text):
        return _glossed_signs(text)

    words = [_Word(match.start(), match.end(), _folded(match[0])) for match in _WORD.finditer(text)]
    language = _language_of([word.folded for word in words if word.folded != _SUBJECT])
    return text if language is None else _glossed_words(text, words, language)


def _language_of(words: Sequence[str]) -> _Language | None:
    """The language that knows most of some words; None if it may be English or knows too few."""
    counts = Counter(code for word in words for code in _languages_with(word))
    code = max(_languages(), key=lambda code: counts[code])
    known = counts[code]
    more_than_english = known > 2 * counts[_ENGLISH]
    enough = known >= min(2, len(words)) and 2 * known >= len(words)
    return _languages()[code] if more_than_english and enough else None


def _glossed_words(text: str, words: Sequence[_Word], language: _Language) -> str:
    """A text with the longest phrases at each place in English."""
    pieces: list[str] = []
    written = 0  # characters of the text that are in `pieces`
    number = 0
    while number < len(words):
        phrase = _phrase_from(words, number, language)
        if phrase is None:
            number += 1
            continue
        english, size = phrase
        pieces += [text[written : words[number].start], english]
        written = words[number + size - 1].stop
        number += size
    return "".join((*pieces, text[written:]))


def _phrase_from(
    words: Sequence[_Word], number: int, language: _Language
) -> tuple[str, int] | None:
    """The longest phrase that begins with a word: in English, and how many words it has."""
    for size in range(min(_MOST_WORDS, len(words) - number), 0, -1):
        phrase = " ".join(word.folded for word in words[number : number + size])
        english = language.english(phrase)
        if english is not None and phrase != _SUBJECT:
            return english, size
    return None


def _glossed_signs(text: str) -> str:
    """A text in a script without spaces with the longest phrases in English, and no inflections."""
    signs = composed(_INVISIBLE.sub("", text))
    english = _INFLECTIONS.sub(" ", "".join(_phrases_in_signs(signs)))
    return " ".join(english.split())


def _phrases_in_signs(text: str) -> Iterator[str]:
    english_by_phrase = _phrases_of_signs()
    place = 0
    while place < len(text):
        phrase = _phrase_of_signs(text, place)
        if phrase is None:
            phrase = _sign_at(text, place)
            yield phrase
        else:
            yield f" {english_by_phrase[phrase]} "
        place += len(phrase)


def _phrase_of_signs(text: str, place: int) -> str | None:
    """The longest known phrase at a place that ends where a syllable does."""
    known = _phrases_of_signs()
    for size in range(min(_MOST_SIGNS, len(text) - place), 0, -1):
        phrase = text[place : place + size]
        if phrase in known and not _REST_OF_SYLLABLE.match(text, place + size):
            return phrase
    return None


def _sign_at(text: str, place: int) -> str:
    """The sign at a place with what belongs to it."""
    end = place + 1
    if text[place] in _VOWELS_BEFORE:
        end += 1
    rest = _REST_OF_SYLLABLE.match(text, end)
    return text[place : rest.end() if rest else end]


@cache
def _phrases_of_signs() -> dict[str, str]:
    """The phrases of all languages without spaces in English."""
    return {
        phrase: english
        for code in _SPACELESS_LANGUAGES
        for phrase, english in _languages()[code].english_by_phrase.items()
    }


def _folded(text: str) -> str:
    """A text in small letters without accents, as phrases are looked up."""
    text = text.lower()
    if text.isascii():
        return text
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).translate(_PLAIN_LETTERS)


@lru_cache(maxsize=1 << 12)
def _languages_with(word: str) -> tuple[str, ...]:
    """The codes of the languages that know a word."""
    stems = frozenset(word[:size] for size in range(_SHORTEST_STEM, _LONGEST_STEM + 1))
    return tuple(code for code, language in _languages().items() if language.knows(word, stems))


@cache
def _languages() -> dict[str, _Language]:
    """The languages of glossary.txt by their code, English first."""
    languages: dict[str, _Language] = {}
    for line in data_lines("text/glossary.txt"):
        code, _, rest = line.partition(": ")
        language = languages.setdefault(code, _Language({}, {}, set()))
        entries = composed(rest) if code in _SPACELESS_LANGUAGES else _folded(rest)
        for entry in entries.split(", "):
            phrase, _, english = entry.partition(" = ")
            if phrase.endswith("*"):
                stem = phrase.removesuffix("*")
                language.english_by_stem[stem] = english or stem
            else:
                language.english_by_phrase[phrase] = english or phrase
                language.words.update(phrase.split())
    return languages
