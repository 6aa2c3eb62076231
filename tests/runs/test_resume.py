"""Stopped and resumed runs end like uninterrupted ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lib.draws import sampled
from benchmarks.lib.feedback import disturbed
from drike.encoders import HashingEncoder
from drike.errors import ReplayError, RunError
from drike.research.editors.budgets import Budget, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.runs.files import append, keep_lines, read_lines
from drike.research.training.algorithm1 import (
    Episode,
    EpisodeRecord,
    in_blocks,
    replayed,
    rewrite_reward,
    top,
    train,
)
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[6:], ENCODER)
CASES = CAPITALS[:6]
SETTINGS = {
    "as in the paper": (Threshold(), "top", (0, 0.0), 1),
    "drawn": (Threshold(), "sample", (0, 0.0), 1),
    "late and false rewards": (Threshold(), "top", (3, 0.3), 1),
    "blocks of edits, drawn": (Threshold(), "sample", (2, 0.2), 4),
}


def moody(prompt: str) -> str:
    """Answer right on some prompts and wrong on others."""
    return follows_the_fact(prompt) if len(prompt) % 3 else "?"


def run(
    name: str, past: Sequence[EpisodeRecord]
) -> tuple[list[Episode], list[torch.Tensor], Budget, int]:
    """Return episodes without their seconds, the head, the budget, and the number of prompts sent."""
    budget, selection, (delay, noise), block = SETTINGS[name]
    model, retriever = ScriptedModel(moody), Retriever(ENCODER, seed=1)
    episodes = list(
        train(
            InContextEditor("DR-IKE", POOL, RankAndCut(retriever, budget)),
            replayed(past, rewrite_reward(model)), CASES,
            epochs=3, learning_rate=1e-2,
            choose=sampled(random.Random(5), apart=block > 1) if selection == "sample" else top,
            schedule=in_blocks(block), channel=disturbed(delay, noise, episodes=3 * len(CASES), seed=5),
        )
    )  # fmt: skip
    head = [weight.detach().clone() for weight in retriever.head.parameters()]
    return (
        [replace(episode, seconds=0.0) for episode in episodes],
        head,
        episodes[-1].budget,
        len(model.prompts),
    )


@cache
def whole_run() -> list[Episode]:
    return run("as in the paper", [])[0]


@pytest.mark.parametrize("name", SETTINGS)
def test_training_resumes_bit_for_bit_from_any_episode(name: str) -> None:
    whole, head, budget, asked = run(name, [])
    for done in (1, 5, 6, 11, 17, 18):
        again, other, after, paid = run(name, whole[:done])
        assert [replace(e, budget=Threshold()) for e in again] == [
            replace(e, budget=Threshold()) for e in whole
        ]
        assert all(torch.equal(a, b) for a, b in zip(head, other, strict=True))
        if isinstance(budget, Threshold):
            assert after == budget
        else:
            assert torch.equal(after.weights, budget.weights)  # type: ignore[attr-defined]
        assert paid == asked - sum(episode.k for episode in whole[:done])


def test_resuming_with_records_of_another_training_is_refused() -> None:
    past = whole_run()[:4]
    with pytest.raises(ReplayError, match="edit 0 stands where edit 1"):
        run("as in the paper", [past[0], past[0]])
    with pytest.raises(ReplayError, match="other retains"):
        run("as in the paper", [*past[:3], replace(past[3], order=past[3].order[::-1])])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5000))
def test_a_record_file_cut_anywhere_gives_its_complete_episodes(
    tmp_path_factory: pytest.TempPathFactory, at: int
) -> None:
    folder, whole = tmp_path_factory.mktemp("run"), whole_run()
    path = folder / "episodes.jsonl"
    append(path, (episode.record for episode in whole[:5]))
    content = path.read_bytes()
    path.write_bytes(content[: at % (len(content) + 1)])
    rollouts = read_lines(path, EpisodeRecord, "train again")
    assert rollouts == [EpisodeRecord(**episode.record) for episode in whole[: len(rollouts)]]
    assert len(rollouts) == content[: at % (len(content) + 1)].count(b"\n")
    keep_lines(path, len(rollouts))
    append(path, [whole[5].record])
    assert [record.case_id for record in read_lines(path, EpisodeRecord, "train again")] == [
        known.case_id for known in (*rollouts, whole[5])
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "nonsense",
        '{"case_id": "1", "order": [0, 0], "rewards": [1], "prompt_tokens": 1}',
    ],
)
def test_a_broken_line_in_the_middle_is_refused_in_one_sentence(tmp_path: Path, line: str) -> None:
    path = tmp_path / "episodes.jsonl"
    path.write_text(f"{line}\n{json.dumps({})}\n", "utf-8")
    with pytest.raises(RunError, match="line 1 is not"):
        read_lines(path, EpisodeRecord, "train again")
