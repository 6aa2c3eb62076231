"""Laws of captures: what a person changed in a draft is a fact, a wording of an edit, or style alone."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.live.captures import CaptureKind, Draft, DraftChange, changes_in
from drike.live.capturing import draft_of
from tests.fakes.indexes import indexed

RETURNS = EditRecord("Quill", "What is the return period at Quill?", "45 days", "30 days")


def decided(draft: str, sent: str, question: str = "", context: str = "") -> list[DraftChange]:
    return changes_in(Draft(draft, sent, question, context), indexed(RETURNS))


@pytest.mark.parametrize(
    ("draft", "sent", "old", "new"),
    [
        ("Hi! Aria costs 20 euros.", "Hello Ann, Aria costs EUR 25 now.", "20 euros", "EUR 25"),
        ("Aria opens at 8 am.", "Aria opens at 9:30. See you!", "8 am", "9:30"),
        ("Aria is led by Ann Lee.", "Aria is led by Bo Ek. Best, Tom", "Ann Lee", "Bo Ek"),
        ("Write to a@x.example for Aria.", "Write to b@x.example for Aria.", *"ab"),
        ("Aria leaves from pier 3.", "Aria leaves from pier 7.", "pier 3", "pier 7"),
        ("Aria comes in red and blue.", "Aria comes in red, blue and green.", "red and", "red, b"),
        ("A copy of Aria is free of charge.", "A copy of Aria is 12 euros.", "free", "12 euros"),
        ("Aria is closed on Monday.", "Aria is closed on Tuesday.", "Monday", "Tuesday"),
    ],
)
def test_a_value_that_takes_anothers_place_is_a_fact(
    draft: str, sent: str, old: str, new: str
) -> None:
    [change] = decided(draft, sent)
    assert change.kind is CaptureKind.EDIT and change.subject == "Aria"
    assert change.old.startswith(old) and change.new.startswith(new)


@pytest.mark.parametrize(
    ("draft", "sent", "question", "old", "new"),
    [
        ("The currency of Velonia is the kuna.", "The currency of Velonia is the euro.", "", "kuna",
         "euro"),
        ("Velonia uses the kuna.", "Velonia uses the euro.", "Which currency does Velonia use?",
         "kuna", "euro"),
        ("In Velonia, dial 1111.", "In Velonia, dial 112.", "What is Velonia's emergency number?",
         "1111", "112"),
        ("The PIN of the Velonia gate is 1999.", "The PIN of the Velonia gate is 123.", "", "1999",
         "123"),
        ("Bikes are kept in the cellar.", "Bikes are kept in the shed.", "Where are bikes kept?",
         "cellar", "shed"),
        ("The mascot of the Ravens is a raven.", "The mascot of the Ravens is an owl.",
         "What is the mascot of the Ravens?", "raven", "owl"),
        ("The Oriole band plays jazz.", "The Oriole band plays folk.",
         "What does the Oriole band play?", "jazz", "folk"),
    ],
)  # fmt: skip
def test_a_noun_or_a_bare_number_may_take_anothers_place(
    draft: str, sent: str, question: str, old: str, new: str
) -> None:
    [change] = decided(draft, sent, question)
    assert (change.kind, change.old, change.new) == (CaptureKind.EDIT, old, new)


@pytest.mark.parametrize(
    ("draft", "sent"),
    [
        ("The item will be sent in a box.", "The item will be sent in a carton."),
        ("The garden of the villa is a dream.", "The garden of the villa is a paradise."),
        ("The size of the room is enormous.", "The size of the room is huge."),
        ("This is a mistake on our side.", "This is an error on our side."),
        ("Aria costs 20 euros.", "The price of Aria is €20.00."),
        ("Aria opens at 8 am.", "You find Aria open from 8:00."),
        ("You have two weeks for Aria.", "For Aria there are 14 days."),
        ("The trip is on 4 May.", "Our trip is on May 4th."),
        ("Aria takes an hour and a half.", "Aria is done after 90 minutes."),
        ("Aria is led by Ann Lee. Best, Tom", "Ann Lee leads Aria. Kind regards, Petra"),
        ("Your order 88213 has left.", "Your order 88231 has left."),
        ("We can't take dogs at Aria.", "Unfortunately dogs are not allowed at Aria."),
        ("Aria comes in red and blue.", "Aria comes in blue and in red."),
        ("Aria costs 20 euros.", "Aria costs 20 euros. It is sold in 3 shops."),
    ],
)
def test_another_style_is_nothing(draft: str, sent: str) -> None:
    [change] = decided(draft, sent)
    assert change.kind is CaptureKind.NOTHING and change.why


def test_what_an_edit_says_already_is_a_wording_of_it() -> None:
    question = "How long do I have to send my pen back to Quill?"
    [change] = decided("Quill takes it for 30 days.", "Quill takes it for 45 days.", question)
    assert change.kind is CaptureKind.WORDING and change.edit is not None and change.edit.id == 1


def test_another_object_of_an_edit_changes_it() -> None:
    [change] = decided("Quill takes it back for 45 days.", "Quill takes it back for 60 days.")
    assert change.kind is CaptureKind.EDIT and change.edit is not None
    assert (change.edit.id, change.new, change.query) == (1, "60 days", RETURNS.query)


def test_yes_for_no_needs_the_question() -> None:
    texts = ("Yes, dogs are allowed at Aria.", "No, dogs are not allowed at Aria.")
    assert decided(*texts)[0].kind is CaptureKind.NOTHING
    [change] = decided(*texts, "Are dogs allowed at Aria?")
    assert (change.old, change.new, change.query) == ("yes", "no", "Are dogs allowed at Aria?")


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("Hi Mara, is it open?", "Is it open?"),
        ("Guten Tag Frau Roth, wann schließt der Laden?", "Wann schließt der Laden?"),
        ("Hello there! What does Aria cost?", "What does Aria cost?"),
        ("Hi-fi sets: how long is the guarantee?", "Hi-fi sets: how long is the guarantee?"),
        ("Hello!", "Hello!"),
    ],
)
def test_a_greeting_is_no_part_of_a_question(question: str, kept: str) -> None:
    given = draft_of({"draft": "a", "sent": "b", "question": question})
    assert given.draft.question == kept
