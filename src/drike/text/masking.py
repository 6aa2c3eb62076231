"""Texts in which "it" or another name stands for a subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from drike.text.words import ASCII_WORD, Words, composed, words

_LONGEST_PLAIN = 300  # characters of a text whose words are compared one by one


def masked(text: str, names: Sequence[str]) -> str:
    """A composed text with "it" for the first of the names that it mentions."""
    if len(text) <= _LONGEST_PLAIN and text.isascii() and all(map(str.isascii, names)):
        return _masked_in_ascii(text, names)
    return masked_each([(text, names)])[0]


def _masked_in_ascii(text: str, names: Sequence[str]) -> str:
    """What `masked` gives, in a tenth of the time: these words are letters and digits in a row."""
    places = list(ASCII_WORD.finditer(text.lower()))
    said = [place[0] for place in places]
    for name in names:
        of_name = words(name)
        begins = _begins_of(of_name, said)
        if begins:
            pieces: list[str] = []
            written = 0
            for begin in begins:
                pieces += [text[written : places[begin].start()], "it"]
                written = places[begin + len(of_name) - 1].end()
            return "".join((*pieces, text[written:]))
    return text


def _begins_of(wanted: list[str], said: list[str]) -> list[int]:
    """Where some words begin that stand in a row among others; those found do not overlap."""
    size = len(wanted)
    begins: list[int] = []
    begin = 0
    while wanted and begin + size <= len(said):
        if said[begin] == wanted[0] and said[begin : begin + size] == wanted:
            begins.append(begin)
            begin += size
        else:
            begin += 1
    return begins


def renamed(text: str, names: Sequence[str], name: str) -> str | None:
    """A composed text with another name for the first of the names that it mentions, if it does."""
    text_words, *words_of_names = Words.of_each([text, *names])
    spans = _spans_of_first(text_words, words_of_names)
    return composed(text_words.replaced(dict.fromkeys(spans, name))) if spans else None


def masked_each(texts: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """`masked` for texts, each with its names."""
    texts_and_names = [part for text, names in texts for part in (text, *names)]
    words_of_each = iter(Words.of_each(texts_and_names))
    masked_texts = []
    for _, names in texts:
        text_words = next(words_of_each)
        words_of_names = list(islice(words_of_each, len(names)))
        spans = _spans_of_first(text_words, words_of_names)
        masked_texts.append(composed(text_words.replaced(dict.fromkeys(spans, "it"))))
    return masked_texts


def _spans_of_first(text_words: Words, names: Iterable[Words]) -> list[tuple[int, int]]:
    """Where the first of some names stands that a text mentions."""
    for name in names:
        if spans := list(text_words.spans(name)):
            return spans
    return []
