"""Runs read for a report, also unfinished and damaged ones, and which can share a table."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli.runs import CHANGEABLE
from drike.errors import ReportError, RunError
from drike.research.evaluation.metrics import summarise
from drike.research.report.document import document, example, markdown
from drike.research.report.groups import grouped, read_folders
from drike.research.report.reported_runs import NOT_COMPARED, read_runs
from drike.research.report.sentences import verdict
from tests.fakes.commands import run as cli
from tests.fakes.reports import run_of


def test_seeds_are_pooled_and_models_are_rows() -> None:
    first, second, other = run_of(0), run_of(1), run_of(0, model="another")
    groups = grouped([first, second, other])
    assert [(group.model, group.seeds()) for group in groups] == [
        ("some-model", (0, 1)),
        ("another", (0,)),
    ]
    pooled = groups[0].summaries["IKE"]
    assert pooled == summarise(
        [*first.outcomes["IKE"], *second.outcomes["IKE"]],
        [*first.outcomes["Unedited"], *second.outcomes["Unedited"]],
    )
    assert pooled.cases == len(set(first.test) | set(second.test))


@pytest.mark.parametrize("name", ["data", "template", "epochs", "budget"])
def test_runs_that_differ_in_a_setting_share_a_table_only_if_it_is_named_in_across(
    name: str,
) -> None:
    first, second = (
        run_of(0, budget="threshold"),
        run_of(1, **{"budget": "threshold", name: "another"}),
    )
    with pytest.raises(ReportError, match=f"differ in {name} .*--across {name}"):
        grouped([first, second])
    assert len(grouped([first, second], [name])) == 2
    with pytest.raises(ReportError, match="no run has a setting 'maze'"):
        grouped([first, second], ["maze"])


def test_options_on_which_no_result_depends_do_not_keep_runs_apart() -> None:
    assert CHANGEABLE < NOT_COMPARED


@pytest.mark.slow
def test_seeds_with_different_numbers_of_demonstrations_are_not_pooled(tmp_path: Path) -> None:
    """Whichever option made the difference; other data may have more or fewer rows."""
    rows = [f"{i},The mayor of Town{i} is,Ann{i},Bob{i}" for i in range(80)]
    for name in ("facts", "others"):
        text = "\n".join(
            ["case_id,prompt,target_new,target_true", *(rows if name == "facts" else rows[1:-1])]
        )
        (tmp_path / f"{name}.csv").write_text(text, "utf-8")
    for i, options in enumerate(([], ["--editable", "40"], ["--editable", "20"])):
        asked = [
            "--data",
            str(tmp_path / "facts.csv"),
            "--editors",
            "unedited",
            "--test",
            "4",
            "--seed",
            str(i),
        ]
        assert cli("evaluate", *asked, *options, "--out", str(tmp_path / str(i))) == 0
    other = [
        "--data",
        str(tmp_path / "others.csv"),
        "--editors",
        "unedited",
        "--test",
        "4",
        "--out",
        str(tmp_path / "3"),
    ]
    assert cli("evaluate", *other) == 0
    usual, same, fewer, others = read_runs([tmp_path / str(i) for i in range(4)])
    assert [group.seeds() for group in grouped([usual, same])] == [(0, 1)]
    with pytest.raises(
        ReportError, match=r"differ in editable \(all but 40 rows; all but 60 rows\)"
    ):
        grouped([usual, fewer])
    assert len(grouped([usual, others], ["data"])) == 2


def test_runs_that_cannot_be_compared_are_refused() -> None:
    run = run_of(0)
    refused = {
        "different test edits": replace(run, folder="b", test=("77",)),
        "differ in the dtype": replace(run_of(1), identity={"dtype": "bfloat16"}),
        "both measured": replace(run, folder="b"),
    }
    for message, other in refused.items():
        with pytest.raises(ReportError, match=message):
            grouped([run, other])


def test_editors_of_one_seed_can_come_from_several_runs() -> None:
    [group] = grouped([run_of(0, editors=["IKE", "Unedited"]), run_of(0, editors=["DR-IKE"])])
    assert list(group.outcomes) == ["Unedited", "IKE", "DR-IKE"] and group.comparable(
        "DR-IKE", "IKE"
    )
    [group] = grouped([run_of(0), run_of(1, editors=["DR-IKE"])])
    assert not group.comparable("DR-IKE", "IKE")
    assert "no other editor was measured on the same edits" in verdict(group)


def test_a_run_keeps_the_prompts_and_the_written_answers_of_a_sample(demo: Path) -> None:
    [run] = read_runs([demo])
    assert set(run.prompts) == set(run.outcomes)
    for editor, of_editor in run.outcomes.items():
        prompts_by_case = run.prompts[editor]
        written = run.written[editor]
        assert len(prompts_by_case) == 5
        assert set(prompts_by_case) <= set(written)
        for case_id, saved in prompts_by_case.items():
            of_case = [outcome for outcome in of_editor if outcome.case_id == case_id]
            queries = dict.fromkeys(outcome.query for outcome in of_case)
            assert list(saved.prompts) == list(queries)
            assert len(written[case_id]) == len(of_case)
            for outcome in of_case:
                blocks = [saved.blocks[i] for i in saved.prompts[outcome.query]]
                roles, texts = zip(*blocks, strict=True)
                assert roles.count("retain") == outcome.shots
                assert outcome.query in texts[-1]
    [group] = grouped([run])
    shown = example(group, group.ranked[0].editor)
    assert shown is not None
    assert shown.outcome.correct and shown.after == shown.outcome.target != shown.before


def test_the_report_of_an_evaluation_includes_its_training_run(copy: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert (
        cli("evaluate", "--run", str(copy), "--editors", "ike,rank-all", "--out", str(again)) == 0
    )
    [run] = read_runs([again])
    assert len(run.episodes) == run.asked_episodes == 30 and run.settings["epochs"] == "2"
    shutil.rmtree(again / "outcomes")
    shutil.rmtree(copy / "outcomes")
    with pytest.raises(RunError, match="has no outcomes: evaluate it"):
        read_runs([copy])
    assert (
        cli("evaluate", "--run", str(copy), "--editors", "ike", "--out", str(tmp_path / "other"))
        == 0
    )
    assert [run.folder for run in read_runs([copy, tmp_path / "other"])] == [
        str(tmp_path / "other")
    ]


def test_a_report_of_a_training_run_finds_its_evaluations(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two that measured the same editors the newer one; after the run has moved, too."""
    shutil.rmtree(copy / "outcomes")
    (copy / "summary.json").unlink()
    with pytest.raises(RunError, match="has no outcomes: evaluate it first"):
        read_folders([copy])
    for date, editors in (
        ("20270101-0000", "ike"),
        ("20270101-0001", "ike,factprompt"),
        ("20270102-0000", "dr-ike"),
    ):
        monkeypatch.setattr("time.strftime", lambda form, date=date: date)
        assert cli("evaluate", "--run", str(copy), "--editors", editors) == 0
    moved = copy.rename(tmp_path / "moved")
    runs, [note] = read_folders([moved])
    assert [list(run.outcomes) for run in runs] == [["DR-IKE"], ["FactPrompt", "IKE"]]
    assert {run.asked_episodes for run in runs} == {30}
    both = (f"20270101-{time}-evaluate" for time in ("0000", "0001"))
    left, kept = (moved / "evaluations" / name for name in both)
    assert note.startswith(f"{left} is left out: it and {kept} both measured IKE with seed 0")
    capsys.readouterr()
    assert cli("evaluate", "--resume", str(moved / "evaluations" / "20270102-0000-evaluate")) == 0
    assert f"report {moved}" in " ".join(capsys.readouterr().out.split())
    assert cli("report", str(moved)) == 0
    assert "is left out" in capsys.readouterr().out and (moved / "report.html").exists()


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:lines]), "utf-8")


def older(path: Path) -> None:
    record = json.loads(path.read_text("utf-8"))
    del record["data_fingerprint"], record["sha256"]
    path.write_text(json.dumps(record), "utf-8")


DAMAGED = {
    "no run": (lambda f: (f / "run.json").unlink(), "is not a run"),
    "half a run.json": (lambda f: (f / "run.json").write_text("{", "utf-8"), "run.json is damaged"),
    "an older run.json": (lambda f: older(f / "run.json"), "lacks data_fingerprint"),
    "no split": (lambda f: (f / "split.json").unlink(), "split"),
    "no outcomes": (lambda f: shutil.rmtree(f / "outcomes"), "has no outcomes"),
    "half an evaluation": (lambda f: cut(f / "outcomes" / "ike.jsonl", 20), "of 8 test edits"),
    "a case cut short": (lambda f: cut(f / "outcomes" / "ike.jsonl", -1), "same probes"),
    "an editor twice": (
        lambda f: shutil.copy(f / "outcomes" / "ike.jsonl", f / "outcomes" / "z.jsonl"),
        "twice",
    ),
    "older outcomes": (
        lambda f: (f / "outcomes" / "ike.jsonl").write_text('{"a": 1}\n', "utf-8"),
        "of this version",
    ),
    "older episodes": (
        lambda f: (f / "episodes.jsonl").write_text('{"a": 1}\n{}\n', "utf-8"),
        "train again",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_run_is_refused_in_one_sentence(
    kind: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, expected = DAMAGED[kind]
    damage(copy)
    capsys.readouterr()
    assert cli("report", str(copy)) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Error: ") and expected in said and "Traceback" not in said
    assert not (copy / "report.html").exists()


def test_an_episode_whose_line_was_cut_off_is_left_out(copy: Path) -> None:
    path = copy / "episodes.jsonl"
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    [run] = read_runs([copy])
    assert len(run.episodes) == 29
    assert "training stopped after 29 of 30 episodes" in markdown(document(grouped([run])))


def test_a_report_names_the_editors_that_a_stopped_evaluation_lacks(
    demo: Path, tmp_path: Path
) -> None:
    asked = ("--editors", "ike,rank-50,dr-ike", "--sigmas", ".06")
    assert cli("evaluate", "--run", str(demo), *asked, "--out", str(tmp_path / "e")) == 0
    [whole] = read_runs([tmp_path / "e"])
    assert whole.missing == () and not any(
        "Incomplete" in line for line in document(grouped([whole])).sections[0].text
    )
    for name in ("rank-50", "dr-ike-sigma-06"):
        (tmp_path / "e" / "outcomes" / f"{name}.jsonl").unlink()
    [torn] = read_runs([tmp_path / "e"])
    assert torn.missing == ("Rank-50%", "DR-IKE (sigma .06)")
    text = markdown(document(grouped([torn])))
    assert "has no outcomes of Rank-50%, DR-IKE (sigma .06)" in text and "evaluate --resume" in text


def test_a_report_says_whose_outcomes_are_missing_from_a_finished_run(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ike", "rank-50"):
        (copy / "outcomes" / f"{name}.jsonl").unlink()
    capsys.readouterr()
    assert cli("report", str(copy)) == 0
    expected = f"{copy} has no outcomes of IKE, Rank-50%"
    assert expected in " ".join(capsys.readouterr().out.split())
    for suffix in ("html", "md"):
        text = (copy / f"report.{suffix}").read_text("utf-8")
        assert "has no outcomes of IKE, Rank-50%" in text and "drike evaluate --run" in text


def test_reporting_an_unfinished_evaluation_names_the_command_that_resumes_it(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "e"
    assert (
        cli("evaluate", "--run", str(demo), "--editors", "ike,rank-50", "--out", str(folder)) == 0
    )
    cut(folder / "outcomes" / "ike.jsonl", 20)
    for _ in range(2):
        capsys.readouterr()
        assert cli("report", str(folder)) == 1
        assert f"drike evaluate --resume {folder}" in capsys.readouterr().err.replace(
            "\n", " "
        ).replace("  ", " ")
        shutil.rmtree(folder / "outcomes", ignore_errors=True)
    assert cli("evaluate", "--resume", str(folder)) == 0 and cli("report", str(folder)) == 0


def test_a_report_says_that_training_was_stopped(copy: Path) -> None:
    cut(copy / "episodes.jsonl", 6)
    assert "training stopped after 6 of 30 episodes" in markdown(
        document(grouped(read_runs([copy])))
    )


def test_a_folder_of_which_nothing_can_be_reported_is_refused(copy: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copy, tmp_path / "other"))
    for folder in (copy, other):
        shutil.rmtree(folder / "outcomes")
        (folder / "summary.json").unlink()
        assert cli("evaluate", "--run", str(folder), "--editors", "ike") == 0
    with pytest.raises(
        RunError, match=rf"nothing of {other} can be reported: .* both measured IKE"
    ):
        read_folders([copy, other])
