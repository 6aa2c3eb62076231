"""Guarantees: the offset that meets one, where it is kept, and when it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load as unpacked

from drike.edits.edit import EditCase
from drike.errors import GuaranteeError, UsageError
from drike.research.datasets import Dataset
from drike.research.editors.budgets import Threshold
from drike.research.editors.retriever import Retriever
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.research.runs import checkpoint
from drike.research.runs.checkpoint import Checkpoint
from drike.research.training.s_objective import certify, check_possible, count_right
from tests.fakes.capitals import CAPITALS
from tests.fakes.commands import run
from tests.fakes.suggestible_task import ACTIONS, ENCODER, UNTRAINED


def test_the_edits_held_out_for_a_guarantee_come_in_a_random_order() -> None:
    """A data file with the easy rows first could otherwise buy a guarantee with these."""
    dataset = Dataset("capitals", (), CAPITALS, ())
    rows = {case.case_id: i for i, case in enumerate(CAPITALS)}
    places = [
        rows[case.case_id]
        for case in dataset.split(editable=30, train=2, test=2, validation=20).validation
    ]
    assert abs(np.corrcoef(places, range(20))[0, 1]) < 0.5


def answered(cases: tuple[EditCase, ...]) -> list[CaseAnswers]:
    """Neighbours are right without the edit, all else with it; one neighbour in eight is never right."""
    columns, made = range(len(ACTIONS)), list[CaseAnswers]()
    for i, case in enumerate(cases):
        stays = [probe in case.neighborhood for probe in case.probes]
        correct = [
            tuple((column == 0) == stay and not (stay and i % 8 == 0) for column in columns)
            for stay in stays
        ]
        made.append(CaseAnswers(str(i), tuple(correct), ((None,) * len(ACTIONS),) * len(correct)))
    return made


def about_the_subject(case: EditCase) -> EditCase:
    """The case with neighbours that name the subject."""
    north, near = f"{case.edit.subject} is north of", case.neighborhood
    return replace(
        case, probes=tuple(replace(p, query=north) if p in near else p for p in case.probes)
    )


def test_a_policy_that_forgets_neighbours_gets_a_shift_with_which_the_guarantee_holds() -> None:
    answers, cases = answered(CAPITALS[:30]), [about_the_subject(case) for case in CAPITALS[:30]]
    eager = UNTRAINED
    right = count_right(eager, cases, answers).right
    assert right[0.0][:, 2].sum() == 0, "it applies wherever the subject is named"
    most = max(len(case.neighborhood) for case in cases)
    kept = certify(eager, cases, answers, Guarantee("rr", 0.6), max_probes=most)
    assert (kept.edits, kept.measured) == (30, right[kept.offset][:, 2].sum() / (30 * most))
    assert kept.measured > 0.8 and kept.offset < 0
    chosen = eager.shifted(kept.offset).choose(
        cases[0].edits, [probe.query for probe in cases[0].probes]
    )
    assert chosen[0] is not None and chosen[2:] == [None] * 3
    with pytest.raises(
        GuaranteeError,
        match=r"rr>=.85 cannot be guaranteed with 30 edits: best certified 0\.[67]\d;",
    ):
        certify(eager, cases, answers, Guarantee("rr", 0.85), max_probes=most)
    assert (
        certify(eager, cases, answers, Guarantee("pc", 0.85), max_probes=1).offset > kept.offset - 1
    )
    with pytest.raises(UsageError, match="even if every answer is right"):
        check_possible(Guarantee("rr", 0.95), cases)
    with pytest.raises(UsageError, match="no edit held out for it has a neighborhood probe"):
        check_possible(Guarantee("rr", 0.5), [EditCase("a", cases[0].edit, cases[0].probes[:1])])


def test_a_checkpoint_keeps_the_guarantee_and_one_without_the_field_still_loads(
    tmp_path: Path,
) -> None:
    kept = CertifiedGuarantee(Guarantee("rr", 0.85), 100, -2.0, 0.93)
    saved = Checkpoint(Retriever(ENCODER), Threshold(), per_query=UNTRAINED, promise=kept)
    checkpoint.save(saved, tmp_path)
    assert checkpoint.load(tmp_path).promise == kept
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold()), tmp_path)
    content = (tmp_path / checkpoint.FILE).read_bytes()
    described = checkpoint._verified(content)
    del described["promise"], described["sha256"]
    (tmp_path / checkpoint.FILE).write_bytes(checkpoint._sealed(described, unpacked(content)))
    assert checkpoint.load(tmp_path).promise is None


SMALL = [
    "train", "--objective", "balanced", "--model", "reader", "--encoder", "hashing", "--edits", "6", "--test", "3",
    "--epochs", "1", "--calibrate-on", "12",
]  # fmt: skip


@pytest.mark.slow
def test_a_guarantee_from_the_command_line_is_kept_in_the_run_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised, refused = tmp_path / "promised", tmp_path / "refused"
    assert run(*SMALL, "--promise", "rr>=.6", "--out", str(promised)) == 0
    assert "Guaranteed: rr>=.6 for new edits like the 12 held out" in capsys.readouterr().out
    loaded, split = checkpoint.load(promised), json.loads((promised / "split.json").read_bytes())
    assert loaded.promise is not None and loaded.per_query is not None
    assert (loaded.promise.edits, len(split["validation"])) == (12, 12)
    assert len(loaded.per_query.trained_on) == 18 and len(loaded.retriever.trained_on) == 6
    assert (
        run(
            "evaluate",
            "--run",
            str(promised),
            "--editors",
            "dr-ike-q",
            "--out",
            str(tmp_path / "e"),
        )
        == 0
    )
    assert "Guarantee of DR-IKE-Q: rr>=.6" in capsys.readouterr().out
    assert run(*SMALL, "--promise", "rr>=.75", "--out", str(refused)) == 1
    said = capsys.readouterr()
    assert "rr>=.75 cannot be guaranteed with 12 edits: best certified" in said.err
    assert "Saved in" in said.out and checkpoint.load(refused).promise is None


def test_guarantees_that_cannot_be_met_are_refused_before_the_model_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [word for word in SMALL if word not in ("--objective", "balanced")]
    for words, reason in (
        ([*SMALL, "--promise", "rr>=1.2"], "a level between 0 and 1"),
        ([*SMALL, "--promise", "s>=.9"], "S cannot be guaranteed"),
        ([*SMALL, "--promise", "rr>=.95"], "even if every answer is right"),
        ([*plain, "--promise", "rr>=.6"], "add --objective s"),
        (SMALL, "add --guarantee"),
    ):
        assert run(*words, "--out", str(tmp_path / "run")) == 2
        assert reason in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
