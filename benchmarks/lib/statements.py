"""Edits restated as statements: a query that asks becomes a text right before the object, by rule."""

from __future__ import annotations

import re
from dataclasses import replace

from drike.edits.record import EditRecord

_NOUNS = (
    "anthem",
    "architect",
    "investor",
    "performer",
    "shape",
    "sponsor",
)  # which "What does S ...?" takes for verbs
_ASKED = r"(?:what|who|when|where|which)"
_STATES = r"(?:located|made|described|indexed|supported) .*"  # relations that say what is done with the subject
_DO = {"be": "is", "have": "has", "do": "does", "say": "is said"}


def restated(record: EditRecord) -> EditRecord | None:
    """The edit with a statement as its query; None where no rule fits its question.

    "What is the capital of Peru?" becomes "The capital of Peru is", "Who was it founded by?" "It was founded by", "What
    does it use?" "It uses", "What is the located in region of it?" "It is located in region".
    """
    *_, subject = [
        None,
        *re.finditer(rf"(?<!\w){re.escape(record.subject)}(?!\w)", record.query, re.IGNORECASE),
    ]
    if subject is None:
        return None
    template = f"{record.query[: subject.start()]}\0{record.query[subject.end() :]}"
    statement = _statement(" ".join(template.split()))
    if statement is None:
        return None
    start = statement if statement.startswith("\0") else statement[:1].upper() + statement[1:]
    return replace(record, query=start.replace("\0", subject[0]))


def _statement(question: str) -> str | None:
    """The statement of a question, both with a NUL character for the subject."""
    if match := re.fullmatch(
        rf"{_ASKED} (is|are|was|were) the (.+) of \0\s?\?", question, re.IGNORECASE
    ):
        verb, relation = match.groups()
        return (
            f"\0 {verb} {relation}"
            if re.fullmatch(_STATES, relation)
            else f"the {relation} of \0 {verb}"
        )
    if match := re.fullmatch(
        rf"{_ASKED} (is|are|was|were) \0['\u2019]s? (.+)\?", question, re.IGNORECASE
    ):
        return f"\0's {match[2]} {match[1]}"
    if match := re.fullmatch(rf"{_ASKED} (is|are|was|were) \0 (.+)\?", question, re.IGNORECASE):
        return f"\0 {match[1]} {match[2]}"
    if match := re.fullmatch(rf"{_ASKED} (?:does|do|did) \0 (\w+)(.*)\?", question, re.IGNORECASE):
        verb, rest = match[1], re.sub(r"\(s ?\)", "", match[2]).rstrip()
        if verb in _NOUNS and not rest:
            return f"the {verb} of \0 is"
        return f"\0 {_DO.get(verb) or third_person(verb)}{rest}"
    return None


def third_person(verb: str) -> str:
    """The verb as in "uses", "carries" and "passes"."""
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if re.search(r"(s|x|z|ch|sh|o)$", verb) else f"{verb}s"
