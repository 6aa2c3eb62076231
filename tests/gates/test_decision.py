"""Laws of a decision."""

from __future__ import annotations

from dataclasses import replace

from drike.edits.record import EditRecord
from drike.gates.decision import Candidate, Decision, YesOrNo
from tests.fakes.indexes import stored


def test_an_answer_settles_what_is_in_doubt_and_nothing_else() -> None:
    edits = stored(
        *(EditRecord(name, f"{name} is led by", "Ann") for name in ("Peru", "Chile", "Cuba"))
    )
    candidates = tuple(
        Candidate(one, p, "name", uncertain=p < 0.9)
        for one, p in zip(edits, (0.9, 0.6, 0.4), strict=True)
    )
    decision = Decision("?", tuple(edits[:2]), candidates)
    yes, no, failed = YesOrNo
    for answers, expected in [
        ((yes, yes), [1, 2, 3]),
        ((no, yes), [1, 3]),
        ((failed, no), [1]),
        ((yes, failed), [1, 2]),
    ]:
        resolved = decision.resolved(answers)
        assert [one.id for one in resolved.matched] == expected
        assert [one.answer for one in resolved.candidates] == [None, *answers]
    unsure = replace(decision, matched=(), candidates=candidates[2:]).resolved([no])
    assert unsure.matched == () and unsure.reason == "in doubt, and the model does not say yes"
    assert "and the model says yes: edit 3" in decision.resolved((no, yes)).reason
