"""Laws of every selector, of a selection, and of one selection for several edits in force."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drike.edits.edit import trained_on
from drike.encoders import HashingEncoder
from drike.prompts import DemonstrationSet, Prompt, Role
from drike.research.editors.budgets import Fraction, SameCount, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import (
    LeaveAlone,
    RankAndCut,
    RoleCounts,
    SameSize,
    Selection,
    Selector,
    SubjectSwitch,
    merge,
)
from tests.fakes.capitals import CAPITALS

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[10:], ENCODER)
CASES = CAPITALS[:5]
EDITS = [case.edit for case in CASES]
SWITCH = SubjectSwitch(RoleCounts(4, 12, 0), RoleCounts(0, 0, 16))
ALONE = SubjectSwitch(RoleCounts(4, 12, 0))


RANKED: list[RankAndCut] = [
    RankAndCut(Similarity(), Fraction(1.0)),
    RankAndCut(Retriever(ENCODER), Threshold(0.0625)),
    RankAndCut(Similarity(), SameCount(Retriever(ENCODER), Threshold(0.0625))),
]
SELECTORS: list[Selector] = [
    *RANKED, RoleCounts(0, 0, 0), RoleCounts(4, 12, 16),
    RoleCounts(2, 0, 99), SWITCH, SameSize(SWITCH), ALONE, SameSize(ALONE), LeaveAlone(),
]  # fmt: skip


def name_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("selector", SELECTORS, ids=name_of)
def test_each_query_gets_a_selection_of_the_candidates_that_depends_on_no_other_query(
    selector: Selector,
) -> None:
    for case, candidates in zip(CASES, POOL.candidates(EDITS), strict=True):
        queries = [*(probe.query for probe in case.probes), "The colour of the sky is"]
        selections = selector.select(candidates, queries)
        assert len(selections) == len(queries)
        for query, selection in zip(queries, selections, strict=True):
            assert selection.candidates == candidates and selection.pruned == 0
            assert len({*selection.shown}) == len(selection.shown)
            assert {*selection.shown} <= {*candidates.demonstrations}
            assert selector.select(candidates, [query]) == [selection]
        assert selector.select(candidates, queries[::-1]) == selections[::-1]
        assert selector.select(candidates, []) == []


@pytest.mark.parametrize("selector", SELECTORS, ids=name_of)
def test_a_selection_counts_its_retains_and_loses_its_last_demonstrations(
    selector: Selector,
) -> None:
    [candidates] = POOL.candidates(EDITS[:1])
    for selection in selector.select(candidates, [probe.query for probe in CASES[0].probes]):
        assert selection.kept == tuple(d for d in selection.shown if d.role is Role.RETAIN)
        assert selection.k == len(selection.kept)
        assert selection.prunable == (
            len(selection.shown) if selection.ranking is None else selection.k
        )
        assert selection.without_last(0) == selection
        for count in range(selection.prunable + 1):
            pruned = selection.without_last(count)
            assert pruned.shown == selection.shown[: len(selection.shown) - count]
            assert (pruned.pruned, pruned.prunable) == (count, selection.prunable - count)
            assert (pruned.candidates, pruned.ranking) == (candidates, selection.ranking)


@pytest.mark.parametrize("selector", RANKED, ids=lambda selector: name_of(selector.budget))
def test_ranking_and_cutting_shows_copies_updates_and_the_best_retains_to_all_queries(
    selector: RankAndCut,
) -> None:
    for candidates in POOL.candidates(EDITS):
        first, second = selector.select(candidates, ["Who?", "Where?"])
        assert first is second, "queries share it, so that a limit prunes it once"
        ranking = selector.ranker.rank(candidates)
        k = selector.budget.keep(ranking.probs, candidates)
        assert first == Selection.of_ranking(candidates, ranking, k)
        assert first.shown == (*candidates.fixed, *ranking.retains[:k])


@pytest.mark.parametrize("selector", SELECTORS[len(RANKED) :], ids=name_of)
def test_other_selectors_rank_nothing_and_give_each_query_a_selection_of_its_own(
    selector: Selector,
) -> None:
    [candidates] = POOL.candidates(EDITS[:1])
    first, second = selector.select(candidates, ["Who?", "Who?"])
    assert first == second and first is not second
    assert first.ranking is None


@pytest.mark.parametrize("selector", SELECTORS, ids=name_of)
def test_several_edits_share_a_selection_as_long_as_that_of_one(selector: Selector) -> None:
    queries = [probe.query for probe in CASES[0].probes]
    selections = InContextEditor("", POOL, selector).select(EDITS, queries)
    of_each = [selector.select(candidates, queries) for candidates in POOL.together(EDITS)]
    for selection, *parts in zip(selections, *of_each, strict=True):
        assert selection == merge(parts)
        assert selection.candidates.edits == tuple(EDITS)
        assert {*selection.shown} <= {*selection.candidates.demonstrations}
        similarities = selection.candidates.similarities
        assert list(similarities) == sorted(similarities, reverse=True)
        for role in Role:
            counts = [
                sum(d.role is role for d in part.shown) for part in parts if not part.alone
            ] or [0]
            assert sum(d.role is role for d in selection.shown) <= -(-sum(counts) // len(counts))
        assert (selection.ranking is None) == (parts[0].ranking is None)
        if selection.ranking is not None:
            assert selection.kept == selection.ranking.retains[: selection.k]
            assert selection.ranking.retains == tuple(
                selection.candidates.retains[i] for i in selection.ranking.order
            )


@pytest.mark.parametrize("selector", SELECTORS, ids=name_of)
def test_for_one_edit_nothing_is_merged(selector: Selector) -> None:
    [candidates] = POOL.candidates(EDITS[:1])
    selections = InContextEditor("", POOL, selector).select(EDITS[:1], ["Who?", "Where?"])
    assert selections == selector.select(candidates, ["Who?", "Where?"])


class Pairs:
    """Two queries in turn share a selection."""

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """One selection for the first two queries, one for the next two, and so on."""
        shared = [
            Selection(candidates, RoleCounts(4, 0, 0).nearest(candidates)) for _ in queries[::2]
        ]
        return [shared[i // 2] for i in range(len(queries))]


@pytest.mark.parametrize("count", [1, 3])
def test_queries_that_share_the_selection_of_every_edit_share_the_merged_one(count: int) -> None:
    first, second, third, fourth = InContextEditor("", POOL, Pairs()).select(
        EDITS[:count], ["a", "b", "c", "d"]
    )
    assert first is second and third is fourth and first is not third


def test_a_query_is_left_alone_only_if_every_edit_leaves_it_alone() -> None:
    editor = InContextEditor("by name", POOL, ALONE)
    named = [edit.query for edit in EDITS[:2]]
    [first, second, neither] = editor.prompts(EDITS[:2], [*named, "Who?"])
    assert neither == Prompt("Who?")
    for prompt, query in ((first, named[0]), (second, named[1])):
        assert all(edit.fact in prompt.text for edit in EDITS[:2]) and prompt.text.endswith(query)
        assert len(prompt.demonstrations) == 16


def test_a_ranked_selection_and_another_are_merged_without_a_ranking() -> None:
    one, other = POOL.together(EDITS[:2])
    [ranked], [chosen] = (
        RANKED[0].select(one, ["Who?"]),
        RoleCounts(4, 12, 16).select(other, ["Who?"]),
    )
    assert merge([ranked, ranked]).ranking is not None
    assert merge([ranked, chosen]).ranking is None


def test_a_control_was_trained_on_what_its_parts_were_trained_on() -> None:
    retriever, other = Retriever(ENCODER), Retriever(ENCODER)
    retriever.trained_on, other.trained_on = frozenset({("a", "b")}), frozenset({("c", "d")})
    nearest = RankAndCut(Similarity(), SameCount(retriever, Threshold()))
    assert trained_on(nearest, SameSize(RankAndCut(other, Threshold())), SWITCH) == {
        ("a", "b"),
        ("c", "d"),
    }
