"""The text of an answer is read as it passes, whatever its form and however it is split, within bounds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import pytest

from drike.serving.answers import PassingAnswer, text_of
from drike.serving.upstream import Headers, Reply
from tests.worlds.answering import PATHS, SAYINGS, pieces_of, split, stream, whole

JSON: Headers = [(b"content-type", b"application/json; charset=utf-8")]
EVENTS: Headers = [(b"content-type", b"text/event-stream")]


async def nothing():
    return
    yield b""


def passed(headers: Headers, chunks: Iterable[bytes], *, status: int = 200, complete: bool = True) -> PassingAnswer:
    answer = PassingAnswer(Reply(status, headers, nothing()))
    for chunk in chunks:
        answer.take(chunk)
    answer.complete = complete
    return answer


@pytest.mark.parametrize("api", PATHS)
def test_an_answer_is_read_in_every_form_and_split(api: str) -> None:
    draw = random.Random(0)
    for said in (text for text in SAYINGS.values() if text):
        assert passed(JSON, split(whole(api, said), draw)).text() == said
        for newline in ("\n", "\r\n", "\r"):
            raw = stream(api, pieces_of(said, draw), newline)
            assert passed(EVENTS, split(raw, draw)).text() == said
            assert passed(EVENTS, [raw]).text() == said


def test_a_long_stream_is_read_up_to_its_bound_and_held_in_little_memory() -> None:
    answer = passed(EVENTS, (), complete=True)
    for _ in range(30):
        answer.take(stream("chat", ["word " * 40] * 100))
        assert answer.held < 150_000
    text = answer.text()
    assert text is not None and len(text) == 64 << 10 and text.startswith("word word ")


def test_what_is_not_an_answer_in_text_is_unread() -> None:
    said = whole("chat", "Oslo")
    call = {"choices": [{"message": {"content": None, "tool_calls": [{"function": {"arguments": "Oslo"}}]}}]}
    for answer in (
        passed([*JSON, (b"content-encoding", b"gzip")], [said]),
        passed(JSON, [said], complete=False),
        passed(JSON, [said], status=500),
        passed([(b"content-type", b"audio/mpeg")], [said]),
        passed([], [said]),
        passed(JSON, [b"[" * 100_000]),
        passed(JSON, [b" " * (1 << 20), said]),
        passed(EVENTS, [b"data: " + b"x" * (1 << 20)] * 2),
        passed(JSON, [json.dumps(call).encode()]),
        passed(EVENTS, [b"data: [DONE]\n\n"]),
    ):
        assert answer.text() is None
    assert passed([*JSON, (b"content-encoding", b"identity")], [said]).text() == "Oslo"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, "I cannot."),
        ({"choices": [{"delta": {"content": [{"type": "text", "text": "a"}, "b", {"thinking": "c"}]}}]}, "ab"),
        ({"choices": []}, ""),
        ({"choices": [{"delta": [1]}, {"delta": {"content": "Oslo"}}]}, ""),
        ({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}, 3]}, "No."),
        ({"error": {"message": "Oslo"}}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_texts_of_forms(values: object, text: str) -> None:
    assert text_of(values) == text


def test_an_event_may_have_other_lines_and_several_of_data() -> None:
    raw = b'id: 1\nevent: x\ndata: {"choices": [{"delta":\ndata: {"content": "Oslo"}}]}\nretry: 3\n\n'
    assert passed(EVENTS, [raw]).text() == "Oslo"
    deep = b'data: {"choices": [{"delta": {"content": ' + b"[" * 900 + b"]" * 900 + b"}}]}\n\n"
    assert passed(EVENTS, [deep * 10, raw]).text() == "Oslo"
