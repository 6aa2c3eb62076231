"""Answers in the voice of a chat model about what companies store, by the kind of object."""

from typing import NamedTuple

import pytest

from drike.answers.days import days_in
from drike.answers.policy_words import telling_stems
from drike.answers.statements import Stated, stated
from drike.answers.values import readings

NEW, OLD, PARTLY, NEITHER = Stated.NEW, Stated.OLD, Stated.PARTLY, Stated.NEITHER
WEEKDAYS = frozenset(range(5))


class Case(NamedTuple):
    """The objects of an edit, and what answers state of it."""

    new: str
    old: str
    question: str
    subject: str
    answers: dict[str, Stated]


CASES = {
    "hours": Case(
        "Wednesday to Sunday, 10:30 to 19:00",
        "Monday to Friday, 9:00 to 17:00",
        "When is the Larch museum open?",
        "Larch museum",
        {
            "Larch welcomes you **Wed–Sun from 10:30 am to 7 pm**.": NEW,
            "| Day | Hours |\n|---|---|\n| Mon-Fri | 9 am – 5 pm |": OLD,
            "On weekdays between nine and five o'clock.": OLD,
            "On Saturdays it opens at 10:30 in the morning.": PARTLY,
            "Wednesday to Saturday from 10:30 to 19:00.": NEITHER,
            "Wednesday to Sunday from 10:30 to 20:00.": NEITHER,
            "It's open 10:30 to 19:00, from Wednesday until Sunday, closed Mondays and Tuesdays.": NEW,
        },
    ),
    "two spans": Case(
        "weekdays 7:00–20:00, weekends 9:00–16:00",
        "daily 8:00–18:00",
        "What are the hours of the Elm pool?",
        "Elm pool",
        {
            "- Monday to Friday: 7 am to 8 pm\n- Saturday and Sunday: 9 am to 4 pm": NEW,
            "Every day from 8 am to 6 pm.": OLD,
            "From 8 am to 6 pm.": OLD,
            "At the weekend, from 9 am to 4 pm.": PARTLY,
        },
    ),
    "around the clock": Case(
        "around the clock",
        "9 am to 5 pm",
        "When is the hotline staffed?",
        "the hotline",
        {
            "You can call 24/7.": NEW,
            "It's staffed 24 hours a day.": NEW,
            "Somebody picks up from 9 to 17 o'clock.": OLD,
        },
    ),
    "closing time": Case(
        "7 pm",
        "6 pm",
        "Until when is the shop open?",
        "the shop",
        {
            "It's open until 18.00, so hurry!": OLD,
            "It doesn't close before seven in the evening.": NEW,
            "It closes at 7.": NEW,
        },
    ),
    "other ways": Case(
        "care@moss.example or +44 20 7946 0321",
        "help@moss.example",
        "How do I reach Moss?",
        "Moss",
        {
            "- **E-mail:** care@moss.example\n- **Phone:** 020 7946 0321": NEW,
            "You can call +44 (0)20 7946 0321.": PARTLY,
            "Write to `help@moss.example`.": OLD,
        },
    ),
    "page": Case(
        "https://my.fern.example/staff",
        "https://intranet.fern.example",
        "Where is the staff portal?",
        "the staff portal",
        {
            "Log in at [my.fern.example/staff](https://my.fern.example/staff/).": NEW,
            "Go to `intranet.fern.example` and sign in.": OLD,
            "Instead of intranet.fern.example it's now at my.fern.example/staff.": NEW,
            "Look at www.fern.example.": NEITHER,
        },
    ),
    "list of mixed case": Case(
        "passkeys, SAML and magic links",
        "passwords and SAML",
        "Which sign-in methods are there?",
        "sign-in methods",
        {
            "* Magic links\n* Passkeys\n* **SAML** single sign-on\n\nPasswords are gone.": NEW,
            "You can use a passkey or a magic link.": PARTLY,
            "A password, or SAML if it is set up.": OLD,
        },
    ),
    "place in a country": Case(
        "Bodø, Norway",
        "Gothenburg, Sweden",
        "Where is the data centre?",
        "the data centre",
        {
            "It's in Bodø, north of the Arctic Circle.": NEW,
            "Norway.": PARTLY,
            "It's hosted in Norway.": PARTLY,
            "In Oslo, Norway.": NEITHER,
            "In Gothenburg.": OLD,
        },
    ),
    "change of price": Case(
        "€118 a year",
        "€96 a year",
        "Is Linnet still 96 euros?",
        "Linnet annual plan",
        {
            "No. The yearly price went up from €96 to €118 in spring.": NEW,
            "It rose from €96 to €118 per year.": NEW,
            "If you pay once a year, it's €118.": NEW,
        },
    ),
    "version": Case(
        "Node 22",
        "Node 18",
        "Which Node version does the image use?",
        "the image",
        {
            "It ships with version 22.": NEW,
            "Node v22 (LTS). Node 18 and older are no longer supported.": NEW,
            "If it says Node 18, you should update.": NEITHER,
            "Node 18.": OLD,
        },
    ),
    "date in numbers": Case(
        "9 June 2027",
        "2 June 2027",
        "When does it start?",
        "the summit",
        {"On 02/06/2027.": OLD, "On 06/09/2027.": NEW, "On 09/06/2027.": NEW},
    ),
    "policy": Case(
        "Items can be returned within 45 days if unworn and with the receipt;"
        " sale items are excluded.",
        "Items can be returned within 30 days with the receipt.",
        "What is Alder's return policy?",
        "Alder returns",
        {
            "You've got 45 days to send things back, as long as:\n\n- they haven't been worn, and\n"
            "- you still have your receipt.\n\nAnything bought on sale can't be returned.": NEW,
            "You can bring it back within 45 days with the receipt.": PARTLY,
            "Bring the item with your receipt within thirty days, and you get a refund.": OLD,
            "Returns are possible within 20 days with the receipt.": NEITHER,
        },
    ),
    "policy of values": Case(
        "16 weeks, fully paid",
        "12 weeks, half paid",
        "How long is parental leave?",
        "parental leave",
        {
            "Sixteen weeks on full pay.": NEW,
            "Sixteen weeks, but half of the salary.": PARTLY,
            "14 weeks, fully paid.": NEITHER,
            "Twelve weeks at half pay.": OLD,
        },
    ),
    "yes or no in a sentence": Case(
        "no",
        "yes",
        "Does Lapwing refund shipping costs?",
        "Lapwing refunds",
        {
            "Shipping costs are not refunded, sorry about that.": NEW,
            "They don't.": NEW,
            "They do: you get back the shipping costs.": OLD,
            "Lapwing refunds shipping costs.": OLD,
            "Whether Lapwing refunds shipping costs depends on the case.": NEITHER,
            "I don't know whether it refunds shipping costs.": Stated.REFUSED,
        },
    ),
    "only some": Case(
        "all employees",
        "managers only",
        "Who may drive the company cars?",
        "company cars",
        {"They are reserved for managers.": OLD, "Only managers may.": OLD},
    ),
    "article": Case(
        "room 3.12",
        "the canteen",
        "Where do they meet?",
        "the team",
        {"They usually meet in the canteen.": OLD, "Our canteen.": OLD},
    ),
}
NAMED = [
    (name, answer, verdict)
    for name, case in CASES.items()
    for answer, verdict in case.answers.items()
]


@pytest.mark.parametrize(("name", "answer", "verdict"), NAMED)
def test_a_chat_models_answer_is_read(name: str, answer: str, verdict: Stated) -> None:
    case = CASES[name]
    said = stated(answer, [case.new], [case.old], about=[case.subject], question=case.question)
    assert said is verdict


def test_days_of_the_week_are_joined() -> None:
    assert [found.days for found in days_in("Mon-Wed and Fri, not at weekends")] == [
        frozenset((0, 1, 2, 4)),
        frozenset((5, 6)),
    ]
    assert days_in("montags bis freitags")[0].days == WEEKDAYS
    assert days_in("Mo-Fr")[0].days == WEEKDAYS
    assert days_in("Sat to Mon")[0].days == frozenset((5, 6, 0))
    assert days_in("So you can do it in May, or sat down with mon ami.") == ()


def test_a_date_of_two_readings_has_both() -> None:
    assert readings("02/06/2027") == ("2027 february d6", "2027 june d2")
    assert readings("31/01/2027") == ("2027 january d31",)


def test_words_that_say_the_same_have_one_stem() -> None:
    assert telling_stems("send it back") >= telling_stems("returned")
    assert telling_stems("There is no charge") >= telling_stems("no fee")
    assert telling_stems("an unworn shoe") == telling_stems("a shoe that is not worn")
