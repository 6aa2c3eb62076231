"""Budgets keep at least one retain and learn as the paper says; a token limit keeps the longest prefix that fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.edit import Edit
from drike.prompts import DemonstrationSet, Prompt
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import TokenLimit

probabilities = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=16).map(
    lambda raw: sorted((x / sum(raw) for x in raw), reverse=True)
)
NO_POOL = DemonstrationSet(Edit("The capital of Peru is", "Oslo"), (), ())
rewards = st.lists(st.sampled_from([1, -1]), max_size=16)


@given(probabilities, st.floats(0, 1), st.integers(1, 20))
def test_a_threshold_keeps_at_least_one_and_at_most_max_shots(
    probs: list[float], sigma: float, most: int
) -> None:
    k = Threshold(sigma, most).keep(probs)
    assert 1 <= k <= min(most, len(probs))
    assert k == 1 or probs[k - 1] > sigma


@given(probabilities, st.floats(0, 1), rewards, st.sampled_from(["offender", "algorithm1"]))
def test_sigma_never_falls(probs: list[float], sigma: float, earned: list[int], flip: str) -> None:
    before = Threshold(sigma, flip=flip)  # type: ignore[arg-type]
    after = before.after(probs, earned[: len(probs)])
    assert after.sigma >= before.sigma
    assert (after.max_shots, after.flip) == (before.max_shots, before.flip)


@given(probabilities, st.integers(1, 15))
def test_threshold_drops_the_offending_retain_by_default_and_keeps_it_in_the_listings_reading(
    probs: list[float], j: int
) -> None:
    if j >= len(probs) or len(set(probs)) < len(probs):
        return
    earned = [1] * j + [-1]
    assert Threshold().after(probs, earned).keep(probs) == j
    listed = Threshold(flip="algorithm1").after(probs, earned)
    assert listed.keep(probs) == j + 1


@given(probabilities, rewards)
def test_sigma_is_unchanged_when_no_reward_drops(probs: list[float], earned: list[int]) -> None:
    rising = sorted(earned[: len(probs)])
    assert Threshold(0.01).after(probs, rising).sigma == 0.01


@given(probabilities, st.floats(0.01, 1))
def test_a_fraction_budget_keeps_its_share_and_never_changes(
    probs: list[float], share: float
) -> None:
    budget = Fraction(share)
    assert abs(budget.keep(probs) - share * len(probs)) <= 0.5 or budget.keep(probs) == 1
    assert budget.after(probs, [1, -1], NO_POOL) is budget


@given(probabilities, st.floats(0.01, 1), st.integers(1, 20))
def test_a_fraction_budget_is_capped_by_max_shots(
    probs: list[float], share: float, most: int
) -> None:
    assert Fraction(share, most).keep(probs) == min(most, Fraction(share).keep(probs))


@given(probabilities, st.floats(0, 1), st.integers(1, 20))
def test_fixed_rules_evaluate_exactly_what_they_keep(
    probs: list[float], share: float, most: int
) -> None:
    for budget in (Fraction(max(share, 0.01), most), Threshold(share, most)):
        assert budget.evaluated(probs, NO_POOL) == budget.keep(probs)
    assert Threshold(share, most).sigma_for(probs) == share
    assert Fraction(max(share, 0.01)).sigma_for(probs, NO_POOL) is None


def test_rank_50_keeps_8_of_16() -> None:
    assert Fraction(0.5).keep([1 / 16] * 16) == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fraction(0),
        lambda: Fraction(1.5),
        lambda: Threshold(-0.1),
        lambda: Threshold(max_shots=0),
        lambda: Fraction(1, 0),
    ],
)
def test_invalid_budgets_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError):
        make()


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="empty pool"):
        Threshold().keep([])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 200))
def test_the_longest_prefix_that_fits_is_kept(sizes: list[int], tokens: int) -> None:
    limit = TokenLimit(tokens, lambda texts: [len(text) for text in texts])
    kept = limit.fitting(len(sizes), lambda j: [Prompt("x"), Prompt("x" * sum(sizes[:j]))])
    fits = [j for j in range(1, len(sizes) + 1) if sum(sizes[:j]) <= tokens]
    assert kept == (fits[-1] if fits else 1)


def test_a_token_limit_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        TokenLimit(0, lambda texts: [len(text) for text in texts])
