"""`drike edits add --propose` and `reword`: what is suggested is shown, struck out or stored."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from drike.edits.record import Move
from drike.stores import moves
from drike.stores.edit_store import versions_of
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel

WRITTEN = """1. Which city is Peru's capital?
Where is Peru governed from?
The capital of Peru is
Where does Peru have its seat of government?
OTHER:
Which river flows through Peru?"""
GOOD = (
    "Which city is Peru's capital?",
    "Where is Peru governed from?",
    "Where does Peru have its seat of government?",
)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The model that commands open, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    made = ScriptedModel(lambda prompt: WRITTEN)
    monkeypatch.setattr(
        "drike.cli.models.open_model", lambda *asked, **more: SimpleNamespace(model=made)
    )
    return made


def wordings(edit: int) -> tuple[str, ...]:
    store = open_store("edits.db")
    try:
        return snapshot(store).edits[edit].record.paraphrases
    finally:
        store.close()


ADD = ("edits", "add", "--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")


def test_wordings_are_proposed_when_an_edit_is_added(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*ADD, "--wording", "Peru's seat is", "--wordings", "3", "--model", "m", "--yes") == 0
    shown = capsys.readouterr().out
    assert wordings(1) == ("Peru's seat is", *GOOD) and model.calls == 1
    assert "It will answer:" in shown and "1  Which city is Peru's capital?" in shown
    assert "(is not a question)" in shown
    assert "It must not answer:" in shown and "4  Which river flows through Peru?" in shown
    assert "1@2" in shown and "(questions by model scripted)" in shown
    with closing(open_store("edits.db")) as store:
        record = snapshot(store).edits[1].record
    assert record.negatives == ("Which river flows through Peru?",)
    assert record.written_by == dict.fromkeys((*GOOD, *record.negatives), "model scripted")


def test_a_person_drops_bad_wordings(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*ADD)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    answers = iter(["", "99", "1, 2"])
    monkeypatch.setattr("typer.prompt", lambda *asked, **more: next(answers))
    assert run("edits", "reword", "--wordings", "20", "--model", "m") == 0
    assert wordings(1) == tuple(GOOD[:2])
    assert run("edits", "reword", "--model", "m") == 0 and model.calls == 1  # it has some now
    answers = iter(["none"])
    assert run("edits", "reword", "1", "--wordings", "20", "--model", "m") == 0
    assert wordings(1) == tuple(GOOD[:2]) and "none is stored" in capsys.readouterr().out


def test_questions_need_somebody_to_look_at_them(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for more in ((), ("--model", "m")):
        assert run(*ADD, "--wordings", "2", *more) == 2
        assert "give --yes" in capsys.readouterr().err and not Path("edits.db").exists()
    assert run("edits", "reword", "--model", "m", "--yes") == 1  # there is no store


def test_who_rewords_an_approved_edit_has_not_approved_it(model: ScriptedModel) -> None:
    run(
        "edits",
        "add",
        "--fact",
        "The capital of Peru is -> Oslo",
        "--subject",
        "Peru",
        "--status",
        "proposed",
    )
    with closing(open_store(Path("edits.db"))) as store:
        moves.approve(store, 1, author="Bob")
    assert run("edits", "reword", "--model", "m", "--yes") == 0
    with closing(open_store(Path("edits.db"))) as store:
        approved, reworded = versions_of(store, 1)[-2:]
    assert (
        approved.record.move is Move.APPROVE
        and reworded.record.move is None
        and reworded.record.paraphrases
    )
    assert "questions by" in (reworded.record.reason or "")


def test_a_wording_that_two_edits_get_is_stored_for_the_first(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    for query in (
        "The capital of Peru is",
        "The main port of Peru is",
        "The largest city of Peru is",
    ):
        run("edits", "add", "--fact", f"{query} -> Oslo", "--subject", "Peru")
    assert run("edits", "reword", "--model", "m", "--yes") == 0
    assert wordings(1) and not wordings(2) and not wordings(3)
    assert capsys.readouterr().out.count(f"{GOOD[0]} (asks what another edit answers)") == 2


def test_a_model_for_wordings_is_refused_where_none_are_wanted(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in (("--model", "m"), ("--yes",)):
        assert run(*ADD, *more) == 2 and "--propose" in capsys.readouterr().err
    assert not Path("edits.db").exists()


def test_without_a_model_the_templates_of_relations_are_shown(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    fact = ("edits", "add", "--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
    assert run(*fact, "--propose", "3", "--yes") == 0
    assert "capital" in wordings(1)[0] and len(wordings(1)) == 3 and not model.calls
    assert "(questions by templates)" in capsys.readouterr().out


def test_a_dry_run_says_what_it_costs_and_asks_nothing(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*ADD)
    store = ("--store", str(Path.cwd() / "edits.db"))
    monkeypatch.undo()  # the model is opened in earnest, to be counted
    price = ("--price-in", "1", "--price-out", "2")
    assert run("edits", "reword", "--dry-run", "--model", "openai:m", *price, *store) == 0
    shown = capsys.readouterr().out
    assert "nothing was sent" in shown and "money" in shown and "At most" in shown
    assert run("edits", "reword", "--dry-run", *store) == 2
    assert "give --model" in capsys.readouterr().err


def test_a_stopped_reword_goes_on_where_it_was(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in ("Peru", "Chile", "Cuba"):
        run("edits", "add", "--fact", f"The capital of {subject} is -> Oslo", "--subject", subject)
    monkeypatch.setattr("drike.cli.suggesting._AT_ONCE", 1)

    def written(prompt: str) -> str:
        subject = prompt.rpartition("Subject: ")[2].partition("\n")[0]
        if subject == "Cuba" and model.calls == 3:
            raise OSError("gone")
        return f"Where is {subject} governed from?"

    model.rule = written
    run("edits", "reword", "--model", "m", "--yes")
    assert wordings(1) and wordings(2) and not wordings(3)
    assert run("edits", "reword", "--model", "m", "--yes") == 0
    assert wordings(3) and model.calls == 4
