"""Laws of wordings that a language model proposes for stored edits."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditRecord, Move
from drike.gates.proposals import Proposal, proposals
from drike.prompts import REWRITE, chat_messages
from drike.stores import moves
from drike.stores.edit_store import versions_of
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel

PERU = EditRecord(
    "Peru",
    "The capital of Peru is",
    "Oslo",
    "Lima",
    aliases=("Perú",),
    negatives=("Is Peru large?",),
)
WRITTEN = """<think>one, two</think>
1. Which city is Peru's capital?
- "Perú is governed from"
The capital of Peru is
is peru large?
Oslo is the capital of Peru
Is Lima the capital of Peru?
The capital of Chile is
Who rules Peru?
What country is Peru?
Peru's government sits in
Which city is Peru's capital?
Where do I find Peru?"""
GOOD = ["Which city is Peru's capital?", "Perú is governed from", "Peru's government sits in"]


def writer(text: str = WRITTEN, wrong: str = "Where do I find Peru?") -> ScriptedModel:
    return ScriptedModel(
        lambda prompt: text if prompt.startswith(REWRITE) else "No." if wrong in prompt else "Yes"
    )


def test_only_wordings_that_pass_every_check_may_be_stored() -> None:
    other = EditRecord(
        "Peru",
        "The seat of Peru's ministers is",
        "Rome",
        paraphrases=("Peru's government sits in",),
    )
    model = writer()
    [found] = proposals(model, [PERU], 20)
    assert [one.text for one in found if not one.problem] == GOOD
    assert {one.text: one.problem for one in found if one.problem} == {
        "The capital of Peru is": "is known already",
        "is peru large?": "is known already",
        "Oslo is the capital of Peru": "gives the answer Oslo",
        "Is Lima the capital of Peru?": "gives the answer Lima",
        "The capital of Chile is": "does not name Peru",
        "Who rules Peru?": "asks for something else",
        "What country is Peru?": "asks for something else",
        "Where do I find Peru?": "asks for something else, says the model",
    }
    assert model.calls == 2
    [found] = proposals(writer(), [PERU], 20, conflict_keys(PERU) | conflict_keys(other))
    assert (
        Proposal(GOOD[2], "asks what another edit answers") in found and Proposal(GOOD[0]) in found
    )


def test_no_more_wordings_than_wanted_are_proposed_and_none_for_no_edit() -> None:
    [found] = proposals(writer(), [PERU], 2)
    assert [one.text for one in found] == GOOD[:2]
    silent = writer("")
    assert proposals(silent, [PERU, PERU], 2) == [[], []] and silent.calls == 1
    assert proposals(silent, [], 2) == [] and silent.calls == 1


def test_a_chat_model_is_asked_for_wordings_as_it_is() -> None:
    model = writer()
    proposals(model, [PERU], 3)
    [message] = chat_messages(model.prompts[0])
    assert message["content"] == model.prompts[0] and "in 3 different ways" in model.prompts[0]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The model that commands open, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    made = writer()
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
    assert wordings(1) == ("Peru's seat is", *GOOD[:2])
    assert "1  Which city is Peru's capital?" in shown and "(is known already)" in shown
    assert "1@2" in shown and "(paraphrases by scripted)" in shown


def test_a_person_drops_bad_wordings(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*ADD, "--alias", "Perú")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    answers = iter(["", "99", "1, 2"])
    monkeypatch.setattr("typer.prompt", lambda *asked, **more: next(answers))
    assert run("edits", "reword", "--wordings", "20", "--model", "m") == 0
    assert wordings(1) == tuple(GOOD[:2])
    assert run("edits", "reword", "--model", "m") == 0 and model.calls == 2  # it has wordings now
    answers = iter(["none"])
    assert run("edits", "reword", "1", "--wordings", "20", "--model", "m") == 0
    assert wordings(1) == tuple(GOOD[:2]) and "none is stored" in capsys.readouterr().out


def test_wordings_need_a_model_and_somebody_to_look_at_them(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for more, words in (((), "give --model"), (("--model", "m"), "give --yes")):
        assert run(*ADD, "--wordings", "2", *more) == 2
        assert words in capsys.readouterr().err and not Path("edits.db").exists()
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
    assert "paraphrases by" in (reworded.record.reason or "")


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
