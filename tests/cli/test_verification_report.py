"""The report of a verification: which columns it has."""

from __future__ import annotations

import pytest

from drike.answers.statements import Stated
from drike.cli.verification_report import show
from drike.edits.record import EditRecord
from drike.gateway.proving.questions import EditQuestion
from drike.gateway.proving.verification import EditVerdict
from drike.stores.verifications import QuestionKind
from tests.fakes.indexes import stored

BAGS = EditRecord("Trip", "Take on the trip:", "tea, maps and ropes", "tea")


def verdicts(*said: Stated) -> list[EditVerdict]:
    [edit] = stored(BAGS)
    question = EditQuestion(edit, QuestionKind.QUERY, "?")
    return [
        EditVerdict(question, "", each, ("1@1",), "fired", None, None, None, 0.0) for each in said
    ]


def test_partly_has_a_column_where_an_answer_states_a_part_and_never_counts_as_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shares = show(verdicts(Stated.NEW, Stated.PARTLY, Stated.PARTLY, Stated.NEW), "m")
    printed = capsys.readouterr().out
    assert "partly" in printed.split("1@1")[0] and shares["took"] == 0.5
    show(verdicts(Stated.NEW, Stated.NEITHER), "m")
    assert "partly" not in capsys.readouterr().out
