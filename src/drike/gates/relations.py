"""What a text asks for, by its words: the kind of answer, and relations that exclude each other."""

from __future__ import annotations

import re

from drike.words import words

_KINDS = {
    "person": r"who|whom|whose",
    "time": r"when|year|date|day",
    "number": r"how (?:many|much|old|tall|long|far|large|big)|number|population|elevation|height",
    "place": r"where|city|town|country|place|location|located|continent|state|capital",
    "language": r"language|tongue",
}
_KIND = re.compile("|".join(rf"(?P<{kind}>\b(?:{pattern})\b)" for kind, pattern in _KINDS.items()), re.IGNORECASE)


def answer_kind(text: str) -> str | None:
    """What a text asks for: a person, time, number, place or language; None if no word says."""
    kinds = {match.lastgroup for match in _KIND.finditer(text)}
    return next((kind for kind in _KINDS if kind in kinds), None)


_CONTRARIES = [  # of each line, a fact is one of these
    [frozenset(relation.split()) for relation in line.split("|")]
    for line in (
        "father dad | mother mom | spouse wife husband married marry | child children son daughter"
        " | sibling siblings brother sister",
        "follows follow | followed",
        "predecessor | successor",
        "born birth birthplace | died die death dead | buried burial",
        "occupation profession job career | employer employs employed",
        "city town | country nation citizenship | continent | state province | capital",
        "author wrote written writer writes | publisher published | director directed | producer produced"
        " | composer | performer performed sang",
        "founded inception established started start begin began | dissolved abolished ended end closed",
        "chief ceo | chairperson chairman chair | founder",
    )
]


def contrary(first: str, second: str) -> bool:
    """Whether two texts ask for different relations of one kind, such as the father and the mother."""
    vocabularies = set(words(first)), set(words(second))
    for group in _CONTRARIES:
        relations = [{i for i, names in enumerate(group) if names & said} for said in vocabularies]
        if all(relations) and not relations[0] & relations[1]:
            return True
    return False
