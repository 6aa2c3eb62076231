"""Objects of several parts in answers: lists, policies, yes or no; and what is no refusal."""

from __future__ import annotations

import pytest

from drike.answers.statements import Stated, stated

NEW, OLD, BOTH, NEITHER, REFUSED, PARTLY = Stated
COUNTRIES, OTHERS = "Norway, Sweden, Poland and Italy", "Norway, Malta"
SHIPS = "Which countries do they ship to?"
LISTS = [
    ("Italy, Poland, Sweden and Norway.", NEW),
    ("They ship to Poland as well as to Italy, Norway & Sweden.", NEW),
    ("- Sweden\n- Norway\n- Poland\n- Italy", NEW),
    ("Yes, they deliver to Poland.", PARTLY),
    ("Norway, Sweden and Poland", PARTLY),
    ("To Malta and Norway.", OLD),
    ("No, they do not ship to Poland.", NEITHER),
    ("To Chile.", NEITHER),
    ("I don't know the countries.", REFUSED),
]
POLICY = "Full refund within 14 days if the item is unused and in its original packaging"
FORMER = "Store credit only, no refunds"
POLICIES = [
    ("A full refund is given within 14 days if the item is unused, in original packaging.", NEW),
    (
        "If the item was not used and is in its original packaging, you get a full refund "
        "for two weeks.",
        NEW,
    ),
    ("You get a full refund within 14 days.", PARTLY),
    ("You get a full refund within 30 days if it is unused and in original packaging.", NEITHER),
    ("There is no refund, only store credit.", OLD),
    ("Our policy is generous.", NEITHER),
]
YES_OR_NO = [
    ("Yes, on a leash.", NEW),
    ("Yes, of course, as long as they are on a leash.", NEW),
    ("Dogs are allowed on a leash.", NEW),
    ("Yes, they are.", PARTLY),
    ("Unfortunately, no.", OLD),
    ("No, dogs are not allowed.", OLD),
    ("There is no rule about cats.", NEITHER),
    ("I don't know.", REFUSED),
]
HOURS = [
    ("Monday to Friday from 9:00 to 17:00", NEW),
    ("Monday to Friday from 9:00 to 15:00", NEITHER),
    ("Monday to Friday.", PARTLY),
]
NO_REFUSALS = [
    "I'm sorry to hear that. You can cancel at any time up to 48 hours before arrival.",
    "I'm not a lawyer, but contracts can be cancelled at any time.",
    "Sorry for the inconvenience! Please return the item by post.",
    "Unfortunately, bookings cannot be changed after that.",
    "No, Tomasz Wieczorek is no longer CFO; somebody else is.",
    "Sorry, they have moved to another town.",
]
REFUSALS = [
    "I'm sorry.",
    "I'm sorry to hear that, but I can't help with it.",
    "I won't discuss that.",
    "I'm not a lawyer, but I am not sure.",
]
ONE_NAME = [  # what looks like a list or a policy, and is one name
    ("Institute of Volcanology and Seismology", "an institute of seismology and volcanology"),
    ("Creative Commons CC0 License", "Creative Commons Attribution 4.0 License"),
    ("Supreme Court of the Republic of Peru", "the Supreme Court, in Peru"),
]


@pytest.mark.parametrize(("answer", "expected"), LISTS)
def test_a_list_is_stated_by_its_items_in_any_order(answer: str, expected: Stated) -> None:
    assert stated(answer, [COUNTRIES], [OTHERS], question=SHIPS) is expected


@pytest.mark.parametrize(("answer", "expected"), POLICIES)
def test_a_policy_is_stated_by_its_conditions(answer: str, expected: Stated) -> None:
    question = "What is the refund policy?"
    assert stated(answer, [POLICY], [FORMER], question=question) is expected


@pytest.mark.parametrize(("answer", "expected"), YES_OR_NO)
def test_yes_and_no_are_read_with_their_conditions(answer: str, expected: Stated) -> None:
    question = "Are dogs allowed in the office?"
    assert stated(answer, ["Yes, on a leash"], ["No"], question=question) is expected


def test_what_is_only_the_old_list_is_not_the_longer_new_one() -> None:
    new, old = ["coffee, tea, orange juice"], ["coffee, tea"]
    assert stated("Orange juice, coffee, tea.", new, old) is NEW
    assert stated("Coffee and tea.", new, old) is OLD
    assert stated("Tea and orange juice.", new, old) is PARTLY


@pytest.mark.parametrize(("answer", "expected"), HOURS)
def test_a_quantity_in_a_list_or_policy_must_be_the_same(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Monday to Friday, 9am to 5pm"], ["Saturday"]) is expected


def test_a_bound_of_a_policy_must_be_the_same() -> None:
    new = ["Passwords must have at least 12 characters and a digit"]
    assert stated("Passwords have at least 12 characters and a digit.", new) is NEW
    assert stated("Passwords have at most 12 characters and a digit.", new) is not NEW


def test_what_is_called_the_old_one_is_denied() -> None:
    assert stated("849 euros is the old price.", ["EUR 849"]) is NEITHER
    assert stated("Lima is the former capital. Oslo is the new one.", ["Oslo"], ["Lima"]) is NEW


@pytest.mark.parametrize("answer", NO_REFUSALS)
def test_politeness_and_what_others_cannot_do_is_no_refusal(answer: str) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is NEITHER


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_refusal_behind_politeness_is_one(answer: str) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is REFUSED


@pytest.mark.parametrize(("name", "answer"), ONE_NAME)
def test_a_long_name_is_no_list_and_no_policy(name: str, answer: str) -> None:
    assert stated(answer, [name]) is NEITHER


GYM = "May contractors use the gym?"


@pytest.mark.parametrize(
    "answer",
    [
        "Unfortunately not.",
        "I'm afraid not.",
        "Certainly not, it is for staff.",
        "The answer to this question is no.",
        "The short answer is: no, sorry.",
        "Thanks for asking! Sadly, no.",
        "Not at the moment.",
        "Leider nicht.",
        "Die Antwort lautet nein.",
    ],
)
def test_no_may_be_said_politely_and_in_other_words(answer: str) -> None:
    assert stated(answer, ["Yes"], ["No"], question=GYM) is OLD
    assert stated(answer, ["No"], ["Yes"], question=GYM) is NEW


@pytest.mark.parametrize(
    "answer", ["Of course.", "Absolutely!", "The answer is yes.", "Certainly, they may."]
)
def test_yes_may_be_said_in_other_words(answer: str) -> None:
    assert stated(answer, ["Yes"], ["No"], question=GYM) is NEW


@pytest.mark.parametrize("answer", ["Not only on weekdays.", "Not sure.", "It has a sauna."])
def test_not_everything_with_a_not_is_a_no(answer: str) -> None:
    assert stated(answer, ["No"], ["Yes"], question=GYM) is not NEW


GUESTS = "between 6 and 12 guests"
CARS = "private trips are allowed at weekends, trips abroad need approval by the fleet team"
NO_CARS = "private trips are forbidden"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("At most 12 guests.", PARTLY),
        ("The minimum group is 6 guests.", PARTLY),
        ("At most 13 guests.", NEITHER),
    ],
)
def test_one_bound_of_a_range_is_a_part_of_it(answer: str, said: Stated) -> None:
    assert stated(answer, [GUESTS], ["up to 30 guests"]) is said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            "You may use the car for private trips at weekends. Trips abroad have to be approved "
            "by the fleet team.",
            NEW,
        ),
        ("At weekends, private trips are fine.", PARTLY),
        ("No, private trips aren't allowed.", OLD),
        ("Private trips are prohibited.", OLD),
    ],
)
def test_what_is_allowed_is_not_what_is_forbidden(answer: str, said: Stated) -> None:
    assert stated(answer, [CARS], [NO_CARS], question="What about private trips?") is said


def test_another_amount_of_a_policy_contradicts_none_of_its_own() -> None:
    leave = "10 days at full pay, announced 4 days ahead"
    assert stated("You get 10 days at full pay.", [leave], ["5 days"]) is PARTLY


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Guests are welcome to swim in the pool.", PARTLY),
        ("Guests can swim in the pool if they bring a cap.", NEW),
        ("Guests cannot swim in the pool.", OLD),
        ("I am not sure whether guests may swim in the pool.", REFUSED),
    ],
)
def test_yes_or_no_may_be_said_by_what_is_allowed(answer: str, said: Stated) -> None:
    question = "May guests swim in the pool?"
    assert stated(answer, ["Yes, if they bring a cap"], ["No"], question=question) is said


@pytest.mark.parametrize(
    "answer", ["In Czechia, Poland and the UK.", "the United Kingdom, Poland, Tschechien"]
)
def test_places_in_a_list_may_have_other_names(answer: str) -> None:
    assert stated(answer, ["Poland, the Czech Republic and the UK"], ["Poland"]) is NEW
    assert stated("Poland and Czechia", ["Poland, the Czech Republic and the UK"]) is PARTLY


def test_two_names_of_which_the_other_object_is_one_are_a_list() -> None:
    assert stated("Bo Lind and Ann Berg did.", ["Ann Berg and Bo Lind"], ["Bo Lind"]) is NEW
    assert stated("Bo Lind did.", ["Ann Berg and Bo Lind"], ["Bo Lind"]) is OLD
