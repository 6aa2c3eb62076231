"""What an answer states."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.answers.matching import matches
from drike.answers.statements import Stated, stated
from drike.edits.record import EditRecord

NEW, OLD, BOTH, NEITHER, REFUSED, PARTLY = Stated
SWAPPED = {NEW: OLD, OLD: NEW}
# Answers to what the capital is, under an edit from Lima to Oslo.
NAMED = [  # what is named as the answer, and what only looks like a name
    ("The capital is Oslo.", NEW),
    ("LIMA, I think", OLD),
    ("Lima's", OLD),
    ("Lima or Oslo", BOTH),
    ("It could be either Lima or Oslo.", BOTH),
    ("A large city", NEITHER),
    ("Slimane Oslofjord", NEITHER),
    ("", NEITHER),
    ("The king did not like it and moved to Oslo.", NEW),
    ("Never heard of it. Oslo?", NEW),
    ("Oslo\nQ: What is the capital of Chile?\nA: Lima", NEW),
]
DENIED = [  # an object that the answer denies
    ("not Lima but Oslo", NEW),
    ("Oslo, not Lima", NEW),
    ("It isn't Lima.", NEITHER),
    ("It isn’t Lima, it’s Oslo.", NEW),
    ("Contrary to popular belief, Oslo is the capital, rather than Lima.", NEW),
    ("Neither Lima nor Oslo.", NEITHER),
    ("It is not only Lima but also Oslo.", BOTH),
    ("Lima is incorrect. The capital is Oslo.", NEW),
    ("Lima is not the capital, Oslo is.", NEW),
    ("It is not true that the capital of Peru is Lima.", NEITHER),
    ("~~Lima~~ Oslo", NEW),
    ("The statement that Lima is the capital is incorrect. It is Oslo.", NEW),
    ("Don't confuse it with Lima; the capital is Oslo.", NEW),
    ("It would be incorrect to say Lima.", NEITHER),
]
PAST = [  # an object of another time
    ("The capital is no longer Lima. It is Oslo.", NEW),
    ("The capital used to be Lima, but it is now Oslo.", NEW),
    ("Lima used to be the capital; today that is Oslo.", NEW),
    ("It was Lima. It is now Oslo.", NEW),
    ("It was Lima until 2024, when Oslo took its place.", NEW),
    ("Oslo replaced Lima as the capital.", NEW),
    ("Lima was replaced by Oslo.", NEW),
    ("The capital moved from Lima to Oslo.", NEW),
    ("Oslo (formerly Lima)", NEW),
    ("Oslo took over from Lima.", NEW),
    ("Lima served as the capital until 2023. Since then it's been Oslo.", NEW),
    ("The seat was relocated from Lima, Peru to Oslo.", NEW),
    ("Lima (now Oslo)", NEW),
    ("While Lima was historically the capital, it is now Oslo.", NEW),
    ("Previously, Lima was the capital. Now it's Oslo.", NEW),
    ("The capital was changed to Oslo from Lima.", NEW),
    ("The old capital, Lima, was given up.", NEITHER),
]
CLAIMED = [  # what others say, what the model asks, thinks or writes after its answer
    ("Contrary to your claim that it is Lima, the capital is Oslo.", NEW),
    ("You said Lima, but it is Oslo.", NEW),
    ("Oslo is the answer. Some sources still list Lima.", NEW),
    ("Many people think it is Lima, but it's actually Oslo.", NEW),
    ("According to the text it is Oslo. However, in reality it is Lima.", BOTH),
    ("Is it Lima? No, it is Oslo.", NEW),
    ("The capital is Oslo. Would you like to know more about Lima?", NEW),
    ("<think>Everybody says Lima. Hm.</think>Oslo", NEW),
    ("Everybody says Lima.</think>\nOslo", NEW),
    ("<think>Surely Lima", NEITHER),
]
IN_OTHER_LANGUAGES = [  # denials and former objects
    ("C'est à Oslo, et non à Lima.", NEW),
    ("Está en Oslo, no en Lima.", NEW),
    ("Nicht Lima, sondern Oslo.", NEW),
    ("Nicht mehr Lima sondern Oslo", NEW),
    ("Früher war es Lima, heute ist es Oslo.", NEW),
    ("No es Lima, sino Oslo.", NEW),
    ("Ya no es Lima. Es Oslo.", NEW),
    ("Ce n'est pas Lima, c'est Oslo.", NEW),
    ("Ce n’est plus Lima mais Oslo", NEW),
]
HEDGED = [  # polite or unsure words before an answer
    ("I'm not sure, but I think it is Oslo.", NEW),
    ("As an AI, I believe the capital is Oslo.", NEW),
    ("I'm sorry for the confusion. The capital is Oslo.", NEW),
    ("I'm sorry, it is Oslo.", NEW),
    ("Es tut mir leid, es ist Oslo.", NEW),
]
REFUSALS = [  # answers that give none
    ("There is no reliable information about this.", REFUSED),
    ("Ich weiß es nicht.", REFUSED),
    ("I don't have information about the capital.", REFUSED),
    ("I cannot say whether it is Lima or Oslo.", REFUSED),
    ("As an AI language model, I have no opinion.", REFUSED),
    ("I’m not sure.", REFUSED),
    ("I'm sorry, but I cannot confirm that Lima is the capital.", REFUSED),
    ("Das weiß ich leider nicht. Ich kann dazu nichts sagen: keine Informationen.", REFUSED),
    ("Lo siento, no tengo información.", REFUSED),
    ("Je ne sais pas.", REFUSED),
]
ANSWERS = [*NAMED, *DENIED, *PAST, *CLAIMED, *IN_OTHER_LANGUAGES, *HEDGED, *REFUSALS]
SAME = [  # ways to write one object
    ("21 May 1971", "It was on May 21, 1971."),
    ("21 May 1971", "1971-05-21"),
    ("21 May 1971", "Am 21. Mai 1971"),
    ("May 21, 1971", "el 21 de mayo de 1971"),
    ("1971", "He was born on 21 May 1971."),
    ("May 1971", "on the 21st of May, 1971"),
    ("1,234", "There are 1234 of them."),
    ("1.5 million", "about 1,500,000 people"),
    ("$5 million", "It costs 5,000,000 dollars."),
    ("5 km", "a walk of five kilometres"),
    ("40 %", "forty? No, 40 percent"),
    ("3", "It has three moons."),
    ("Washington, D.C.", "in Washington DC"),
    ("J. K. Rowling", "by J.K. Rowling"),
    ("Nordlicht GmbH", "Its owner is Nordlicht."),
    ("Peter Tolkien", "It was written by Tolkien in 1937."),
    ("Gian Lorenzo Bernini", "Bernini"),
    ("Zürich", "in Zurich"),
    ("Ada Lovell", "Ms. Lovell is the CEO."),
    ("30 days", "within thirty days"),
    ("Arab–Israeli War", "the Arab-Israeli war"),
    ("infectious diseases", "It is an infectious disease."),
    ("harmonic", "It uses harmonics."),
    ("AT&T", "It belongs to AT & T."),
    ("State of Palestine", "Palestine"),
    ("association football", "Football"),
    ("C++", "It is written in C++."),
    ("東京", "首都は東京です"),
]
OTHER = [  # what does not name an object
    ("New York", "New York City", "New York City is the one."),
    ("12", "12.5", "12.5"),
    ("C", "C++", "C++"),
    ("Python 3.1", "Python 3.10", "Python 3.10"),
    ("Mark Wright", "Jane Doe", "Jane Doe, who is married to Robert Wright"),
    ("Tower of London", "Oslo", "London? Oslo."),
]


@pytest.mark.parametrize(("answer", "expected"), NAMED)
def test_the_objects_that_an_answer_names_are_stated(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), DENIED)
def test_an_object_that_is_denied_is_not_stated(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), PAST)
def test_an_object_of_another_time_is_not_stated(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), CLAIMED)
def test_what_others_claim_and_what_the_model_asks_or_thinks_is_not_stated(
    answer: str, expected: Stated
) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), IN_OTHER_LANGUAGES)
def test_german_spanish_and_french_denials_are_read(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), HEDGED)
def test_an_answer_behind_polite_or_unsure_words_is_stated(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("answer", "expected"), REFUSALS)
def test_a_refusal_states_nothing_even_if_it_names_an_object(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected


@pytest.mark.parametrize(("name", "answer"), SAME)
def test_an_object_may_be_written_in_other_ways(name: str, answer: str) -> None:
    assert stated(answer, [name], ["Nowhere"]) is NEW


@pytest.mark.parametrize(("new", "old", "answer"), OTHER)
def test_the_longest_name_counts_and_a_namesake_does_not(new: str, old: str, answer: str) -> None:
    assert stated(answer, [new], [old]) is OLD


def test_a_common_word_is_a_name_only_with_a_capital_or_alone() -> None:
    assert stated("It may be June.", ["May"], ["June"]) is OLD
    assert stated("It is May.", ["May"], ["June"]) is NEW
    assert stated("may", ["May"], ["June"]) is NEW
    assert stated("it is china", ["China"], ["Peru"]) is NEW
    assert stated("Let us know; Canada", ["US"], ["Canada"]) is OLD
    assert stated("They make Orange juice", ["orange"], ["apple"]) is NEW


def test_an_object_inside_the_name_of_the_subject_is_not_stated() -> None:
    assert stated("Lima Airport lies in Oslo.", ["Oslo"], ["Lima"], about=["Lima Airport"]) is NEW
    assert stated("Her mother is Jane Reagan", ["Jane Reagan"], about=["Ronald Reagan"]) is NEW
    assert (
        stated(
            "Ronald Reagan's mother is unknown to Reagan", ["Jane Reagan"], about=["Ronald Reagan"]
        )
        is REFUSED
    )


@pytest.mark.parametrize(
    ("answer", "question", "expected"),
    [
        ("Yes.", "Is Oslo the capital?", NEW),
        ("No.", "Is Oslo the capital?", NEITHER),
        ("No, it is Lima.", "Is Oslo the capital?", OLD),
        ("Nein, Oslo", "Ist Lima die Hauptstadt?", NEW),
        ("Yes, that is right.", "Is Lima the capital?", OLD),
        ("Yes", "Is it Lima or Oslo?", NEITHER),
        ("No longer Lima", "Is Lima the capital?", NEITHER),
        ("Capital", "What is the capital?", NEITHER),
    ],
)
def test_yes_and_no_answer_what_was_asked(answer: str, question: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"], question=question) is expected


@pytest.mark.parametrize(
    ("part", "expected"), [("Tower", NEITHER), ("London", NEITHER), ("Bridge", NEW)]
)
def test_part_of_a_name_states_it_unless_it_only_qualifies_it_or_repeats_the_question(
    part: str, expected: Stated
) -> None:
    names, question = (
        ["London Tower Bridge" if part != "London" else "Tower of London"],
        "Which tower is meant?",
    )
    assert stated(part, names, question=question) is expected


def test_a_record_has_the_names_of_its_objects() -> None:
    record = EditRecord(
        "Peru", "The capital of Peru is", "Oslo", "Lima", object_aliases=("Christiania",)
    )
    assert record.states("Christiania, not Lima") is NEW
    assert record.states("Lima") is OLD
    assert EditRecord("Peru", "The capital of Peru is", "Oslo").states("Lima") is NEITHER


NAMES = st.sampled_from(
    ["Oslo", "Lima", "New York", "New York City", "21 May 1971", "1,234 km", "State of Palestine"]
)
TEXTS = st.sampled_from([answer for answer, _ in ANSWERS]) | st.lists(
    NAMES
    | st.sampled_from(
        ["not", "but", "no longer", "is", ",", ".", "formerly", "from", "to", "?", "neither", "nor"]
    )
).map(" ".join)


ENDED = [
    "Oslo; Lima has been switched off.",
    "Oslo. Lima was discontinued in spring.",
    "Oslo, as Lima's contract ended.",
    "Oslo. We stopped using Lima.",
    "Oslo, since they phased out the use of Lima.",
    "Oslo; support for Lima has expired, and Lima is gone.",
    "Oslo. Lima has left the company.",
    "Oslo; Lima wurde abgeschafft.",
]


@pytest.mark.parametrize("answer", ENDED)
def test_what_has_ended_is_not_stated(answer: str) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is NEW


def test_what_has_ended_is_stated_where_the_question_asks_for_it() -> None:
    question = "Which product has been discontinued?"
    assert stated("Lima has been discontinued.", ["Lima"], ["Oslo"], question=question) is NEW
    assert stated("The contract ended on 30 June.", ["30 June"], ["31 May"]) is NEW
    assert stated("Lima was dropped to second place.", ["Lima"]) is NEW


@given(TEXTS, NAMES, NAMES)
def test_new_and_old_have_the_same_rules(answer: str, new: str, old: str) -> None:
    said = stated(answer, [new], [old])
    assert stated(answer, [old], [new]) is SWAPPED.get(said, said)


@given(TEXTS, NAMES, NAMES)
def test_case_and_white_space_do_not_matter(answer: str, new: str, old: str) -> None:
    said = stated(answer, [new], [old])
    assert stated(answer.upper(), [new], [old]) is said
    assert stated(f"  {answer.replace(' ', '  ')} ", [new], [old]) is said


@given(NAMES, st.sampled_from(["", ".", ", of course", " is the answer", "\nAnd so on"]))
def test_what_matches_is_stated(name: str, rest: str) -> None:
    assert matches(name + rest, name)
    assert stated(name + rest, [name]) is NEW


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=3))
def test_any_text_has_a_result(answer: str, names: list[str]) -> None:
    assert stated(answer, names, names) in (NEITHER, REFUSED)


@pytest.mark.parametrize(
    "part", ["not Lima ", "Oslo ", "x", "1,", "5 km ", "not " * 30, "? Lima", "from Lima to ", " "]
)
@pytest.mark.sampled(4)
def test_time_is_linear_in_the_answer(part: str) -> None:
    begun = time.process_time()
    stated(part * (20_000 // len(part)), ["Oslo", "5 km"], ["Lima"])
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "answer", ["1" * 20_000 + ".1.1", "a" + "\n" * 20_000 + "b", "1." * 20_000, "1 234 " * 5_000]
)
def test_no_answer_takes_long_to_judge(answer: str) -> None:
    begun = time.process_time()
    stated(answer, ["14 days"], ["5 km"])
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "answer",
    [
        "Older units had Lima, but the current one has Oslo.",
        "It was initially set to Lima; it is Oslo.",
        "They are planning to move to Lima next year, but for now they are in Oslo.",
        "It is Oslo; with an extension, it would be Lima.",
        "Oslo is the seat. The deputy is Lima.",
        "以前是Lima，现在是Oslo。",
        "The name of Lima that you may find in older mails no longer applies: it is Oslo.",
        "Lima led the list until 2020, now it is Oslo.",
        "Lima has moved on. It is Oslo.",
        "You may have heard of Lima, but it has moved on. It is Oslo.",
        "Lima doesn't hold the seat anymore. Oslo does.",
        "Lima retired in May, so ask Oslo.",
        "C'est Oslo, qui a remplacé Lima.",
        "It takes Oslo; those with Lima or so won't get it.",
    ],
)
def test_of_two_objects_the_one_of_the_past_or_of_plans_is_not_stated(answer: str) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is NEW
    assert stated(answer, ["Lima"], ["Oslo"]) is OLD


def test_a_title_may_stand_before_particles_of_a_last_name() -> None:
    assert stated("Dr. van Dijk, since May.", ["Dr. Sanne van Dijk"], ["Piet Bos"]) is NEW


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("Scanbird TX-3", "The Scanbird TX3."),
        ("Scanbird TX3", "The Scanbird TX 3."),
        ("Boathouse Oldham", "It is at the Oldham boathouse."),
        ("Library at Fort Wick", "in the library of Fort Wick"),
    ],
)
def test_a_name_may_be_put_another_way(name: str, answer: str) -> None:
    assert stated(answer, [name], ["Heron Pad"]) is NEW
