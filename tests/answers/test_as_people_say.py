"""Answers as people word them: how often, what was, what was not asked, rules turned round."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from drike.answers.frequencies import frequency_of
from drike.answers.number_words import spelled_in_digits
from drike.answers.statements import Stated, stated

NEW, OLD, BOTH, NEITHER, REFUSED, PARTLY = Stated


class Kind(NamedTuple):
    """An edit of a kind, and answers with what they state."""

    new: str
    old: str
    question: str
    answers: dict[str, Stated]


KINDS = {
    "frequency": Kind(
        "every 6 hours",
        "daily",
        "How often are backups made?",
        {
            "Four times a day.": NEW,
            "Alle sechs Stunden.": NEW,
            "Toutes les six heures.": NEW,
            "Viermal am Tag.": NEW,
            "It changed from daily to every six hours.": NEW,
            "Every night at 2, so once per day.": OLD,
            "Every 24 hours.": OLD,
            "Every six days.": NEITHER,
        },
    ),
    "what was": Kind(
        "45 minutes",
        "30 minutes",
        "How long is a lesson?",
        {
            "Back then it was 30 minutes; today it's 45 minutes.": NEW,
            "Hasta el año pasado eran 30 minutos; ahora son 45 minutos.": NEW,
            "Lessons are 45 minutes long, up from 30 minutes.": NEW,
            "45 minutes (previously 30).": NEW,
            "They take three quarters of an hour.": NEW,
            "Until last year it was 30 minutes. I'm not sure about now.": REFUSED,
        },
    ),
    "a place beside": Kind(
        "Tallinn, Estonia",
        "Riga, Latvia",
        "Where is the lab?",
        {
            "In Tallinn, with a replica in Riga.": NEW,
            "The lab left Riga for Tallinn in 2024.": NEW,
            "They gave up the Riga site and opened a new one in Tallinn.": NEW,
            "This year it's in Tallinn, after five years in Riga.": NEW,
            "In Riga, with a branch in Tallinn.": OLD,
        },
    ),
    "a rule turned round": Kind(
        "No refunds after 14 days",
        "No refunds after 30 days",
        "What is the refund policy?",
        {
            "Refunds are possible within 14 days.": NEW,
            "After 14 days, no refunds are given.": NEW,
            "After 30 days we can't refund.": OLD,
            "Refunds are only made after 14 days.": NEITHER,
            "Refunds are granted from day 14 on.": NEITHER,
        },
    ),
    "a time turned round": Kind(
        "Orders placed before 2 pm ship the same day",
        "Orders placed before noon ship the same day",
        "When will my order ship?",
        {
            "If you order before 2 pm, it ships the same day.": NEW,
            "Orders before 12:00 are shipped the same day.": OLD,
            "Orders placed after 2 pm ship the same day.": NEITHER,
        },
    ),
    "opposites": Kind(
        "not refundable",
        "refundable",
        "Is the ticket refundable?",
        {
            "No, it's non-refundable.": NEW,
            "The ticket can't be refunded.": NEW,
            "Yes, you get your money back.": OLD,
            "Check the terms.": NEITHER,
        },
    ),
    "whether not": Kind(
        "no",
        "yes",
        "Is it right that I can no longer pay in cash?",
        {
            "Correct.": NEW,
            "That's right, cash isn't accepted any more.": NEW,
            "No, you can still pay in cash.": OLD,
        },
    ),
    "version": Kind(
        "Python 3.11",
        "Python 3.9",
        "Which Python does the SDK need?",
        {
            "The minimum is 3.11 now.": NEW,
            "v3.11 or later.": NEW,
            "Any version from 3.9 upwards works.": OLD,
            "3.11.4": NEITHER,
        },
    ),
    "behind a preposition": Kind(
        "at counter 4",
        "at counter 2",
        "Where do I get my results?",
        {"Please go to counter 4.": NEW, "Go past counter 4 to counter 2.": OLD},
    ),
    "a mere number": Kind(
        "120 seats",
        "90 seats",
        "How large is the hall?",
        {
            "The capacity of the hall is 120.": NEW,
            "It was enlarged from 90 to 120.": NEW,
            "It's in building 120.": NEITHER,
        },
    ),
    "another's place": Kind(
        "Lena Ortiz",
        "Paul Weber",
        "Who is the head of sales?",
        {
            "Paul Weber's successor, Lena Ortiz.": NEW,
            "You're thinking of Paul Weber, but it's Lena Ortiz.": NEW,
            "Lena Ortiz reports to the head of sales.": NEITHER,
            "Ask Lena Ortiz, she may know.": NEITHER,
        },
    ),
    "another thing": Kind(
        "12 %",
        "10 %",
        "What discount do members get?",
        {"Members get 10 % off, and 12 % off gift cards.": OLD},
    ),
    "what question and objects share": Kind(
        "closed on Mondays",
        "closed on Sundays",
        "When is the museum closed?",
        {"It's every Monday.": NEW, "Every Sunday.": OLD},
    ),
    "a part of a rule": Kind(
        "Late books cost 20 cents a day after a grace period of 3 days",
        "Late books cost 50 cents a day",
        "What happens if I bring a book back late?",
        {"It's 20 cents a day.": PARTLY, "You'll be charged fifty cents per day.": OLD},
    ),
    "one noun for a list": Kind(
        "oat milk, soy milk",
        "soy milk",
        "Which plant milks do you have?",
        {"Oat and soy milk.": NEW, "Only soy milk.": OLD},
    ),
}
KINDS |= {
    "allowed or not": Kind(
        "prohibited",
        "permitted",
        "Is filming permitted in the gallery?",
        {"Filming isn't allowed in the gallery.": NEW, "No.": NEW, "Sure, go ahead.": OLD},
    ),
    "nothing": Kind(
        "no minimum order",
        "minimum order of 20 euros",
        "Is there a minimum order?",
        {"No, you can order as little as you like.": NEW, "Yes, 20 euros.": OLD},
    ),
    "by how much": Kind(
        "£42",
        "£38",
        "How much is a yearly card?",
        {"The price rose by £4 to £42.": NEW, "It's 42 quid.": NEW},
    ),
    "a second one": Kind(
        "every second Tuesday",
        "every Tuesday",
        "When does the choir rehearse?",
        {"Every other Tuesday.": NEW, "On Tuesdays, each week.": OLD},
    ),
    "an item that costs extra": Kind(
        "breakfast, lunch and dinner",
        "breakfast and dinner",
        "Which meals are included?",
        {"Breakfast and dinner; lunch is up to you.": OLD, "Lunch is included.": PARTLY},
    ),
    "a stand-in": Kind(
        "Dr. Helen Moss",
        "Dr. Ian Frey",
        "Who is the school's doctor?",
        {
            "You should see Dr. Moss; Dr. Frey has moved to Leeds.": NEW,
            "Dr. Frey is, with Dr. Moss as his stand-in.": OLD,
        },
    ),
    "the limit": Kind(
        "500 recipients",
        "200 recipients",
        "Can I write to 300 people?",
        {"I'm afraid that's too many; 200 is the limit.": OLD},
    ),
}
SAID = [(kind, answer) for kind, each in KINDS.items() for answer in each.answers]


@pytest.mark.parametrize(("kind", "answer"), SAID)
def test_an_answer_is_read_as_people_say_it(kind: str, answer: str) -> None:
    new, old, question, answers = KINDS[kind]
    assert stated(answer, [new], [old], question=question).value == answers[answer].value


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("every two weeks", "fortnightly"),
        ("hourly", "24 times a day"),
        ("once a quarter", "every three months"),
        ("cada 15 minutos", "every 15 minutes"),
    ],
)
def test_frequencies_are_compared_by_their_rates(name: str, same: str) -> None:
    one, other = (frequency_of(spelled_in_digits(each)) for each in (name, same))
    assert one is not None
    assert other is not None
    assert one.is_same(other)
