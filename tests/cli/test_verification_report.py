"""The report of a verification: which columns it has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from drike.answers.statements import Stated
from drike.cli import verification_run
from drike.cli.verification_report import show
from drike.edits.record import EditRecord
from drike.gateway.proving.questions import EditQuestion
from drike.gateway.proving.verification import EditVerdict
from drike.models.served import ApiOptions
from drike.stores.verifications import QuestionKind
from tests.fakes.indexes import stored
from tests.fakes.models import ScriptedModel

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


def test_a_judge_model_decides_what_rules_leave_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = EditRecord(
        "Pets", "The rule is", "cats only if they stay in a carrier", "no pets may be brought"
    )
    [edit] = stored(policy)
    question = EditQuestion(edit, QuestionKind.QUERY, "The rule is")
    said = (Stated.NEITHER, Stated.OLD)
    verdicts = [EditVerdict(question, "Felines, boxed.", each, ("1@1",), "fired") for each in said]
    judge = ScriptedModel(lambda prompt: "yes" if "carrier" in prompt else "no")
    opened = SimpleNamespace(model=judge)
    monkeypatch.setattr("drike.cli.models.open_model", lambda *_: opened)
    settled = verification_run._settled(verdicts, "scripted", ApiOptions())
    assert [verdict.stated for verdict in settled] == [Stated.NEW, Stated.OLD]
    assert "scripted judged 1 answer that the rules leave undecided, 1 otherwise" in (
        " ".join("".join(capsys.readouterr()).split())
    )
    [decided] = verification_run._settled(verdicts[1:], "scripted", ApiOptions())
    assert decided is verdicts[1]
