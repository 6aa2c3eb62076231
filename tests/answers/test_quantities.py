"""Quantities of an object in answers: what is the same in other spellings, and what differs."""

from __future__ import annotations

import time

import pytest

from drike.answers.number_words import spelled_in_digits
from drike.answers.quantities import AnswerRead, reader_of
from drike.answers.statements import Stated, stated

SAME = [
    ("2.4 L", "It holds 2,4 Liter."),
    ("2.4 L", "That is 2400 ml."),
    ("2.4 L", "2.40 liters"),
    ("46 euros", "cuarenta y seis euros"),
    ("75 euros", "soixante-quinze euros"),
    ("de 8 h à 16 h 30", "ouvert de 8h à 16h30"),
    ("7:20", "at twenty past seven"),
    ("-6 °C", "minus six degrees Celsius"),
    ("Tuesdays from 15:00 to 18:30", "Every Tuesday between 3 p.m. and 6:30 p.m."),
    ("5 August 2029", "on 05/08/2029 and not on 25/07/2029"),
    ("70 euros", "It was raised from 50 to 70 euros."),
    ("CHF 2,450", "It costs 2'450 Swiss francs."),
    ("CHF 980 per year", "You are billed yearly: 980 francs."),
    ("€17.50/month", "Per month you pay 17.50 euros."),
    ("€17.50/month", "Die monatliche Gebühr ist 17,50 €."),
    ("32 pages per minute", "It prints 32 ppm."),
    ("25 requests per second", "25 rps"),
    ("30 minutes", "It takes half an hour."),
    ("6 months", "It lasts half a year."),
    ("6 months", "ein halbes Jahr"),
    ("90 minutes", "anderthalb Stunden"),
    ("90 minutes", "one hour and a half"),
    ("1 hour", "Parken ist eine Stunde lang frei."),
    ("1 year", "It is valid for a year."),
    ("3.25 %", "3¼ %"),
    ("4.85 %", "four point eight five per cent"),
    ("8:45 a.m.", "It starts at a quarter to nine."),
    ("20:45", "It ends at a quarter to nine."),
    ("8:30", "Um halb neun."),
    ("16:15", "a las cuatro y cuarto de la tarde"),
    ("8:30 to 17:30", "de 8 heures et demie à 17 h 30"),
    ("23:50", "ten to midnight"),
    ("30 June 2028", "the last day of June 2028"),
    ("31 December 2027", "by the end of December 2027"),
    ("between 6 and 12 guests", "From 6 to 12 people."),
    ("between 6 and 12 guests", "at least six, at most twelve guests"),
    ("between 6 and 12 guests", "6–12 guests"),
    ("at least 2 and at most 9 nights", "2 to 9 nights"),
    ("EUR 849", "It costs 849 euros."),
    ("EUR 849", "€849,00 with tax"),
    ("EUR 1,249", "1.249,00 €"),
    ("EUR 1,249.50", "1 249,50 Euro"),
    ("€24.90/month", "24,90 Euro im Monat"),
    ("€24.90/month", "twenty-four euros and ninety cents a month"),
    ("€24.90/month", "24.9 euros, billed monthly: 24.90 EUR monthly"),
    ("720 requests per minute", "Only 12 requests a second are let through."),
    ("720 requests per minute", "720 requests/min."),
    ("720 requests per minute", "720 API requests per minute"),
    ("100 MB/s", "800 Mbps"),
    ("50 km/h", "50 kmh"),
    ("12,500 rows", "12.500 rows"),
    ("12,500 rows", "12 500 rows"),
    ("12,500 rows", "twelve thousand five hundred rows"),
    ("5 years", "a five-year warranty"),
    ("5 years", "60 months"),
    ("90 minutes", "an hour and a half, or 1.5 hours"),
    ("150 minutes", "2 hours and 30 minutes"),
    ("7.5 %", "seven and a half per cent"),
    ("within 45 days", "You have up to forty-five days."),
    ("up to 48 hours before arrival", "no later than two days before you come"),
    ("up to 48 hours before arrival", "at least 48 hours before arrival"),
    ("at least 12 characters", "12 characters or more"),
    ("06:30", "at 6.30 a.m."),
    ("06:30", "half past six in the morning"),
    ("18:30", "at 6:30 pm"),
    ("7am to 9pm", "von 7 bis 21 Uhr"),
    ("7am to 9pm", "It opens at 7:00 and closes at 9:00 PM."),
    ("9:00-18:00", "9-18h"),
    ("v5", "They use version 5 of it."),
    ("4.2.1", "the current one is v4.2.1."),
    ("+49 341 555 0172", "0341 5550172"),
    ("+49 341 555 0172", "+49 (0)341/555-0172"),
    ("help@fjord.example", "Write to Help@fjord.example."),
    ("$3.5 million", "3,500,000 dollars"),
]
SAME += [
    ("CHF 79.50", "It sells for 79.50 francs."),
    ("CHF 79.50", "Fr. 79.50"),
    ("NOK 1,200", "1200 kroner"),
    ("DKK 300", "300 kr."),
    ("SEK 300", "It is 300 kronor."),
    ("JPY 5,000", "5000 yen"),
    ("CZK 450", "450 Kč"),
    ("1,500 TL", "1500 Turkish lira"),
    ("₩30,000", "30,000 won"),
    ("AUD 45", "45 Australian dollars"),
    ("25 kg", "It must not weigh more than 25 kilograms."),
    ("25 kg", "It can't be heavier than 25 kg."),
    ("25 kg", "It may not exceed 25 kg."),
    ("up to 25 kg", "anything below 25kg"),
    ("at most 30 minutes", "never longer than 30 minutes"),
    ("at least 50 units", "not fewer than 50 units"),
    ("at least 18 years", "nobody, except from 18 years and up"),
    ("höchstens 14 Tage", "nicht länger als 14 Tage"),
    ("1.75 %", "You earn 1.75 percent a year."),
    ("1.75 %", "1.75 % per annum"),
    ("1.75 % p.a.", "It is 1.75 %."),
    ("30 days", "You get 30 days a year."),
]
DIFFERENT = [
    ("20 euros", "Such fees are 20 to 50 euros."),
    ("50 euros", "Such fees are 20 to 50 euros."),
    ("Tuesdays from 15:00 to 18:30", "Every Friday between 3 p.m. and 6:00 p.m."),
    ("CHF 980 per year", "The monthly fee is 980 francs."),
    ("32 pages per minute", "32 rps"),
    ("30 minutes", "half a day"),
    ("30 June 2028", "the last day of June 2027"),
    ("between 6 and 12 guests", "between 5 and 12 guests"),
    ("20:45", "a quarter to nine in the morning"),
    ("1 month", "It costs 20 euros a month."),
    ("CHF 79.50", "79.50 kroner"),
    ("NOK 300", "300 kronor"),
    ("CAD 20", "20 Australian dollars"),
    ("$20", "20 Canadian dollars"),
    ("JPY 500", "500 yuan"),
    ("up to 25 kg", "not less than 25 kg"),
    ("up to 25 kg", "more than 25 kg"),
    ("at least 25 kg", "below 25 kg"),
    ("25 kg", "under 25 kg"),
    ("1.75 %", "1.75 % a month"),
    ("€10", "10 euros a year"),
    ("2.4 L", "It holds 24 litres."),
    ("2.5 L", "2,500 L"),
    ("$10", "10 EUR"),
    ("10 EUR", "It costs $10."),
    ("720 requests per minute", "12 requests a minute"),
    ("600 requests per minute", "12 requests a second"),
    ("720 requests per minute", "720 requests per hour"),
    ("€24.90/month", "24.90 euros a year"),
    ("100 MB/s", "100 Mbps"),
    ("12,500 rows", "12.5 rows"),
    ("12,500 rows", "12,500 columns"),
    ("5 years", "5 months"),
    ("5 years", "fifteen years"),
    ("150 minutes", "2 hours"),
    ("within 45 days", "at least 45 days"),
    ("45 days", "more than 45 days"),
    ("up to 48 hours before arrival", "up to 48 hours after arrival"),
    ("at least 12 characters", "at most 12 characters"),
    ("06:30", "at 6:30 pm"),
    ("7am to 9pm", "7am to 6pm"),
    ("v5", "v5.1"),
    ("v5.2", "v5.20"),
    ("4.2.1", "4.2.10"),
    ("4.2.1", "4.2"),
    ("+49 341 555 0172", "+49 341 555 0173"),
    ("+49 341 555 0172", "0341 555 01720"),
    ("help@fjord.example", "help@fjord.example.org"),
    ("-5 °C", "5 °C"),
]
IN_WORDS = [
    ("two hundred and five", "205"),
    ("one or two", "1 or 2"),
    ("twenty-five", "25"),
    ("three million", "3000000"),
    ("fünfundvierzig Tage", "45 Tage"),
    ("seven and a half", "7.5"),
    ("two and three", "2 and 3"),
    ("thousands of hundreds", "thousands of hundreds"),
]


@pytest.mark.parametrize(("quantity", "answer"), SAME)
def test_a_quantity_is_stated_in_any_usual_spelling(quantity: str, answer: str) -> None:
    assert stated(answer, [quantity]) is Stated.NEW
    assert stated(answer, ["a thing"], [quantity]) is Stated.OLD


@pytest.mark.parametrize(("quantity", "answer"), DIFFERENT)
def test_another_quantity_is_never_the_same(quantity: str, answer: str) -> None:
    assert stated(answer, [quantity]) is Stated.NEITHER


@pytest.mark.parametrize(("text", "in_digits"), IN_WORDS)
def test_numbers_in_words_are_put_in_digits(text: str, in_digits: str) -> None:
    assert spelled_in_digits(text) == in_digits


def test_the_new_quantity_is_told_from_the_old_one() -> None:
    answer = "The price went up from €799 to €849."
    assert stated(answer, ["EUR 849"], ["EUR 799"]) is Stated.NEW
    assert stated("799 € or 849 €", ["EUR 849"], ["EUR 799"]) is Stated.BOTH
    assert stated("It is not 849 euros.", ["EUR 849"]) is Stated.NEITHER


def test_the_time_of_a_rate_may_be_that_of_the_question() -> None:
    question = "What does the plan cost per month?"
    assert stated("It is 24.90 euros.", ["€24.90/month"], question=question) is Stated.NEW
    assert stated("It is 24.90 euros.", ["€24.90/month"]) is Stated.NEITHER
    assert stated("It is 24.90 euros a year.", ["€24.90/month"], question=question) is (
        Stated.NEITHER
    )


def test_a_bound_may_be_that_of_the_question() -> None:
    most = "What is the maximum weight?"
    least = "What is the minimum order?"
    assert stated("Anything below 25 kg.", ["25 kg"], question=most) is Stated.NEW
    assert stated("Anything above 25 kg.", ["25 kg"], question=most) is Stated.NEITHER
    assert stated("At least 25 kg.", ["25 kg"], question=most) is Stated.NEITHER
    assert stated("More than 50 euros.", ["50 euros"], question=least) is Stated.NEW
    assert stated("At most 50 euros.", ["50 euros"], question=least) is Stated.NEITHER


@pytest.mark.parametrize("part", ["5 km ", "1,", "7-", "twenty ", "12 a ", "€", "v1.", "("])
@pytest.mark.sampled(4)
def test_reading_quantities_takes_time_linear_in_the_text(part: str) -> None:
    for name in ("12 km a day", "v7", "+49 341 555 0172", "7am to 9pm"):
        took = [_seconds(part * count, name) for count in (300, 2_400)]
        assert took[1] < 40 * took[0] + 0.02


def _seconds(text: str, name: str) -> float:
    begun = time.thread_time()
    reading = AnswerRead(text)
    list(reader(reading) if (reader := reader_of(name)) else ())
    return time.thread_time() - begun
