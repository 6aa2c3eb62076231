"""Reading requests: the text an edit would change, what a gate decides on, and the same for logs and models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, Conversation, Speaker
from drike.errors import DataError
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.gateway.bodies import parse
from drike.gateway.logs import logged, read_questions
from drike.gateway.proving.replay import replay_log
from drike.gateway.requests import one_message, read_request

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@settings(max_examples=20)
@given(JSON, st.text(), st.booleans(), st.sampled_from([None, 1]))
def test_replacing_the_text_changes_nothing_else(
    odd: object, text: str, ascii_only: bool, indent: int | None
) -> None:
    sent = {"odd": odd, "messages": [{"role": "user", "content": text}], "more": [text, odd]}
    body = json.dumps(sent, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    request = read_request(Api.CHAT, body)
    assert request is not None
    path = ("messages", 0, "content")
    for new in ("facts\n" + text, text + "\nfacts", f"a{text}b"):
        assert parse(request.with_texts({path: new})) == {**sent, "messages": [user(new)]}
    assert request.values == sent


def test_very_long_queries_are_read_whole() -> None:
    text = "Peru " + "x" * 100_000 + " Bolivia " + "x" * 100_000 + " Chile"
    request = one_message("m", text + "\ud800")
    assert request.conversation.said == text + "?"


LOGGED = [
    ({"messages": [user("A")]}, ("A",)),
    ({"messages": [user("A"), {"role": "assistant", "content": "B"}, user("C")]}, ("A", "C")),
    ({"body": {"messages": [user([{"type": "text", "text": "A"}, {}])]}}, ("A",)),
    ({"request": json.dumps({"prompt": ["A"]})}, ("A",)),
    ({"question": "A"}, ("A",)),
    ({"prompt": ["A", "B"], "query": "C"}, ("C",)),
    ("A", ("A",)),
    (
        {
            "system": "",
            "messages": [user([{"type": "tool_result"}, {"type": "text", "text": "A"}])],
        },
        ("A",),
    ),
    (
        {"messages": [user("A"), {"role": "assistant", "content": "B"}]},
        (),
    ),  # the gateway leaves it alone, too
    ({"messages": []}, ()),
    ({"prompt": [1, 2]}, ()),
    (" ", ()),
]


@pytest.mark.parametrize(("value", "queries"), LOGGED)
def test_a_line_of_a_log_asks_what_the_gateway_would_decide_on(
    value: object, queries: tuple[str, ...]
) -> None:
    assert asked_by(logged(json.dumps(value).encode())) == queries


def asked_by(conversation: Conversation | None) -> tuple[str, ...]:
    """What the user says in a conversation, turn by turn."""
    turns = conversation.turns if conversation else ()
    return tuple(turn.said for turn in turns if turn.speaker in (Speaker.USER, Speaker.BESIDE))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b'{"prompt": NaN}', "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"a": 1}', "no messages, prompt, input, query or question"),
        (b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", "too deep"),
    ],
)
def test_a_line_that_is_no_request_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        logged(line)


def test_a_file_of_questions_and_a_replay_of_it_count_the_same_requests(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(value) for value, _ in LOGGED))
    asked = {queries for _, queries in LOGGED if queries}
    assert set(map(asked_by, read_questions(log))) == asked
    follower = Follower(lambda query: Named().decide(query, EditIndex()), EditIndex(), AsBlock())
    with log.open("rb") as lines:
        replayed = replay_log(lines, follower)
    assert replayed.requests == sum(bool(queries) for _, queries in LOGGED)
    assert replayed.unread == {"no text of a user at the end": 4}


def test_questions_are_read_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Who is it?\n\nWho is it?\n It is late. \n", "utf-8")
    assert [asked.said for asked in read_questions(tmp_path / "a.txt")] == [
        "Who is it?",
        "It is late.",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no question"),
        ('{"messages": []}', "has no question"),
        ("{", "line 1 is not a request"),
        ('"a"\n\n{"a": 1}\n', "line 3 is not a request .no messages"),
    ],
)
def test_a_file_without_questions_is_refused_with_the_line(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "a.jsonl").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        read_questions(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "b.txt")
