"""A text around its subject: "The capital of {} is" for the query "The capital of Peru is"."""

import re

Template = tuple[str, str]  # the text before the subject, the text after it

_WORD_CHARACTER = re.compile(r"\w")


def around(text: str, subject: str) -> Template | None:
    """The text before and after the last mention of `subject`; None if it is not mentioned.

    Whole words are preferred.
    """
    if not subject:
        return None

    last_place = text.rfind(subject)
    place = last_place
    while place >= 0 and _inside_word(text, place, place + len(subject)):
        place = text.rfind(subject, 0, place + len(subject) - 1)
    if place < 0:
        place = last_place

    return None if place < 0 else (text[:place], text[place + len(subject) :])


def query_template(query: str, subject: str) -> str | None:
    """The query with {} for its subject: the relation of a data set that names none."""
    template = around(query, subject)
    return "{}".join(template) if template else None


def _inside_word(text: str, begin: int, end: int) -> bool:
    """Whether a word goes on before or behind a part of a text."""
    before = text[begin - 1 : begin]
    after = text[end : end + 1]
    return bool(_WORD_CHARACTER.fullmatch(before) or _WORD_CHARACTER.fullmatch(after))
