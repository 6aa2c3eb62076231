"""Rates that people look at again and again: intervals that hold at every look, and falls.

`rate` is a confidence sequence: whatever the rate is, the probability that its interval ever leaves
it out, at whichever number of answers one looks, is 5 % at most. It inverts a mixture of likelihood
ratios over all rates, by Jeffreys' prior Beta(1/2, 1/2) (Robbins 1970; as a beta-binomial mixture
Howard, Ramdas, McAuliffe and Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
sequences"), and Ville's inequality bounds it. A Wilson interval promises that for a single look.

`fall` compares two rates, before a day and since then, with one for all days, by their likelihoods,
which finds falls of any size. Large ones show sooner against what the days before promise: a
cumulative sum (Page 1954) of how much better each day fits three quarters of their rate. Both
bounds were set by simulation (benchmarks/heeded.py). All take answers to be independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import lgamma, log, pi, sqrt
from typing import NamedTuple

from drike.support.table import Estimate

NOTICED = 12.0  # the log of the likelihood ratio from which a fall is one
LARGE_NOTICED = 8.8  # the cumulative sum from which a large fall is one
LARGE = 0.753  # of the rate before, which is left after a large fall: .70 of .93
UNSURE = 0.5  # standard errors by which the rate before may be lower than it seems
LEAST_RATE, MOST_RATE = 0.05, 0.99  # of the rates before
_OUTSIDE = 0.05  # the probability that an interval ever leaves the rate out
_HALVINGS = 40  # until an end of an interval is exact


class Portion(NamedTuple):
    """So many of so many."""

    part: int
    whole: int

    def plus(self, other: Portion) -> Portion:
        """Both together."""
        return Portion(self.part + other.part, self.whole + other.whole)


@dataclass(frozen=True)
class Fall:
    """A rate that fell. place: the number of the share since which it is lower."""

    place: int
    before: Portion
    since: Portion


@lru_cache(maxsize=1 << 12)
def rate(part: int, whole: int) -> Estimate:
    """A share of independent cases, with an interval that holds however often one looks."""
    if not whole:
        return Estimate(None)
    share = part / whole
    least = _log_mixture(part, whole) + log(_OUTSIDE)

    def is_inside(chance: float) -> bool:
        return _log_likelihood(part, whole, chance) >= least

    low = _end(share, 0.0, is_inside) if part else 0.0
    high = _end(share, 1.0, is_inside) if part < whole else 1.0
    return Estimate(share, low, high)


@lru_cache(maxsize=64)
def enough_for(least: float) -> int:
    """How many cases an interval needs to lie above a rate, if all of them count."""
    cases = 1
    while (rate.__wrapped__(cases, cases).low or 0.0) < least:
        cases += max(1, cases // 64)
    while cases > 1 and (rate.__wrapped__(cases - 1, cases - 1).low or 0.0) >= least:
        cases -= 1
    return cases


def fall(shares: Sequence[Portion]) -> Fall | None:
    """Where a rate fell, if it did: since the place that explains the shares best."""
    sums = list(accumulate(shares, Portion.plus))
    if not sums or sums[-1].part == sums[-1].whole:
        return None
    return _fall_of_any_size(sums) or _large_fall(shares, sums)


def _fall_of_any_size(sums: Sequence[Portion]) -> Fall | None:
    """The place that splits shares best in two rates, if one does much better than one rate."""
    everything = sums[-1]
    of_one_rate = _largest(everything)
    found = None
    most = NOTICED
    for place, before in enumerate(sums[:-1], 1):
        since = Portion(everything.part - before.part, everything.whole - before.whole)
        if since.part * before.whole >= before.part * since.whole:
            continue
        ratio = _largest(before) + _largest(since) - of_one_rate
        if ratio >= most:
            most = ratio
            found = Fall(place, before, since)
    return found


def _large_fall(shares: Sequence[Portion], sums: Sequence[Portion]) -> Fall | None:
    """The place since which shares fit three quarters of the rate before much better than it."""
    total = 0.0
    start = 1
    for place, share in enumerate(shares[1:], 1):
        if total <= 0:
            total = 0.0
            start = place
        expected = _promised(sums[place - 1])
        total += _log_likelihood(share.part, share.whole, LARGE * expected)
        total -= _log_likelihood(share.part, share.whole, expected)
    if total < LARGE_NOTICED:
        return None
    before, everything = sums[start - 1], sums[-1]
    since = Portion(everything.part - before.part, everything.whole - before.whole)
    return Fall(start, before, since)


def _promised(before: Portion) -> float:
    """What the days before promise at least: their rate, less what it may be lower."""
    share = (before.part + 0.5) / (before.whole + 1)
    error = sqrt(share * (1 - share) / (before.whole + 1))
    return min(max(share - UNSURE * error, LEAST_RATE), MOST_RATE)


def _end(inside: float, outside: float, is_inside: Callable[[float], bool]) -> float:
    """Where an interval ends between a rate in it and one that is none."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _log_mixture(part: int, whole: int) -> float:
    """The log-probability of cases in their order, over all rates by Jeffreys' prior."""
    other = whole - part
    return lgamma(part + 0.5) + lgamma(other + 0.5) - lgamma(whole + 1) - log(pi)


def _log_likelihood(part: int, whole: int, chance: float) -> float:
    """The log-probability of cases in their order under a rate between 0 and 1."""
    missed = whole - part
    of_part = part * log(chance) if part else 0.0
    of_missed = missed * log(1 - chance) if missed else 0.0
    return of_part + of_missed


def _largest(share: Portion) -> float:
    """The log-probability of cases under the rate that fits them best."""
    return _times_log(share.part) + _times_log(share.whole - share.part) - _times_log(share.whole)


def _times_log(number: int) -> float:
    return number * log(number) if number else 0.0
