"""The command line: what it prints, saves and refuses, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console

from drike import datasets, tinyfacts
from drike.cli import app
from drike.cli import console as showing
from drike.cli.edit import parse_fact
from drike.cli.evaluate import swept
from drike.cli.opening import open_setup, open_trained_run
from drike.cli.options import PANELS
from drike.datasets.splits import SplitIds
from drike.editors.budgets import Fraction, Threshold
from drike.editors.catalog import make
from drike.editors.in_context import InContextEditor, ranks_retains
from drike.editors.learned_budgets import Controller
from drike.editors.pool import Pool
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.encoders import MINILM, HashingEncoder
from drike.errors import ModelError, UsageError
from drike.prompts import PromptStyle
from drike.report.paper import STUDIES
from drike.report.tables import COLUMNS, published
from drike.runs.checkpoint import load
from drike.runs.folder import append, read_outcomes
from drike.support.table import Table
from tests.worlds.commands import run

SMALL = ["--model", "reader", "--encoder", "hashing"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the demo on the closed-form reader."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    code = run("demo", *SMALL, "--edits", "20", "--test", "10", "--epochs", "2", "--out", str(folder))
    assert code == 0
    return folder


def commands() -> dict[str, Any]:
    """Yield every command with its name, including those in groups."""
    found, left = {}, [("drike", typer.main.get_command(app))]
    while left:
        name, command = left.pop()
        found[name] = command
        left += [(f"{name} {sub}", one) for sub, one in getattr(command, "commands", {}).items()]
    return found


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_and_option_has_a_help_text(name: str) -> None:
    command = commands()[name]
    assert command.help
    for option in command.params:
        assert getattr(option, "help", None), option.name
        assert not any("--no-no" in text for text in [*option.opts, *option.secondary_opts]), option.opts
        if type(option.default) is bool:
            assert not option.secondary_opts or option.name == "own_copy", "a flag has no --no- form"


@pytest.mark.parametrize(
    "name", sorted(name for name, command in commands().items() if not hasattr(command, "commands"))
)
def test_help_fits_80_columns_with_its_panels_in_order(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*name.split()[1:], "--help") == 0
    shown = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in shown.splitlines())
    panels = re.findall(r"^╭─ (.+?) ─", shown, re.MULTILINE)
    assert panels == [panel for panel in PANELS if panel in panels], "only known panels, always in the same order"
    assert all(len(option.metavar or "") <= 7 for option in commands()[name].params)
    assert "<" not in shown and "…" not in shown, "short metavars instead of types, and no word is cut"


def test_a_run_records_everything_needed_to_repeat_it(demo: Path) -> None:
    record = json.loads((demo / "run.json").read_text("utf-8"))
    assert record["settings"]["seed"] == 0
    assert record["data"][0]["sha256"] and record["versions"]["torch"] and record["model"]["name"]
    split = SplitIds.load(demo / "split.json")
    assert len(split.train) == 20 and len(split.test) == 10
    assert not set(split.train) & set(split.test)


def test_every_episode_and_outcome_is_recorded_on_one_line(demo: Path) -> None:
    episodes = [json.loads(line) for line in (demo / "episodes.jsonl").read_text("utf-8").splitlines()]
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
    assert len((demo / "answers.jsonl").read_text("utf-8").splitlines()) == 20 and loaded.per_query is not None


def test_the_run_folder_holds_the_results_table_with_the_papers_figures(demo: Path) -> None:
    table = (demo / "table.md").read_text("utf-8")
    assert "DR-IKE minus IKE" in table and "Llama-3.1-8B-Instruct" in table
    assert json.loads((demo / "summary.json").read_text("utf-8"))["DR-IKE"]["cases"] == 10


def test_evaluating_a_run_uses_the_settings_of_that_run(demo: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert run("evaluate", "--run", str(demo), "--editors", "dr-ike,rank-all", "--out", str(again)) == 0
    first = read_outcomes(demo / "outcomes" / "dr-ike.jsonl")
    second = read_outcomes(again / "outcomes" / "dr-ike.jsonl")
    assert [(o.case_id, o.query, o.correct) for o in first] == [(o.case_id, o.query, o.correct) for o in second]


def test_additional_test_edits_never_overlap_the_training_edits(demo: Path, tmp_path: Path) -> None:
    trained = set(SplitIds.load(demo / "split.json").train)
    assert (
        run("evaluate", "--run", str(demo), "--editors", "unedited", "--test", "400", "--out", str(tmp_path / "e")) == 0
    )
    tested = {outcome.case_id for outcome in read_outcomes(tmp_path / "e" / "outcomes" / "unedited.jsonl")}
    assert len(tested) == 400 and not tested & trained
    assert run("evaluate", "--run", str(demo), "--seed", "3", "--out", str(tmp_path / "f")) == 2
    assert run("evaluate", "--run", str(demo), "--test", "459", "--out", str(tmp_path / "g")) == 2


def test_evaluation_words_its_prompts_as_training_did(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    switches = ("--retain", "bare", "--layout", "ike", "--no-own-copy", "--seed", "3")
    assert run("train", *SMALL, "--edits", "5", "--epochs", "1", *switches, "--out", str(folder)) == 0
    past = open_trained_run(folder)
    setup = open_setup(list(past.run.data), encoder=past.run.encoder, seed=past.run.seed, split=past.split)
    editor = make("dr-ike", pool=setup.pool, trained=past.trained)
    assert ranks_retains(editor)
    assert editor.style == PromptStyle("ike", own_copy=False, retain="bare")


def test_orders_and_sigmas_are_evaluated_as_separate_editors(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "variants"
    asked = ("--editors", "rank-50,dr-ike", "--order", "policy,Shuffled", "--sigmas", "0,.06,1")
    assert run("evaluate", "--run", str(demo), *asked, "--out", str(folder)) == 0
    shown = json.loads((folder / "summary.json").read_text("utf-8"))
    own = ["Rank-50%", "DR-IKE"]
    moved = [f"{name} ({order})" for name in own for order in ("policy", "shuffled")]
    assert list(shown) == own + moved + ["DR-IKE (sigma .0)", "DR-IKE (sigma .06)", "DR-IKE (sigma 1.0)"]
    assert {name: shown[name]["shots"] for name in moved} == {
        name: shown[name.rpartition(" (")[0]]["shots"] for name in moved
    }
    assert shown["DR-IKE (sigma .0)"]["shots"] == 16 and shown["DR-IKE (sigma 1.0)"]["shots"] == 1
    assert len(list((folder / "outcomes").iterdir())) == len(shown), "no two editors share a file"
    table = (folder / "table.md").read_text("utf-8")
    for title in ("Retains per edit, DR-IKE", "Effect of the order of retains", "S against prompt length"):
        assert title in table and title in capsys.readouterr().out + table


def test_a_sigma_sweep_changes_only_the_threshold_of_the_run() -> None:
    encoder = HashingEncoder()
    pool = Pool(datasets.load(tinyfacts.rows_path()).cases[459:], encoder)
    learned = InContextEditor("DR-IKE", pool, RankAndCut(Retriever(encoder), Threshold(0.2, 7, "algorithm1")))
    sigmas = [0.0, 0.06, 1.0]
    assert [one.selector.budget for one in swept(learned, sigmas)] == [Threshold(s, 7, "algorithm1") for s in sigmas]
    fixed = swept(InContextEditor("DR-IKE", pool, RankAndCut(Retriever(encoder), Fraction(0.5))), sigmas)
    assert [one.selector.budget for one in fixed] == [Threshold(s) for s in sigmas]
    assert all(one.selector.ranker is learned.selector.ranker for one in swept(learned, sigmas))


def test_reward_delay_and_noise_are_recorded_and_change_training(tmp_path: Path) -> None:
    weights = {}
    for name, options in {"plain": (), "delayed": ("--delay", "30"), "noisy": ("--noise", "0.4")}.items():
        folder = tmp_path / name
        assert run("train", *SMALL, "--edits", "20", "--epochs", "1", *options, "--out", str(folder)) == 0
        settings = json.loads((folder / "run.json").read_text("utf-8"))["settings"]
        learned = load(folder, encoder=HashingEncoder())
        method = learned.training["method"]
        assert isinstance(method, dict) and all(method[name] == settings[name] for name in ("delay", "noise"))
        weights[name] = tuple(learned.retriever.head.weight.flatten().tolist())
    assert len(set(weights.values())) == 3


def test_the_paper_command_lists_studies_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper") == 0
    shown = capsys.readouterr().out
    assert all(one.name in shown for one in STUDIES) and "sh recipes/table2.sh" in " ".join(shown.split())
    assert run("paper", "table7") == 0
    shown = capsys.readouterr().out
    assert ".7533" in shown and "recipes/table7.sh" in shown and "Llama-3.1-8B-Instruct" in shown


@pytest.mark.parametrize("budget", ["all", "scores-query", "query-context"])
def test_a_learned_budget_is_recorded_displayed_and_restored(
    budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    asked = ("train", *SMALL, "--edits", "8", "--test", "4", "--epochs", "1", "--max-shots", "12", "--budget", budget)
    assert run(*asked, "--out", str(folder)) == 0
    assert json.loads((folder / "run.json").read_text("utf-8"))["settings"]["budget"] == budget
    [*_, line] = (folder / "episodes.jsonl").read_text("utf-8").splitlines()
    episode = json.loads(line)
    assert (episode["share"], episode["sigma"] is None) == ((1.0, True) if budget == "all" else (None, False))
    restored = open_trained_run(folder).trained.budget
    assert isinstance(restored, Fraction if budget == "all" else Controller)
    assert restored.max_shots == 12
    assert run("evaluate", "--run", str(folder), "--editors", "dr-ike", "--out", str(tmp_path / "e")) == 0
    shots = {outcome.shots for outcome in read_outcomes(tmp_path / "e" / "outcomes" / "dr-ike.jsonl")}
    assert shots == {12} if budget == "all" else max(shots) <= 12
    capsys.readouterr()
    assert (
        run("edit", "--run", str(folder), "--fact", "The sky of Nowhere is -> green", "--every-query", "--explain") == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert (", a fixed share of 100%" if budget == "all" else "kept where p > sigma = ") in shown


def test_edit_shows_before_after_and_why(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = datasets.load(tinyfacts.rows_path()).cases[0]
    fact = f"{case.edit.query} -> {case.edit.target_new}"
    assert run("edit", "--run", str(demo), "--fact", fact, "--ask", case.edit.query, "--explain", "--show-prompt") == 0
    shown = capsys.readouterr().out
    assert str(case.edit.target_true) in shown and case.edit.target_new in shown
    assert "sigma = " in shown and "New Fact: " in shown


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
    assert run("train", *SMALL, *data, "--edits", "3", "--test", "3", "--epochs", "1", "--out", str(folder)) == 0
    assert "copies replace updates" in " ".join(capsys.readouterr().out.split())
    assert len(json.loads((folder / "run.json").read_text("utf-8"))["fallbacks"]) == 2
    assert run("evaluate", "--run", str(folder), "--editors", "unedited,ike,dr-ike", "--out", str(tmp_path / "e")) == 0
    summary = json.loads((tmp_path / "e" / "summary.json").read_text("utf-8"))["DR-IKE"]
    assert [summary[name]["value"] for name in ("pc", "rr", "s", "gsm")] == [None] * 4
    assert summary["esr"]["value"] is not None
    assert "| DR-IKE | n/a |" in (tmp_path / "e" / "table.md").read_text("utf-8")


def test_subset_and_zsre_target_are_recorded_and_reused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert run("evaluate", "--run", str(folder), "--editors", "dr-ike", "--out", str(tmp_path / "e")) == 0
    outcomes = read_outcomes(tmp_path / "e" / "outcomes" / "dr-ike.jsonl")
    assert {o.target for o in outcomes if o.aspect == "rewrite"} == {"Rome"}
    assert "(numerical)" in (tmp_path / "e" / "table.md").read_text("utf-8")
    assert run("evaluate", "--run", str(folder), "--zsre-target", "alt") == 2
    assert run("evaluate", *SMALL, *data, "--subset", "odd") == 2
    assert "--subset must be numerical" in " ".join(capsys.readouterr().err.split())


REFUSED = {
    "zsre target": (["data", "inspect", "tinyfacts", "--zsre-target", "maze"], "--zsre-target must be alt or", 2),
    "no such file": (["data", "inspect", "nowhere.json"], "nowhere.json", 1),
    "no such model": (["evaluate", "--model", "./no/such/model", "--encoder", "hashing"], "no/such/model", 1),
    "no such editor": (["evaluate", *SMALL, "--editors", "magic"], "there is no editor 'magic'", 2),
    "untrained": (["evaluate", *SMALL, "--editors", "dr-ike"], "needs a trained retriever", 2),
    "no such order": (["evaluate", *SMALL, "--editors", "ike", "--order", "sideways"], "--order knows policy", 2),
    "order of nothing": (["evaluate", *SMALL, "--editors", "ike", "--order", "reversed"], "for trained editors", 2),
    "sigma": (["evaluate", *SMALL, "--sigmas", "2"], "dr-ike needs a trained retriever", 2),
    "no such study": (["paper", "table99"], "'table99' is not in the paper", 2),
    "no run": (["evaluate", "--run", "no-run"], "is not a run, as it holds no run.json", 1),
    "too many edits": (["train", *SMALL, "--edits", "5000"], "459 editable", 1),
    "form": (["train", *SMALL, "--form", "maze"], "--form must be dot or cross", 2),
    "budget": (["train", *SMALL, "--budget", "maze"], "--budget must be threshold or all", 2),
    "flip": (["train", *SMALL, "--flip", "maze"], "--flip must be", 2),
    "retain": (["train", *SMALL, "--retain", "maze"], "retain must be headed or bare", 2),
    "template": (["evaluate", *SMALL, "--template", "maze"], "--template must be plain or chat", 2),
    "fact without an object": (["edit", *SMALL, "--fact", "Oslo"], '--fact "QUERY -> OBJECT"', 2),
    "fact without an arrow": (["edit", *SMALL, "--fact", "The sky is green"], '--fact "QUERY -> OBJECT"', 2),
    "fact with two arrows": (["edit", *SMALL, "--fact", "A -> B -> C"], '--fact "QUERY -> OBJECT"', 2),
    "subject elsewhere": (["edit", *SMALL, "--fact", "It is -> green", "--subject", "Bo"], "does not occur in", 2),
    "no test edits": (["demo", *SMALL, "--test", "0"], "--test must be at least 1", 2),
    "range": (["train", *SMALL, "--noise", "nan"], "--noise must be between 0.0 and 1.0, not nan", 2),
    "no subject": (["edit", *SMALL, "--fact", "Nowhere is -> green"], "--every-query", 2),
    "subjects": (["edit", *SMALL, "--fact", "It is -> green", "--subject", "a", "--subject", "b"], "in order", 2),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_input_gives_one_sentence_and_an_exit_code(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message, code = REFUSED[kind]
    assert run(*arguments) == code
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Error: ") and message in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir()), "a refused command leaves no folder behind"


def test_an_output_folder_in_use_is_refused(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", *SMALL, "--out", str(demo)) == 1
    assert "already holds a run" in " ".join(capsys.readouterr().err.split())


def test_a_full_disk_is_reported_and_leaves_existing_files_intact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource
    import signal

    folder = tmp_path / "full"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        code = run("train", *SMALL, "--edits", "60", "--epochs", "2", "--out", str(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert code == 1
    assert "make room" in " ".join(capsys.readouterr().err.split())
    assert json.loads((folder / "run.json").read_text("utf-8"))["settings"]["edits"] == 60


def test_data_inspect_and_doctor_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "inspect", "tinyfacts", "--encoder", "hashing") == 0
    shown = capsys.readouterr().out
    assert "rewrite probes" in shown and "mean cosine similarity" in shown
    run("doctor")
    assert "torch" in capsys.readouterr().out


def test_inspecting_data_encodes_nothing_unless_similarity_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    monkeypatch.setattr("drike.cli.data.WatchedEncoder", lambda name: named.append(name) or HashingEncoder())
    assert run("data", "inspect", "tinyfacts") == 0 and not named
    assert "mean cosine similarity" not in capsys.readouterr().out
    assert run("data", "inspect", "tinyfacts", "--similarity") == 0
    assert run("data", "inspect", "tinyfacts", "--encoder", "hashing") == 0
    assert named == [MINILM, "hashing"] and capsys.readouterr().out.count("mean cosine similarity") == 2


def test_progress_is_printed_as_lines_where_no_bar_can_be_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "_LINES_EVERY", 0.0)
    assert run("data", "inspect", "tinyfacts", "--encoder", "hashing") == 0
    rows = len(datasets.load("tinyfacts").cases)
    assert f"encoding: {rows:,} of {rows:,}\n" in capsys.readouterr().err


def test_parse_fact_finds_the_subject() -> None:
    cases = datasets.load(tinyfacts.rows_path()).cases
    known = cases[0].edit
    parsed = parse_fact(f"{known.query} -> Atlantis", cases)
    assert (parsed.query, parsed.target_new, parsed.subject) == (known.query, "Atlantis", known.subject)
    assert parse_fact("The sky above Nowhereville is -> deep green", ()).target_new == "deep green"
    for wrong in ("-> green", "The sky above Nowhereville is green.", "A -> B -> C"):
        with pytest.raises(UsageError, match='--fact "QUERY -> OBJECT"'):
            parse_fact(wrong, ())


def test_only_an_incomplete_last_line_is_lost(demo: Path, tmp_path: Path) -> None:
    whole = (demo / "outcomes" / "ike.jsonl").read_text("utf-8")
    torn = tmp_path / "torn.jsonl"
    torn.write_text(whole[:-30], "utf-8")
    assert read_outcomes(torn) == read_outcomes(demo / "outcomes" / "ike.jsonl")[:-1]
    append(tmp_path / "lines.jsonl", [{"a": 1}, {"a": 2}])
    assert (tmp_path / "lines.jsonl").read_text("utf-8").count("\n") == 2


def test_retains_over_the_context_limit_are_pruned_and_usage_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "train"
    options = ["--encoder", "hashing", "--edits", "3", "--test", "2", "--epochs", "1", "--prompt-tokens", "480"]
    assert run("train", "--model", "embedded", *options, "--out", str(folder)) == 0
    assert "Work of the model" in capsys.readouterr().out
    usage = json.loads((folder / "usage.json").read_text("utf-8"))["training"]
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert usage["prompts"] == sum(episode["k"] for episode in episodes)
    parts = (usage["tokens_computed"], usage["tokens_shared"], usage["tokens_cached"])
    assert sum(parts) == usage["prompt_tokens"] + usage["completion_tokens"] and usage["tokens_shared"] > 0
    out = tmp_path / "evaluate"
    assert run("evaluate", "--run", str(folder), "--editors", "ike,rank-all", "--out", str(out)) == 0
    assert set(json.loads((out / "usage.json").read_text("utf-8"))) == {"IKE", "Rank-All", "judged both ways"}
    outcomes = read_outcomes(out / "outcomes" / "ike.jsonl")
    assert all(outcome.shots + outcome.pruned == 16 for outcome in outcomes)
    assert any(outcome.pruned for outcome in outcomes)
    assert all((outcome.prompt_tokens or 0) <= 480 or outcome.shots == 1 for outcome in outcomes)


def test_a_token_limit_requires_a_model_that_counts_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", *SMALL, "--prompt-tokens", "100", "--edits", "2", "--out", str(tmp_path / "run")) == 2
    assert "does not count tokens" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_evaluating_on_other_data_excludes_the_trained_edits(tmp_path: Path) -> None:
    """The same rows as another data set, alone and in a file with a different order."""
    folder = tmp_path / "run"
    assert run("train", *SMALL, "--edits", "200", "--test", "10", "--epochs", "1", "--out", str(folder)) == 0
    rows = json.loads(tinyfacts.rows_path().read_text("utf-8"))
    shuffled = tmp_path / "shuffled.json"
    shuffled.write_text(json.dumps([row | {"case_id": row["case_id"] + 7} for row in reversed(rows)]), "utf-8")
    dataset = datasets.load(tinyfacts.rows_path())
    facts = {case.case_id: (case.edit.query, case.edit.target_new) for case in dataset.cases}
    learned = {facts[case_id] for case_id in SplitIds.load(folder / "split.json").train}
    for i, data in enumerate((["tinyfacts"], [str(shuffled)])):
        out = tmp_path / str(i)
        asked = ["--data", *data, "--editors", "unedited", "--test", "40", "--editable", "459", "--seed", "5"]
        assert run("evaluate", "--run", str(folder), *asked, "--out", str(out)) == 0
        outcomes = read_outcomes(out / "outcomes" / "unedited.jsonl")
        cases = {case.case_id: case for case in datasets.load(*(data if i else [tinyfacts.rows_path()])).cases}
        asked_about = {cases[one.case_id].edit for one in outcomes}
        assert len(asked_about) == 40
        assert not learned & {(edit.query, edit.target_new) for edit in asked_about}


def test_using_the_policy_of_a_stopped_training_prints_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("train", *SMALL, "--edits", "4", "--test", "2", "--epochs", "1", "--out", str(folder)) == 0
    asked = ["evaluate", "--run", str(folder), "--editors", "dr-ike"]
    assert run(*asked, "--out", str(tmp_path / "e")) == 0
    assert "was stopped after" not in capsys.readouterr().out
    record = json.loads((folder / "run.json").read_text("utf-8"))
    record["settings"]["epochs"] = 3
    record.pop("sha256", None)
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    assert run(*asked, "--out", str(tmp_path / "f")) == 0
    assert "was stopped after 4 of 12 episodes" in " ".join(capsys.readouterr().out.split())


def test_a_run_folder_with_no_records_is_started_afresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    asked = ["evaluate", "--encoder", "hashing", "--editors", "factprompt", "--test", "2", "--out", str(folder)]
    assert run(*asked, "--model", "vllm:m@http://127.0.0.1:9/v1", "--deadline", "2") == 1
    assert "Continue with" not in capsys.readouterr().err
    assert not folder.exists(), "no folder may be left if nothing was recorded"
    assert run(*asked, "--model", "reader") == 0
    assert run(*asked, "--model", "reader") == 1
    assert "already holds a run" in " ".join(capsys.readouterr().err.split())


def test_prompts_too_long_even_without_retains_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["evaluate", "--encoder", "hashing", "--editors", "ike", "--test", "2", "--prompt-tokens"]
    assert run(*asked, "10", "--out", str(tmp_path / "a")) == 0
    assert "are longer than 10 tokens" in " ".join(capsys.readouterr().out.split())
    assert run(*asked, "1000", "--out", str(tmp_path / "b")) == 0
    assert "are longer than" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embeded", "did you mean embedded?"),
        ("gpt-4o", "did you mean openai:gpt-4o?"),
        ("openay:gpt", "SERVICE:MODEL"),
        ("m@http://127.0.0.1:9/v1", "SERVICE:MODEL"),
        ("vllm:m@ftp://127.0.0.1/v1", "contains no address of a server"),
    ],
)
def test_misspelt_model_names_are_distinguished_from_hub_names(
    name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evaluate", "--model", name, "--encoder", "hashing", "--editors", "unedited", "--test", "1") in (1, 2)
    assert expected in " ".join(capsys.readouterr().err.split())


def test_paths_in_errors_are_never_broken_across_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = tmp_path / ("a folder of a long name " * 5) / "run"
    assert run("evaluate", "--run", str(nowhere)) == 1
    assert str(nowhere) in capsys.readouterr().err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.split() == ["drike", metadata.version("drike")]


def test_version_is_printed_without_loading_torch() -> None:
    code = "import sys, drike.__main__ as m; sys.argv[1:] = ['--version']; m.main(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["drike", metadata.version("drike")]


def test_a_fact_accepts_any_arrow_and_conflicting_facts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arrow in ("->", "=>", "\N{RIGHTWARDS ARROW}"):
        edit = parse_fact(f"The capital of Peru is {arrow} Oslo", [])
        assert (edit.query, edit.target_new) == ("The capital of Peru is", "Oslo")
    facts = ["--fact", "The capital of Peru is -> Oslo", "--fact", "The capital of Peru is -> Rome"]
    assert run("edit", *SMALL, *facts) == 2
    assert "two new objects" in " ".join(capsys.readouterr().err.split())


def test_files_missing_from_a_model_folder_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["evaluate", "--encoder", "hashing", "--editors", "unedited", "--test", "1", "--model", str(tmp_path)]
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert run(*asked, "--out", str(tmp_path / "out")) == 1
        assert f"holds no {name}" in " ".join(capsys.readouterr().err.split())
        (tmp_path / name).write_bytes((tinyfacts.model_path() / name).read_bytes())
    assert run(*asked, "--out", str(tmp_path / "out")) == 0


def test_tinyfacts_can_be_combined_with_a_data_file(tmp_path: Path) -> None:
    row = json.loads(tinyfacts.rows_path().read_text("utf-8"))[0]
    more = tmp_path / "more.json"
    more.write_text(json.dumps([row | {"case_id": 90_000}]), "utf-8")
    assert len(datasets.load("tinyfacts", str(more)).cases) == len(datasets.load("tinyfacts").cases) + 1


@pytest.mark.parametrize("interval", ["[.00,1.00]", "[-.25,-.01]", "[-1.00,-.01]"])
def test_tables_break_no_name_or_number_at_80_columns(interval: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    names = ("FactPrompt", "EditCoT-full", "DR-IKE (similarity)")
    rows = tuple((name, *(f"-0.434 {interval}" for _ in COLUMNS)) for name in names)
    showing.draw(Table("x", ("Editor", *COLUMNS), rows))
    showing.draw(published())
    text = showing.console.export_text()
    words, low = text.split(), interval.split(",", maxsplit=1)[0]
    assert {"FactPrompt", "EditCoT-full", "DR-IKE", "(similarity)", "(Llama-3.1-8B-Instruct)"} <= {*words}
    assert text.count("-0.434") == len(names) * len(COLUMNS) == sum(word.startswith(f"{low},") for word in words)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_paths_in_messages_are_never_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """At 40 columns, in a separate process, because the width is read when drike is loaded."""
    folder = tmp_path / ("a-long-name-" * 8)
    command = [sys.executable, "-m", "drike"]
    narrow = {**os.environ, "COLUMNS": "40", "PYTHONPATH": os.pathsep.join(sys.path)}
    refused = subprocess.run(
        [*command, "evaluate", "--run", str(folder)], env=narrow, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1 and str(folder) in refused.stderr
    small = ["train", *SMALL, "--edits", "1", "--epochs", "1", "--out", str(folder)]
    saved = subprocess.run([*command, *small], env=narrow, capture_output=True, text=True, check=False)
    assert saved.returncode == 0 and f"Saved in {folder}. " in saved.stdout
    assert f"evaluate --run {folder}\n" in saved.stdout


@pytest.mark.parametrize("arguments", [["paper"], ["train", "--help"]])
def test_a_closed_output_pipe_is_not_an_error(arguments: list[str]) -> None:
    """As with `drike paper | head -2`; here the reader is gone before the first line."""
    read, write = os.pipe()
    os.close(read)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "drike", *arguments]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=where, text=True, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_before_the_first_record_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: HashingEncoder, texts: object, progress: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(HashingEncoder, "encode", interrupted)
    folder = tmp_path / "run"
    for command in ("train", "demo"):
        assert run(command, *SMALL, "--edits", "2", "--test", "2", "--out", str(folder)) == 130
        assert capsys.readouterr().err == "Stopped.\n"
        assert not folder.exists()


def test_the_demo_writes_to_runs_demo_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["demo", *SMALL, "--edits", "2", "--test", "1", "--epochs", "1"]
    for folder in ("runs/demo", "runs/demo-2"):
        assert run(*small) == 0
        said = capsys.readouterr().out
        assert (tmp_path / folder / "summary.json").exists()
        assert f"drike report {folder}\n" in said and f"drike edit --run {folder} --explain" in said


def test_suggested_commands_name_an_executable_drike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "drike"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert showing.this_command() == f"{sys.executable} -m drike"
    monkeypatch.setenv("PATH", "")
    script.touch()
    script.chmod(0o755)
    assert showing.this_command() == str(script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert showing.this_command() == "drike"


def test_doctor_fails_if_the_named_model_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--model", "/nope") == 1
    assert "missing" in capsys.readouterr().out


def test_edit_with_another_model_uses_the_runs_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("train", *SMALL, "--template", "plain", "--edits", "2", "--epochs", "1", "--out", str(folder)) == 0
    opened: list[object] = []

    def refuse(name: str, **options: object) -> None:
        opened.append(options["template"])
        raise ModelError("not here")

    monkeypatch.setattr("drike.cli.opening.load_model", refuse)
    fact = ("--fact", "It is -> green")
    assert run("edit", "--run", str(folder), "--model", "transformers:m@http://127.0.0.1:9/v1", *fact) == 1
    assert opened == ["plain"]


def test_resuming_with_the_wrong_command_names_the_right_one(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training, evaluation = tmp_path / "train", tmp_path / "evaluate"
    assert run("train", *SMALL, "--edits", "2", "--epochs", "1", "--out", str(training)) == 0
    assert run("evaluate", *SMALL, "--editors", "unedited", "--test", "1", "--out", str(evaluation)) == 0
    capsys.readouterr()
    assert run("evaluate", "--resume", str(training)) == 1
    said = capsys.readouterr().err
    assert f"evaluate it with --run {training}, or continue training with drike train --resume {training}" in said
    assert run("train", "--resume", str(evaluation)) == 1
    assert f"continue it with drike evaluate --resume {evaluation}" in capsys.readouterr().err


def test_evaluating_a_run_includes_the_nearest_retain_controls(demo: Path, tmp_path: Path) -> None:
    assert run("evaluate", "--run", str(demo), "--test", "2", "--out", str(tmp_path / "e")) == 0
    summary = json.loads((tmp_path / "e" / "summary.json").read_text("utf-8"))
    assert summary["Nearest (k of DR-IKE)"]["shots"] == summary["DR-IKE"]["shots"]
    controls = "nearest@2,nearest@4,nearest-same-k"
    assert run("evaluate", "--run", str(demo), "--test", "2", "--editors", controls, "--out", str(tmp_path / "f")) == 0
    summary = json.loads((tmp_path / "f" / "summary.json").read_text("utf-8"))
    assert [round(row["shots"]) for row in summary.values()][:2] == [2, 4]
