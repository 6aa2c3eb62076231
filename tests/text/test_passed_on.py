"""What a text passes on: the question within an object, in any script."""

from __future__ import annotations

import json

import pytest

from drike.text.passed_on import passed_on

QUESTIONS = (
    "What is the capital of Peru?",
    "秘鲁的首都是哪里？",
    "秘鲁的首都是哪里",
    "ペルーの首都はどこですか",
    "เมืองหลวงของเปรูคือที่ไหน",
    "Welche Stadt ist die Hauptstadt?",
)


def passed(text: str) -> list[str] | None:
    found = passed_on(text)
    return None if found is None else [text[slice(*place)] for place in found.places]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "form",
    [
        lambda question: {"question": question, "lang": "x-1"},
        lambda question: {"messages": [{"role": "user", "content": question}]},
        lambda question: {"data": {"type": "text", "text": question}},
        lambda question: [{"role": "assistant", "content": "您好，请问？"}, {"text": question}],
    ],
)
def test_the_question_in_an_object_is_found_in_any_script(form, question: str) -> None:  # type: ignore[no-untyped-def]
    assert passed(json.dumps(form(question), ensure_ascii=False)) == [question]


@pytest.mark.parametrize("text", ["abc-123", "Peru?", "text", "京", ""])
def test_an_id_or_a_kind_is_nothing_that_is_said(text: str) -> None:
    assert passed(json.dumps({"request": text}, ensure_ascii=False)) is None


def test_a_deep_object_is_read_to_a_depth() -> None:
    value: object = {"text": "What is the capital of Peru?"}
    for _ in range(7):
        value = {"data": value}
    assert passed(json.dumps(value)) == ["What is the capital of Peru?"]
    assert passed(json.dumps({"data": value})) is None
