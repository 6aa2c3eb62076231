"""What the learner gets for rewards of all probes: weights from the gradient of S, marginal credit, soft rewards."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.lib.credit import every_probe, marginal, mean_of_aspects, s_weighted, weighted_mean
from benchmarks.lib.soft import soft_probes
from drike.edits.edit import Aspect, EditCase
from drike.errors import UsageError
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import (
    RewardChannel,
    Rewards,
    Schedule,
    in_blocks,
    one_by_one,
    replayed,
    train,
)
from tests.fakes.capitals import follows_the_fact
from tests.fakes.models import LIKELY, UNLIKELY, ScriptedModel
from tests.fakes.retain_task import CASE, ENCODER, MODEL, POOL, TEST, TRAIN, helps, rollout_of

pytestmark = pytest.mark.slow  # no command reaches what these test


def channelled(
    channel: RewardChannel, rows: tuple[tuple[float, ...], ...], kept: int = 16
) -> tuple[float, ...]:
    rollout = rollout_of(CASE, kept)
    rewards = tuple(mean_of_aspects(CASE.probes, row) for row in rows)
    [(update, delivered)] = channel(rollout, Rewards(rewards, (True,) * len(rows), None, 0.0, rows))
    assert update is rollout
    return delivered


def test_weights_are_the_gradient_of_s_at_the_means_of_the_last_epoch() -> None:
    channel = s_weighted(2)
    good, bad = (1.0, 1.0, 1.0, 1.0, 1.0), (1.0, 0.0, -0.5, -0.5, -0.5)
    first = channelled(channel, (bad, good), kept=1)
    assert first == (pytest.approx((1 + 0 - 0.5) / 3), 1.0), "the first epoch weighs all alike"
    channelled(channel, (bad, good), kept=2)
    m = {Aspect.REWRITE: 1.0, Aspect.PARAPHRASE: 0.75, Aspect.NEIGHBORHOOD: 0.625}
    w = {aspect: mean**-2 for aspect, mean in m.items()}
    expected = (w[Aspect.REWRITE] - 0.5 * w[Aspect.NEIGHBORHOOD]) / sum(w.values())
    assert channelled(channel, (bad, good)) == (pytest.approx(expected), pytest.approx(1.0))
    with pytest.raises(UsageError, match="every_probe"):
        list(channel(rollout_of(CASE), Rewards((1.0,), (True,), None, 0.0)))


def test_an_aspect_that_is_always_wrong_weighs_at_most_a_hundred_times_another() -> None:
    channel = s_weighted(1)
    row = (1.0, 1.0, -1.0, -1.0, -1.0)
    channelled(channel, (row,))
    assert channelled(channel, (row,)) == (pytest.approx((2 - 100) / 102),)


def test_absent_aspects_weigh_nothing() -> None:
    values = [1.0, 0.5, -1.0, -1.0, 1.0]
    weights = {Aspect.REWRITE: 1.0, Aspect.PARAPHRASE: 0.0, Aspect.NEIGHBORHOOD: 3.0}
    assert weighted_mean(CASE.probes, values, weights) == pytest.approx((1 - 3 / 3) / 4)
    assert weighted_mean(CASE.probes[:2], values[:2], weights) == 1.0


def test_marginal_credit_adds_up_to_the_reward_of_the_longest_prefix() -> None:
    rewards = every_probe(MODEL)(rollout_of(CASE))
    [(_, credit)] = marginal()(rollout_of(CASE), rewards)
    assert credit[0] == rewards.rewards[0] and math.fsum(credit) == pytest.approx(
        rewards.rewards[-1]
    )
    assert sum(value != 0 for value in credit[1:]) == 1, (
        "only the retain that neighbours need is rewarded"
    )


def test_marginal_credit_teaches_the_retain_that_neighbours_need() -> None:
    def rank_of_help(retriever: Retriever) -> float:
        places = []
        for candidates in POOL.candidates([case.edit for case in TEST]):
            places += [
                j for j, retain in enumerate(retriever.rank(candidates).retains) if helps(retain)
            ][:1]
        return sum(places) / len(places)

    retriever = Retriever(ENCODER, seed=3)
    before = rank_of_help(retriever)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Fraction(1.0)))
    for _ in train(
        editor, every_probe(MODEL), TRAIN, epochs=3, learning_rate=1e-3, channel=marginal()
    ):
        pass
    assert rank_of_help(retriever) < 0.6 * before


def test_training_on_weighted_marginal_rewards_resumes_bit_for_bit_and_in_blocks() -> None:
    def learned(past: int, schedule: Schedule = one_by_one) -> tuple[torch.Tensor, list[object]]:
        retriever, reward = Retriever(ENCODER, seed=3), replayed(records[:past], every_probe(MODEL))
        editor, channel = (
            InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold())),
            s_weighted(6, marginal()),
        )
        episodes = []
        for episode in train(
            editor,
            reward,
            TRAIN[:6],
            epochs=3,
            learning_rate=1e-2,
            channel=channel,
            schedule=schedule,
        ):
            episodes.append((episode.order, episode.rewards, episode.probes, episode.budget))
            recorded.append(episode)
        return retriever.head.weight.detach().clone(), episodes

    records, recorded = [], []  # type: ignore[var-annotated]
    whole, episodes = learned(0)
    records = recorded[:]
    for past in (1, 6, 11, 18):
        weight, again = learned(past)
        assert torch.equal(weight, whole) and again == episodes
    alone, threaded = learned(0, in_blocks(3)), learned(0, in_blocks(3, 4))
    assert torch.equal(alone[0], threaded[0]) and alone[1] == threaded[1]


def test_a_soft_reward_is_the_margin_of_target_and_distractor() -> None:
    soft, hard = soft_probes(MODEL)(rollout_of(CASE)), every_probe(MODEL)(rollout_of(CASE))
    assert soft.probes is not None and soft.correct == hard.correct
    margin = (LIKELY - UNLIKELY) / (LIKELY + UNLIKELY)
    expected = [[margin if right > 0 else -margin for right in row] for row in hard.probes or ()]
    assert [list(row) for row in soft.probes] == [pytest.approx(row) for row in expected]
    only_target = EditCase(
        "0", CASE.edit, tuple(type(p)(p.aspect, p.query, p.target) for p in CASE.probes[:2])
    )
    assert soft_probes(MODEL)(rollout_of(only_target)).rewards[0] == pytest.approx(2 * LIKELY - 1)
    with pytest.raises(UsageError, match="gives none"):
        soft_probes(ScriptedModel(follows_the_fact, scores=False))
