"""The judge of model calls finds every way in which a block can be missing, wrong, or where none belongs."""

from __future__ import annotations

import pytest

from tests.fakes.conversations import (
    ACME,
    CHALLENGES,
    LONGEST,
    PERU,
    STEPS,
    calls_of,
    judge,
    page,
    result_of,
    talk,
)
from tests.fakes.dialect_upstream import STEPS as STEP
from tests.fakes.dialect_upstream import Call, Heard

TURNS = talk(LONGEST)


def block(*facts: str, id: str = "1a") -> str:
    lines = "".join(f"- {fact}\n" for fact in facts)
    return f'<corrected-facts id="{id}">\nThese are facts.\n{lines}</corrected-facts id="{id}">'


OSLO = block(PERU.edit.fact)
RIGHT: Heard = (
    ("system", "Be brief."), ("user", TURNS[0].text), ("assistant", "Hi"), ("user", TURNS[1].text), ("assistant", "5"),
    ("user", f"{OSLO}\n\n{TURNS[2].text}"), *(("tool", page(number)) for number in range(1, 10)),
    ("tool", f"{page(10)}\n\n{OSLO}"), ("assistant", "Oslo"), ("user", f"{OSLO}\n\n{TURNS[3].text}"),
)  # fmt: skip


def changed(place: int, text: str) -> Heard:
    return (*RIGHT[:place], (RIGHT[place][0], text), *RIGHT[place + 1 :])


def test_a_right_call_has_nothing_wrong() -> None:
    assert judge(TURNS, RIGHT) == ""


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (5, TURNS[2].text),
        (5, f"{TURNS[2].text}\n\n{OSLO}"),
        (5, f"{OSLO}\n\n{OSLO}\n\n{TURNS[2].text}"),
        (5, f"{OSLO} {TURNS[2].text}"),
        (5, f"{block(ACME.edit.fact)}\n\n{TURNS[2].text}"),
        (5, f"{block(PERU.edit.fact, ACME.edit.fact)}\n\n{TURNS[2].text}"),
        (5, f"{OSLO}\n\n{TURNS[2].text} "),
        (1, f"{OSLO}\n\n{TURNS[0].text}"),
        (0, f"Be brief. {OSLO}"),
        (4, OSLO),
        (15, page(10)),
        (14, f"{page(9)}\n\n{OSLO}"),
        (-1, TURNS[3].text),
    ],
)
def test_a_wrong_call_is_found(place: int, text: str) -> None:
    assert judge(TURNS, changed(place % len(RIGHT), text))


def test_calls_must_begin_with_the_ones_before_and_are_counted_from_the_question_on() -> None:
    def call(heard: Heard) -> Call:
        return Call("chat", "/v1/chat/completions", {}, heard)

    other = tuple((who, text.replace('"1a"', '"1b"')) for who, text in RIGHT)
    result = result_of(
        TURNS, [call(RIGHT[:2]), call(RIGHT[:6]), call(RIGHT), call(other), call(other)]
    )
    assert (result.calls, result.concerned, result.right) == (5, 4, 3)
    assert result.mistakes == ("20 turns: earlier turns read otherwise than in the call before",)


def test_conversations_have_all_challenges_and_steps() -> None:
    assert [len(talk(length)) for length in range(1, LONGEST + 1)] == [*range(1, LONGEST + 1)]
    assert {turn.text for turn in TURNS} >= set(CHALLENGES) and len(CHALLENGES) == 10
    steps = [
        sum(int(number) for turn in talk(n) for number in STEP.findall(turn.text))
        for n in range(1, LONGEST + 1)
    ]
    assert (
        set(steps) == {STEPS} and calls_of(TURNS) == LONGEST + STEPS - 4
    )  # as four come beside another
