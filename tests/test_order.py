"""Orders of the kept retains: permutations, and what each says it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.demonstrations import Role
from drike.editors.ike import IKE, Layout, arrange
from drike.encoders import HashingEncoder
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.order import Order, Shuffled, by_policy, by_policy_reversed, by_similarity
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever
from worlds import CAPITALS

ENCODER = HashingEncoder()
DR_IKE = IKE("DR-IKE", Pool(CAPITALS, ENCODER), Retriever(ENCODER), Fraction(0.5))
ORDERS: list[Order] = [by_policy, by_policy_reversed, by_similarity, Shuffled(3)]
LAYOUTS: list[Layout] = ["append", "ike"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ORDERS, ids=["policy", "reversed", "similarity", "shuffled"])
@pytest.mark.parametrize("budget", [Fraction(0.5), Fraction(1.0), Threshold(0.07), Threshold(1.0)], ids=str)
def test_an_order_moves_retains_and_nothing_else(layout: Layout, order: Order, budget: Budget) -> None:
    own = replace(DR_IKE, layout=layout, budget=budget)
    other = replace(own, order=order)
    for case in CAPITALS[:10]:
        assert own.select(case.edit) == other.select(case.edit), "the selection stays the policy's"
        [shown], [moved] = own.prompts(case.edit, [case.edit.query]), other.prompts(case.edit, [case.edit.query])
        assert sorted(map(str, shown.demonstrations)) == sorted(map(str, moved.demonstrations))
        for before, after in zip(shown.demonstrations, moved.demonstrations, strict=True):
            assert before.role is after.role
            assert before == after or after.role is Role.RETAIN


@given(st.permutations(range(16)), st.integers(1, 16))
def test_orders_are_what_they_say(ranking: list[int], k: int) -> None:
    [candidates] = DR_IKE.pool.candidates([CAPITALS[7].edit])
    kept = tuple(candidates.retains[i] for i in ranking[:k])
    assert by_policy(candidates, kept) == kept
    assert by_policy_reversed(candidates, kept) == kept[::-1]
    nearest = [candidates.retains.index(retain) for retain in by_similarity(candidates, kept)]
    assert nearest == sorted(ranking[:k])
    shuffled = Shuffled(1)(candidates, kept)
    assert sorted(map(str, shuffled)) == sorted(map(str, kept))
    assert shuffled == Shuffled(1)(candidates, kept[::-1]), "whatever order they came in"
    assert arrange(candidates, kept, "append", by_policy) == arrange(candidates, kept, "append")


def test_shuffles_differ_by_seed_and_by_edit() -> None:
    places = set()
    for case in CAPITALS[:5]:
        [candidates] = DR_IKE.pool.candidates([case.edit])
        for seed in range(5):
            shown = Shuffled(seed)(candidates, candidates.retains)
            places.add(tuple(candidates.retains.index(retain) for retain in shown))
    assert len(places) == 25
