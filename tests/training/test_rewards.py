"""Rewards: of the edit's own query as in the paper, and of all probes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from benchmarks.lib.credit import every_probe, mean_of_aspects
from benchmarks.lib.draws import stopped_at_flip
from drike.edits.edit import Aspect, EditCase
from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import Reward, rewrite_reward, train
from tests.fakes.capitals import candidates_of, follows_the_fact, rollout
from tests.fakes.models import ScriptedModel
from tests.fakes.retain_task import CASE, ENCODER, MODEL, POOL, TEST, TRAIN, helps, rollout_of


def test_rewards_of_probes_are_what_evaluation_says_and_without_other_probes_the_papers() -> None:
    rollout = rollout_of(CASE)
    rewards = every_probe(MODEL)(rollout)
    assert rewards.probes is not None and len(rewards.probes) == len(rewards.rewards) == 16
    nearest = InContextEditor("nearest", POOL, RankAndCut(Similarity(), Fraction(1.0)))
    right = [outcome.correct for outcome in evaluate(nearest, MODEL, [CASE])]
    assert [value > 0 for value in rewards.probes[-1]] == right
    alone = EditCase(CASE.case_id, CASE.edit, CASE.probes[:1])
    ours, paper = every_probe(MODEL)(rollout_of(alone)), rewrite_reward(MODEL)(rollout_of(alone))
    assert (ours.rewards, ours.correct) == (paper.rewards, paper.correct)
    assert rewards.correct == paper.correct


def test_the_reward_rises_where_the_retain_that_neighbours_need_is_added() -> None:
    rollout = rollout_of(CASE)
    first = next(j for j, i in enumerate(rollout.order) if helps(rollout.pool.retains[i]))
    assert every_probe(MODEL)(rollout).rewards == (pytest.approx(1 / 3),) * first + (1.0,) * (
        16 - first
    )
    assert set(rewrite_reward(MODEL)(rollout).rewards) == {1.0}, (
        "the edit's own query does not see it"
    )


def test_aspects_count_alike_whatever_their_number_of_probes() -> None:
    values = [1.0, 0.5, -1.0, -1.0, 1.0]
    assert [probe.aspect for probe in CASE.probes[2:]] == [Aspect.NEIGHBORHOOD] * 3
    assert mean_of_aspects(CASE.probes, values) == pytest.approx((1 + 0.5 - 1 / 3) / 3)
    assert mean_of_aspects(CASE.probes[:2], values[:2]) == pytest.approx((1 + 0.5) / 2)


def test_a_limit_leaves_out_the_prefixes_with_a_prompt_that_is_too_long() -> None:
    def count(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    rollout = rollout_of(CASE)
    queries, retains = (
        [probe.query for probe in CASE.probes],
        [rollout.pool.retains[i] for i in rollout.order],
    )
    prompts = [PromptStyle().show(rollout.pool, retains[:j], queries) for j in range(1, 17)]
    sixth = max(count([prompt.text for prompt in prompts[5]]))
    rewards = every_probe(MODEL)(rollout_of(CASE, limit=TokenLimit(sixth, count)))
    assert len(rewards.rewards) == 6


def test_only_a_reward_that_sees_neighbours_teaches_the_retain_that_they_need() -> None:
    def rank_of_help(reward: Reward) -> float:
        retriever = Retriever(ENCODER, seed=3)
        editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Fraction(1.0)))
        for _ in train(editor, reward, TRAIN, epochs=3, learning_rate=1e-3):
            pass
        places = []
        for candidates in POOL.candidates([case.edit for case in TEST]):
            ranked = retriever.rank(candidates).retains
            places += [j for j, retain in enumerate(ranked) if helps(retain)][:1]
        return sum(places) / len(places)

    assert rank_of_help(every_probe(MODEL)) < 0.6 * rank_of_help(rewrite_reward(MODEL))


def test_stop_on_flip_evaluates_nothing_after_the_flip() -> None:
    def rule(prompt: str) -> str:
        return " Oslo" if prompt.count("Neighbour") < 3 else " Lima"

    log_p = torch.log_softmax(torch.arange(8.0), dim=0)
    tried, went_on = rollout(
        ScriptedModel(rule, scores=False), candidates_of(8), log_p, Threshold()
    )
    stopped = stopped_at_flip(ScriptedModel(rule, scores=False))(tried)
    assert stopped.rewards == (1, 1, -1)
    assert went_on.rewards == (1, 1, -1, -1, -1, -1, -1, -1)
    assert all(
        Threshold().after(tried.probs, rewards.rewards).sigma == tried.probs[2]
        for rewards in (stopped, went_on)
    )


def test_text_and_scores_give_the_same_rewards() -> None:
    written, scored = ScriptedModel(follows_the_fact, scores=False), ScriptedModel(follows_the_fact)
    assert (
        every_probe(written)(rollout_of(CASE)).probes
        == every_probe(scored)(rollout_of(CASE)).probes
    )
