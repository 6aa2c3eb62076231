"""`drike edit`: facts on the command line, and the answers before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from drike import tinyfacts
from drike.cli.stored_edits import parse_fact
from drike.errors import ModelError, UsageError
from drike.research import datasets
from tests.fakes.commands import SMALL, run


def test_edit_shows_before_after_and_why(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = datasets.load(tinyfacts.ROWS).cases[0]
    fact = f"{case.edit.query} -> {case.edit.target_new}"
    asked = ("--ask", case.edit.query, "--gate", "named", "--explain", "--show-prompt")
    assert run("edit", "--run", str(demo), "--fact", fact, *asked) == 0
    shown = capsys.readouterr().out
    assert str(case.edit.target_true) in shown and case.edit.target_new in shown
    assert "sigma = " in shown and "New Fact: " in shown


def test_parse_fact_finds_the_subject() -> None:
    cases = datasets.load(tinyfacts.ROWS).cases
    known = cases[0].edit
    parsed = parse_fact(f"{known.query} -> Atlantis", cases)
    assert (parsed.query, parsed.target_new, parsed.subject) == (
        known.query,
        "Atlantis",
        known.subject,
    )
    assert parse_fact("The sky above Nowhereville is -> deep green", ()).target_new == "deep green"
    for wrong in ("-> green", "The sky above Nowhereville is green.", "A -> B -> C"):
        with pytest.raises(UsageError, match='--fact "QUERY -> OBJECT"'):
            parse_fact(wrong, ())


def test_a_fact_accepts_any_arrow_and_conflicting_facts_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arrow in ("->", "=>", "\N{RIGHTWARDS ARROW}"):
        edit = parse_fact(f"The capital of Peru is {arrow} Oslo", [])
        assert (edit.query, edit.target_new) == ("The capital of Peru is", "Oslo")
    facts = ["--fact", "The capital of Peru is -> Oslo", "--fact", "The capital of Peru is -> Rome"]
    assert run("edit", *SMALL, *facts) == 2
    assert "two new objects" in " ".join(capsys.readouterr().err.split())


def test_edit_with_another_model_uses_the_runs_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert (
        run(
            "train",
            *SMALL,
            "--template",
            "plain",
            "--edits",
            "2",
            "--epochs",
            "1",
            "--out",
            str(folder),
        )
        == 0
    )
    opened: list[object] = []

    def refuse(name: str, **options: object) -> None:
        opened.append(options["template"])
        raise ModelError("not here")

    monkeypatch.setattr("drike.cli.models.load", refuse)
    fact = ("--fact", "It is -> green")
    assert (
        run("edit", "--run", str(folder), "--model", "transformers:m@http://127.0.0.1:9/v1", *fact)
        == 1
    )
    assert opened == ["plain"]
