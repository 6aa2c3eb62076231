"""The policy that decides for each query: laws of mixes, of training on S, and of the editor."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drike.datasets import load
from drike.demonstrations import Role
from drike.editors.budgets import Fraction, TokenLimit
from drike.editors.in_context import InContextEditor
from drike.editors.pool import IKE_ROLES
from drike.editors.query_policy import QueryPolicy
from drike.editors.rankers import Similarity
from drike.editors.role_counts import RoleCounts, SubjectSwitch, mixes_of, policy_mixes
from drike.editors.selectors import RankAndCut
from drike.edits import mentions
from drike.errors import UsageError
from drike.evaluation.answer_matrix import CaseAnswers, answers_under
from drike.evaluation.evaluate import evaluate
from drike.runs import checkpoint
from tests.worlds.commands import run
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import follows_the_fact
from tests.worlds.suggestible import ENCODER, MIXES, MODEL, POOL, TEST, TRAIN, suggestible, trained


def test_mixes_cover_nothing_everything_and_each_role() -> None:
    assert len(MIXES) == 18
    assert (MIXES[0], MIXES[-1]) == (RoleCounts(0, 0, 0), RoleCounts(4, 12, 16))
    assert [mix.size for mix in MIXES] == sorted(mix.size for mix in MIXES)
    assert {RoleCounts(4, 12, 0), RoleCounts(0, 0, 16), RoleCounts(4, 0, 8)} <= {*MIXES}
    few = mixes_of([Role.COPY, Role.RETAIN, Role.RETAIN, Role.RETAIN])
    assert {(mix.copies, mix.retains) for mix in few} == {(c, r) for c in (0, 1) for r in (0, 1, 2, 3)}
    with pytest.raises(ValueError, match="whole numbers"):
        RoleCounts(-1, 0, 0)


def test_a_policy_chooses_from_few_mixes_and_among_them_are_none_all_and_ikes() -> None:
    seven = policy_mixes(POOL.roles)
    assert [str(mix) for mix in seven] == [
        str(RoleCounts(*counts))
        for counts in [(0, 0, 0), (0, 0, 4), (4, 0, 0), (0, 0, 16), (4, 12, 0), (4, 12, 4), (4, 12, 16)]
    ]
    assert {*seven} <= {*MIXES}
    assert policy_mixes([Role.RETAIN]) == (RoleCounts(0, 0, 0), RoleCounts(0, 0, 1))
    assert policy_mixes([Role.COPY, Role.COPY]) == (RoleCounts(0, 0, 0), RoleCounts(2, 0, 0))


def test_a_mix_shows_the_nearest_of_each_role_and_all_of_them_is_what_ike_shows() -> None:
    [candidates] = POOL.candidates([TEST[0].edit])
    for mix in MIXES:
        [selection] = mix.select(candidates, [candidates.edit.query])
        shown = selection.shown
        assert len(shown) == mix.size
        assert list(shown) == sorted(shown, key=lambda d: [Role.COPY, Role.UPDATE, Role.RETAIN].index(d.role))
        for role, _ in IKE_ROLES:
            of_role = [d for d in shown if d.role is role]
            assert of_role == [d for d in candidates.demonstrations if d.role is role][: len(of_role)]
    everything = InContextEditor("all", POOL, SubjectSwitch(MIXES[-1], MIXES[-1]))
    queries = [probe.query for probe in TEST[0].probes]
    nearest = InContextEditor("nearest", POOL, RankAndCut(Similarity(), Fraction(1.0)))
    assert everything.prompts([TEST[0].edit], queries) == nearest.prompts([TEST[0].edit], queries)


def test_answers_are_those_of_the_same_prompts_one_by_one() -> None:
    [answers] = answers_under(MIXES, MODEL, POOL, TEST[:1])
    assert isinstance(answers, CaseAnswers)
    for mix, column in zip(MIXES, zip(*answers.correct, strict=True), strict=True):
        outcomes = evaluate(InContextEditor("fixed", POOL, SubjectSwitch(mix, mix)), MODEL, TEST[:1])
        assert [outcome.correct for outcome in outcomes] == list(column)


def test_the_name_is_read_only_if_asked_for() -> None:
    edit = TEST[0].edit
    other = edit.query.replace(edit.subject or "", "Landfill")
    with_name, without = (
        QueryPolicy(ENCODER, MIXES, named=named).features(edit, [edit.query, other]) for named in (True, False)
    )
    assert with_name[:, 3].tolist() == [1.0, 0.0]
    assert without[:, 3].tolist() == [0.0, 0.0]
    assert torch.equal(with_name[:, 4:], without[:, 4:])
    assert with_name[0, 0] == pytest.approx(1.0)


def test_by_name_switches_where_a_query_names_the_subject() -> None:
    case = TEST[0]
    queries = [probe.query for probe in case.probes]
    chosen = SubjectSwitch(RoleCounts(4, 12, 0), RoleCounts(0, 0, 16)).choose(case.edit, queries)
    assert [mix.retains == 0 for mix in chosen] == [mentions(query, case.edit.subject or "") for query in queries]
    unnamed = replace(case.edit, subject=None)
    assert [mix.retains for mix in SubjectSwitch(MIXES[0], MIXES[-1]).choose(unnamed, [unnamed.query, "Who?"])] == [
        0,
        16,
    ]


def test_edits_it_was_trained_on_are_refused_in_evaluation() -> None:
    editor = InContextEditor("DR-IKE-Q", POOL, trained())
    with pytest.raises(UsageError, match="was trained on"):
        list(evaluate(editor, MODEL, TRAIN))


def test_demonstrations_that_do_not_fit_are_pruned_from_the_end() -> None:
    count = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
    editor = InContextEditor("all", POOL, SubjectSwitch(MIXES[-1], MIXES[-1]), limit=TokenLimit(200, count))
    [prompt] = editor.prompts([TEST[0].edit], ["Who?"])
    assert count([prompt.text])[0] <= 200
    assert len(prompt.demonstrations) + prompt.pruned == MIXES[-1].size
    assert prompt.pruned > 0
    bare = InContextEditor("none", POOL, SubjectSwitch(MIXES[0], MIXES[0]), limit=TokenLimit(1, count))
    assert bare.prompts([TEST[0].edit], ["Who?"])[0].pruned == 0
    model = ScriptedModel(suggestible)
    list(answers_under(MIXES, model, POOL, TEST[:1], limit=TokenLimit(200, count)))
    assert max(count([prompt])[0] for prompt in model.prompts) <= 200


def test_it_works_with_a_model_that_gives_no_scores() -> None:
    model = ScriptedModel(follows_the_fact, scores=False)
    [answers] = answers_under(MIXES, model, POOL, TEST[:1])
    assert {len(row) for row in answers.correct} == {len(MIXES)}


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
    assert "--objective balanced" in capsys.readouterr().err


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
