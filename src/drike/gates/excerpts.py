"""Which parts of a query ask something, about which names, and what of a part is compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from drike.gates.name_index import Mention
from drike.text.question_forms import trimmed
from drike.text.questions import in_material, leans_back, parts_of
from drike.text.sentences import ending, sentence_around
from drike.text.spelling import corrected, written_out
from drike.text.things import Said, said
from drike.text.words import Words

LONGEST_WHOLE = 1_000  # characters of a text compared as a whole: encoders read about as much

# Characters of all texts that a decision compares. Each text counts for some more than it has, as
# reading any takes time.
_MOST_CHARACTERS = 6_000
_OVERHEAD = 20

# Names in code, such as "max_days", "maxDays" and "MAX_DAYS", and where their words meet.
_COMPOUND = re.compile(r"\b[a-z]{2,}(?:[A-Z][a-z]+)+\b|\b[^\W_]+(?:_[^\W_]+)+\b")
_BETWEEN_WORDS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")

Span = tuple[int, int]  # of words
Characters = tuple[int, int]
Source = TypeVar("Source")


@dataclass(frozen=True)
class Part:
    """A part of a text that asks something, and where the names stand that it may be about."""

    place: Characters
    names: frozenset[Span]


@dataclass(frozen=True)
class Excerpt:
    """A text to compare, with "it" for a subject, and where it stands in the query.

    foreign: the words that could not be translated. original: the text before it was, if it was.
    before: what is said before it, in its sentence, of a time: "In the nineties, who ran it?"
    """

    place: Characters
    text: str
    foreign: frozenset[str] = frozenset()
    original: str = ""
    before: str = ""


@dataclass(frozen=True)
class Affordable(Generic[Source]):
    """What can be compared in about a decision's time: sources, and their different texts."""

    sources: list[Source]
    texts: list[str]


def question_parts(words: Words, mentions: Sequence[Mention]) -> tuple[Part, ...]:
    """The parts of a text that ask something, each with the names that it may be about.

    These are the names in it. If there are none, they are those of the part before it, else the
    most frequent ones outside of all parts.
    """
    if not mentions:
        return ()
    text_parts = parts_of(words.text)
    mentions = [
        mention
        for mention in mentions
        if not in_material(_characters_of(words, mention), text_parts.material)
    ]
    mentions_by_part = []
    for start, stop in text_parts.questions:
        inside = [m for m in mentions if start <= _characters_of(words, m)[0] < stop]
        mentions_by_part.append(inside)
    outside = _most_frequent(set(mentions).difference(*mentions_by_part))
    first_mentioned = next((inside for inside in mentions_by_part if inside), [])

    parts: list[Part] = []
    about_before: Collection[Mention] = []
    for place, inside in zip(text_parts.questions, mentions_by_part, strict=True):
        is_clear = any(mention.cased for mention in inside)  # "it" may be a pronoun
        about: list[Mention] = list(inside)
        if not is_clear and leans_back(words.text[slice(*place)]):
            about += about_before or outside or first_mentioned
        if is_clear or not about_before:
            about_before = about
        names = frozenset((mention.begin, mention.end) for mention in about)
        parts.append(Part(place, names))
    return tuple(parts)


def _characters_of(words: Words, mention: Mention) -> Characters:
    return int(words.begins[mention.begin]), int(words.ends[mention.end - 1])


def _most_frequent(mentions: set[Mention]) -> set[Mention]:
    """The mentions of the edits that are mentioned most often."""
    counts = Counter(m.edits for m in mentions)
    most = max(counts.values(), default=0)
    return {m for m in mentions if counts[m.edits] == most}


def places_to_compare(
    words: Words, parts: Sequence[Part], names: Collection[Span]
) -> list[Characters]:
    """Where the texts stand that are compared, given where a subject is named.

    These are the parts that may be about the subject, or the whole text if there are none. Of a
    long part, they are its end and the sentences that name the subject first and last.
    """
    text = words.text
    about_subject = [part.place for part in parts if part.names.intersection(names)]
    places: set[Characters] = set()
    for start, stop in about_subject or [(0, len(text))]:
        if stop - start <= LONGEST_WHOLE:
            places.add((start, stop))
            continue
        sentences = [
            sentence_around(text, words.begins[begin], words.ends[end - 1])
            for begin, end in sorted(names)
        ]
        naming = [sentence for sentence in sentences if start <= sentence[0] < stop]
        places |= {*naming[:1], *naming[-1:], ending(text)}
    return sorted(places)


def plain(text: str) -> Said:
    """What a part of a text asks: in English, without asides and typing errors.

    Names in code become words.
    """
    spaced = _COMPOUND.sub(lambda compound: _BETWEEN_WORDS.sub(" ", compound[0]), text)
    in_english = said(trimmed(written_out(spaced)))
    return Said(corrected(in_english.text), in_english.foreign)


def affordable(texts_of: Iterable[tuple[Source, Collection[str]]]) -> Affordable[Source]:
    """The first sources whose texts can be compared in about a decision's time; one at least.

    texts_of: sources with their texts. Further sources are not read, so that they may be made late.
    """
    sources: list[Source] = []
    texts: dict[str, None] = {}
    characters_left = _MOST_CHARACTERS
    for source, texts_of_source in texts_of:
        new_texts = {text: None for text in texts_of_source if text not in texts}
        characters_left -= sum(_OVERHEAD + len(text) for text in new_texts)
        if characters_left < 0 and sources:
            break
        sources.append(source)
        texts |= new_texts
    return Affordable(sources, list(texts))
