"""DR-IKE-Q's policy is trained on S: what it learns, what it refuses, and the command that trains it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from drike.datasets import load
from drike.editors.in_context import InContextEditor
from drike.editors.query_policy import QueryPolicy
from drike.editors.role_counts import RoleCounts
from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.evaluation.answer_matrix import answers_under
from drike.evaluation.evaluate import evaluate
from drike.evaluation.metrics import summarise
from drike.runs import checkpoint
from drike.training.s_objective import train_query_policy
from tests.worlds.commands import run
from tests.worlds.suggestible import ENCODER, MIXES, MODEL, POOL, TEST, TRAIN, trained


def test_training_on_s_finds_the_mix_that_each_kind_of_query_needs() -> None:
    ours = summarise(list(evaluate(InContextEditor("DR-IKE-Q", POOL, trained()), MODEL, TEST)))
    editors = [InContextEditor("fixed", POOL, mix) for mix in MIXES]
    fixed = [summarise(list(evaluate(editor, MODEL, TEST))).s.value or 0.0 for editor in editors]
    assert ours.s.value == 1.0 > max(fixed)
    assert trained().trained_on == {case.edit.key for case in TRAIN}


def test_no_more_is_shown_than_is_needed() -> None:
    policy = trained()
    chosen = {p.aspect: mix for c in TEST for p in c.probes for mix in policy.choose(c.edit, [p.query])}
    none, four = RoleCounts(0, 0, 0), RoleCounts(0, 0, 4)
    assert chosen == {Aspect.REWRITE: none, Aspect.PARAPHRASE: none, Aspect.NEIGHBORHOOD: four}


def test_expected_s_rises_and_its_gradient_favours_the_weaker_aspect() -> None:
    policy = QueryPolicy(ENCODER, MIXES, named=True)
    answers = list(answers_under(MIXES, MODEL, POOL, TRAIN))
    scores = [step.score for step in train_query_policy(policy, TRAIN, answers, decay=0.0, price=0.0)]
    assert scores[-1] > 0.97 > scores[0]
    assert all(0 <= score <= 1 for score in scores)
    means = torch.tensor([0.98, 0.94, 0.58], requires_grad=True)
    score = 3 / means.reciprocal().sum()
    score.backward()  # type: ignore[no-untyped-call]
    weights = score.detach() ** 2 / (3 * means.detach() ** 2)
    assert torch.allclose(means.grad, weights)  # type: ignore[arg-type]
    assert [round(w, 2) for w in (weights / weights.sum()).tolist()] == [0.2, 0.22, 0.58]


def test_an_aspect_without_probes_counts_for_nothing() -> None:
    alone = tuple(
        EditCase(c.case_id, c.edit, tuple(p for p in c.probes if p.aspect is not Aspect.NEIGHBORHOOD)) for c in TRAIN
    )
    policy = trained(cases=alone)
    chosen = {mix for case in alone for mix in policy.choose(case.edit, [case.edit.query])}
    assert all(mix.retains < 4 for mix in chosen), "nothing asks to keep old objects"


def test_answers_of_other_cases_or_mixes_are_refused() -> None:
    answers = list(answers_under(MIXES, MODEL, POOL, TRAIN[:2]))
    policy = QueryPolicy(ENCODER, MIXES)
    for cases, given in ((TRAIN[:3], answers), ((), []), (TRAIN[:2], [answers[0], answers[0]][:1])):
        with pytest.raises(UsageError, match="under each mix"):
            list(train_query_policy(policy, cases, given))
    with pytest.raises(UsageError, match="under each mix"):
        list(train_query_policy(QueryPolicy(ENCODER, MIXES[:5]), TRAIN[:2], answers))


def test_edits_it_was_trained_on_are_refused_in_evaluation() -> None:
    editor = InContextEditor("DR-IKE-Q", POOL, trained())
    with pytest.raises(UsageError, match="was trained on"):
        list(evaluate(editor, MODEL, TRAIN))


BALANCED = [
    "train", "--objective", "balanced", "--model", "reader", "--encoder", "hashing", "--edits", "6", "--test", "3",
    "--epochs", "1",
]  # fmt: skip


def test_a_stopped_balanced_training_asks_only_for_the_missing_edits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*BALANCED, "--out", str(tmp_path / "whole")) == 0
    whole = checkpoint.load(tmp_path / "whole").per_query
    assert whole is not None
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    answers = tmp_path / "stopped" / "answers.jsonl"
    lines = answers.read_bytes().splitlines(keepends=True)
    answers.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    capsys.readouterr()
    assert run("train", "--resume", str(tmp_path / "stopped")) == 0
    assert "Recovered 4 of 6 edits" in capsys.readouterr().out
    assert answers.read_bytes() == b"".join(lines)
    resumed = checkpoint.load(tmp_path / "stopped").per_query
    assert resumed is not None
    assert all(torch.equal(a, b) for a, b in zip(whole.head.parameters(), resumed.head.parameters(), strict=True))


def test_answers_to_other_probes_are_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*BALANCED, "--out", str(tmp_path / "run")) == 0
    answers = tmp_path / "run" / "answers.jsonl"
    first, *rest = answers.read_bytes().splitlines(keepends=True)
    for broken, reason in (
        ([*rest, first], "is about other probes"),
        ([first.replace(b"true", b"1"), *rest], "line 1 is not"),
        ([first.replace(b"true", b"NaN"), *rest], "line 1 is not"),
    ):
        answers.write_bytes(b"".join(broken))
        assert run("train", "--resume", str(tmp_path / "run")) == 1
        said = capsys.readouterr().err
        assert reason in said and "remove the file" in said


def test_a_balanced_run_is_evaluated_with_its_control_and_a_plain_one_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*BALANCED, "--out", str(tmp_path / "run")) == 0
    assert run("evaluate", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "all")) == 0
    assert {"DR-IKE-Q", "Switch by name"} <= json.loads((tmp_path / "all" / "summary.json").read_bytes()).keys()
    plain = [word for word in BALANCED if word not in ("--objective", "balanced")]
    assert run(*plain, "--out", str(tmp_path / "plain")) == 0
    capsys.readouterr()
    assert run("evaluate", "--run", str(tmp_path / "plain"), "--editors", "dr-ike-q") == 2
    assert "train with --objective s" in capsys.readouterr().err


def test_a_dry_run_of_a_balanced_training_counts_the_answers(capsys: pytest.CaptureFixture[str]) -> None:
    served = [word if word != "reader" else "vllm:m@http://127.0.0.1:9/v1" for word in BALANCED]

    def calls(*words: str) -> int:
        assert run(*words, "--template", "chat", "--dry-run") == 0
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("calls")]
        return int(line.split()[1].replace(",", ""))

    paper = [word for word in served if word not in ("--objective", "balanced")]
    probes = sum(len(case.probes) for case in load("tinyfacts").split(train=6, test=3).train)
    assert calls(*paper) == 6 * 16
    assert calls(*served) == 6 * 16 + 7 * probes
