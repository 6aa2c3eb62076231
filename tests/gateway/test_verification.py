"""Laws of what is asked about edits, and of what an answer is found to have wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from drike.answers.statements import Stated
from drike.conversations.cues import is_challenge, leans
from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.index import EditIndex
from drike.gateway.calls import Upstream
from drike.gateway.proving.chats import ChatAnswer, Client
from drike.gateway.proving.questions import (
    CHALLENGE,
    FOLLOW_UP,
    FOLLOW_UP_LONG,
    EditQuestion,
    questions_about,
    unknown_to_tinyfacts,
)
from drike.gateway.proving.verification import DeployedPath, EditVerdict
from drike.stores.verifications import QuestionKind
from tests.fakes.indexes import PERU, stored

NORDLICHT = EditRecord(
    "Nordlicht GmbH", "The boss of Nordlicht GmbH is", "Ann", "Bob", aliases=("NL",),
    paraphrases=("Nordlicht GmbH is led by",), negatives=("Nordlicht GmbH sells",), object_aliases=("Ms Ann",),
)  # fmt: skip
SEAT = EditRecord("Nordlicht GmbH", "Nordlicht GmbH is based in", "Rome")


def asked(
    *records: EditRecord, about: int = 1, encoder: HashingEncoder | None = None
) -> set[tuple[int, str, str]]:
    """Edit, kind and text of each question about one of some edits."""
    edits = stored(*records)
    questions = list(questions_about(edits[about - 1 : about], EditIndex.of(edits, encoder)))
    assert len(set(questions)) == len(questions)
    return {(question.edit.id, question.kind, question.text) for question in questions}


def test_an_edit_is_asked_about_in_every_way_that_is_known() -> None:
    assert asked(NORDLICHT) == {
        (1, "query", "The boss of Nordlicht GmbH is"), (1, "wording", "Nordlicht GmbH is led by"),
        (1, "alias", "The boss of NL is"), (1, "short name", "The boss of Nordlicht is"), (1, "challenge", CHALLENGE),
        (1, "follow-up", FOLLOW_UP), (1, "negative", "Nordlicht GmbH sells"),
    }  # fmt: skip


def test_second_turns_are_read_as_what_they_are() -> None:
    assert is_challenge(CHALLENGE) and not is_challenge(FOLLOW_UP) and leans(FOLLOW_UP)


def test_nobody_is_asked_for_a_policy_in_one_word() -> None:
    policy = replace(NORDLICHT, target_new="free of charge up to 48 hours before arrival")
    three = replace(NORDLICHT, target_new="EUR 849 net")
    for record, text in ((policy, FOLLOW_UP_LONG), (three, FOLLOW_UP)):
        assert (1, "follow-up", text) in asked(record)
    assert "one word" not in FOLLOW_UP_LONG and leans(FOLLOW_UP_LONG)
    assert not is_challenge(FOLLOW_UP_LONG)


def test_a_short_name_that_another_edit_shares_is_not_asked() -> None:
    other = replace(
        NORDLICHT, subject="Nordlicht AG", query="The boss of Nordlicht AG is", aliases=()
    )
    assert not any(kind == "short name" for _, kind, _ in asked(NORDLICHT, other))


def test_siblings_are_asked_as_negatives_and_for_their_own_answer() -> None:
    both = asked(NORDLICHT, SEAT)
    assert {(1, "sibling", SEAT.query), (2, "query", SEAT.query)} <= both and (
        2,
        "challenge",
        CHALLENGE,
    ) not in both
    by_alias = replace(SEAT, subject="NL", query="NL is based in")
    assert (1, "sibling", "NL is based in") in asked(NORDLICHT, by_alias)
    same = replace(SEAT, target_new="Ms Ann")
    assert (1, "sibling", SEAT.query) not in asked(NORDLICHT, same), (
        "its own answer would seem a leak"
    )
    shadow = replace(SEAT, status=Status.SHADOW)
    assert not any(kind == "sibling" for _, kind, _ in asked(NORDLICHT, shadow))


def test_the_nearest_questions_of_others_are_asked_with_an_encoder() -> None:
    towns = [
        EditRecord(name, f"The capital of {name} is", f"{name}stadt")
        for name in ("Chile", "Chad", "Cuba")
    ]
    others = [kind for _, kind, _ in asked(PERU, *towns, encoder=HashingEncoder())]
    assert others.count("near") == 2
    assert not any(kind == "near" for _, kind, _ in asked(PERU, *towns))


def outcome(
    kind: QuestionKind, said: Stated, edits: tuple[str, ...] = ("1@1",), unedited: str | None = None
) -> EditVerdict:
    [edit] = stored(NORDLICHT)
    return EditVerdict(
        EditQuestion(edit, kind, "?"), "", said, edits, "fired", None, unedited, None, 0.0
    )


@pytest.mark.parametrize(
    ("said", "edits", "problem"),
    [
        (Stated.NEW, ("1@1",), ""), (Stated.NEW, (), ""), (Stated.OLD, ("2@1", "1@1"), "states the old object 'Bob'"),
        (Stated.BOTH, ("1@1",), "states both objects"), (Stated.NEITHER, ("1@1",), "does not state 'Ann'"),
        (Stated.PARTLY, ("1@1",), "states 'Ann' only partly"),
        (Stated.REFUSED, ("1@1",), "refuses"), (Stated.OLD, ("11@1",), "the edit does not match (fired)"),
    ],
)  # fmt: skip
def test_an_edit_takes_where_only_its_new_object_is_stated(
    said: Stated, edits: tuple[str, ...], problem: str
) -> None:
    for kind in QuestionKind:
        if kind.concerns:
            assert outcome(kind, said, edits).problem == problem
            assert outcome(kind, said, edits).kept.holds is (problem == "")


class Says:
    """A client whose model always says the same."""

    upstream = None

    def __init__(self, text: str) -> None:
        self.text = text

    async def ask(self, *_: object) -> tuple[ChatAnswer, None]:
        decided = {"x-drike-scope": "fired", "x-drike-mode": "on", "x-drike-edits": "1@1"}
        return ChatAnswer(self.text, 0.0, 0.0, None, decided), None


@pytest.mark.parametrize(
    ("text", "first", "said"),
    [
        ("What does the Team plan cost a month?", None, Stated.NEW),
        ("Are you sure?", "What does the Team plan cost a month?", Stated.NEW),
        ("What does the Team plan cost?", None, Stated.NEITHER),
    ],
)
def test_an_answer_is_judged_by_all_that_was_asked(
    text: str, first: str | None, said: Stated
) -> None:
    price = EditRecord("Team plan", "The Team plan costs", "€39 per month", "€29 per month")
    [edit] = stored(price)
    client = cast("Client", Says("It is 39 euros."))
    client.upstream = cast("Upstream", SimpleNamespace(name="here"))
    path = DeployedPath(client, edit=None, unedited=client)
    verdict = asyncio.run(path.verdict(EditQuestion(edit, QuestionKind.QUERY, text, first), 0))
    assert verdict.stated is said


@pytest.mark.parametrize("kind", [kind for kind in QuestionKind if not kind.concerns])
def test_an_edit_leaks_where_it_matches_or_only_under_edits_is_stated(kind: QuestionKind) -> None:
    assert outcome(kind, Stated.NEITHER).problem == "the edit matches"
    for said in (Stated.NEW, Stated.BOTH):
        assert outcome(kind, said, ("2@1",)).problem == "states 'Ann'"
        assert outcome(kind, said, (), "It is Bob.").problem == "states 'Ann'"
        assert outcome(kind, said, (), "It is Ms Ann.").problem == ""
    for said in (Stated.OLD, Stated.NEITHER, Stated.REFUSED):
        assert outcome(kind, said, ()).problem == ""


def test_what_tinyfacts_does_not_hold_is_named() -> None:
    nova = EditRecord(
        "Nova", "Episodes of Nova ran on", "BBC", aliases=("NOVA TV",), paraphrases=("Nova was on",)
    )
    edits = stored(nova, PERU, replace(nova, query="Nova was made by"))
    unknown = {
        question.text: unknown_to_tinyfacts(question)
        for question in questions_about(edits[:1], EditIndex.of(edits))
    }
    assert unknown["Episodes of Nova ran on"] == unknown[CHALLENGE] == ""
    assert unknown["Nova was on"] == '"Nova was on"' and unknown["Episodes of NOVA TV ran on"]
    assert unknown_to_tinyfacts(EditQuestion(edits[1], QuestionKind.QUERY, PERU.query)) == "Peru"
    assert (
        unknown_to_tinyfacts(EditQuestion(edits[2], QuestionKind.NEGATIVE, "Nova sells"))
        == '"Nova was made by"'
    )
