"""Texts with labels: "Context: ... Question: ... Answer:"."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from drike.text.phrases import PhraseKind, phrase_at
from drike.text.question_sentences import question_sentences
from drike.text.sentences import Sentence, behind_mark

# Behind a label: a number or letter, a remark in brackets, and the colon.
_COLON = re.compile(r"[ \t]*(?:#?\d{1,3}|[A-Z])?[ \t]*(?:\([^()\n]{0,60}\))?[ \t]*:[*_]*\s*")


class _Label(StrEnum):
    QUERY = "query"
    DOCUMENT = "document"
    ANSWER = "answer"


_PHRASE_KINDS: dict[_Label, PhraseKind] = {
    _Label.QUERY: "query",
    _Label.DOCUMENT: "document",
    _Label.ANSWER: "answer",
}


class Unlabelled(NamedTuple):
    """The sentences outside documents and answered questions; whether there are labels."""

    sentences: list[Sentence]
    has_labels: bool


def without_labelled(text: str, sentences: Sequence[Sentence]) -> Unlabelled:
    """The sentences outside documents and answered questions, and whether there are any labels.

    If they ask nothing, a question at the end of the last document, or in a line behind it, counts,
    too.
    """
    outside: list[Sentence] = []
    inside: list[Sentence] = []  # of the last document or answer
    label: _Label | None = None
    last_query = 0  # the number of sentences outside before the last query
    has_labels = False
    for sentence in sentences:
        new_label, behind_colon = _label_of(text, sentence)
        if new_label is None:
            in_document = label in (_Label.DOCUMENT, _Label.ANSWER)
            (inside if in_document else outside).append(sentence)
            continue

        is_followed = bool(text[behind_colon : sentence.stop].strip())
        is_answer_to_give = new_label is _Label.ANSWER and not is_followed
        has_labels = has_labels or not is_answer_to_give
        if new_label is _Label.ANSWER and is_followed:
            outside = outside[:last_query]  # the question is answered
        label = None if is_answer_to_give else new_label
        inside = []
        if new_label is _Label.QUERY:
            last_query = len(outside)
            if is_followed:
                outside.append(sentence._replace(start=min(behind_colon, sentence.stop)))

    if inside and not question_sentences(text, outside):
        outside += _end_of_document(inside)
    return Unlabelled(outside, has_labels)


def _label_of(text: str, sentence: Sentence) -> tuple[_Label | None, int]:
    """The label with which a sentence begins, and the place behind its colon."""
    place = behind_mark(text, sentence)
    for label, kind in _PHRASE_KINDS.items():
        phrase = phrase_at(text, kind, place)
        colon = _COLON.match(text, place + len(phrase)) if phrase else None
        if colon:
            return label, colon.end()
    return None, place


def _end_of_document(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The last line of a document, or if it has only one, its last sentence."""
    last_line = sentences[-1].line
    if sentences[0].line == last_line:
        return [sentences[-1]]
    return [sentence for sentence in sentences if sentence.line == last_line]
