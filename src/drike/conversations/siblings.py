"""Turns that only name a sibling of a subject: "and the 6?" after the price of the Tindra 5."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drike.gates.index import EditIndex

_MOST_WORDS = 8  # of a subject
_ONLY_NAME = re.compile(
    r"\W*(?:(?:and|or|but|ok|okay|what about|how about|same for|und|et|y|e|was ist mit)[\s,]+)*"
    r"(?:(?:the|a|with|for|of|der|die|das|le|la|el)\s+)*"
    r"(?P<name>[\w.'’+-]+(?:\s[\w.'’+-]+){0,2}?)(?:\s(?:one|then|please|instead))*\W*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")


def only_name(text: str) -> str:
    """What a turn says that may only be a name, or a part of one; "" if it is something else."""
    match = _ONLY_NAME.fullmatch(text)
    return match["name"] if match else ""


def sibling(subject: str, name: str, index: EditIndex) -> str:
    """The stored subject that a name makes with the words of another; "" without one.

    "6" makes Tindra 6 of Tindra 5, and "Starter" makes Cloudlark Starter plan of Cloudlark Growth
    plan.
    """
    for other in _with_words_replaced(subject.split(), name):
        if other.casefold() != subject.casefold() and index.lookup.names.exact(other):
            return other
    return ""


def asked_of(other: str, subject: str, name: str, question: str) -> str:
    """A question about a subject as one about another, which a name has made of it."""
    words_of_other = other.split()
    replaced = " ".join(word for word in subject.split() if word not in words_of_other)
    for before, after in ((subject, other), (replaced, name)):
        start = question.casefold().find(before.casefold()) if before else -1
        if start >= 0:
            return f"{question[:start]}{after}{question[start + len(before) :]}"
    return f"{other}\n{question}"


def is_other_number(subject: str, name: str) -> bool:
    """Whether a name is a number, and a subject ends with another one: no fact is about both."""
    last_word = subject.rpartition(" ")[2]
    return bool(_NUMBER.fullmatch(name) and _NUMBER.fullmatch(last_word)) and last_word != name


def _with_words_replaced(words: list[str], name: str) -> Iterator[str]:
    """A subject with a name for some of its words, but for its first."""
    size = len(words)
    if size > _MOST_WORDS:
        return
    for begin in range(size, 0, -1):
        for end in range(begin, size + 1):
            yield " ".join((*words[:begin], name, *words[end:]))
