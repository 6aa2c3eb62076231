"""Choose a setting by the answers under each.

It is the one with the largest S, or one that guarantees, say, "rr>=.85". A guarantee is about
future edits, drawn like those of the calibration, and is certified by Learn-then-Test (arXiv
2110.01052): settings are tested in a fixed order, the safest first, until one fails its test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.errors import UsageError
from drike.support.statistics import exceeds

Setting = TypeVar("Setting")
# [edits, 3]: of rewrites, paraphrases and neighbours, in the order of ASPECTS_OF_S.
Counts = NDArray[np.float64]
Metric = Literal["esr", "pc", "rr"]

METRICS: tuple[Metric, ...] = ("esr", "pc", "rr")  # of the columns of Counts
_GUARANTEE = re.compile(r"\s*(?P<metric>\w+)\s*>=\s*(?P<level>\d*\.?\d+)\s*", re.ASCII)


@dataclass(frozen=True)
class Guarantee:
    """A metric over future edits is at least `level`, with this confidence.

    Raises ValueError for an impossible one.
    """

    metric: Metric
    level: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.metric not in METRICS or not (0 < self.level < 1 and 0 < self.confidence < 1):
            raise ValueError(
                f"a guarantee has one of {METRICS} and a level between 0 and 1, not {self!r}"
            )

    def __str__(self) -> str:
        return f"{self.metric}>={self.level:g}".replace("=0.", "=.")

    @property
    def aspect(self) -> Aspect:
        """That of the probes that the metric counts."""
        return ASPECTS_OF_S[METRICS.index(self.metric)]

    @classmethod
    def parse(cls, text: str) -> Guarantee:
        """Read "rr>=.85".

        Raises UsageError for another metric or form, or a level outside of (0, 1).
        """
        match = _GUARANTEE.fullmatch(text)
        name = match["metric"].casefold() if match else ""
        level = float(match["level"]) if match else 0.0
        if name == "s":
            raise UsageError(
                "S cannot be guaranteed, as it is no mean over edits: give esr, pc or rr"
            )
        for metric in METRICS:
            if metric == name and 0 < level < 1:
                return cls(metric, level)
        raise UsageError(
            f'a guarantee is esr, pc or rr and a level between 0 and 1, as "rr>=.85", not {text!r}'
        )


@dataclass(frozen=True)
class CertifiedGuarantee:
    """A certified guarantee.

    edits: how many it was certified on. offset: of the policy. measured: the metric there.
    """

    promise: Guarantee
    edits: int
    offset: float
    measured: float

    @property
    def sentence(self) -> str:
        """What is guaranteed, and how surely."""
        return (
            f"{self.promise} for new edits like the {self.edits} held out, "
            f"{self.promise.confidence:.0%} confidence"
        )


def calibrate(
    right: Mapping[Setting, Counts],
    probes: Counts,
    *,
    guarantee: Guarantee | None = None,
    max_probes: int | None = None,
    cost: Mapping[Setting, float] | None = None,
) -> Setting | None:
    """The setting with the largest S, less its cost if any; None if there is none.

    right: right answers under each setting. guarantee: choose only among those `certified`.
    """
    settings = list(right)
    if guarantee is not None:
        settings = certified(guarantee, right, probes, max_probes=max_probes)

    def net_score(setting: Setting) -> float:
        return score(right[setting], probes) - (cost[setting] if cost else 0.0)

    return max(settings, key=net_score, default=None)


def certified(
    guarantee: Guarantee,
    right: Mapping[Setting, Counts],
    probes: Counts,
    *,
    max_probes: int | None = None,
) -> list[Setting]:
    """The settings of `right` that meet a guarantee: all before the first that fails its test.

    right: the safest setting first, in an order that must not depend on these answers.
    """
    meeting = []
    for setting, answers in right.items():
        if not _meets(guarantee, answers, probes, max_probes):
            break
        meeting.append(setting)
    return meeting


def lower_bound(
    guarantee: Guarantee, right: Counts, probes: Counts, *, max_probes: int | None = None
) -> float:
    """The largest level, in hundredths, that can be certified instead.

    right: under a setting that was chosen without these answers.
    """

    def is_met(level: float) -> bool:
        return _meets(replace(guarantee, level=level), right, probes, max_probes)

    levels = [percent / 100 for percent in range(1, 100)]
    return max(takewhile(is_met, levels), default=0.0)


def _meets(guarantee: Guarantee, right: Counts, probes: Counts, max_probes: int | None) -> bool:
    values = rates(guarantee.metric, guarantee.level, right, probes, max_probes)
    return exceeds(values, guarantee.level, guarantee.confidence)


def score(right: Counts, probes: Counts) -> float:
    """S over all probes: the harmonic mean of the metrics that have any."""
    probes_by_metric = probes.sum(axis=0)
    has_probes = probes_by_metric > 0
    shares = right.sum(axis=0)[has_probes] / probes_by_metric[has_probes]
    return float(1 / np.mean(1 / np.maximum(shares, 1e-9)))


def rates(
    metric: Metric, level: float, right: Counts, probes: Counts, max_probes: int | None = None
) -> Counts:
    """A number in [0, 1] for each edit, whose expectation is above `level` where the metric is.

    It is the edit's share of right answers, and drawn towards `level` if the edit has fewer probes
    than others, as a metric weights edits by their probes. max_probes: the most that any edit, a
    future one included, can have; default: the most of these edits. Raises ValueError if one of
    these edits has more.
    """
    column = METRICS.index(metric)
    right_of_edit = right[:, column]
    probes_of_edit = probes[:, column]
    most = probes_of_edit.max()
    if max_probes is not None and most > max_probes:
        raise ValueError(f"an edit has {most:g} probes for {metric}, more than {max_probes}")
    lead = right_of_edit - level * probes_of_edit  # of right answers over what the level asks
    values: Counts = level + lead / (max_probes or most)
    return values
