"""Questions that name no subject are about whom the system text says the assistant answers for."""

from __future__ import annotations

from functools import cache

import pytest

from drike.conversations.following import Follower
from drike.conversations.hosts import host_of
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.text.unnamed import HostLink, UnnamedQuestion
from tests.fakes.api_requests import chat
from tests.fakes.indexes import default_encoder, stored

FIRM = "Halvard & Finch"
FACTS = {
    "office": EditRecord(FIRM, f"The head office of {FIRM} is in", "Graz", "Linz"),
    "returns": EditRecord(FIRM, f"The return period of {FIRM} is", "45 days", "30 days"),
    "shipping": EditRecord(FIRM, f"{FIRM} ships to", "Germany, Austria and Italy"),
    "support": EditRecord(
        FIRM, f"The head of support of {FIRM} is", "Noor Petersen", "Karl Brandt"
    ),
    "founder": EditRecord(FIRM, f"The founder of {FIRM} is", "Mina Halvard"),
    "phone": EditRecord(FIRM, f"The phone number of {FIRM} is", "0316 555 010"),
    "rival": EditRecord("Moka GmbH", "The head office of Moka GmbH is in", "Bonn"),
    "hotel": EditRecord("Harbor hotel", "Check-in at the Harbor hotel starts at", "4 pm"),
    "price": EditRecord("Corvo 3", "The price of the Corvo 3 is", "EUR 649"),
}
SYSTEM = f"You are the support assistant of {FIRM}."


@cache
def index() -> EditIndex:
    return EditIndex.of(stored(*FACTS.values()), default_encoder())


def facts(*said: str, system: str = SYSTEM) -> list[str]:
    """The facts that the last of a user's turns gets."""
    by = Follower(lambda query: default_gate().decide(query, index()), index(), AsBlock())
    turns = [("system", system), *(("user", text) for text in said)]
    followed = by.follow(read(Api.CHAT, chat(turns)))
    applied = followed.decision.applied if followed.decision else ()
    return [list(FACTS)[edit.id - 1] for edit in applied]


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("Where is the head office?", "office"),
        ("What's the return policy?", "returns"),
        ("Do you ship to Austria?", "shipping"),
        ("Who is your head of support?", "support"),
        ("Who founded the company?", "founder"),
        ("Is Karl Brandt still your head of support?", "support"),
        ("Hello! I ordered a mill last week. What is your phone number?", "phone"),
        ("Could you tell me where your head office is?", "office"),
        ("Wo ist Ihr Hauptsitz?", "office"),
        ("How much is the Corvo 3?", "price"),
    ],
)
def test_a_question_to_an_assistant_is_about_whom_it_answers_for(question: str, fact: str) -> None:
    assert facts(question) == [fact]


@pytest.mark.parametrize(
    "question",
    [
        "Who founded Google?",
        "who founded google?",
        "Where is Amazon's head office?",
        "where is the headquarters of nestle?",
        "Do you know who founded Tesla?",
        "What is the phone number of the police?",
        "Does DHL ship to Austria?",
        "What's Zara's return policy?",
        "I love Google. Where is the head office?",
        "What is a phone number?",
        "How many people work for you?",
        "Do you like music?",
        "Tell me a joke.",
    ],
)
def test_a_named_other_subject_wins_and_nothing_else_gets_a_fact(question: str) -> None:
    assert facts(question) == []


def test_the_topic_names_another_subject_until_somebody_is_addressed() -> None:
    assert facts("What do you think of Google?", "Where is the head office?") == []
    assert facts("What do you think of Google?", "Where is your head office?") == ["office"]
    assert facts("How much is the Corvo 3?", "And what's your phone number?") == ["phone"]


@pytest.mark.parametrize(
    ("system", "fact"),
    [
        (f"You are the bot of {FIRM}. Never speak of Moka GmbH.", ["office"]),
        (f"Never speak of {FIRM}. You are the bot of Moka GmbH.", ["rival"]),
        (f"Some firms: {FIRM}, Moka GmbH.", []),  # in whose name it answers is not said
        ("You are a helpful assistant.", []),
    ],
)
def test_it_is_about_the_one_in_whose_name_the_assistant_answers(
    system: str, fact: list[str]
) -> None:
    assert facts("Where is your head office?", system=system) == fact


def test_a_host_may_be_called_by_its_name_and_its_kind_apart() -> None:
    system = "You are the concierge of Harbor, a hotel in Trieste."
    assert host_of(system, index()).called == {"hotel"}
    assert facts("When does check-in at the hotel start?", system=system) == ["hotel"]


def test_a_question_about_the_old_object_in_the_system_text_gets_the_fact() -> None:
    outdated = f"{SYSTEM} Complaints go to the head of support, Karl Brandt."
    assert facts("Who is Karl Brandt?", system=outdated) == ["support"]
    assert facts("Who is Karl Brandt?") == []


def test_a_document_with_an_old_object_leaves_the_question_its_subject() -> None:
    document = "Context: Head of support: Karl Brandt.\n\nQuestion: Who is the head of support?"
    assert facts(document) == ["support"]


def test_a_question_is_surely_about_a_fact_if_it_says_nothing_else() -> None:
    def link(question: str) -> HostLink:
        read_question = UnnamedQuestion.of(question, {"hotel"})
        return read_question.link({"pool", "close"}.__contains__, lambda word: False)

    assert link("When does the pool close?") is HostLink.SURE
    assert link("When does the pool close for cleaning?") is HostLink.NONE
    assert link("When does the pool of the hotel close?") is HostLink.SURE
    assert link("When does the heated pool close?") is HostLink.LOOSE
    assert link("When does lidl close?") is HostLink.NONE
    assert link("Who are you?") is HostLink.LOOSE
    assert link("Who is it?") is HostLink.LOOSE


def test_what_is_called_after_the_host_may_be_asked_for_without_a_name() -> None:
    plans = EditIndex.of(
        stored(
            EditRecord("Querystone Team plan", "The Querystone Team plan costs", "79 dollars"),
            EditRecord("Querystone Solo plan", "The Querystone Solo plan costs", "19 dollars"),
            EditRecord("Querystone API", "The current version of the Querystone API is", "v5"),
            EditRecord("Moka API", "The current version of the Moka API is", "v2"),
        ),
        default_encoder(),
    )

    def ids(question: str, system: str = "You are the assistant of Querystone.") -> list[int]:
        by = Follower(lambda query: default_gate().decide(query, plans), plans, AsBlock())
        followed = by.follow(read(Api.CHAT, chat([("system", system), ("user", question)])))
        return [edit.id for edit in followed.decision.applied] if followed.decision else []

    assert ids("Which API version are you on?") == [3]
    assert ids("What does your Solo plan cost?") == [2]
    assert ids("What does your Team plan cost?") == [1]
    assert ids("Why is the sky blue?") == []
    assert ids("Which API version are you on?", "You are the assistant of Acme.") == []


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("I'm writing for the Courier. Where is your head office?", ["office"]),
        ("We're from Boston, who is your head of support?", ["support"]),
        ("Where is the head office of the Courier?", []),
        ("Is there a phone number I can call?", ["phone"]),
        ("Wer ist bei euch Gründer?", ["founder"]),
    ],
)
def test_a_name_that_the_asker_says_of_himself_is_no_other_subject(
    question: str, fact: list[str]
) -> None:
    assert facts(question) == fact


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("hey wheres ur head office", "office"),
        ("do u ship to austria pls", "shipping"),
        ("whats ur phone nr", "phone"),
        ("whos ur head of suport", "support"),
    ],
)
def test_short_words_of_chats_ask_the_host(question: str, fact: str) -> None:
    assert facts(question) == [fact]


BANK = {
    "rate": EditRecord("Brell Bank", "The interest rate on savings at Brell Bank is", "2 %"),
    "fee": EditRecord("Brell Bank", "The account fee of Brell Bank is", "4 euros a month"),
    "cash": EditRecord("Brell Gold card", "Withdrawing cash with the Brell Gold card costs", "1 %"),
    "card": EditRecord("Brell Gold card", "The annual fee of the Brell Gold card is", "60 euros"),
}


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("whats ur interest rate", "rate"),
        ("do you take an account fee?", "fee"),
        ("what's the annual fee of the gold card?", "card"),
    ],
)
def test_of_a_host_and_its_products_the_fact_counts_that_says_what_is_asked(
    question: str, fact: str
) -> None:
    bank = EditIndex.of(stored(*BANK.values()), default_encoder())
    by = Follower(lambda query: default_gate().decide(query, bank), bank, AsBlock())
    turns = [("system", "You are the assistant of Brell Bank."), ("user", question)]
    decision = by.follow(read(Api.CHAT, chat(turns))).decision
    assert decision is not None
    assert [list(BANK)[edit.id - 1] for edit in decision.applied] == [fact]
