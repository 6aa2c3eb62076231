"""DR-IKE-Q's policy is trained on S: what it learns, what it refuses, and the command that trains it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.errors import RunError, UsageError
from drike.research.datasets import load
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.selectors import (
    LeaveAlone,
    RoleCounts,
    first_mixes,
    policy_mixes,
)
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import summarise
from drike.research.runs import checkpoint
from drike.research.runs.files import ANSWERS as ANSWERS_FILE
from drike.research.runs.files import append
from drike.research.runs.query_policy_run import mixes_asked, recovered_answers
from drike.research.training.s_objective import minus_s, train_query_policy, training_cases
from tests.fakes.commands import run
from tests.fakes.suggestible_task import ACTIONS, MODEL, POOL, TEST, TRAIN, UNTRAINED, trained

ANSWERS = list(answers_under(ACTIONS, MODEL, POOL, TRAIN))


def test_training_on_s_finds_what_each_kind_of_query_needs() -> None:
    policy = trained()
    ours = summarise(list(evaluate(InContextEditor("DR-IKE-Q", POOL, policy), MODEL, TEST)))
    editors = [InContextEditor("fixed", POOL, action) for action in ACTIONS]
    fixed = [summarise(list(evaluate(editor, MODEL, TEST))).s.value or 0.0 for editor in editors]
    assert ours.s.value == 1.0 > max(fixed)
    assert policy.trained_on == {case.edit.key for case in TRAIN}
    chosen = {
        p.aspect: mix for c in TEST for p in c.probes for mix in policy.choose(c.edits, [p.query])
    }
    fact = RoleCounts(0, 0, 0, "imagined")  # the form with the fewest tokens
    assert chosen == {Aspect.REWRITE: fact, Aspect.PARAPHRASE: fact, Aspect.NEIGHBORHOOD: None}, (
        "and no more is shown"
    )


def test_weights_stay_where_nothing_moves_them() -> None:
    """What no training edit shows must not be unlearned: here no name is doubtful, and no question contrary."""
    before, after = UNTRAINED.gate.named.weights, trained().gate.named.weights
    assert {name for name, weight in before.items() if weight == after[name]} >= {
        "contrary",
        "typo",
        "last",
        "partial",
    }
    assert before["masked"] != after["masked"]


def test_the_weaker_aspect_gets_the_larger_gradient() -> None:
    means = torch.tensor([0.98, 0.94, 0.58], requires_grad=True)
    right = torch.eye(2, dtype=torch.float32)[torch.zeros(3, dtype=torch.long)]
    masks = {
        aspect: torch.tensor([aspect is other for other in ASPECTS_OF_S]) for aspect in ASPECTS_OF_S
    }
    loss = minus_s(torch.stack([means, 1 - means], dim=1), right, masks)
    loss.backward()  # type: ignore[no-untyped-call]
    assert means.grad is not None
    assert [round(w, 2) for w in (means.grad / means.grad.sum()).tolist()] == [0.2, 0.22, 0.58]


@pytest.mark.parametrize("lost", [Aspect.NEIGHBORHOOD, Aspect.PARAPHRASE])
def test_an_aspect_without_probes_counts_for_nothing(lost: Aspect) -> None:
    cases = tuple(
        replace(c, probes=tuple(p for p in c.probes if p.aspect is not lost)) for c in TRAIN
    )
    answers = list(answers_under(ACTIONS, MODEL, POOL, cases))
    policy, expected = train_query_policy(UNTRAINED, cases, answers)
    assert expected.means.keys() == {*ASPECTS_OF_S} - {lost} and expected.score > 0.9
    assert None not in policy.choose(TEST[0].edits, [TEST[0].edit.query])


def test_shorter_prompts_win_at_a_price() -> None:
    costs = [
        train_query_policy(UNTRAINED, TRAIN, ANSWERS, price=price)[1].tokens
        for price in (0.0, 0.05, 0.5)
    ]
    assert costs[0] > costs[1] >= costs[2]


def test_answers_of_other_cases_or_actions_are_refused() -> None:
    for cases, given in ((TRAIN[:3], ANSWERS[:2]), ((), []), (TRAIN[:2], ANSWERS[:1])):
        with pytest.raises(UsageError, match="under each action"):
            train_query_policy(UNTRAINED, cases, given)
    with pytest.raises(UsageError, match="under each action"):
        train_query_policy(replace(UNTRAINED, shown=UNTRAINED.shown[:2]), TRAIN[:2], ANSWERS[:2])


def test_short_names_and_other_facts_of_the_subject_are_trained_on_and_nothing_else_that_is_generated() -> (
    None
):
    cases = training_cases(load("tinyfacts").split(train=6, test=3).train)
    asked = [
        *(p.aspect for c in cases for p in c.further),
        *(q.aspect for c in cases for q in c.baseline_questions),
    ]
    assert {*asked} == {Aspect.ALIAS, Aspect.SAME_SUBJECT}


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
    assert (resumed.gate, resumed.shown) == (whole.gate, whole.shown)


def test_a_run_of_an_earlier_version_goes_on_with_the_mixes_that_it_asked(tmp_path: Path) -> None:
    """Answers that are recorded were paid for, and must not be refused because there are more mixes now."""
    assert mixes_asked(tmp_path, POOL.roles) == policy_mixes(POOL.roles)
    mixes = first_mixes(POOL.roles)
    answers = list(answers_under((LeaveAlone(), *mixes), MODEL, POOL, TRAIN))
    append(tmp_path / ANSWERS_FILE, map(asdict, answers))
    assert mixes_asked(tmp_path, POOL.roles) == mixes
    assert recovered_answers(tmp_path, TRAIN, 1 + len(mixes)) == answers
    untrained = QueryPolicy.untrained(UNTRAINED.encoder, POOL.roles, mixes)
    assert train_query_policy(untrained, TRAIN, answers)[0].mixes == mixes


def test_recorded_answers_to_further_questions_are_recovered(tmp_path: Path) -> None:
    further = replace(TRAIN[0].probes[0], aspect=Aspect.ALIAS)
    cases = [replace(case, further=(further,)) if i else case for i, case in enumerate(TRAIN[:3])]
    answers = list(answers_under(ACTIONS, MODEL, POOL, cases))
    append(tmp_path / ANSWERS_FILE, map(asdict, answers))
    assert recovered_answers(tmp_path, cases, len(ACTIONS)) == answers
    with pytest.raises(RunError, match="other probes"):
        recovered_answers(tmp_path, TRAIN, len(ACTIONS))


def test_answers_to_other_probes_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.slow
def test_a_balanced_run_is_evaluated_with_its_control_and_a_plain_one_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*BALANCED, "--out", str(tmp_path / "run")) == 0
    assert run("evaluate", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "all")) == 0
    assert {"DR-IKE-Q", "Switch by name"} <= json.loads(
        (tmp_path / "all" / "summary.json").read_bytes()
    ).keys()
    plain = [word for word in BALANCED if word not in ("--objective", "balanced")]
    assert run(*plain, "--out", str(tmp_path / "plain")) == 0
    capsys.readouterr()
    assert run("evaluate", "--run", str(tmp_path / "plain"), "--editors", "dr-ike-q") == 2
    assert "train with --objective s" in capsys.readouterr().err


def test_a_dry_run_of_a_balanced_training_counts_the_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    served = [word if word != "reader" else "vllm:m@http://127.0.0.1:9/v1" for word in BALANCED]

    def calls(*words: str) -> int:
        assert run(*words, "--template", "chat", "--dry-run") == 0
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("calls")]
        return int(line.split()[1].replace(",", ""))

    paper = [word for word in served if word not in ("--objective", "balanced")]
    cases = training_cases(load("tinyfacts").split(train=6, test=3).train)
    questions = sum(len(case.baseline_questions) for case in cases)
    assert calls(*paper) == 6 * 16
    choices = len(ACTIONS)
    asked = sum(len(case.asked) for case in cases)
    assert calls(*served) == 6 * 16 + choices * (asked + questions)
