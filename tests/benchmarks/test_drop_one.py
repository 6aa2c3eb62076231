"""The supervised rival of Algorithm 1: utilities of retains, and a head trained on them."""

from __future__ import annotations

import pytest

from benchmarks.lib.drop_one import Utilities, train_listwise, utilities
from drike.errors import UsageError
from drike.research.editors.retriever import Retriever
from tests.fakes.retain_task import ENCODER, MODEL, POOL, TEST, TRAIN, helps

pytestmark = pytest.mark.slow  # no command reaches what these test


def test_the_utility_of_a_retain_is_what_is_lost_without_it() -> None:
    for soft in (False, True):
        for case, measured in zip(
            TRAIN[:5], utilities(MODEL, POOL, TRAIN[:5], soft=soft), strict=True
        ):
            [candidates] = POOL.candidates([case.edit])
            helpful = [helps(retain) for retain in candidates.retains]
            alone = sum(helpful) == 1
            lost = {True: 2 / 3, False: 0.0}
            assert [round(u, 2) for u in measured.of_retains] == [
                round(lost[alone and h], 2) for h in helpful
            ]


def test_a_head_trained_on_utilities_ranks_the_useful_retain_first_for_other_edits() -> None:
    retriever = Retriever(ENCODER, seed=3)
    pools = POOL.candidates([case.edit for case in TRAIN])
    measured = [
        Utilities(
            case.case_id, tuple(1.0 if helps(retain) else 0.0 for retain in candidates.retains)
        )
        for case, candidates in zip(TRAIN, pools, strict=True)
    ]
    losses = list(train_listwise(retriever, POOL, TRAIN, measured, epochs=8))
    assert losses[-1] < losses[0]
    best = [
        retriever.rank(candidates).retains[0]
        for candidates in POOL.candidates([case.edit for case in TEST])
    ]
    assert sum(map(helps, best)) >= 9
    with pytest.raises(UsageError, match="not those of these"):
        list(train_listwise(retriever, POOL, TRAIN, measured[1:]))
