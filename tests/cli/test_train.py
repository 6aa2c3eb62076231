"""`drike train`: what its options change, and what it saves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from drike import tinyfacts
from drike.cli.models import DEFAULTS, open_model
from drike.cli.options import ModelOptions
from drike.cli.setups import open_trained_run
from drike.encoders import HashingEncoder
from drike.models import ApiOptions
from drike.research import datasets
from drike.research.datasets.dataset import SplitIds
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.runs.checkpoint import load, save
from drike.research.runs.files import read_outcomes
from tests.fakes.commands import SMALL, run


@pytest.mark.parametrize("budget", ["all", "threshold"])
def test_a_budget_is_recorded_displayed_and_restored(
    budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    asked = (
        "train",
        *SMALL,
        "--edits",
        "8",
        "--test",
        "4",
        "--epochs",
        "1",
        "--max-shots",
        "12",
        "--budget",
        budget,
    )
    assert run(*asked, "--out", str(folder)) == 0
    assert json.loads((folder / "run.json").read_text("utf-8"))["settings"]["budget"] == budget
    [*_, line] = (folder / "episodes.jsonl").read_text("utf-8").splitlines()
    episode = json.loads(line)
    assert (episode["share"], episode["sigma"] is None) == (
        (1.0, True) if budget == "all" else (None, False)
    )
    restored = open_trained_run(folder).trained.budget
    assert isinstance(restored, Fraction if budget == "all" else Threshold)
    assert restored.max_shots == 12
    assert (
        run("evaluate", "--run", str(folder), "--editors", "dr-ike", "--out", str(tmp_path / "e"))
        == 0
    )
    shots = {
        outcome.shots for outcome in read_outcomes(tmp_path / "e" / "outcomes" / "dr-ike.jsonl")
    }
    assert shots == {12} if budget == "all" else max(shots) <= 12
    capsys.readouterr()
    assert (
        run(
            "edit",
            "--run",
            str(folder),
            "--fact",
            "The sky of Nowhere is -> green",
            "--every-query",
            "--explain",
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert (", a fixed share of 100%" if budget == "all" else "kept where p > sigma = ") in shown


def test_ctrl_c_keeps_the_episodes_and_outcomes_recorded_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from drike.models.reader import BayesianReader

    score, calls = BayesianReader.score, []

    def interrupted(self, requests):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) > 15:
            raise KeyboardInterrupt
        return score(self, requests)

    monkeypatch.setattr(BayesianReader, "score", interrupted)
    folder = tmp_path / "stopped"
    assert run("train", *SMALL, "--edits", "10", "--out", str(folder)) == 130
    assert "What was done so far" in " ".join(capsys.readouterr().err.split())
    assert len((folder / "episodes.jsonl").read_text("utf-8").splitlines()) == 15
    assert load(folder, encoder=HashingEncoder()).training["episodes"] == 15


def test_a_data_set_with_only_rewrite_probes_shows_other_metrics_as_not_available(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Temporal edits have rewrite probes only; other metrics are n/a, not 0."""
    rows = [
        [{"query": f"Ada {i} plays for _X_.", "answer": [{"name": name}], "date": date, "relation": "P54"}
         for date, name in (("2010", f"Old{i % 7}"), ("2020", f"New{i % 5}"))]
        for i in range(80)
    ]  # fmt: skip
    (tmp_path / "rows.json").write_text(json.dumps(rows), "utf-8")
    data, folder = ["--data", str(tmp_path / "rows.json")], tmp_path / "run"
    assert (
        run(
            "train",
            *SMALL,
            *data,
            "--edits",
            "3",
            "--test",
            "3",
            "--epochs",
            "1",
            "--out",
            str(folder),
        )
        == 0
    )
    assert "copies replace updates" in " ".join(capsys.readouterr().out.split())
    assert len(json.loads((folder / "run.json").read_text("utf-8"))["fallbacks"]) == 2
    assert (
        run(
            "evaluate",
            "--run",
            str(folder),
            "--editors",
            "unedited,ike,dr-ike",
            "--out",
            str(tmp_path / "e"),
        )
        == 0
    )
    summary = json.loads((tmp_path / "e" / "summary.json").read_text("utf-8"))["DR-IKE"]
    assert [summary[name]["value"] for name in ("pc", "rr", "s", "gsm")] == [None] * 4
    assert summary["esr"]["value"] is not None
    assert "| DR-IKE | n/a |" in (tmp_path / "e" / "table.md").read_text("utf-8")


def test_subset_and_zsre_target_are_recorded_and_reused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run keeps its subset and its choice of zsRE target."""
    rows = [
        {"subject": name, "src": f"Where is {name} from?", "alt": f"New{'x' * i}", "answers": ["Rome"],
         "rephrase": f"Whence is she, {'x' * i}?", "loc": "nq question: who", "loc_ans": "him"}
        for i in range(120) for name in ["Ada" if i % 2 else f"Ada{i}"]
    ]  # fmt: skip
    (tmp_path / "rows.json").write_text(json.dumps(rows), "utf-8")
    data, folder = ["--data", str(tmp_path / "rows.json")], tmp_path / "run"
    chosen = ["--subset", "numerical", "--zsre-target", "answers", "--edits", "2", "--epochs", "1"]
    assert run("train", *SMALL, *data, *chosen, "--out", str(folder)) == 0
    split = SplitIds.load(folder / "split.json")
    assert len(split.editable) == 30 and all(int(case_id) % 2 == 0 for case_id in split.editable)
    assert (
        run("evaluate", "--run", str(folder), "--editors", "dr-ike", "--out", str(tmp_path / "e"))
        == 0
    )
    outcomes = read_outcomes(tmp_path / "e" / "outcomes" / "dr-ike.jsonl")
    assert {o.target for o in outcomes if o.aspect == "rewrite"} == {"Rome"}
    assert "(numerical)" in (tmp_path / "e" / "table.md").read_text("utf-8")
    assert run("evaluate", "--run", str(folder), "--zsre-target", "alt") == 2
    assert run("evaluate", *SMALL, *data, "--subset", "odd") == 2
    assert "--subset must be numerical" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_retains_over_the_context_limit_are_pruned_and_usage_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "train"
    options = [
        "--encoder",
        "hashing",
        "--edits",
        "2",
        "--test",
        "1",
        "--epochs",
        "1",
        "--prompt-tokens",
        "480",
    ]
    assert run("train", "--model", "embedded", *options, "--out", str(folder)) == 0
    assert "Work of the model" in capsys.readouterr().out
    usage = json.loads((folder / "usage.json").read_text("utf-8"))["training"]
    episodes = [
        json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()
    ]
    assert usage["prompts"] == sum(episode["k"] for episode in episodes)
    parts = (usage["tokens_computed"], usage["tokens_shared"], usage["tokens_cached"])
    assert (
        sum(parts) == usage["prompt_tokens"] + usage["completion_tokens"]
        and usage["tokens_shared"] > 0
    )
    out = tmp_path / "evaluate"
    assert (
        run("evaluate", "--run", str(folder), "--editors", "ike,rank-all", "--out", str(out)) == 0
    )
    assert set(json.loads((out / "usage.json").read_text("utf-8"))) == {
        "IKE",
        "Rank-All",
        "judged both ways",
        "unedited answers",
    }
    outcomes = read_outcomes(out / "outcomes" / "ike.jsonl")
    assert all(outcome.shots + outcome.pruned == 16 for outcome in outcomes)
    assert any(outcome.pruned for outcome in outcomes)
    assert all((outcome.prompt_tokens or 0) <= 480 or outcome.shots == 1 for outcome in outcomes)


def test_a_token_limit_requires_a_model_that_counts_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            "train",
            *SMALL,
            "--prompt-tokens",
            "100",
            "--edits",
            "2",
            "--out",
            str(tmp_path / "run"),
        )
        == 2
    )
    assert "does not count tokens" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_no_tokenizer_is_opened_for_a_model_that_counts_tokens_itself(tmp_path: Path) -> None:
    options, api = ModelOptions(prompt_tokens=100), ApiOptions(tokenizer=str(tmp_path / "gone"))
    opened = open_model(options, api, DEFAULTS)
    assert opened.limit is not None and opened.limit.count == opened.model.count_tokens


def test_tinyfacts_can_be_combined_with_a_data_file(tmp_path: Path) -> None:
    row = json.loads(tinyfacts.ROWS.read_text("utf-8"))[0]
    more = tmp_path / "more.json"
    more.write_text(json.dumps([row | {"case_id": 90_000}]), "utf-8")
    assert (
        len(datasets.load("tinyfacts", str(more)).cases)
        == len(datasets.load("tinyfacts").cases) + 1
    )


def test_options_under_their_former_names_do_the_same(tmp_path: Path) -> None:
    asked = ("train", *SMALL, "--edits", "4", "--test", "1", "--epochs", "1", "--calibrate-on", "6")
    names = {
        "new": ("--objective", "s", "--guarantee"),
        "old": ("--objective", "balanced", "--promise"),
    }
    trained = {}
    for name, words in names.items():
        assert run(*asked, *words, "rr>=.05", "--out", str(tmp_path / name)) == 0
        trained[name] = load(tmp_path / name, encoder=HashingEncoder())
    new, old = trained["new"], trained["old"]
    assert new.promise == old.promise is not None and new.per_query and old.per_query
    assert (new.per_query.gate, new.per_query.shown) == (old.per_query.gate, old.per_query.shown)
    assert run("train", "--resume", str(tmp_path / "new")) == 0


@pytest.mark.slow
def test_a_guarantee_is_repeated_for_its_own_model_and_data_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, own = tmp_path / "t", tmp_path / "own.csv"
    asked = (
        "--edits",
        "4",
        "--test",
        "1",
        "--epochs",
        "1",
        "--calibrate-on",
        "6",
        "--objective",
        "s",
    )
    assert run("train", *SMALL, *asked, "--guarantee", "rr>=.05", "--out", str(folder)) == 0
    own.write_text(
        "prompt,target_new,subject,target_true\nThe mayor of Ur is,Ann,Ur,Bob\n", "utf-8"
    )
    others = (("--model", "embedded"), ("--data", str(own), "--pool", "tinyfacts"))
    for i, more in enumerate(((), *others)):
        capsys.readouterr()
        evaluated = (
            "evaluate",
            "--run",
            str(folder),
            "--test",
            "1",
            "--editors",
            "dr-ike-q",
            *more,
        )
        assert run(*evaluated, "--out", str(tmp_path / str(i))) == 0
        assert ("Guarantee of DR-IKE-Q" in capsys.readouterr().out) is (not more)
    stopped = replace(load(folder, encoder=HashingEncoder()), per_query=None, promise=None)
    save(stopped, folder)  # as a training leaves it that was stopped while it asked the probes
    assert (
        run(
            "evaluate",
            "--run",
            str(folder),
            "--test",
            "1",
            "--editors",
            "ike",
            "--out",
            str(tmp_path / "s"),
        )
        == 0
    )
    assert "drike train --resume" in " ".join(capsys.readouterr().out.split())


def test_a_prompt_limit_that_training_cannot_keep_says_what_is_needed_before_the_model_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "train",
        "--encoder",
        "hashing",
        "--edits",
        "2",
        "--test",
        "1",
        "--epochs",
        "1",
        "--prompt-tokens",
    ]
    assert run(*asked, "100", "--out", str(tmp_path / "short")) == 2
    said = " ".join(capsys.readouterr().err.split())
    [needed] = re.findall(
        r"--prompt-tokens 100 cannot be kept.* have up to (\d+) tokens: allow that many", said
    )
    assert not (tmp_path / "short" / "episodes.jsonl").exists()
    assert run(*asked, needed, "--out", str(tmp_path / "kept")) == 0
    lines = (tmp_path / "kept" / "episodes.jsonl").read_text("utf-8").splitlines()
    assert all(
        episode["prompt_tokens"] <= int(needed) * episode["k"] for episode in map(json.loads, lines)
    )
