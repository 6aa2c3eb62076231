"""Rollouts: which retains are tried in which order, and under which prompts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

from benchmarks.lib.credit import every_probe
from benchmarks.lib.draws import renormalised, sampled
from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import loss_of, rewrite_reward, top, train
from tests.fakes.capitals import candidates_of, follows_the_fact, rollout
from tests.fakes.models import ScriptedModel
from tests.fakes.retain_task import CASE, ENCODER, POOL


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@pytest.mark.parametrize(
    "style", [PromptStyle(), PromptStyle("ike"), PromptStyle(own_copy=False, retain="bare")]
)
@pytest.mark.parametrize("limit", [None, TokenLimit(340, count_words)])
def test_an_editor_is_trained_on_exactly_the_prompts_that_it_shows(
    style: PromptStyle, limit: TokenLimit | None
) -> None:
    asked = ScriptedModel(follows_the_fact, scores=False)
    retriever = Retriever(ENCODER, seed=3)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Fraction(1.0)), style, limit)
    for reward, queries in (
        (rewrite_reward(asked), [CASE.edit.query]),
        (every_probe(asked), [probe.query for probe in CASE.probes]),
    ):
        asked.prompts.clear()
        [episode] = train(editor, reward, [CASE], epochs=1, learning_rate=0.0)
        assert (episode.k < 16) == (limit is not None)
        shown: list[str] = []
        for k in range(1, episode.k + 1):
            first_k = InContextEditor(
                "DR-IKE", POOL, RankAndCut(retriever, Fraction(1.0, k)), style, limit
            )
            shown += [prompt.text for prompt in first_k.prompts([CASE.edit], queries)]
        assert asked.prompts == shown
        assert shown[-len(queries) :] == [
            prompt.text for prompt in editor.prompts([CASE.edit], queries)
        ]


def test_prompts_are_nested_and_end_in_the_edits_own_copy_and_query() -> None:
    seen: list[str] = []

    def rule(prompt: str) -> str:
        seen.append(prompt)
        return " Oslo"

    candidates = candidates_of(5)
    rollout(
        ScriptedModel(rule, scores=False),
        candidates,
        torch.log_softmax(torch.arange(5.0), dim=0),
        Threshold(),
    )
    tail = "New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is Oslo\n\n"
    tail += "New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is"
    heads = [prompt.removesuffix(tail) for prompt in seen]
    assert len(heads) == 5 and all(head != prompt for head, prompt in zip(heads, seen, strict=True))
    for shorter, longer in pairwise(heads):
        assert longer.startswith(shorter) and longer != shorter
    assert "Neighbour 4" in heads[0]  # the most probable retain is shown first


def test_sampling_draws_without_replacement_and_stops_below_sigma() -> None:
    model = ScriptedModel(lambda prompt: " Oslo", scores=False)
    log_p = torch.log_softmax(torch.tensor([3.0, 2.0, 1.0, 0.0, -1.0]), dim=0)
    firsts = [0] * 5
    for seed in range(400):
        tried, rewards = rollout(
            model, candidates_of(5), log_p, Threshold(0.08), sampled(random.Random(seed))
        )
        assert sorted(tried.order) == list(range(5))
        firsts[tried.order[0]] += 1
        assert len(rewards.rewards) == tried.k
        assert all(p > 0.08 for p in tried.probs[: tried.k]) or tried.k == 1
    expected = log_p.exp() * 400
    assert all(
        abs(count - e) < 4 * (e + 1) ** 0.5 + 4
        for count, e in zip(firsts, expected.tolist(), strict=True)
    )


def test_renormalised_log_probabilities_equal_those_of_the_draws() -> None:
    log_p = torch.log_softmax(torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64), dim=0)
    model = ScriptedModel(lambda prompt: " Oslo", scores=False)
    tried, rewards = rollout(model, candidates_of(3), log_p, Threshold(), renormalised(top))
    p = log_p.exp()
    expected = -(p[0].log() + (p[1] / (1 - p[0])).log() + 0.0)
    assert loss_of(rewards.rewards, tried.log_p).item() == pytest.approx(expected.item(), abs=1e-9)
