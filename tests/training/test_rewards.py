"""Rewards that see all probes, the credit that retains get for them, and the supervised rival."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from drike.demonstrations import Demonstration
from drike.editors.budgets import Fraction, Threshold, TokenLimit
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.rankers import Similarity
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import Aspect, EditCase
from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.evaluation.evaluate import evaluate
from drike.prompts import PromptStyle
from drike.training.algorithm1 import train
from drike.training.credit import balanced, marginal
from drike.training.rewards import Rewards, Rollout, every_probe, mean_of_aspects, replayed, rewrite_reward
from drike.training.schedules import RewardChannel, at_once, in_blocks, one_by_one
from drike.training.supervised import Utilities, train_listwise, utilities
from tests.worlds.commands import run
from tests.worlds.scripted import LIKELY, UNLIKELY, ScriptedModel
from tests.worlds.small import CAPITALS, follows_the_fact, old_object

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TRAIN, TEST = CAPITALS[:20], CAPITALS[20:30]
CASE = TRAIN[0]


def helps(retain: Demonstration) -> bool:
    return retain.answer == "Old3"


def needs_a_retain(prompt: str) -> str:
    """Answer every question with the new object, unless a demonstration shows that the old object Old3 is kept."""
    *shown, question = prompt.splitlines()
    kept = any(line.startswith("Prompt: ") and line.split()[-1] == "Old3" for line in shown)
    about = shown[-1].split()
    edited = next(word for word in about if word.startswith("Land")) in question.split()
    return old_object(question) if kept and not edited else about[-1]


MODEL = ScriptedModel(needs_a_retain)


def attempt(case: EditCase, kept: int = 16) -> Rollout:
    [pool] = POOL.candidates([case.edit])
    n = len(pool.retains)
    return Rollout(case, pool, tuple(range(n)), (1 / n,) * n, torch.zeros(n), kept, n)


def test_probes_earn_what_evaluation_says_and_a_case_without_others_what_the_paper_rewards() -> None:
    tried = attempt(CASE)
    earned = every_probe(MODEL)(tried)
    assert earned.probes is not None and len(earned.probes) == len(earned.rewards) == 16
    nearest = InContextEditor("nearest", POOL, RankAndCut(Similarity(), Fraction(1.0)))
    right = [one.correct for one in evaluate(nearest, MODEL, [CASE])]
    assert [value > 0 for value in earned.probes[-1]] == right
    alone = EditCase(CASE.case_id, CASE.edit, CASE.probes[:1])
    ours, paper = every_probe(MODEL)(attempt(alone)), rewrite_reward(MODEL)(attempt(alone))
    assert (ours.rewards, ours.correct) == (paper.rewards, paper.correct)
    assert earned.correct == paper.correct


def test_the_reward_rises_where_the_retain_that_neighbours_need_is_added() -> None:
    tried = attempt(CASE)
    first = next(j for j, retain in enumerate(tried.retains) if helps(retain))
    assert every_probe(MODEL)(tried).rewards == (pytest.approx(1 / 3),) * first + (1.0,) * (16 - first)
    assert set(rewrite_reward(MODEL)(tried).rewards) == {1.0}, "the edit's own query does not see it"


def test_aspects_count_alike_whatever_their_number_of_probes_and_absent_ones_not_at_all() -> None:
    values = [1.0, 0.5, -1.0, -1.0, 1.0]
    assert [probe.aspect for probe in CASE.probes[2:]] == [Aspect.NEIGHBORHOOD] * 3
    assert mean_of_aspects(CASE.probes, values) == pytest.approx((1 + 0.5 - 1 / 3) / 3)
    weights = {Aspect.REWRITE: 1.0, Aspect.PARAPHRASE: 0.0, Aspect.NEIGHBORHOOD: 3.0}
    assert mean_of_aspects(CASE.probes, values, weights) == pytest.approx((1 - 3 / 3) / 4)
    assert mean_of_aspects(CASE.probes[:2], values[:2], weights) == 1.0


def test_a_soft_reward_is_the_margin_of_target_and_distractor() -> None:
    earned = every_probe(MODEL, soft=True)(attempt(CASE))
    assert earned.probes is not None
    margin = (LIKELY - UNLIKELY) / (LIKELY + UNLIKELY)
    expected = [
        [margin if right > 0 else -margin for right in row] for row in every_probe(MODEL)(attempt(CASE)).probes or ()
    ]
    assert [list(row) for row in earned.probes] == [pytest.approx(row) for row in expected]
    only_target = EditCase("0", CASE.edit, tuple(type(p)(p.aspect, p.query, p.target) for p in CASE.probes[:2]))
    assert every_probe(MODEL, soft=True)(attempt(only_target)).rewards[0] == pytest.approx(2 * LIKELY - 1)


def test_a_limit_leaves_out_the_prefixes_with_a_prompt_that_is_too_long() -> None:
    def count(texts: Iterable[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    tried = attempt(CASE)
    queries = [probe.query for probe in CASE.probes]
    prompts = [PromptStyle().show(tried.pool, tried.retains[:j], queries) for j in range(1, 17)]
    sixth = max(count(prompt.text for prompt in prompts[5]))
    earned = every_probe(MODEL, limit=TokenLimit(sixth, count))(tried)  # type: ignore[arg-type]
    assert len(earned.rewards) == 6


def channelled(channel: RewardChannel, rows: tuple[tuple[float, ...], ...], kept: int = 16) -> tuple[float, ...]:
    tried = attempt(CASE, kept)
    rewards = tuple(mean_of_aspects(CASE.probes, row) for row in rows)
    [(update, delivered)] = channel(tried, Rewards(rewards, (True,) * len(rows), None, 0.0, rows))
    assert update is tried
    return delivered


def test_balanced_weights_are_the_gradient_of_s_at_the_means_of_the_last_epoch() -> None:
    channel = balanced(2)
    good, bad = (1.0, 1.0, 1.0, 1.0, 1.0), (1.0, 0.0, -0.5, -0.5, -0.5)
    first = channelled(channel, (bad, good), kept=1)
    assert first == (pytest.approx((1 + 0 - 0.5) / 3), 1.0), "the first epoch weighs all alike"
    channelled(channel, (bad, good), kept=2)
    m = {Aspect.REWRITE: 1.0, Aspect.PARAPHRASE: 0.75, Aspect.NEIGHBORHOOD: 0.625}
    w = {aspect: mean**-2 for aspect, mean in m.items()}
    expected = (w[Aspect.REWRITE] - 0.5 * w[Aspect.NEIGHBORHOOD]) / sum(w.values())
    assert channelled(channel, (bad, good)) == (pytest.approx(expected), pytest.approx(1.0))
    with pytest.raises(UsageError, match="every_probe"):
        list(channel(attempt(CASE), Rewards((1.0,), (True,), None, 0.0)))


def test_an_aspect_that_is_always_wrong_weighs_at_most_a_hundred_times_another() -> None:
    channel = balanced(1)
    row = (1.0, 1.0, -1.0, -1.0, -1.0)
    channelled(channel, (row,))
    assert channelled(channel, (row,)) == (pytest.approx((2 - 100) / 102),)


def test_marginal_credit_adds_up_to_what_the_longest_prefix_earned() -> None:
    earned = every_probe(MODEL)(attempt(CASE))
    [(_, credit)] = marginal()(attempt(CASE), earned)
    assert credit[0] == earned.rewards[0] and math.fsum(credit) == pytest.approx(earned.rewards[-1])
    assert sum(value != 0 for value in credit[1:]) == 1, "only the retain that neighbours need earns anything"


@pytest.mark.parametrize("channel", [at_once, marginal()])
def test_only_a_reward_that_sees_neighbours_teaches_the_retain_that_they_need(channel: RewardChannel) -> None:
    def rank_of_help(reward: str) -> float:
        retriever = Retriever(ENCODER, seed=3)
        made = every_probe(MODEL) if reward == "probes" else rewrite_reward(MODEL)
        editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Fraction(1.0)))
        for _ in train(editor, made, TRAIN, epochs=3, learning_rate=1e-3, channel=channel):
            pass
        places = []
        for candidates in POOL.candidates([case.edit for case in TEST]):
            ranked = retriever.rank(candidates).retains
            places += [j for j, retain in enumerate(ranked) if helps(retain)][:1]
        return sum(places) / len(places)

    assert rank_of_help("probes") < 0.6 * rank_of_help("rewrite")


def test_training_on_balanced_marginal_rewards_resumes_bit_for_bit_and_in_blocks() -> None:
    def learned(past: int, schedule: object = one_by_one) -> tuple[torch.Tensor, list[object]]:
        retriever = Retriever(ENCODER, seed=3)
        records = list(recorded[:past])
        editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold()))
        episodes = list(
            train(
                editor, replayed(records, every_probe(MODEL)), TRAIN[:6], epochs=3, learning_rate=1e-2,
                channel=balanced(6, marginal()), schedule=schedule,  # type: ignore[arg-type]
            )
        )  # fmt: skip
        return retriever.head.weight.detach().clone(), [(e.order, e.rewards, e.probes, e.budget) for e in episodes]

    from drike.runs.folder import EpisodeRecord

    recorded: list[object] = []
    retriever = Retriever(ENCODER, seed=3)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold()))
    channel = balanced(6, marginal())
    for episode in train(editor, every_probe(MODEL), TRAIN[:6], epochs=3, learning_rate=1e-2, channel=channel):
        recorded.append(EpisodeRecord.of(episode).rollout)
    whole, episodes = learned(0)
    for past in (1, 6, 11, 18):
        weight, again = learned(past)
        assert torch.equal(weight, whole) and again == episodes
    one, two = learned(0, in_blocks(3)), learned(0, in_blocks(3, 4))
    assert torch.equal(one[0], two[0]) and one[1] == two[1]


def test_a_run_with_other_rewards_is_recorded_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "2")
    options = ("--reward", "balanced", "--credit", "marginal", "--soft")
    assert run(*words, *options, "--out", str(tmp_path / "run")) == 0
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert len(lines) == 8 and all(len(json.loads(line)["probes"]) == json.loads(line)["k"] for line in lines)
    (tmp_path / "run" / "episodes.jsonl").write_text("\n".join(lines[:5]) + "\n")
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    assert run("train", "--resume", str(tmp_path / "run")) == 0
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before
    capsys.readouterr()
    assert run(*words, "--soft", "--out", str(tmp_path / "no")) == 2
    assert "--reward probes" in capsys.readouterr().err
    assert run(*words, "--reward", "probes", "--stop-on-flip", "--out", str(tmp_path / "no")) == 2
    assert "--stop-on-flip" in capsys.readouterr().err


def test_soft_rewards_of_a_model_without_scores_are_refused_and_hard_ones_work() -> None:
    written = ScriptedModel(follows_the_fact, scores=False)
    with pytest.raises(UsageError, match="gives none: leave --soft out"):
        every_probe(written, soft=True)
    assert (
        every_probe(written)(attempt(CASE)).probes == every_probe(ScriptedModel(follows_the_fact))(attempt(CASE)).probes
    )


def test_the_utility_of_a_retain_is_what_is_lost_without_it() -> None:
    for soft in (False, True):
        for case, found in zip(TRAIN[:5], utilities(MODEL, POOL, TRAIN[:5], soft=soft), strict=True):
            [candidates] = POOL.candidates([case.edit])
            helpful = [helps(retain) for retain in candidates.retains]
            alone = sum(helpful) == 1
            lost = {True: 2 / 3, False: 0.0}
            assert [round(u, 2) for u in found.of_retains] == [round(lost[alone and h], 2) for h in helpful]


def test_a_head_trained_on_utilities_ranks_the_useful_retain_first_for_other_edits() -> None:
    retriever = Retriever(ENCODER, seed=3)
    pools = POOL.candidates([case.edit for case in TRAIN])
    measured = [
        Utilities(case.case_id, tuple(1.0 if helps(retain) else 0.0 for retain in one.retains))
        for case, one in zip(TRAIN, pools, strict=True)
    ]
    losses = list(train_listwise(retriever, POOL, TRAIN, measured, epochs=8))
    assert losses[-1] < losses[0]
    first = [retriever.rank(one).retains[0] for one in POOL.candidates([case.edit for case in TEST])]
    assert sum(map(helps, first)) >= 9
    with pytest.raises(UsageError, match="not those of these"):
        list(train_listwise(retriever, POOL, TRAIN, measured[1:]))
