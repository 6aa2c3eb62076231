"""Laws of texts that no person wrote: they help where the subject is linked, and widen no edit beyond it."""

from __future__ import annotations

from dataclasses import replace

from drike.edits.record import EditRecord
from tests.fakes.indexes import GATE, indexed

PARKING = EditRecord("Tarn Hotel", "The Tarn Hotel charges for its garage", "9 euros")
ASKED = "What's the damage for leaving my car overnight at the Tarn Hotel?"
UNNAMED = "What's the damage for leaving my car overnight?"


def written(
    record: EditRecord, paraphrases: tuple[str, ...], negatives: tuple[str, ...] = ()
) -> EditRecord:
    by = dict.fromkeys((*paraphrases, *negatives), "model m")
    return replace(record, paraphrases=paraphrases, negatives=negatives, written_by=by)


def matched(query: str, *records: EditRecord) -> list[int]:
    return [edit.id for edit in GATE.decide(query, indexed(*records)).matched]


def test_a_written_question_without_the_name_concerns_the_edit_only_where_it_is_named() -> None:
    edit = written(PARKING, (UNNAMED,))
    assert matched(UNNAMED, edit) == []
    assert matched(UNNAMED, replace(edit, written_by=None)) == [1]  # a person may mean any
    [before], [after] = (GATE.decide(ASKED, indexed(one)).candidates for one in (PARKING, edit))
    assert before.probability < 0.98 and after.probability > 0.99


def test_a_written_question_with_the_name_concerns_the_edit_for_sure() -> None:
    edit = written(PARKING, (ASKED,))
    [candidate] = GATE.decide(ASKED, indexed(edit)).candidates
    assert candidate.probability == 1


def test_a_question_nearer_to_a_written_near_miss_gets_nothing() -> None:
    question = "What does a car wash in the garage of the Tarn Hotel cost?"
    wordings = ("How much is the garage of the Tarn Hotel?",)
    assert matched(question, written(PARKING, wordings)) == [1]
    near_miss = "How much does washing a car cost in the garage of the Tarn Hotel?"
    edit = written(PARKING, wordings, (near_miss,))
    assert matched(question, edit) == [] and matched(wordings[0], edit) == [1]
    by_people = replace(edit, written_by=None)  # theirs hold for themselves alone
    assert matched(question, by_people) == [1] and matched(near_miss, by_people) == []


def test_near_misses_without_paraphrases_hold_for_themselves_alone() -> None:
    near_miss = "What does the Tarn Hotel charge for its garage at night?"
    edit = written(PARKING, (), (near_miss,))
    assert matched("What does the Tarn Hotel charge for its garage?", edit) == [1]
    assert matched(near_miss, edit) == []


def test_written_questions_let_no_edit_stand_beside_a_nearer_one_of_its_subject() -> None:
    breakfast = EditRecord("Tarn Hotel", "Breakfast at the Tarn Hotel costs", "19 euros")
    wordings = ("How much is the garage of the Tarn Hotel?", "What do you pay at the Tarn Hotel?")
    edit = written(PARKING, wordings)
    question = "What does breakfast cost at the Tarn Hotel?"
    assert matched(question, edit, breakfast) == [2]
    assert matched(question, replace(edit, written_by=None), breakfast) == [2, 1]
