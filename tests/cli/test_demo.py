"""`drike demo`: the folder it writes, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drike.encoders import HashingEncoder
from drike.research.datasets.dataset import SplitIds
from drike.research.runs.checkpoint import load
from drike.research.runs.files import append, read_outcomes
from tests.fakes.commands import SMALL, run


def test_a_run_records_everything_needed_to_repeat_it(demo: Path) -> None:
    record = json.loads((demo / "run.json").read_text("utf-8"))
    assert record["settings"]["seed"] == 0
    assert record["data"][0]["sha256"] and record["versions"]["torch"] and record["model"]["name"]
    split = SplitIds.load(demo / "split.json")
    assert len(split.train) == 20 and len(split.test) == 10
    assert not set(split.train) & set(split.test)


def test_every_episode_and_outcome_is_recorded_on_one_line(demo: Path) -> None:
    episodes = [
        json.loads(line) for line in (demo / "episodes.jsonl").read_text("utf-8").splitlines()
    ]
    assert [episode["epoch"] for episode in episodes] == [1] * 20 + [2] * 20
    assert all(len(episode["rewards"]) == episode["k"] for episode in episodes)
    files = sorted(path.name for path in (demo / "outcomes").iterdir())
    assert files == [
        "dr-ike-q.jsonl",
        "dr-ike.jsonl",
        "editcot.jsonl",
        "factprompt.jsonl",
        "ike.jsonl",
        "nearest-k-of-dr-ike.jsonl",
        "rank-50.jsonl",
        "unedited.jsonl",
    ]
    for name in files:
        assert len({outcome.case_id for outcome in read_outcomes(demo / "outcomes" / name)}) == 10
    loaded = load(demo, encoder=HashingEncoder())
    assert loaded.training["episodes"] == 40
    assert (
        len((demo / "answers.jsonl").read_text("utf-8").splitlines()) == 20
        and loaded.per_query is not None
    )


def test_the_run_folder_holds_the_results_table(demo: Path) -> None:
    table = (demo / "table.md").read_text("utf-8")
    assert "DR-IKE minus IKE" in table
    assert json.loads((demo / "summary.json").read_text("utf-8"))["DR-IKE"]["cases"] == 10


def test_an_output_folder_in_use_is_refused(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", *SMALL, "--out", str(demo)) == 1
    assert "already holds a run" in " ".join(capsys.readouterr().err.split())


def test_only_an_incomplete_last_line_is_lost(demo: Path, tmp_path: Path) -> None:
    whole = (demo / "outcomes" / "ike.jsonl").read_text("utf-8")
    torn = tmp_path / "torn.jsonl"
    torn.write_text(whole[:-30], "utf-8")
    assert read_outcomes(torn) == read_outcomes(demo / "outcomes" / "ike.jsonl")[:-1]
    append(tmp_path / "lines.jsonl", [{"a": 1}, {"a": 2}])
    assert (tmp_path / "lines.jsonl").read_text("utf-8").count("\n") == 2


def test_the_demo_writes_to_runs_demo_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["demo", *SMALL, "--edits", "2", "--test", "1", "--epochs", "1"]
    for folder in ("runs/demo", "runs/demo-2"):
        assert run(*small) == 0
        said = capsys.readouterr().out
        assert (tmp_path / folder / "summary.json").exists()
        assert "DR-IKE-Q's figures may differ by up to .005" in said
        assert f"drike report {folder}\n" in said and f"drike edit --run {folder} --explain" in said


def test_ctrl_c_before_the_first_record_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: HashingEncoder, texts: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(HashingEncoder, "encode", interrupted)
    folder = tmp_path / "run"
    for command in ("train", "demo"):
        assert run(command, *SMALL, "--edits", "2", "--test", "2", "--out", str(folder)) == 130
        assert capsys.readouterr().err == "Stopped.\n"
        assert not folder.exists()
