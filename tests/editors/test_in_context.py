"""The editor with demonstrations: what it shows, in which layout, and what it prunes to respect a token limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from drike.edits.edit import Key
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.prompts import DemonstrationSet, Layout, PromptStyle, Role
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit, ranks_retains
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut, RoleCounts, Selection, SubjectSwitch
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import rewrite_reward, train
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel

CASE = CAPITALS[3]
QUERIES = [probe.query for probe in CASE.probes]
ENCODER = HashingEncoder()
POOL = Pool(CAPITALS, ENCODER)
IKE_ALL = InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike"))
DR_IKE = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.05)))


def words(prompts: Sequence[str]) -> list[int]:
    return [len(prompt.split()) for prompt in prompts]


def test_all_queries_of_an_edit_share_their_demonstrations() -> None:
    for editor in (IKE_ALL, DR_IKE):
        prompts = editor.prompts([CASE.edit], QUERIES)
        assert len({prompt.demonstrations for prompt in prompts}) == 1
        shared = prompts[0].text.removesuffix(QUERIES[0])
        assert all(prompt.text.startswith(shared) for prompt in prompts)


def test_ike_shows_all_32_demonstrations_with_the_nearest_last() -> None:
    selection = IKE_ALL.select([CASE.edit], ["?"])[0]
    [prompt, *_] = IKE_ALL.prompts([CASE.edit], QUERIES)
    assert prompt.demonstrations == tuple(reversed(selection.candidates.demonstrations))
    assert [sum(d.role is role for d in prompt.demonstrations) for role in Role] == [4, 12, 16]


def test_the_append_layout_shows_copies_updates_then_the_best_retains() -> None:
    selection = DR_IKE.select([CASE.edit], ["?"])[0]
    [prompt, *_] = DR_IKE.prompts([CASE.edit], QUERIES)
    roles = [d.role for d in prompt.demonstrations]
    assert roles == [Role.COPY] * 4 + [Role.UPDATE] * 12 + [Role.RETAIN] * selection.k
    assert prompt.demonstrations[16:] == selection.ranking.retains[: selection.k]
    assert prompt.shots == selection.k == DR_IKE.selector.budget.keep(selection.ranking.probs)


def test_bare_retains_lose_only_their_header() -> None:
    bare = InContextEditor(
        "bare", POOL, RankAndCut(Similarity(), Fraction(0.5)), PromptStyle(retain="bare")
    )
    [prompt] = bare.prompts([CASE.edit], QUERIES[:1])
    assert prompt.text.count("New Fact: ") == 4 + 12 + 2
    assert prompt.text.count("Prompt: ") == 4 + 12 + 8 + 2


def test_the_edit_is_stated_once_without_its_own_copy() -> None:
    plain = InContextEditor(
        "plain", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle(own_copy=False)
    )
    [prompt] = plain.prompts([CASE.edit], ["Land3 has the capital"])
    assert prompt.text.count("The capital of Land3 is New3") == 1


@pytest.mark.parametrize("layout", ["append", "ike"])
def test_outcomes_record_what_was_pruned(layout: Layout) -> None:
    pool = Pool(CAPITALS[1:], ENCODER)
    whole = InContextEditor(
        "IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle(layout)
    )
    queries = [probe.query for probe in CAPITALS[0].probes]
    longest = max(words([prompt.text for prompt in whole.prompts([CAPITALS[0].edit], queries)]))
    model = ScriptedModel(lambda prompt: "Oslo")
    for tokens in (longest, longest - 1, longest // 2 + 40, 1):
        limited = InContextEditor(
            "IKE",
            pool,
            RankAndCut(Similarity(), Fraction(1.0)),
            PromptStyle(layout),
            limit=TokenLimit(tokens, words),
        )
        prompts = limited.prompts([CAPITALS[0].edit], queries)
        assert max(words([prompt.text for prompt in prompts])) <= tokens or prompts[0].shots == 1
        assert {prompt.shots + prompt.pruned for prompt in prompts} == {16}
        kept = limited.select([CAPITALS[0].edit], ["?"])[0].ranking.retains[: prompts[0].shots]
        assert {d for d in prompts[0].demonstrations if d.role == "retain"} == set(kept)
        outcomes = list(evaluate(limited, model, [CAPITALS[0]]))
        assert {(outcome.shots, outcome.pruned) for outcome in outcomes} == {
            (prompts[0].shots, prompts[0].pruned)
        }
        choices = (
            EditedModel(model, limited, CAPITALS[0].edit, gate=Named())
            .explain(queries[0])
            .side.retains
        )
        assert sum(choice.kept for choice in choices) >= prompts[0].shots
    assert prompts[0].pruned == 15


def test_training_never_sends_a_prompt_over_the_limit() -> None:
    pool = Pool(CAPITALS[4:], ENCODER)
    asked = ScriptedModel(lambda prompt: "Oslo")
    editor = InContextEditor("DR-IKE", pool, RankAndCut(Retriever(ENCODER), Threshold()))
    free = list(train(editor, rewrite_reward(asked), CAPITALS[:4], epochs=1))
    tokens = sorted(words(asked.prompts))[len(asked.prompts) // 2]
    limited = ScriptedModel(lambda prompt: "Oslo")
    editor = InContextEditor(
        "DR-IKE", pool, RankAndCut(Retriever(ENCODER), Threshold()), limit=TokenLimit(tokens, words)
    )
    reward = rewrite_reward(limited)
    episodes = list(train(editor, reward, CAPITALS[:4], epochs=1))
    assert max(words(limited.prompts)) <= tokens < max(words(asked.prompts))
    assert sum(e.k for e in episodes) < sum(e.k for e in free)


class Alternating:
    """Shows the queries in turn the copies alone and everything; queries of a kind share a selection."""

    trained_on: frozenset[Key] = frozenset({CASE.edit.key})

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        both = [
            Selection(candidates, mix.nearest(candidates))
            for mix in (RoleCounts(4, 0, 0), RoleCounts(4, 12, 16))
        ]
        return [both[i % 2] for i in range(len(queries))]


def test_queries_that_share_a_selection_are_pruned_together_and_all_keep_their_order() -> None:
    queries = ["Who?", "Who?", "Who? " + "very " * 50, "And who is it?", "Why?"]
    free = InContextEditor("alternating", POOL, Alternating())
    whole = free.prompts([CASE.edit], queries)
    assert [len(prompt.demonstrations) for prompt in whole] == [4, 32, 4, 32, 4]
    tokens = words([whole[1].text])[0]
    limited = replace(free, limit=TokenLimit(tokens, words)).prompts([CASE.edit], queries)
    assert [
        prompt.text.endswith(query) for prompt, query in zip(limited, queries, strict=True)
    ] == [True] * 5
    assert limited[1].pruned == limited[3].pruned > 0, "the longer query decides for both"
    assert [prompt.pruned for prompt in limited[::2]] == [0, 0, 0]
    for editor in (free, replace(free, limit=TokenLimit(tokens, words))):
        assert editor.prompts([CASE.edit], []) == []


def test_only_retains_of_a_ranking_are_pruned_and_any_other_demonstration() -> None:
    limit = TokenLimit(1, words)
    [ranked] = replace(IKE_ALL, limit=limit).prompts([CASE.edit], ["Who?"])
    assert (ranked.shots, ranked.pruned, len(ranked.demonstrations)) == (1, 15, 17)
    [chosen] = InContextEditor("all", POOL, RoleCounts(4, 12, 16), limit=limit).prompts(
        [CASE.edit], ["Who?"]
    )
    assert (chosen.pruned, [shown.role for shown in chosen.demonstrations]) == (31, [Role.COPY])


def test_an_editor_was_trained_on_what_its_selector_was_trained_on() -> None:
    assert InContextEditor("alternating", POOL, Alternating()).trained_on == {CASE.edit.key}
    assert IKE_ALL.trained_on == frozenset()
    retriever = Retriever(ENCODER)
    retriever.trained_on = frozenset({CASE.edit.key})
    assert InContextEditor("trained", POOL, RankAndCut(retriever, Fraction())).trained_on == {
        CASE.edit.key
    }


def test_only_an_editor_that_ranks_and_cuts_ranks_retains() -> None:
    assert ranks_retains(IKE_ALL) and ranks_retains(DR_IKE)
    switch = SubjectSwitch(RoleCounts(4, 12, 0), RoleCounts(0, 0, 16))
    for selector in (switch, RoleCounts(4, 12, 0)):
        assert not ranks_retains(InContextEditor("other", POOL, selector))
    assert not ranks_retains(Similarity())


def test_an_edit_given_twice_is_stated_once() -> None:
    for selector in (IKE_ALL.selector, RoleCounts(4, 12, 16)):
        editor = InContextEditor("twice", POOL, selector)
        assert editor.prompts([CASE.edit, CASE.edit], QUERIES) == editor.prompts(
            [CASE.edit], QUERIES
        )
