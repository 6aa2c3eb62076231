"""Choose a setting by answers that are known under each: for the largest S, or to keep a promise such as "rr>=.85".

A setting is whatever changes the demonstrations shown but needs no training: k, sigma, or how far a policy leans to
retains. A promise is about edits to come, drawn like those of the calibration. It is kept by Learn-then-Test
(arXiv 2110.01052): settings are tested in a given order, the safest first, until one cannot be shown to keep it; the
probability that any setting passes although it does not keep the promise is at most 1 - confidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from drike.edits import ASPECTS_OF_S, Aspect
from drike.errors import UsageError

Setting = TypeVar("Setting")
Counts = NDArray[np.float64]  # [edits, 3]: of rewrites, paraphrases and neighbours, in the order of ASPECTS_OF_S
Metric = Literal["esr", "pc", "rr"]

METRICS: tuple[Metric, ...] = ("esr", "pc", "rr")  # of the columns of Counts
_LARGEST_BET = 0.9  # of what may be bet; at 1 a single wrong answer would lose everything


@dataclass(frozen=True)
class Guarantee:
    """That a metric over edits to come is at least `level`; the procedure errs with probability 1 - confidence."""

    metric: Metric
    level: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what no setting can be tested for. Raises ValueError."""
        if self.metric not in METRICS or not (0 < self.level < 1 and 0 < self.confidence < 1):
            raise ValueError(f"a promise has one of {METRICS} and a level between 0 and 1, not {self!r}")

    def __str__(self) -> str:
        return f"{self.metric}>={self.level:g}".replace("=0.", "=.")

    @property
    def aspect(self) -> Aspect:
        """Of the probes that the metric is about."""
        return ASPECTS_OF_S[METRICS.index(self.metric)]

    @classmethod
    def parse(cls, text: str) -> Guarantee:
        """Read "rr>=.85". Raises UsageError for another metric or form, or a level outside of (0, 1)."""
        found = re.fullmatch(r"\s*(\w+)\s*>=\s*(\d*\.?\d+)\s*", text, re.ASCII)
        metric, level = (found[1].casefold(), float(found[2])) if found else ("", 0.0)
        if metric == "s":
            raise UsageError("S cannot be promised, as it is no mean over edits: promise esr, pc or rr")
        if metric not in METRICS or not 0 < level < 1:
            raise UsageError(f'a promise is esr, pc or rr and a level between 0 and 1, as "rr>=.85", not {text!r}')
        return cls(metric, level)


@dataclass(frozen=True)
class CertifiedGuarantee:
    """A promise that was shown to hold: on how many edits, at which offset, and the metric's value on these edits."""

    promise: Guarantee
    edits: int
    offset: float
    measured: float

    @property
    def sentence(self) -> str:
        """What is promised, and how far it can be relied on."""
        return f"{self.promise} for new edits like the {self.edits} held out, {self.promise.confidence:.0%} confidence"


def calibrate(
    right: Mapping[Setting, Counts],
    probes: Counts,
    *,
    promise: Guarantee | None = None,
    most: int | None = None,
    cost: Mapping[Setting, float] | None = None,
) -> Setting | None:
    """The setting with the largest S, less its cost if any, among those certified; without a promise, among all.

    Of equal ones the first; None where none is certified. The arguments are those of `certified`.
    """
    among = list(right) if promise is None else certified(promise, right, probes, most=most)
    return max(among, key=lambda one: score(right[one], probes) - (cost[one] if cost else 0.0), default=None)


def certified(
    promise: Guarantee, right: Mapping[Setting, Counts], probes: Counts, *, most: int | None = None
) -> list[Setting]:
    """The settings that are shown to keep a promise: those in front of the first that is not.

    Args:
        right: right answers under each setting, the setting that keeps the promise most safely first. Which settings
            there are, and their order, must not depend on these answers.
        probes: the number of probes; edits are in an order that does not depend on the answers.
        most: as in `rates`.
    """

    def passes(setting: Setting) -> bool:
        values = rates(promise.metric, promise.level, right[setting], probes, most)
        return exceeds(values, promise.level, promise.confidence)

    return list(takewhile(passes, right))


def lower_bound(
    metric: Metric, right: Counts, probes: Counts, *, confidence: float = 0.95, most: int | None = None
) -> float:
    """The largest level, in hundredths, that a setting chosen without these answers is shown to reach."""
    level = 0
    while level < 99 and exceeds(rates(metric, (level + 1) / 100, right, probes, most), (level + 1) / 100, confidence):
        level += 1
    return level / 100


def score(right: Counts, probes: Counts) -> float:
    """S over all probes: the harmonic mean of the metrics that have any."""
    asked = probes.sum(axis=0)
    shares = right.sum(axis=0)[asked > 0] / asked[asked > 0]
    return float(1 / np.mean(1 / np.maximum(shares, 1e-9)))


def rates(metric: Metric, level: float, right: Counts, probes: Counts, most: int | None = None) -> Counts:
    """A number in [0, 1] for each edit, whose expectation is above `level` where the metric is above it [edits].

    With as many probes for each edit it is the edit's share of right answers. Metrics weight edits by their probes, so
    an edit with fewer probes is drawn towards `level`. most: the most probes that any edit, also one to come, can have;
    default the most of these edits. Raises ValueError if one of these edits has more.
    """
    i = METRICS.index(metric)
    largest = probes[:, i].max()
    if most is not None and largest > most:
        raise ValueError(f"an edit has {largest:g} probes for {metric}, more than {most}")
    found: Counts = level + (right[:, i] - level * probes[:, i]) / (most or largest)
    return found


def exceeds(values: Sequence[float] | Counts, level: float, confidence: float = 0.95) -> bool:
    """Whether independent values in [0, 1] show, at this confidence, that their expectation is above `level`.

    A bet against "it is at most `level`": capital K starts at 1 and is multiplied by 1 + b (x - level), with a bet b in
    [0, 1 / level) that depends on earlier values only. If it is at most `level`, K ever reaches 1 / (1 - confidence)
    with probability 1 - confidence at most (Waudby-Smith and Ramdas, arXiv 2010.09686; Ville). The size of the bet,
    which decides how few values suffice, aims at that capital by the last value (arXiv 2505.22422).
    """
    goal, capital = 1 / (1 - confidence), 1.0
    seen, total, spread = 1, level, level * (1 - level)  # as if one value had been seen, with the spread of yes or no
    for i, x in enumerate(values):
        bet = math.sqrt(2 * math.log(goal / capital) * seen / (spread * (len(values) - i)))
        capital *= 1 + min(bet, _LARGEST_BET / level) * (float(x) - level)
        if capital >= goal:
            return True
        seen, total = seen + 1, total + float(x)
        spread += (float(x) - total / seen) ** 2
    return False
