"""Commands that are stopped and resumed with --resume."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli import models
from drike.cli.runs import alone_at
from drike.research.editors.budgets import Threshold
from drike.research.evaluation.metrics import Outcome
from drike.research.runs import checkpoint
from drike.research.runs.files import outcomes_path, read_outcomes
from drike.support.files import with_checksum
from tests.fakes.commands import SMALL, run
from tests.fakes.waiting import HANG, wait_until


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a policy on the closed-form reader."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    assert (
        run("train", *SMALL, "--edits", "6", "--test", "5", "--epochs", "1", "--out", str(folder))
        == 0
    )
    return folder


def without_seconds(path: Path) -> list[Outcome]:
    return [replace(outcome, seconds=0.0) for outcome in read_outcomes(path)]


def test_a_resumed_training_ends_like_an_uninterrupted_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        *SMALL,
        "--edits",
        "8",
        "--test",
        "2",
        "--epochs",
        "2",
        "--parallel-edits",
        "2",
        "--seed",
        "3",
    ]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run("train", *options, "--out", str(whole)) == 0
    assert run("train", *options, "--out", str(stopped)) == 0
    lines = (stopped / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (stopped / "episodes.jsonl").write_bytes(
        b"".join(lines[:11]) + lines[11][:20]
    )  # killed while writing
    (stopped / checkpoint.FILE).unlink()
    capsys.readouterr()
    assert run("train", "--resume", str(stopped)) == 0
    assert "Recovered 11 of 16 episodes" in capsys.readouterr().out
    assert (stopped / checkpoint.FILE).read_bytes() == (whole / checkpoint.FILE).read_bytes()
    first, second = (
        [
            {**json.loads(line), "seconds": 0}
            for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()
        ]
        for folder in (whole, stopped)
    )
    assert first == second


def test_a_run_that_another_process_finished_meanwhile_is_kept(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, opening = tmp_path / "run", models.open_model

    def slowly(*given: object, **more: object) -> object:
        shutil.copytree(trained, folder)
        return opening(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(models, "open_model", slowly)
    assert (
        run("evaluate", *SMALL, "--test", "2", "--editors", "factprompt", "--out", str(folder)) == 1
    )
    assert "already holds a run" in " ".join(capsys.readouterr().err.split())
    assert (folder / "run.json").read_bytes() == (trained / "run.json").read_bytes()


@pytest.mark.parametrize("model", ["reader", pytest.param("embedded", marks=pytest.mark.slow)])
def test_a_resumed_evaluation_ends_like_an_uninterrupted_one(
    trained: Path, tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    asked = [
        "evaluate",
        "--run",
        str(trained),
        "--model",
        model,
        "--editors",
        "unedited,ike,dr-ike",
    ]
    if model == "embedded":
        asked += ["--test", "3", "--write"]
    for folder in (whole, stopped):
        assert run(*asked, "--out", str(folder)) == 0
    cases = 3 if model == "embedded" else 5
    # Killed while writing a case of the second of three editors: one whole case, most of another, half a line.
    path = outcomes_path(stopped, "IKE")
    lines = path.read_bytes().splitlines(keepends=True)
    probes = sum(json.loads(line)["case_id"] == json.loads(lines[0])["case_id"] for line in lines)
    path.write_bytes(b"".join(lines[: probes + 2]) + lines[probes + 2][:40])
    outcomes_path(stopped, "DR-IKE").unlink()
    for name in ("table.md", "summary.json"):
        (stopped / name).unlink()
    capsys.readouterr()
    assert run("evaluate", "--resume", str(stopped)) == 0
    assert f"Recovered {cases + 1} of {3 * cases} edits" in capsys.readouterr().out
    for editor in ("Unedited", "IKE", "DR-IKE"):
        assert without_seconds(outcomes_path(stopped, editor)) == without_seconds(
            outcomes_path(whole, editor)
        )
    first, second = (
        json.loads((folder / "summary.json").read_text("utf-8")) for folder in (whole, stopped)
    )
    assert {e: row | {"seconds": 0} for e, row in first.items()} == {
        e: r | {"seconds": 0} for e, r in second.items()
    }
    assert (stopped / "table.md").exists()


@pytest.mark.slow
def test_resuming_a_finished_run_makes_no_model_calls(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    assert run("evaluate", "--run", str(trained), "--model", "embedded", "--test", "2", "--editors", "ike",
               "--out", str(folder)) == 0  # fmt: skip
    before, worked = (
        (folder / "outcomes" / "ike.jsonl").read_bytes(),
        (folder / "usage.json").read_bytes(),
    )
    (folder / "table.md").unlink()
    assert run("evaluate", "--resume", str(folder)) == 0
    assert (folder / "outcomes" / "ike.jsonl").read_bytes() == before
    assert (folder / "usage.json").read_bytes() == worked
    assert (folder / "table.md").exists()


def test_runs_moved_together_can_be_resumed(trained: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    subprocess.run(["cp", "-r", str(trained), str(here / "t")], check=True)
    assert (
        run("evaluate", "--run", str(here / "t"), "--editors", "dr-ike", "--out", str(here / "e"))
        == 0
    )
    here.rename(there)
    (there / "e" / "outcomes" / "dr-ike.jsonl").unlink()
    assert run("evaluate", "--resume", str(there / "e")) == 0


def test_resuming_with_a_different_policy_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, folder = tmp_path / "t", tmp_path / "e"
    subprocess.run(["cp", "-r", str(trained), str(copy)], check=True)
    assert run("evaluate", "--run", str(copy), "--editors", "dr-ike", "--out", str(folder)) == 0
    checkpoint.save(replace(checkpoint.load(copy), budget=Threshold(0.5)), copy)
    assert run("evaluate", "--resume", str(folder)) == 1
    assert "another trained policy" in " ".join(capsys.readouterr().err.split())


def test_runs_that_cannot_be_resumed_are_refused_in_one_sentence(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str, code: int = 1) -> str:
        assert run(*arguments) == code
        return " ".join(capsys.readouterr().err.split())

    for command in ("train", "evaluate"):
        assert "holds no run" in refused(command, "--resume", str(tmp_path))
    assert "is a training run" in refused("evaluate", "--resume", str(trained))
    assert "leave --epochs out" in refused(
        "train", "--resume", str(trained), "--epochs", "9", code=2
    )
    assert "leave --out out" in refused(
        "train", "--resume", str(trained), "--out", str(tmp_path / "new"), code=2
    )
    folder = tmp_path / "run"
    assert (
        run("train", *SMALL, "--edits", "3", "--test", "1", "--epochs", "1", "--out", str(folder))
        == 0
    )
    record = json.loads((folder / "run.json").read_text("utf-8"))
    for other, changed in {
        "other rows": {"data_fingerprint": "other"},
        "on other rows": {"data": [{**record["data"][0], "sha256": "0" * 64}]},
        "other weights": {"model": {"weights_sha256": "other"}},
        "another version": {"options": {"colour": "red"}},
        "no options": {"options": None},
    }.items():
        (folder / "run.json").write_text(json.dumps({**record, **changed}), "utf-8")
        assert "has changed since it was written" in refused("train", "--resume", str(folder))
        (folder / "run.json").write_text(json.dumps(with_checksum({**record, **changed})), "utf-8")
        assert other in refused("train", "--resume", str(folder))
    (folder / "run.json").write_text(
        json.dumps(with_checksum({**record, "versions": {"torch": "0.1"}})), "utf-8"
    )
    assert run("train", "--resume", str(folder)) == 0
    assert "begun with another version of" in capsys.readouterr().out


def test_resumable_commands_validate_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"epochs": "0", "shot-price": "20", "replicas": "-1"}
    for option, value in wrong.items():
        assert run("train", f"--{option}", value) == 2
        assert f"--{option} must be " in capsys.readouterr().err


def test_resuming_with_outcomes_of_other_probes_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "e"
    assert (
        run("evaluate", "--run", str(trained), "--editors", "unedited", "--out", str(folder)) == 0
    )
    path = folder / "outcomes" / "unedited.jsonl"
    first, *others = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text(
        json.dumps({**json.loads(first), "query": "The river Po ends in"}) + "\n" + "".join(others),
        "utf-8",
    )
    assert run("evaluate", "--resume", str(folder)) == 1
    assert "about other probes" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_at_once_and_it_can_be_resumed(
    number: signal.Signals, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train", *SMALL, "--edits", "15", "--test", "1", "--seed", "1"]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from drike.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *options, "--epochs", "4", "--out", str(stopped)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    episodes = stopped / "episodes.jsonl"
    wait_until(lambda: episodes.exists() and episodes.stat().st_size)
    process.send_signal(number)
    _, output = process.communicate(timeout=HANG)
    assert process.returncode == code, output
    assert f"drike train --resume {stopped}" in output and "Traceback" not in output
    done = len((stopped / "episodes.jsonl").read_text("utf-8").splitlines())
    assert 0 < done < 60
    assert run("train", "--resume", str(stopped)) == 0
    assert f"Recovered {done} of 60 episodes" in capsys.readouterr().out
    assert run(*options, "--epochs", "4", "--out", str(whole)) == 0
    assert (stopped / checkpoint.FILE).read_bytes() == (whole / checkpoint.FILE).read_bytes()


def test_two_processes_cannot_resume_the_same_run(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "e"
    with alone_at(folder, "evaluate"):
        asked = ["evaluate", "--run", str(trained), "--editors", "dr-ike", "--out", str(folder)]
        assert run(*asked) == 1
        assert "another process works at" in " ".join(capsys.readouterr().err.split())
        assert not (folder / "run.json").exists()
    assert run(*asked) == 0


def test_resuming_with_the_wrong_command_names_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training, evaluation = tmp_path / "train", tmp_path / "evaluate"
    assert run("train", *SMALL, "--edits", "2", "--epochs", "1", "--out", str(training)) == 0
    assert (
        run("evaluate", *SMALL, "--editors", "unedited", "--test", "1", "--out", str(evaluation))
        == 0
    )
    capsys.readouterr()
    assert run("evaluate", "--resume", str(training)) == 1
    said = capsys.readouterr().err
    assert (
        f"evaluate it with --run {training}, or continue training with drike train --resume {training}"
        in said
    )
    assert run("train", "--resume", str(evaluation)) == 1
    assert f"continue it with drike evaluate --resume {evaluation}" in capsys.readouterr().err
