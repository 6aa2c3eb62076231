"""`drike evaluate`: which edits and editors it compares, and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from drike import tinyfacts
from drike.cli.evaluate import swept
from drike.cli.setups import open_setup, open_trained_run
from drike.encoders import HashingEncoder
from drike.prompts import PromptStyle
from drike.research import datasets
from drike.research.datasets.dataset import SplitIds
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.catalog import make
from drike.research.editors.in_context import InContextEditor, ranks_retains
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.runs.files import read_outcomes
from tests.fakes.commands import SMALL, run
from tests.fakes.servers import chat_answer, serve


def test_evaluating_a_run_uses_the_settings_of_that_run(demo: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert (
        run("evaluate", "--run", str(demo), "--editors", "dr-ike,rank-all", "--out", str(again))
        == 0
    )
    first = read_outcomes(demo / "outcomes" / "dr-ike.jsonl")
    second = read_outcomes(again / "outcomes" / "dr-ike.jsonl")
    assert [(o.case_id, o.query, o.correct) for o in first] == [
        (o.case_id, o.query, o.correct) for o in second
    ]


@pytest.mark.slow
def test_additional_test_edits_never_overlap_the_training_edits(demo: Path, tmp_path: Path) -> None:
    trained = set(SplitIds.load(demo / "split.json").train)
    assert (
        run(
            "evaluate",
            "--run",
            str(demo),
            "--editors",
            "unedited",
            "--test",
            "200",
            "--out",
            str(tmp_path / "e"),
        )
        == 0
    )
    tested = {
        outcome.case_id for outcome in read_outcomes(tmp_path / "e" / "outcomes" / "unedited.jsonl")
    }
    assert len(tested) == 200 and not tested & trained
    assert run("evaluate", "--run", str(demo), "--seed", "3", "--out", str(tmp_path / "f")) == 2
    assert run("evaluate", "--run", str(demo), "--test", "459", "--out", str(tmp_path / "g")) == 2


def test_additional_test_edits_state_no_fact_that_was_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "twice.csv"
    facts = [f"The mayor of Town{i} is,Ann{i},Town{i},Bob{i}" for i in range(10)] * 2
    data.write_text("\n".join(["prompt,target_new,subject,target_true", *facts]), "utf-8")
    asked = (
        "--data",
        str(data),
        "--model",
        "reader",
        "--pool",
        "tinyfacts",
        "--encoder",
        "hashing",
        "--edits",
        "5",
        "--epochs",
        "1",
    )
    assert run("train", *asked, "--test", "1", "--out", str(tmp_path / "t")) == 0
    more = (
        "evaluate",
        "--run",
        str(tmp_path / "t"),
        "--editors",
        "unedited,dr-ike",
        "--out",
        str(tmp_path / "e"),
    )
    capsys.readouterr()
    assert run(*more, "--test", "100") == 2
    [most] = re.findall(r"ask for --test (\d+) or fewer", " ".join(capsys.readouterr().err.split()))
    assert run(*more, "--test", most) == 0
    split, cases = SplitIds.load(tmp_path / "t" / "split.json"), datasets.load(data).cases
    query = {case.case_id: case.edit.query for case in cases}
    tested = [query[o.case_id] for o in read_outcomes(tmp_path / "e" / "outcomes" / "dr-ike.jsonl")]
    assert 1 < len(tested) == len(set(tested)), "each fact once"
    assert set(tested).isdisjoint(query[id] for id in split.train)


def test_an_editor_named_twice_is_measured_once(tmp_path: Path) -> None:
    asked = ("evaluate", "--encoder", "hashing", "--test", "1", "--editors", "unedited,Unedited")
    assert run(*asked, "--out", str(tmp_path / "e")) == 0
    assert json.loads((tmp_path / "e" / "run.json").read_text("utf-8"))["settings"]["editors"] == [
        "Unedited"
    ]


def test_evaluation_words_its_prompts_as_training_did(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    switches = ("--retain", "bare", "--layout", "ike", "--no-own-copy", "--seed", "3")
    assert (
        run("train", *SMALL, "--edits", "5", "--epochs", "1", *switches, "--out", str(folder)) == 0
    )
    past = open_trained_run(folder)
    setup = open_setup(past.run, split=past.split)
    editor = make("dr-ike", pool=setup.pool, trained=past.trained)
    assert ranks_retains(editor)
    assert editor.style == PromptStyle("ike", own_copy=False, retain="bare")


@pytest.mark.slow
def test_sigmas_are_evaluated_as_separate_editors(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "variants"
    asked = ("--editors", "rank-50,dr-ike", "--sigmas", "0,.06,1")
    assert run("evaluate", "--run", str(demo), *asked, "--out", str(folder)) == 0
    shown = json.loads((folder / "summary.json").read_text("utf-8"))
    own = ["Rank-50%", "DR-IKE"]
    assert list(shown) == [*own, "DR-IKE (sigma .0)", "DR-IKE (sigma .06)", "DR-IKE (sigma 1.0)"]
    assert shown["DR-IKE (sigma .0)"]["shots"] == 16 and shown["DR-IKE (sigma 1.0)"]["shots"] == 1
    assert len(list((folder / "outcomes").iterdir())) == len(shown), "no two editors share a file"


def test_a_sigma_sweep_changes_only_the_threshold_of_the_run() -> None:
    encoder = HashingEncoder()
    pool = Pool(datasets.load(tinyfacts.ROWS).cases[459:], encoder)
    learned = InContextEditor(
        "DR-IKE", pool, RankAndCut(Retriever(encoder), Threshold(0.2, 7, "algorithm1"))
    )
    sigmas = [0.0, 0.06, 1.0]
    variants = swept(learned, sigmas)
    assert [editor.selector.budget for editor in variants] == [
        Threshold(s, 7, "algorithm1") for s in sigmas
    ]
    assert all(editor.selector.ranker is learned.selector.ranker for editor in variants)
    fixed = swept(
        InContextEditor("DR-IKE", pool, RankAndCut(Retriever(encoder), Fraction(0.5))), sigmas
    )
    assert [editor.selector.budget for editor in fixed] == [Threshold(s) for s in sigmas]


@pytest.mark.slow
def test_evaluating_on_other_data_excludes_the_trained_edits(tmp_path: Path) -> None:
    """The same rows as another data set, alone and in a file with a different order."""
    folder = tmp_path / "run"
    assert (
        run(
            "train",
            *SMALL,
            "--edits",
            "60",
            "--test",
            "10",
            "--epochs",
            "1",
            "--max-shots",
            "2",
            "--out",
            str(folder),
        )
        == 0
    )
    rows = json.loads(tinyfacts.ROWS.read_text("utf-8"))
    shuffled = tmp_path / "shuffled.json"
    shuffled.write_text(
        json.dumps([row | {"case_id": row["case_id"] + 7} for row in reversed(rows)]), "utf-8"
    )
    dataset = datasets.load(tinyfacts.ROWS)
    facts = {case.case_id: (case.edit.query, case.edit.target_new) for case in dataset.cases}
    learned = {facts[case_id] for case_id in SplitIds.load(folder / "split.json").train}
    for i, data in enumerate((["tinyfacts"], [str(shuffled)])):
        out = tmp_path / str(i)
        asked = [
            "--data",
            *data,
            "--editors",
            "unedited",
            "--test",
            "40",
            "--editable",
            "459",
            "--seed",
            "5",
        ]
        assert run("evaluate", "--run", str(folder), *asked, "--out", str(out)) == 0
        outcomes = read_outcomes(out / "outcomes" / "unedited.jsonl")
        cases = {
            case.case_id: case for case in datasets.load(*(data if i else [tinyfacts.ROWS])).cases
        }
        asked_about = {cases[outcome.case_id].edit for outcome in outcomes}
        assert len(asked_about) == 40
        assert not learned & {(edit.query, edit.target_new) for edit in asked_about}


def test_using_the_policy_of_a_stopped_training_prints_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert (
        run("train", *SMALL, "--edits", "4", "--test", "2", "--epochs", "1", "--out", str(folder))
        == 0
    )
    asked = ["evaluate", "--run", str(folder), "--editors", "dr-ike"]
    assert run(*asked, "--out", str(tmp_path / "e")) == 0
    assert "was stopped after" not in capsys.readouterr().out
    record = json.loads((folder / "run.json").read_text("utf-8"))
    record["settings"]["epochs"] = 3
    record.pop("sha256", None)
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    assert run(*asked, "--out", str(tmp_path / "f")) == 0
    assert "was stopped after 4 of 12 episodes" in " ".join(capsys.readouterr().out.split())


def test_a_run_folder_with_no_records_is_started_afresh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    asked = [
        "evaluate",
        "--encoder",
        "hashing",
        "--editors",
        "factprompt",
        "--test",
        "2",
        "--out",
        str(folder),
    ]
    assert run(*asked, "--model", "vllm:m@http://127.0.0.1:9/v1", "--deadline", "2") == 1
    assert "Continue with" not in capsys.readouterr().err
    assert not folder.exists(), "no folder may be left if nothing was recorded"
    assert run(*asked, "--model", "reader") == 0
    assert run(*asked, "--model", "reader") == 1
    assert "already holds a run" in " ".join(capsys.readouterr().err.split())


def test_a_run_of_which_no_answer_can_be_read_fails_and_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    asked = ["evaluate", "--encoder", "hashing", "--editors", "factprompt,unedited", "--test", "2"]
    empty = chat_answer("<think></think>\n\n")
    with serve(lambda handler, body: handler.reply_json(empty)) as served:
        assert run(*asked, "--out", str(folder), "--model", served.named()) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "no answer of some-model could be read" in said and "--thinking-tokens" in said
    assert not (folder / "table.md").exists() and not (folder / "summary.json").exists()
    kept = [json.loads(line) for path in folder.glob("outcomes*/*") for line in path.open()]
    kept += [json.loads(line) for path in folder.glob("outcomes*.jsonl") for line in path.open()]
    assert kept and not any(outcome["answer"].strip() for outcome in kept)

    assert run("evaluate", "--resume", str(folder)) == 1, "nor is it a result when it goes on"


@pytest.mark.slow
def test_prompts_too_long_even_without_retains_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "evaluate",
        "--encoder",
        "hashing",
        "--editors",
        "ike",
        "--test",
        "1",
        "--prompt-tokens",
    ]
    assert run(*asked, "10", "--out", str(tmp_path / "a")) == 0
    assert "are longer than 10 tokens" in " ".join(capsys.readouterr().out.split())
    assert run(*asked, "1000", "--out", str(tmp_path / "b")) == 0
    assert "are longer than" not in capsys.readouterr().out


def test_files_missing_from_a_model_folder_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "evaluate",
        "--encoder",
        "hashing",
        "--editors",
        "unedited",
        "--test",
        "1",
        "--model",
        str(tmp_path),
    ]
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert run(*asked, "--out", str(tmp_path / "out")) == 1
        assert f"holds no {name}" in " ".join(capsys.readouterr().err.split())
        (tmp_path / name).write_bytes((tinyfacts.MODEL / name).read_bytes())
    assert run(*asked, "--out", str(tmp_path / "out")) == 0


@pytest.mark.slow
def test_evaluating_a_run_includes_the_nearest_retain_controls(demo: Path, tmp_path: Path) -> None:
    assert run("evaluate", "--run", str(demo), "--test", "2", "--out", str(tmp_path / "e")) == 0
    summary = json.loads((tmp_path / "e" / "summary.json").read_text("utf-8"))
    assert summary["Nearest (k of DR-IKE)"]["shots"] == summary["DR-IKE"]["shots"]
    controls = "nearest@2,nearest@4,nearest-same-k"
    assert (
        run(
            "evaluate",
            "--run",
            str(demo),
            "--test",
            "2",
            "--editors",
            controls,
            "--out",
            str(tmp_path / "f"),
        )
        == 0
    )
    summary = json.loads((tmp_path / "f" / "summary.json").read_text("utf-8"))
    assert [round(row["shots"]) for row in summary.values()][:2] == [2, 4]
