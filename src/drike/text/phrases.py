"""Phrases of many languages by what they do: begin a question, doubt an answer, and so on.

They are in `phrases.txt`.

A phrase is found as whole words, in any case.
"""

import re
from functools import cache
from typing import Literal, NamedTuple

from drike.text.word_lists import data_lines

PhraseKind = Literal[
    # How turns of a conversation lean on earlier ones.
    "challenge",  # doubts the answer before, at the beginning of a turn
    "doubt",  # the same, anywhere in a short turn
    "opener",  # a turn that begins so continues the one before
    "pronoun",  # stands for what was said
    "task",  # begins a new matter
    "thanks",  # keeps the matter as it is
    "whole",  # asks for all that is known of a subject
    "closing",  # the same, anywhere in a turn that asks nothing
    # What in a text is a question, and what is material.
    "question",  # begins a question
    "request",  # begins a request to be told something
    "polite",  # may stand before either
    "joint",  # may stand between two questions
    "ellipsis",  # begins a question that leaves out what the sentence before says
    "rework",  # begins an instruction on a text
    "digest",  # the same, if it shows the text or has an indication
    "indication",  # points to a text
    "reference",  # begins what only points to a text
    "onward",  # begins what is said behind a text that an instruction is about
    "language",  # of words, where a quotation is looked at
    "style",  # the same, also behind a colon
    "finish",  # asks for what a text says
    "factual",  # asks whether a quotation is true, or what completes it
    "asking",  # reports a question
    "replying",  # asks for what to answer to a reported question
    "gap",  # says that something is to be filled in
    "document",  # labels of texts
    "query",
    "answer",
    "common",  # words in capitals that are no names
    "void",  # words of a question that asks nothing by itself: "Do you know it?"
    # In questions to an assistant that name no subject.
    "told",  # only asks to be told: "do you know"
    "host",  # stands for those in whose name it answers: "you", "our", "here"
    "speaking",  # in a system text, says in whose name it answers: "you are"
]

# Signs of Han, kana, Thai, Lao, Khmer and Burmese, whose phrases stand in a text without spaces
# around them.
SPACELESS = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3\u17d7\u17dc]"
)

_NOTHING = r"(?!)"  # matches nowhere, for kinds without phrases


class _PhrasePatterns(NamedTuple):
    """Patterns of all phrases of a kind, the longest first."""

    spaced: re.Pattern[str]  # between spaces or punctuation, at a place that begins a word
    behind_no_letter: re.Pattern[str]  # the same, at any place
    spaceless: re.Pattern[str]  # of Han and kana


def phrase_at(text: str, kind: PhraseKind, place: int = 0) -> str | None:
    """The phrase of a kind with which a text begins, or goes on at a place; None without one."""
    patterns = _phrase_patterns(kind)
    match = patterns.spaced.match(text, place) or patterns.spaceless.match(text, place)
    return match[0] if match else None


def find_phrase(text: str, kind: PhraseKind) -> int | None:
    """Where the first phrase of a kind stands in a text; None without one."""
    patterns = _phrase_patterns(kind)
    match = patterns.behind_no_letter.search(text) or patterns.spaceless.search(text)
    return match.start() if match else None


def without_phrases(text: str, kind: PhraseKind) -> str:
    """A text with a space for each phrase of a kind."""
    patterns = _phrase_patterns(kind)
    return patterns.spaceless.sub(" ", patterns.behind_no_letter.sub(" ", text))


def phrase_pattern(kind: PhraseKind) -> str:
    """The source of a pattern of all phrases with spaces, for use in one that ignores case."""
    return _phrase_patterns(kind).spaced.pattern


@cache
def _phrase_patterns(kind: PhraseKind) -> _PhrasePatterns:
    spaced = [_NOTHING]
    spaceless = [_NOTHING]
    for phrase in sorted(_phrases(kind), key=len, reverse=True):
        alternatives = spaceless if SPACELESS.search(phrase) else spaced
        alternatives.append(re.escape(phrase).replace(r"\ ", r"\s+"))

    any_spaced = rf"(?:{'|'.join(spaced)})(?!\w)"
    return _PhrasePatterns(
        spaced=re.compile(any_spaced, re.IGNORECASE),
        behind_no_letter=re.compile(rf"(?<![^\W_]){any_spaced}", re.IGNORECASE),
        spaceless=re.compile(rf"(?:{'|'.join(spaceless)})"),
    )


def _phrases(kind: PhraseKind) -> set[str]:
    """The phrases of a kind in all languages, from lines such as "en joint: and | as well as"."""
    phrases: set[str] = set()
    for line in data_lines("text/phrases.txt"):
        head, _, rest = line.partition(": ")
        _language, line_kind = head.split()
        if line_kind == kind:
            phrases.update(phrase.strip() for phrase in rest.split("|"))
    return phrases
