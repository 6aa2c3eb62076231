"""Intervals by bootstrap over cases, as the probes of one are not independent."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drike.support.table import Estimate

RESAMPLES = 1000
Floats = NDArray[np.float64]


def resampled(by_case: Floats, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Sum the rows of each resample of the cases: (cases, ...) to (resamples, ...)."""
    rows = by_case.reshape(len(by_case), -1)
    draws = _draws(len(by_case), resamples, seed)
    sums = np.array([times_drawn @ rows for times_drawn in draws])
    return sums.reshape(resamples, *by_case.shape[1:])


def _draws(cases: int, resamples: int, seed: int) -> Iterator[NDArray[np.int_]]:
    """For each resample, how often each case is drawn: as `random.Random(seed).choices` would."""
    _, (*state, position), _ = random.Random(seed).getstate()
    stream = np.random.RandomState()
    stream.set_state({"bit_generator": "MT19937", "state": {"key": state, "pos": position}})
    for _ in range(resamples):
        drawn = (stream.random_sample(cases) * cases).astype(int)
        yield np.bincount(drawn, minlength=cases)


def estimated(
    values: Floats, drawn: Floats, cases: ArrayLike = 0, least: ArrayLike = 0.0
) -> list[Estimate]:
    """Values (n) with their intervals: the 2.5 % and 97.5 % quantiles over resamples.

    drawn: the values over resamples, (resamples, n). A resample without a single probe of the
    aspect is left out. Where all cases agree, resamples do too, although few cases say little: up
    to a share 1 - .025^(1/cases) of others may then differ, as far as from `least` to 1 (Clopper
    and Pearson's interval for none or all of a proportion). cases: how many; 0: only quantiles.
    """
    counts = np.broadcast_to(np.asarray(cases), values.shape)
    lower_ends = np.broadcast_to(np.asarray(least), values.shape)
    ordered = np.sort(drawn, axis=0)  # NaN comes last
    return [
        _with_interval(value, ordered[:, i], int(counts[i]), float(lower_ends[i]))
        for i, value in enumerate(values.tolist())
    ]


def _with_interval(value: float, ordered: Floats, cases: int, least: float) -> Estimate:
    """A value with its interval. ordered: those over resamples, NaN last."""
    if math.isnan(value):
        return Estimate(None)
    last = int(np.count_nonzero(~np.isnan(ordered))) - 1
    if last < 0:
        return Estimate(value)
    low = float(ordered[round(0.025 * last)])
    high = float(ordered[round(0.975 * last)])
    if cases and high - low < 1e-9:
        share_of_others = 1 - 0.025 ** (1 / cases)
        low = value - share_of_others * (value - least)
        high = value + share_of_others * (1 - value)
    return Estimate(value, low, high)


def share_over_cases(held: Iterable[Sequence[bool]]) -> Estimate:
    """How often something held, given probe by probe for each case, with its interval."""
    counts = np.array([(sum(of_case), len(of_case)) for of_case in held], dtype=float)
    total = counts.sum(axis=0)
    drawn = resampled(counts)
    cases = np.count_nonzero(counts[:, 1])
    [share] = estimated(total[:1] / total[1:], drawn[:, :1] / drawn[:, 1:], cases)
    return share
