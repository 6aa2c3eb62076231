"""Ceilings: laws of choices in hindsight and of the greedy search."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from zlib import crc32

import numpy as np
import pytest

from benchmarks.lib.ceilings import (
    ALL,
    MOST,
    AnswerMatrix,
    RetainSubset,
    ceilings,
    ceilings_table,
    hindsight_answers,
    mixes_of,
    random_subsets,
)
from benchmarks.lib.seeds import measured
from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.encoders import HashingEncoder
from drike.prompts import Role
from drike.research.editors.catalog import make
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RoleCounts, SameSize, SubjectSwitch
from drike.research.evaluation.case_answers import CaseAnswers, answers_under
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import summarise
from drike.support.table import as_text
from tests.fakes.capitals import CAPITALS, old_object
from tests.fakes.models import ScriptedModel

pytestmark = pytest.mark.slow
POOL = Pool(
    CAPITALS[30:], HashingEncoder(), roles=((Role.COPY, 2), (Role.UPDATE, 2), (Role.RETAIN, 6))
)
TEST = CAPITALS[20:28]
MIXES = mixes_of(POOL.roles)
CHOICES = [*MIXES, *random_subsets(6, 8, seed=0)]


def moody(prompt: str) -> str:
    """Keep the old object after some texts and take the new one after others, as a hash of the text decides."""
    fact, question = prompt.splitlines()[-2:]
    return old_object(question) if crc32(prompt.encode()) % 3 else fact.split()[-1]


MODEL = ScriptedModel(moody)


@pytest.fixture(scope="module")
def answers() -> list[CaseAnswers]:
    return list(hindsight_answers(CHOICES, MODEL, POOL, TEST))


def test_more_freedom_in_hindsight_never_lowers_s(answers: list[CaseAnswers]) -> None:
    answered = AnswerMatrix.of(TEST, answers)
    s = {name: answered.score(chosen) for name, chosen in ceilings(answered, CHOICES, POOL).items()}
    for lower, higher in (
        (ALL, "best k of all edits"), ("best k of all edits", "best k per edit"), ("best k per edit", MOST),
        ("best k of all edits", "best k per kind of query"), ("best k per kind of query", MOST),
        (MOST, "best mix per query"), ("best mix per kind of query", "best mix per query"),
        ("best of 8 random subsets per edit", "best of all these subsets per edit"),
        ("greedy subset per edit", "best of all these subsets per edit"),
    ):  # fmt: skip
        assert s[lower] <= s[higher], (lower, higher)
    assert (
        s[ALL] < s["best k per edit"] < s["best of all these subsets per edit"]
        and s[MOST] < s["best mix per query"]
    )


def test_the_best_choice_per_query_is_the_maximum_over_all_choices() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        right = rng.integers(0, 2, size=(6, 3)).astype(float)
        aspect, case = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
        answered = AnswerMatrix(right, right, ASPECTS_OF_S, aspect, case, ("a", "b"))
        most = max(answered.score(np.array(chosen)) for chosen in product(range(3), repeat=6))
        assert answered.score(answered.best(np.arange(6), range(3))) == pytest.approx(most)
        best = answered.score(answered.best(case, range(3)))
        assert max(answered.score(answered.always(i)) for i in range(3)) <= best <= most


def test_s_of_a_fixed_choice_is_that_of_an_evaluation(answers: list[CaseAnswers]) -> None:
    answered = AnswerMatrix.of(TEST, answers)
    for k in (1, 2, 4):
        [column] = [i for i, mix in enumerate(MIXES) if mix == RoleCounts(2, 2, k)]
        found = answered.measured(answered.always(column))
        summary = summarise(list(evaluate(make(f"nearest@{k}", pool=POOL), MODEL, TEST)))
        assert found.s == summary.s
        assert list(found.rates.values()) == pytest.approx(
            [summary.esr.value, summary.pc.value, summary.rr.value]
        )


def test_an_edit_that_several_seeds_test_is_one_case(answers: list[CaseAnswers]) -> None:
    seeds = [
        AnswerMatrix.of(TEST[::step], answers[::step]) for step in (1, -1)
    ]  # the same edits in another order
    for column in range(len(CHOICES)):
        alone, *both = (
            [(seed, seed.always(column)) for seed in some] for some in (seeds[:1], seeds, seeds * 2)
        )
        [(matrix, chosen)] = alone
        assert all(measured(found) == measured(alone) == matrix.measured(chosen) for found in both)


def test_greedy_search_ends_where_no_single_change_answers_more(answers: list[CaseAnswers]) -> None:
    def share(case: CaseAnswers, column: int) -> float:
        right = [row[column] for row in case.correct]
        return (
            right[0] + right[1] + sum(right[2:]) / len(right[2:])
        ) / 3  # a rewrite, a paraphrase, neighbours

    starts = [i for i, mix in enumerate(MIXES) if (mix.copies, mix.updates) == (2, 2)]
    every = [
        RetainSubset(frozenset(i for i in range(6) if number >> i & 1)) for number in range(64)
    ]
    by_case = dict(
        zip([case.case_id for case in TEST], answers_under(every, MODEL, POOL, TEST), strict=True)
    )
    gained = 0
    for case in answers:
        found, best_k, all_of_them = (
            share(case, -1),
            max(share(case, i) for i in starts),
            by_case[case.case_id],
        )
        assert best_k <= found <= max(share(all_of_them, i) for i in range(64))
        gained += found > best_k
        ends = [
            i
            for i in range(64)
            if [row[i] for row in all_of_them.correct] == [row[-1] for row in case.correct]
        ]
        assert any(all(share(all_of_them, i ^ 1 << j) <= found for j in range(6)) for i in ends)
    assert gained


def test_an_aspect_that_no_edit_probes_counts_for_nothing() -> None:
    cases = [
        replace(case, probes=tuple(p for p in case.probes if p.aspect is not Aspect.PARAPHRASE))
        for case in TEST
    ]
    answered = AnswerMatrix.of(cases, list(answers_under(CHOICES, MODEL, POOL, cases)))
    found = {
        name: answered.measured(one) for name, one in ceilings(answered, CHOICES, POOL).items()
    }
    table = ceilings_table(found, "lands")
    assert table.notes[-1].startswith("No test edit has a paraphrase probe") and {
        as_text(row[3]) for row in table.rows
    } == {"n/a"}
    assert "greedy subset per edit" not in found and found[MOST].s.value


def test_a_subset_of_the_retains_has_them_by_nearness() -> None:
    [candidates] = POOL.candidates([TEST[0].edit])
    [selection] = RetainSubset(frozenset({5, 0, 2})).select(candidates, ["Who?"])
    assert selection.shown == (
        *candidates.fixed,
        *(candidates.retains[place] for place in (0, 2, 5)),
    )


def test_random_subsets_are_different_and_the_same_for_a_seed() -> None:
    assert len({*random_subsets(16, 100, 0)}) == 100 and random_subsets(16, 9, 0) == random_subsets(
        16, 9, 0
    )
    assert {*random_subsets(2, 100, 0)} == {
        RetainSubset(frozenset(one)) for one in ((), (0,), (1,), (0, 1))
    }


def test_the_control_of_a_policy_shows_as_many_demonstrations_and_the_nearest() -> None:
    few, many = RoleCounts(0, 1, 0), RoleCounts(2, 0, 4)
    editor = InContextEditor("control", POOL, SameSize(SubjectSwitch(few, many)))
    for case in TEST:
        [candidates] = POOL.candidates([case.edit])
        for probe, prompt in zip(
            case.probes, editor.prompts([case.edit], [p.query for p in case.probes]), strict=True
        ):
            mix = few if probe.aspect is not Aspect.NEIGHBORHOOD else many
            assert {*prompt.demonstrations} == {*candidates.demonstrations[: mix.size]}
