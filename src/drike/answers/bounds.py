"""Ranges of amounts as their two bounds: 8-14 participants are at least 8 and at most 14."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from drike.answers.amounts import Amount, amounts
from drike.answers.number_words import spelled_in_digits
from drike.answers.quantities import BoundedAmount, bounded
from drike.answers.ranges import is_range

_NUMBER = re.compile(r"^[\d.,'’\s-]+")


def split_bounds(text: str, found: Iterable[BoundedAmount]) -> Iterator[BoundedAmount]:
    """The amounts of a text, those of ranges with their bounds."""
    amounts_found = list(found)
    bounds: dict[int, BoundedAmount] = {}
    for number, (first, second) in enumerate(pairwise(amounts_found)):
        if number in bounds or not is_range(text, first.amount, second.amount):
            continue
        low = _with_unit_of(text, first.amount, second.amount)
        bounds[number] = replace(first, amount=low, bound="least")
        bounds[number + 1] = replace(second, bound="most")
    for number, amount in enumerate(amounts_found):
        yield bounds.get(number, amount)


def _with_unit_of(text: str, first: Amount, second: Amount) -> Amount:
    """The first amount of "8 to 14 days", whose unit stands behind the second."""
    if not first.is_bare:
        return first
    number = text[first.begin : first.end].strip()
    unit = _without_number(text[second.begin : second.end])
    read = amounts(f"{number} {unit}")
    return replace(read[0], begin=first.begin, end=first.end) if len(read) == 1 else first


def bounds_of(name: str) -> tuple[str, ...]:
    """An object that is a range, or has two bounds, as a policy of two conditions; else ()."""
    text = spelled_in_digits(name.strip().rstrip("."))
    found = [bounded(text, amount) for amount in amounts(text)]
    if len(found) != 2 or found[1].end != len(text):
        return ()
    first, second = found
    has_two_bounds = (first.bound, second.bound) == ("least", "most")
    if not has_two_bounds and not is_range(text, first.amount, second.amount):
        return ()
    low = text[first.amount.begin : first.amount.end].strip()
    high = text[second.amount.begin : second.amount.end].strip()
    if first.amount.is_bare:
        low = f"{low} {_without_number(high)}"
    return f"at least {low}", f"at most {high}"


def _without_number(text: str) -> str:
    """What stands behind the number of an amount."""
    return _NUMBER.sub("", text)
