"""Prompt styles: each order of the kept retains is a permutation and does what its name says."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.encoders import HashingEncoder
from drike.prompts import Demonstration, DemonstrationSet, Layout, OrderName, PromptStyle, Role
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from tests.fakes.capitals import CAPITALS

ENCODER = HashingEncoder()
DR_IKE = InContextEditor(
    "DR-IKE", Pool(CAPITALS, ENCODER), RankAndCut(Retriever(ENCODER), Fraction(0.5))
)
LAYOUTS: list[Layout] = ["append", "ike"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", get_args(OrderName))
@pytest.mark.parametrize(
    "budget", [Fraction(0.5), Fraction(1.0), Threshold(0.07), Threshold(1.0)], ids=str
)
def test_an_order_moves_only_the_retains(layout: Layout, order: OrderName, budget: Budget) -> None:
    own = replace(
        DR_IKE, style=PromptStyle(layout), selector=replace(DR_IKE.selector, budget=budget)
    )
    other = replace(own, style=PromptStyle(layout, order=order, order_seed=3))
    for case in CAPITALS[:10]:
        assert own.select([case.edit], ["?"]) == other.select([case.edit], ["?"]), (
            "the selection stays the policy's"
        )
        [shown], [moved] = (
            own.prompts([case.edit], [case.edit.query]),
            other.prompts([case.edit], [case.edit.query]),
        )
        assert sorted(map(str, shown.demonstrations)) == sorted(map(str, moved.demonstrations))
        for before, after in zip(shown.demonstrations, moved.demonstrations, strict=True):
            assert before.role is after.role
            assert before == after or after.role is Role.RETAIN


@given(st.permutations(range(16)), st.integers(1, 16))
def test_each_order_arranges_the_kept_retains_as_named(ranking: list[int], k: int) -> None:
    [candidates] = DR_IKE.pool.candidates([CAPITALS[7].edit])
    kept = tuple(candidates.retains[i] for i in ranking[:k])
    assert retains_in(candidates, kept, "policy") == kept
    assert retains_in(candidates, kept, "reversed") == kept[::-1]
    nearest = [
        candidates.retains.index(retain) for retain in retains_in(candidates, kept, "similarity")
    ]
    assert nearest == sorted(ranking[:k])
    shuffled = retains_in(candidates, kept, "shuffled", seed=1)
    assert sorted(map(str, shuffled)) == sorted(map(str, kept))
    assert shuffled == retains_in(candidates, kept[::-1], "shuffled", seed=1), (
        "for any order of candidates"
    )
    policy_order, own_order = PromptStyle(order="policy"), PromptStyle()
    assert policy_order.arrange(candidates, kept) == own_order.arrange(candidates, kept)


def retains_in(
    candidates: DemonstrationSet, kept: tuple[Demonstration, ...], order: OrderName, seed: int = 0
) -> tuple[Demonstration, ...]:
    shown = PromptStyle(order=order, order_seed=seed).arrange(candidates, kept)
    return tuple(demonstration for demonstration in shown if demonstration.role is Role.RETAIN)


def test_shuffles_differ_by_seed_and_by_edit() -> None:
    places = set()
    for case in CAPITALS[:5]:
        [candidates] = DR_IKE.pool.candidates([case.edit])
        for seed in range(5):
            shown = retains_in(candidates, candidates.retains, "shuffled", seed)
            places.add(tuple(candidates.retains.index(retain) for retain in shown))
    assert len(places) == 25


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": "sideways"},
        {"retain": "naked"},
        {"order": "alphabetical"},
        {"own_copy": 1},
        {"order_seed": 0.5},
    ],
)
def test_a_style_refuses_unknown_values(wrong: dict[str, object]) -> None:
    [name] = wrong
    with pytest.raises(ValueError, match=f"{name} must be"):
        PromptStyle(**wrong)  # type: ignore[arg-type]
