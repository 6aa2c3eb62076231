"""Folders of runs: old ones are read, reported and continued; new ones hold the same files, records and numbers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import drike
from drike.research.editors.pool import IKE_ROLES
from drike.research.editors.selectors import policy_mixes
from tests.fakes.commands import run
from tests.golden.compare import (
    DATA,
    differences,
    digest,
    json_lines,
    matches_golden,
    rounded,
    schema,
)

RUNS = DATA / "runs"
TRAIN = (
    "train", "--model", "reader", "--encoder", "hashing", "--policy-encoder", "hashing:32:0", "--edits", "10",
    "--test", "2", "--epochs", "2", "--objective", "balanced", "--promise", "rr>=.05", "--calibrate-on",
    "12", "--out", "trained",
)  # fmt: skip
EVALUATE = (
    "evaluate", "--run", "trained", "--editors", "unedited,factprompt,ike,dr-ike,dr-ike-q", "--out", "evaluated",
)  # fmt: skip
RETIRED = (  # options of version 0.1.0 that are gone
    "credit", "soft", "reward", "selection", "renormalise", "stop_on_flip", "delay", "noise", "order", "ask", "named",
)  # fmt: skip
CHANGING = re.compile(r"^(\W|<[^>]*>)*(started|python|machine|drike|torch|transformers|openai|sentence-transformers|"
                      r"safetensors|numpy|ray|command)\b.*\n", re.MULTILINE)  # fmt: skip


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the runs of version 0.1.0."""
    shutil.copytree(RUNS, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs, made now."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert run(*TRAIN) == 0 and run(*EVALUATE) == 0
    return place


@pytest.fixture
def copied(new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with copies of the runs that are made now."""
    shutil.copytree(new, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def results(path: Path) -> list[object]:
    """The records of a file, without times."""
    return [{**one, "seconds": 0} for one in json_lines(path)]


def test_an_old_run_is_reported_as_it_was(old: Path) -> None:
    assert run("report", "evaluated", "--out", "page.html") == 0
    found = {
        kind: CHANGING.sub("", (old / f"page.{kind}").read_text("utf-8")) for kind in ("md", "html")
    }
    assert "0.1.0" in (old / "page.html").read_text("utf-8") and "0.1.0" not in found["html"]
    matches_golden(
        "run_report", {kind: text.splitlines() for kind, text in found.items() if kind != "html"}
    )
    tables = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", found["html"])
    matches_golden("run_report_html", tables)
    matches_golden("run_report_sections", sections(found["html"]))


def sections(page: str) -> list[list[object]]:
    """The sections of a page in their order: how each begins, its lines, and a digest."""
    begins = r"(?=<(?:section|details|header|footer|script|style|svg|h[123])\b)"
    parts = [part.strip() for part in re.split(begins, page)]
    return [[part.partition("\n")[0][:60], part.count("\n") + 1, digest(part)] for part in parts]


def test_the_tour_with_a_model_and_a_gate_that_are_exact() -> None:
    from drike.research.report.tour import TOURED, edits_of, html

    cases = edits_of(drike.load_dataset("tinyfacts").cases)
    edits = [case.edit for case in cases]
    edited = drike.EditedModel(
        drike.load_model("reader"), drike.FactPrompt(), edits, gate=drike.Named()
    )
    matches_golden("tour_sections", sections(html(edited, cases[: len(TOURED)])))


@pytest.mark.slow
def test_the_tour_as_it_comes(tmp_path: Path) -> None:
    assert run("tour", "--no-open", "--out", str(tmp_path / "tour.html")) == 0
    matches_golden("tour_command", sections((tmp_path / "tour.html").read_text("utf-8")))


def test_a_run_from_before_checksums_is_reported(old: Path) -> None:
    path = old / "evaluated" / "run.json"
    known = record(path)
    assert known.pop("sha256")
    path.write_text(json.dumps(known), "utf-8")
    assert run("report", "evaluated", "--out", "page.html") == 0
    path.write_text(json.dumps({**known, "sha256": "0" * 64}), "utf-8")
    assert run("report", "evaluated", "--out", "page.html") == 1


def without_intervals(path: Path) -> str:
    """A table without its intervals, and without the stars and the note that follow from them."""
    return re.sub(r"\*? \[[^\]]*\]|^Brackets: .*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def test_an_old_evaluation_of_a_policy_that_is_no_longer_read_is_not_resumed(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in (old / "evaluated").rglob("*.jsonl")}
    assert run("evaluate", "--resume", "evaluated") == 2
    assert "dr-ike-q needs a policy per query: train with --objective s" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (old / "evaluated").rglob("*.jsonl")} == before


def test_a_finished_evaluation_is_resumed_without_asking_anything(copied: Path) -> None:
    before = {path: path.read_bytes() for path in (copied / "evaluated").rglob("*.jsonl")}
    table = without_intervals(copied / "evaluated" / "table.md")
    assert run("evaluate", "--resume", "evaluated") == 0
    assert {path: path.read_bytes() for path in (copied / "evaluated").rglob("*.jsonl")} == before
    assert without_intervals(copied / "evaluated" / "table.md") == table


def test_what_an_evaluation_lacks_is_asked_again_with_the_same_results(copied: Path) -> None:
    path = copied / "evaluated" / "outcomes" / "dr-ike-q.jsonl"
    before = results(path)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:5]) + lines[5][:40], "utf-8")  # as a crash leaves it
    assert run("evaluate", "--resume", "evaluated") == 0
    assert differences(results(path), before) == []


def test_an_old_training_that_was_stopped_goes_on_as_it_would_have(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = old / "trained" / "episodes.jsonl"
    answers = old / "trained" / "answers.jsonl"
    before = results(path)
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:17]), "utf-8")
    assert run("train", "--resume", "trained") == 1, "answers under other actions are refused"
    assert "remove the file" in capsys.readouterr().err
    answers.unlink()
    assert run("train", "--resume", "trained") == 0
    assert differences(results(path), before) == []
    actions_now = 1 + len(policy_mixes([role for role, n in IKE_ROLES for _ in range(n)]))
    assert len(results(answers)[0]["correct"][0]) == actions_now  # type: ignore[index]


def test_the_records_of_a_new_run_have_the_same_fields(new: Path) -> None:
    found = {
        str(path.relative_to(new)): schema(
            json_lines(path)[0] if path.suffix == ".jsonl" else json.loads(path.read_text("utf-8"))
        )
        for path in sorted(new.rglob("*.json*"))
    }
    files = sorted(str(path.relative_to(new)) for path in new.rglob("*") if path.is_file())
    matches_golden("run_fields", {"files": files, "fields": found})


def test_the_settings_of_a_new_run_are_recorded_the_same(new: Path) -> None:
    names = ("options", "settings", "model", "data", "data_fingerprint", "encoders", "fallbacks")
    for part in ("trained", "evaluated"):
        old, now = record(RUNS / part / "run.json"), record(new / part / "run.json")
        for group in ("options", "settings"):
            old[group] = {name: value for name, value in old[group].items() if name not in RETIRED}
        assert differences(now, {name: old[name] for name in names}) == []
        assert record(RUNS / part / "split.json") == record(new / part / "split.json")


def test_a_new_training_has_the_same_episodes(new: Path) -> None:
    """Golden for people to read: k, sigma and rewards; the others are compared with the old run's."""
    path = new / "trained" / "episodes.jsonl"
    shown = ("epoch", "case_id", "order", "rewards", "k", "kept", "sigma", "loss")
    matches_golden(
        "run_episodes",
        [rounded({name: one[name] for name in shown}, 5) for one in json_lines(path)],
    )
    assert differences(results(path), results(RUNS / "trained" / "episodes.jsonl")) == []


def test_a_new_evaluation_has_the_same_outcomes_and_prompts(new: Path) -> None:
    for path in sorted((RUNS / "evaluated").rglob("*.jsonl")):
        if path.stem == "dr-ike-q":  # another policy by now
            continue
        assert differences(results(new / path.relative_to(RUNS)), results(path), path.name) == []


def summary(path: Path) -> object:
    """A summary without times."""
    text = re.sub(r'"(seconds\w*|s_per_\w+)": [^,}\]]+', r'"\1": 0', path.read_text("utf-8"))
    return rounded(json.loads(text), 5)


def with_width(value: object) -> object:
    """A summary without the intervals that version 0.1.0 gave no width, since all edits agreed."""
    if not isinstance(value, dict):
        return value
    no_width = "low" in value and value["low"] == value["high"]
    return {
        key: with_width(one)
        for key, one in value.items()
        if not (no_width and key in ("low", "high"))
    }


def test_a_new_evaluation_has_the_same_summary(new: Path) -> None:
    now, old = (
        summary(new / "evaluated" / "summary.json"),
        summary(RUNS / "evaluated" / "summary.json"),
    )
    assert (
        differences(now, with_width({name: one for name, one in old.items() if name != "DR-IKE-Q"}))
        == []
    )  # type: ignore[attr-defined]
    matches_golden("run_summary", now)


def contents(folder: Path, *names: str) -> dict[str, object]:
    """Some files of a run; of those with many records what they are like and a digest."""
    lines = {path: results(path) for path in sorted(folder.rglob("*.jsonl"))}
    found = {
        str(path.relative_to(folder)): [
            len(records),
            schema(records[0]),
            digest(rounded(records, 4)),
        ]
        for path, records in lines.items()
    }
    return {**found, **{name: summary(folder / name) for name in names}}


def test_an_evaluation_with_many_edits_in_force(old: Path) -> None:
    asked = ("--editors", "unedited,no-retains,ike", "--stored", "12", "--gate", "named")
    assert run("evaluate", "--run", "trained", *asked, "--out", "stored") == 0
    matches_golden("run_stored", contents(old / "stored", "summary.json"))
