"""Ranges of amounts as their two bounds: 8-14 participants are at least 8 and at most 14."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from drike.answers.amounts import Amount, amounts
from drike.answers.number_words import spelled_in_digits
from drike.answers.quantities import BoundedAmount, bounded

_BETWEEN = re.compile(
    r"\s*(?:-|–|—|(?:up )?to(?: a maximum of)?|and|bis(?: zu)?|und|à|a|y|et|hasta)\s*", re.I
)
_BEFORE = re.compile(r"(?:\b(?:between|from|zwischen|von|de|entre)\s+)$", re.I)
_NUMBER = re.compile(r"^[\d.,'’\s-]+")
_MOST_BEFORE = 10
_NEEDS_BEFORE = frozenset(("and", "und", "y", "et", "a", "à"))  # else it joins two amounts


def split_bounds(text: str, found: Iterable[BoundedAmount]) -> Iterator[BoundedAmount]:
    """The amounts of a text, those of ranges with their bounds."""
    amounts_found = list(found)
    bounds: dict[int, BoundedAmount] = {}
    for number, (first, second) in enumerate(pairwise(amounts_found)):
        if number in bounds or not _is_range(text, first, second):
            continue
        low = _with_unit_of(text, first, second) if first.amount.is_bare else first.amount
        bounds[number] = replace(first, amount=low, bound="least")
        bounds[number + 1] = replace(second, bound="most")
    for number, amount in enumerate(amounts_found):
        yield bounds.get(number, amount)


def _with_unit_of(text: str, first: BoundedAmount, second: BoundedAmount) -> Amount:
    """The first amount of "8 to 14 days", whose unit stands behind the second."""
    begin, end = first.amount.begin, first.amount.end
    number = text[begin:end].strip()
    unit = _without_number(text[second.amount.begin : second.amount.end])
    read = amounts(f"{number} {unit}")
    if len(read) != 1:
        return first.amount
    return replace(read[0], begin=begin, end=end)


def _is_range(text: str, first: BoundedAmount, second: BoundedAmount) -> bool:
    """Whether two amounts are those of a range: "8-14", "between 8 and 14"."""
    between = text[first.amount.end : second.amount.begin]
    joined = _BETWEEN.fullmatch(between)
    if joined is None or not (first.amount.is_bare or _are_alike(first, second)):
        return False
    before = text[max(0, first.amount.begin - _MOST_BEFORE) : first.amount.begin]
    return between.strip().lower() not in _NEEDS_BEFORE or _BEFORE.search(before) is not None


def _are_alike(first: BoundedAmount, second: BoundedAmount) -> bool:
    kinds = {dimension for dimension, _ in first.amount.readings}
    return any(dimension in kinds for dimension, _ in second.amount.readings)


def bounds_of(name: str) -> tuple[str, ...]:
    """An object that is a range, or has two bounds, as a policy of two conditions; else ()."""
    text = spelled_in_digits(name.strip().rstrip("."))
    found = [bounded(text, amount) for amount in amounts(text)]
    if len(found) != 2 or found[1].end != len(text):
        return ()
    first, second = found
    has_two_bounds = (first.bound, second.bound) == ("least", "most")
    if not has_two_bounds and not _is_range(text, first, second):
        return ()
    low = text[first.amount.begin : first.amount.end].strip()
    high = text[second.amount.begin : second.amount.end].strip()
    if first.amount.is_bare:
        low = f"{low} {_without_number(high)}"
    return f"at least {low}", f"at most {high}"


def _without_number(text: str) -> str:
    """What stands behind the number of an amount."""
    return _NUMBER.sub("", text)
