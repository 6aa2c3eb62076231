"""Rates that are looked at again and again: intervals that hold at all looks, and falls."""

from __future__ import annotations

import random

import pytest

from drike.support.rates import NOTICED, Portion, enough_for, fall, rate


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(9, 10, 0.4560, 0.9995), (41, 42, 0.8198, 0.9999), (500, 1000, 0.4424, 0.5576), (0, 10, 0.0, 0.3770)],
)  # fmt: skip
def test_an_interval_holds_the_rates_that_the_mixture_does_not_beat(
    part: int, whole: int, low: float, high: float
) -> None:
    found = rate(part, whole)
    assert found.value == part / whole
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert rate(0, 0).value is None


def test_intervals_leave_the_rate_out_at_any_look_for_few_series() -> None:
    chance = random.Random(3)
    series = 200
    left_out = 0
    for _ in range(series):
        part = 0
        for whole in range(1, 151):
            part += chance.random() < 0.9
            found = rate(part, whole)
            assert found.low is not None and found.high is not None
            if not found.low <= 0.9 <= found.high:
                left_out += 1
                break
    assert left_out <= 0.05 * series


def test_enough_cases_are_the_fewest_by_which_a_rate_can_be_reached() -> None:
    for least in (0.5, 0.9, 0.95, 0.99):
        cases = enough_for(least)
        at, before = rate(cases, cases).low, rate(cases - 1, cases - 1).low
        assert at is not None and at >= least and (before is None or before < least)


def test_a_fall_is_found_where_it_began_and_chance_or_a_rise_is_none() -> None:
    steady = [Portion(9, 10)] * 40
    assert (
        fall(steady) is None and fall([]) is None and fall([Portion(0, 0), Portion(3, 3)]) is None
    )
    fell = fall([*steady, *[Portion(5, 10)] * 5])
    assert fell is not None
    assert (fell.place, fell.before, fell.since) == (40, Portion(360, 400), Portion(25, 50))
    assert fall([*[Portion(5, 10)] * 40, *[Portion(10, 10)] * 9]) is None, "a rise is no alarm"
    assert fall([*steady, Portion(6, 10)]) is None and NOTICED > 10


def test_a_large_fall_shows_within_forty_answers() -> None:
    steady = [Portion(93, 100)] * 10
    days = [Portion(part, 5) for part in (2, 2, 2, 2, 5, 5, 5)]
    fell = fall([*steady, *days])
    assert fell is not None
    assert (fell.place, fell.before, fell.since) == (10, Portion(930, 1000), Portion(23, 35))
    # Few answers before it promise less.
    assert fall([Portion(28, 30), *days]) is None


def test_days_without_answers_change_nothing() -> None:
    days = [Portion(9, 10)] * 40 + [Portion(0, 0)] * 3 + [Portion(4, 10)] * 5
    fell = fall(days)
    assert fell is not None and fell.since == Portion(20, 50)
