"""Calibration: how often promises fail, which metric they are about, and when they are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drike.errors import UsageError
from drike.research.editors.budgets import Threshold
from drike.research.evaluation.risk_control import (
    Counts,
    Guarantee,
    calibrate,
    certified,
    lower_bound,
    rates,
    score,
)
from drike.support.statistics import _LARGEST_BET, exceeds

EDITS, DRAWS = 40, 400
NOISE = 3 * (0.05 * 0.95 / DRAWS) ** 0.5


def worlds(level: float, *, harder: float = 0.2) -> Iterator[tuple[Counts, Counts]]:
    """Draws of edits whose RR is exactly `level`.

    Half of them have 8 neighbours and are harder, half have 2.
    """
    rng = np.random.default_rng(0)
    ones = np.ones(EDITS)
    for _ in range(DRAWS):
        has_many = rng.random(EDITS) < 0.5
        neighbours = np.where(has_many, 8, 2)
        # (8 (level - harder / 4) + 2 (level + harder)) / 10 = level
        probability = np.where(has_many, level - harder / 4, level + harder)
        # Half of the edits answer all their neighbours alike.
        answers_alike = rng.random(EDITS) < 0.5
        all_or_none = neighbours * (rng.random(EDITS) < probability)
        one_by_one = rng.binomial(neighbours, probability)
        right = np.where(answers_alike, all_or_none, one_by_one)
        yield (
            np.stack([ones, ones, right], axis=1).astype(float),
            np.stack([ones, ones, neighbours], axis=1).astype(float),
        )


@pytest.mark.parametrize("level", [0.7, 0.8])
def test_a_promise_that_does_not_hold_passes_at_most_one_time_in_twenty(level: float) -> None:
    promise = Guarantee("rr", level)
    passed = 0
    passed_by_edit = 0
    for right, probes in worlds(level - 1e-6):
        passed += bool(certified(promise, {"only": right}, probes, max_probes=8))
        passed_by_edit += exceeds(right[:, 2] / probes[:, 2], level)
    assert passed / DRAWS <= 0.05 + NOISE
    assert passed_by_edit / DRAWS > 0.1, (
        "the mean of the edits' shares is another metric, and promises too much"
    )


@pytest.mark.parametrize(("level", "edits"), [(0.8, 40), (0.9, 59), (0.6, 20)])
def test_right_and_wrong_answers_at_the_level_itself_rarely_exceed_it(
    level: float, edits: int
) -> None:
    rng = np.random.default_rng(1)
    draws = 2000
    error = np.mean([exceeds(rng.random(edits) < level, level) for _ in range(draws)])
    assert 0.01 < error <= 0.05 + 3 * (0.05 * 0.95 / draws) ** 0.5


def capital_of(values: list[float], level: float, goal: float) -> Fraction:
    """The capital of the betting test as its definition has it, in fractions.

    It is the first that reaches the goal, or what is left after all values.
    """
    capital = Fraction(1)
    seen = 1
    total = level
    spread = level * (1 - level)
    for place, value in enumerate(values):
        log_capital = math.log(capital.numerator) - math.log(capital.denominator)
        remaining = len(values) - place
        bet = math.sqrt(2 * (math.log(goal) - log_capital) * seen / (spread * remaining))
        bet = min(bet, _LARGEST_BET / level)
        capital *= 1 + Fraction(bet) * (Fraction(value) - Fraction(level))
        if capital >= goal:
            return capital
        seen += 1
        total += value
        spread += (value - total / seen) ** 2
    return capital


LEVELS = st.one_of(st.integers(1, 9_999).map(lambda n: n / 10_000), st.floats(1e-6, 1 - 1e-6))
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.9999])


@settings(max_examples=60, deadline=None)
@given(LEVELS, CONFIDENCES, st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=40))
def test_the_test_decides_as_its_definition_does_in_fractions(
    level: float, confidence: float, kinds: list[float]
) -> None:
    goal = 1 / (1 - confidence)
    order = np.random.default_rng(0).random(len(kinds)).argsort()
    ratio = float(capital_of([kinds[i] for i in order], level, goal)) / goal
    if abs(ratio - 1) > 1e-9:
        above = sum(kinds) > level * len(kinds)
        assert exceeds(kinds, level, confidence) == (ratio > 1 and above)


@settings(max_examples=40, deadline=None)
@given(LEVELS, CONFIDENCES, st.integers(0, 400), st.integers(0, 400), st.integers(0, 2**32))
@example(0.85, 0.95, 300, 700, 0)
@example(0.998, 0.95, 0, 400, 0)
@example(0.4818, 0.5, 225, 242, 0)
def test_no_run_of_wrong_answers_is_too_long(
    level: float, confidence: float, right: int, wrong: int, seed: int
) -> None:
    values = np.random.default_rng(seed).permutation([1.0] * right + [0.0] * wrong)
    for ordered in (values, np.sort(values), np.sort(values)[::-1]):
        passed = exceeds(ordered, level, confidence)
        assert not passed or right / (right + wrong) > level
        assert not exceeds([0.0] * (right + wrong), level, confidence)


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(3, 4), Fraction(4, 5)])
def test_the_error_over_all_answers_is_at_most_what_is_allowed(level: Fraction) -> None:
    for edits in (8, 11):
        error = Fraction(0)
        for answers in product((0.0, 1.0), repeat=edits):
            if exceeds(answers, float(level), 0.6):
                error += level ** int(sum(answers)) * (1 - level) ** int(edits - sum(answers))
        assert 0 < error <= Fraction(4, 10)


@pytest.mark.parametrize("level", [0.98, 0.9, 0.75])
def test_an_easy_batch_that_is_given_first_does_not_pay_for_the_others(level: float) -> None:
    rng, passed = np.random.default_rng(0), 0
    for _ in range(100):
        wrong = np.where(np.arange(int(rng.integers(200, 600))) < 100, 0.0, 2 * (1 - level))
        passed += exceeds((rng.random(len(wrong)) >= wrong).astype(float), level)
    assert passed <= 2


def test_many_settings_do_not_raise_the_error() -> None:
    promise, false = Guarantee("rr", 0.75), 0
    for (safe, probes), (edge, _), (worse, _) in zip(
        worlds(0.9, harder=0.05), worlds(0.75), worlds(0.7), strict=True
    ):
        settings = {
            "safe": safe,
            **dict.fromkeys(range(5), edge),
            **{str(i): worse for i in range(5)},
        }
        false += len(certified(promise, settings, probes, max_probes=8)) > 1
    assert false / DRAWS <= 0.05 + NOISE


def test_a_promise_that_holds_by_far_nearly_always_passes() -> None:
    passed = [
        bool(certified(Guarantee("rr", 0.7), {"only": right}, probes, max_probes=8))
        for right, probes in worlds(0.96, harder=0.04)
    ]
    assert np.mean(passed) > 0.95


def test_no_setting_behind_one_that_fails_is_certified() -> None:
    probes = np.ones((60, 3))
    good, bad = probes.copy(), probes.copy()
    bad[:20, 2] = 0
    promise = Guarantee("rr", 0.8)
    assert certified(promise, {"a": good, "b": good, "c": bad, "d": good}, probes) == ["a", "b"]
    assert certified(promise, {"a": bad, "b": good}, probes) == []
    assert calibrate({"a": bad}, probes, guarantee=promise) is None


def test_rates_average_to_the_level_exactly_where_the_metric_does() -> None:
    right = np.array([[1, 1, 9], [0, 2, 1], [1, 0, 0]], dtype=float)
    probes = np.array([[1, 2, 10], [1, 2, 2], [1, 2, 0]])
    assert rates("rr", 10 / 12, right, probes, 10).mean() == pytest.approx(10 / 12)
    assert rates("rr", 0.8, right, probes)[2] == 0.8, "an edit without neighbours says nothing"
    assert rates("esr", 0.5, right, probes).tolist() == [1, 0, 1]
    assert rates("pc", 0.9, right, probes) == pytest.approx([0.5, 1, 0])
    with pytest.raises(ValueError, match="10 probes"):
        rates("rr", 0.8, right, probes, 5)


def test_the_best_level_that_can_be_promised_is_the_largest_that_passes() -> None:
    for right, probes in list(worlds(0.9, harder=0.1))[:5]:
        bound = lower_bound(Guarantee("rr", 0.5), right, probes, max_probes=8)
        assert 0.5 < bound < right[:, 2].sum() / probes[:, 2].sum()
        assert certified(Guarantee("rr", bound), {0: right}, probes, max_probes=8)
        assert not certified(Guarantee("rr", bound + 0.01), {0: right}, probes, max_probes=8)


def test_without_a_promise_the_setting_with_the_largest_s_is_chosen_less_its_cost() -> None:
    rng = np.random.default_rng(0)
    probes = np.ones((50, 3))
    probabilities = np.sort(rng.dirichlet(np.ones(4), size=50))[:, ::-1]

    right_by_k = {}
    for k, (efficacy, retention) in enumerate([(0.98, 0.3), (0.9, 0.85), (0.6, 0.9), (0.4, 0.95)]):
        rewrites = rng.random(50) < efficacy
        paraphrases = rng.random(50) < efficacy
        neighbours = rng.random(50) < retention
        right_by_k[k + 1] = np.column_stack([rewrites, paraphrases, neighbours]).astype(float)
    assert calibrate(right_by_k, probes) == 2
    assert calibrate(right_by_k, probes, cost={1: 0, 2: 0.9, 3: 0.9, 4: 0.9}) == 1

    right_by_sigma = {}
    for sigma in (0.0, 0.1, 0.25, 0.5):
        kept_by_edit = [Threshold(sigma).keep(of_edit) for of_edit in probabilities.tolist()]
        right_by_sigma[sigma] = np.array(
            [right_by_k[k][edit] for edit, k in enumerate(kept_by_edit)]
        )
    best = max(right_by_sigma, key=lambda sigma: score(right_by_sigma[sigma], probes))
    assert calibrate(right_by_sigma, probes) == best


@pytest.mark.parametrize(
    "text", ["rr>=1.2", "rr>=0", "foo>=.5", "rr>.5", "rr>=", "rr>=.5,pc>=.5", "s>=.9", "rr>=nan"]
)
def test_a_promise_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="guarantee"):
        Guarantee.parse(text)


def test_a_promise_is_read_and_written() -> None:
    assert Guarantee.parse(" RR >= .85") == Guarantee("rr", 0.85)
    assert str(Guarantee.parse("pc>=0.9")) == "pc>=.9"
    for wrong in (("s", 0.5, 0.95), ("rr", 1.0, 0.95), ("rr", 0.5, 1.0)):
        with pytest.raises(ValueError, match="level"):
            Guarantee(*wrong)  # type: ignore[arg-type]
