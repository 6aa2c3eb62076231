"""A question that one edit shall not match: which others match it about their own subjects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drike.edits.record import EditRecord, EditVersion, Status
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.live import same_question
from drike.live.same_question import (
    SameQuestion,
    give_negatives,
    of_same_relation,
    same_questions,
    sentence_of,
)
from drike.stores.edit_store import EditStore
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from tests.fakes.commands import run

PLACES = {"Sweden": "Oslo", "Norway": "Malmo", "Denmark": "Aarhus"}
PORT = "Is the capital of Sweden a port?"


def capital(place: str, town: str) -> EditRecord:
    return EditRecord(place, f"The capital of {place} is", town)


@pytest.fixture
def store(tmp_path: Path) -> EditStore:
    opened = open_store(str(tmp_path / "edits.db"), create=True)
    for place, town in PLACES.items():
        opened.put(capital(place, town))
    opened.put(EditRecord("Norway", "The currency of Norway is", "shells"))
    return opened


def edits_of(store: EditStore) -> Sequence[EditVersion]:
    return snapshot(store).in_force(datetime.now(UTC))


def found(store: EditStore, text: str, edit_id: int = 1) -> list[SameQuestion]:
    edits = edits_of(store)
    [edit] = [one for one in edits if one.id == edit_id]
    index = EditIndex.of(edits)
    others = of_same_relation(edit, edits)
    return list(same_questions(text, edit, others, lambda query: Named().decide(query, index)))


def test_edits_of_the_same_relation_match_the_question_about_their_subjects(
    store: EditStore,
) -> None:
    same = found(store, PORT)
    assert [(one.edit.id, one.text) for one in same] == [
        (2, "Is the capital of Norway a port?"),
        (3, "Is the capital of Denmark a port?"),
    ]
    assert sentence_of(same) == (
        "2 other edits (the first is 2) still match the same question about another subject, such "
        "as 'Is the capital of Norway a port?'"
    )
    assert sentence_of(same[:1]).startswith("edit 2 still matches the same question")


def test_the_question_may_name_the_subject_in_any_way(store: EditStore) -> None:
    store.put(replace(capital("Finland", "Turku"), aliases=("Suomi",)))
    [*_, last] = found(store, "is SWEDEN's capital a port", 1)
    assert last.text == "is Finland's capital a port"
    assert found(store, "Is the capital of Suomi a port?", 5)[0].text == PORT


def test_what_names_no_subject_is_about_no_other(store: EditStore) -> None:
    assert found(store, "Is it a port?") == []
    assert found(store, "Is the currency of Norway stable?", 4) == []


def test_relations_are_told_by_their_name_or_by_the_query(store: EditStore) -> None:
    store.put(replace(capital("Peru", "Oslo"), relation="capital"))
    store.put(EditRecord("Chile", "Chile has the capital", "Rome", relation="Capital"))
    edits = {edit.record.subject: edit for edit in edits_of(store)}
    assert of_same_relation(edits["Peru"], edits.values()) == [edits["Chile"]]
    assert of_same_relation(edits["Denmark"], edits.values()) == [edits["Sweden"]]


def test_what_was_given_is_not_found_again(store: EditStore) -> None:
    changes = give_negatives(store, found(store, PORT), author="Anna", reason=None, propose=False)
    assert [change.record.negatives for change in changes] == [
        ("Is the capital of Norway a port?",),
        ("Is the capital of Denmark a port?",),
    ]
    assert found(store, PORT) == []


def test_who_may_not_decide_proposes(store: EditStore) -> None:
    changes = give_negatives(store, found(store, PORT), author="Anna", reason=None, propose=True)
    assert {change.record.status for change in changes} == {Status.PROPOSED}
    assert len(found(store, PORT)) == 2


def test_a_large_relation_is_looked_at_in_part(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_question, "MOST_LOOKED_AT", 1)
    assert len(found(store, PORT)) == 1


def test_the_command_says_which_and_gives_it_to_each(
    store: EditStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("drike.live.store_gate.usual_gate", Named)
    path = ("--store", store.name)
    assert run("edits", "change", "1", "--never", PORT, *path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "2 other edits (the first is 2) still match" in told and "with --alike" in told
    assert run("edits", "change", "1", "--never", PORT, "--alike", *path) == 0
    assert "2@2" in (told := capsys.readouterr().out) and "3@2" in told and "as of edit 1" in told
    assert [edit.record.negatives for edit in edits_of(store)][1:] == [
        ("Is the capital of Norway a port?",),
        ("Is the capital of Denmark a port?",),
        (),
    ]
    assert run("edits", "change", "1", "--old", "X", "--alike", *path) == 2
    assert "add --never" in " ".join(capsys.readouterr().err.split())
