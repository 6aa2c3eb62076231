"""Ranges: which two amounts of a text are the ends of one, as in "8-14 days"."""

import re

from drike.answers.amounts import Amount

_BETWEEN = re.compile(
    r"\s*(?:-|–|—|(?:up )?to(?: a maximum of)?|and|bis(?: zu)?|und|à|a|y|et|hasta)\s*", re.I
)
_BEFORE = re.compile(r"\b(?:between|from|zwischen|von|de|entre)\s+$", re.I)
_MOST_BEFORE = 10
_NEEDS_BEFORE = frozenset(("and", "und", "y", "et", "a", "à"))  # else it joins two amounts
# "raised from 20 to 35 euros" gives two amounts, and no range.
_CHANGE = re.compile(
    r"\b(?:rais|chang|mov|increas|reduc|lower|extend|switch|updat|enlarg|expand|shorten|widen"
    r"|adjust|revis|went|gone|rose|risen|fell|fallen"
    r"|up|down|drop|cut|jump|gr[eo]w|subi|baj|pass|erhöh|gestiegen|gesenkt|augment)\w*"
    r"[^.;!?\n]{0,30}\b(?:from|by|von|um|de|desde)\s+$",
    re.IGNORECASE,
)
_MOST_OF_CHANGE = 50


def is_range(text: str, first: Amount, second: Amount) -> bool:
    """Whether two amounts that follow each other are those of a range: "8-14", "8 to 14 days"."""
    between = text[first.end : second.begin]
    joined = _BETWEEN.fullmatch(between)
    if joined is None or not (first.is_bare or _are_alike(first, second)):
        return False
    before = text[max(0, first.begin - _MOST_BEFORE) : first.begin]
    if between.strip().lower() in _NEEDS_BEFORE and not _BEFORE.search(before):
        return False
    return _CHANGE.search(text, max(0, first.begin - _MOST_OF_CHANGE), first.begin) is None


def _are_alike(first: Amount, second: Amount) -> bool:
    kinds = {dimension for dimension, _ in first.readings}
    return any(dimension in kinds for dimension, _ in second.readings)
