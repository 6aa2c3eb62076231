"""Laws of the questions that named an edit's subject and got nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.edits.record import EditRecord
from drike.gates.decision import Candidate, Decision
from drike.gateway import unanswered
from drike.gateway.unanswered import Unanswered, UnansweredQuestion
from tests.fakes.indexes import indexed, stored

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo")
CHAD = EditRecord("Chad", "The capital of Chad is", "Rome")
[PERU_EDIT, CHAD_EDIT] = stored(PERU, CHAD)


def decision(
    query: str, edit: object = PERU_EDIT, name: str | None = "peru", **more: object
) -> Decision:
    return Decision(query, candidates=(Candidate(edit, 0.3, name),), **more)  # type: ignore[arg-type]


def test_questions_are_counted_by_edit_up_to_case_and_punctuation() -> None:
    counts = Unanswered()
    for query in ("Where is Peru governed?", "where is peru governed", "Peru?"):
        counts.count(decision(query), f"at {query}")
    counts.count(decision("Chad?", CHAD_EDIT, "chad"), "then")
    counts.count(decision("Where?", PERU_EDIT, None), "no subject is named")
    counts.count(decision("What is it of Peru?", matched=(PERU_EDIT,)), "it matched")
    assert counts.by_edit(indexed(PERU, CHAD)) == {
        1: [
            UnansweredQuestion("where is peru governed", 2, "at where is peru governed"),
            UnansweredQuestion("Peru?", 1, "at Peru?"),
        ],
        2: [UnansweredQuestion("Chad?", 1, "then")],
    }


@pytest.mark.parametrize("field", ["paraphrases", "negatives"])
def test_a_question_that_has_become_a_text_of_its_edit_is_gone(field: str) -> None:
    counts = Unanswered()
    counts.count(decision("Where is Peru governed?"), "now")
    known = replace(PERU, **{field: ("where is Peru governed",)})
    assert counts.by_edit(indexed(known)) == {}
    assert counts.by_edit(indexed()) == {}  # nor has an edit that is gone any


def test_only_the_last_questions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "_MOST_QUESTIONS", 2)
    counts = Unanswered()
    for query in ("Peru 1?", "Peru 2?", "Peru 1?", "Peru 3?"):
        counts.count(decision(query), "now")
    assert {one.text for one in counts.by_edit(indexed(PERU))[1]} == {"Peru 1?", "Peru 3?"}
