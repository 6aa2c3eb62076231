"""benchmarks/heeded.py: its fast rule is drike's, and its figures are of what it says."""

from __future__ import annotations

import numpy as np

from benchmarks import heeded
from drike.support.rates import Portion, fall


def test_the_rule_for_many_edits_at_once_is_drikes() -> None:
    chance = np.random.default_rng(2)
    rates = np.array([0.95] * 120 + [0.7] * 12)
    series = heeded.Series.drawn(chance, rates, 4, 40)
    found = []
    for heeded_of, judged_of in zip(series.heeded, series.judged, strict=True):
        days = [
            Portion(int(part), int(whole))
            for part, whole in zip(np.diff(heeded_of), np.diff(judged_of), strict=True)
        ]
        found.append(fall(heeded._summed(days)) is not None)
    assert heeded.falls(series, len(rates)).tolist() == found
    assert 5 < sum(found) < 40, "the rule is tried on both sides"


def test_wilsons_intervals_are_drikes() -> None:
    from drike.support.table import Estimate

    low, high = heeded.wilson(np.array([3, 0]), np.array([10, 0]))
    known = Estimate.share(3, 10)
    assert (round(low[0], 9), round(high[0], 9)) == (
        round(known.low or 0, 9),
        round(known.high or 0, 9),
    )
