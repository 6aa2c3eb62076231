"""An answer that states the old object under an edit is asked for once more, in the open."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drike.edits.record import EditRecord
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.slips import _patience
from tests.fakes.api_answers import PATHS, request, stream, whole
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.gateway.test_watching import counts, of_edit

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
ABOUT = "What is the capital of Peru?"


def stubborn(handler: RawHandler, call: Received) -> None:
    """A model that states the old object until it is told the new one twice; some never learn, some fail."""
    api = next(api for api, path in PATHS.items() if path == call.path)
    body = json.loads(call.body)
    twice = call.body.count(b"The capital of Peru is Oslo") > 1
    if body.get("stream"):
        handler.begin_stream()
        handler.chunk(stream(api, ["Lima"]))
        return handler.chunk(b"")
    if body.get("fails") and twice:
        return handler.break_off() if body["fails"] == 1 else handler.reply(body["fails"], b"{}")
    said = "It is Lima." if body.get("never") or not twice else "It is Oslo."
    handler.reply(
        200, whole(api, said) + b" " * body.get("padding", 0), Content_Type="application/json"
    )


@contextmanager
def serving(
    place: Path, mode: Mode = Mode.ON, retry: bool = True
) -> Iterator[tuple[Running, Recorded]]:
    options = GatewayOptions(mode=mode, deadline_ms=5000, retry_slips=retry)
    with upstream(stubborn) as above, running(above.url, place, PERU, options=options) as gateway:
        yield gateway, above


def send(
    gateway: Running, api: str = "chat", text: str = ABOUT, **more: object
) -> tuple[int, dict[str, str], bytes]:
    return gateway.ask("POST", PATHS[api], json.dumps(request(api, text, **more)).encode())


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_slip_is_asked_again_with_the_facts_twice_and_counted(tmp_path: Path, api: str) -> None:
    with serving(tmp_path) as (gateway, above):
        status, headers, body = send(gateway, api)
        assert status == 200 and headers["x-drike-slip"] == "1" and b"It is Oslo." in body
        assert headers["x-drike-edits"] == "1@1" and len(above.calls) == 2
        first, second = (call.body.decode() for call in above.calls)
        assert second.replace(second.partition(ABOUT)[2], "") == first.replace(
            first.partition(ABOUT)[2], ""
        )
        assert "newer than the text above" in second and "newer than the text above" not in first
        assert of_edit(counts(gateway)) == {"matched": 1, "new": 1, "slips": 1}


def test_the_second_request_has_no_idempotency_key_as_its_body_is_another(tmp_path: Path) -> None:
    with serving(tmp_path) as (gateway, above):
        gateway.ask(
            "POST",
            PATHS["chat"],
            json.dumps(request("chat", ABOUT)).encode(),
            Idempotency_Key="one",
            X_Y="1",
        )
        assert [call.header("idempotency-key") for call in above.calls] == [["one"], []]
        assert [call.header("x-y") for call in above.calls] == [["1"], ["1"]]


def test_a_second_answer_that_slips_too_is_given_and_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as (gateway, above):
        _, headers, body = send(gateway, never=True)
        assert headers["x-drike-slip"] == "1" and b"It is Lima." in body and len(above.calls) == 2
        assert of_edit(counts(gateway)) == {"matched": 1, "old": 1, "slips": 1}


@pytest.mark.parametrize("fails", [1, 500, 429])
def test_where_the_second_attempt_fails_the_first_answer_is_given(
    tmp_path: Path, fails: int
) -> None:
    with serving(tmp_path) as (gateway, _):
        status, headers, body = send(gateway, fails=fails)
        assert (status, headers["x-drike-slip"]) == (200, "1") and b"It is Lima." in body
        assert of_edit(counts(gateway)) == {"matched": 1, "old": 1, "slips": 1}


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("chat", {"stream": True}),
        ("completions", {"never": True}),
        ("chat", {"text": "Hello"}),
        ("chat", {"padding": 2 << 20}),
    ],
)
def test_streams_prompts_other_questions_and_long_answers_are_not_asked_again(
    tmp_path: Path, api: str, more: dict[str, object]
) -> None:
    with serving(tmp_path) as (gateway, above):
        _, headers, body = send(gateway, api, **more)  # type: ignore[arg-type]
        assert "x-drike-slip" not in headers and b"Lima" in body and len(above.calls) == 1
        assert len(body) >= int(str(more.get("padding", 0)))


def test_an_answer_longer_than_is_judged_passes_as_it_comes(tmp_path: Path) -> None:
    with serving(tmp_path) as (gateway, above):
        for text in (ABOUT, "Hello"):
            status, headers, body = send(gateway, text=text, padding=17 << 20)
            assert status == 200 and len(body) > 17 << 20 and "x-drike-slip" not in headers
        assert len(above.calls) == 2
        assert of_edit(counts(gateway)) == {"matched": 1, "unread": 1}


SECOND = json.loads(whole("chat", "It is Oslo."))
CHOICE = SECOND["choices"][0]
JSON = {"Content_Type": "application/json"}
NO_REPLACEMENTS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "empty": (200, b"", JSON),
    "no content": (204, b"", {}),
    "an empty answer": (200, whole("chat", ""), JSON),
    "thoughts alone": (200, whole("chat", "<think>It is Oslo.</think>"), JSON),
    "a page": (200, b"<html>It is Oslo.</html>", {"Content_Type": "text/html"}),
    "a page that says it is JSON": (200, b"<html>It is Oslo.</html>", JSON),
    "created": (201, whole("chat", "It is Oslo."), JSON),
    "another type": (200, whole("chat", "It is Oslo."), {"Content_Type": "application/x+json"}),
    "no type": (200, whole("chat", "It is Oslo."), {}),
    "compressed": (200, whole("chat", "It is Oslo."), {**JSON, "Content_Encoding": "gzip"}),
    "a stream": (200, stream("chat", ["Oslo"]), {"Content_Type": "text/event-stream"}),
    "half of it": (200, whole("chat", "It is Oslo.")[:-20], JSON),
    "over-long": (200, whole("chat", "It is Oslo.") + b" " * (2 << 20), JSON),
    "a slip": (200, whole("chat", "It is surely Lima."), JSON),
    "an error": (200, b'{"error": {"message": "busy"}}', JSON),
    "an error beside it": (
        200,
        json.dumps({**SECOND, "error": {"message": "busy"}}).encode(),
        JSON,
    ),
    "another API": (200, whole("responses", "It is Oslo."), JSON),
    "a list": (200, b'[{"content": "It is Oslo."}]', JSON),
    "no choice": (200, json.dumps({**SECOND, "choices": []}).encode(), JSON),
    "two choices": (200, json.dumps({**SECOND, "choices": [CHOICE, CHOICE]}).encode(), JSON),
    **{
        f"ended by {reason}": (
            200,
            json.dumps({**SECOND, "choices": [{**CHOICE, "finish_reason": reason}]}).encode(),
            JSON,
        )
        for reason in ("length", "content_filter", "error")
    },
}


@pytest.mark.parametrize("second", NO_REPLACEMENTS)
@pytest.mark.sampled(3)
def test_only_an_answer_as_complete_takes_the_place_of_the_first(
    tmp_path: Path, second: str
) -> None:
    first = whole("chat", "It is Lima.")

    def respond(handler: RawHandler, call: Received) -> None:
        if call.body.count(b"The capital of Peru is Oslo") > 1:
            status, body, headers = NO_REPLACEMENTS[second]
            handler.reply(status, body, **headers)
        else:
            handler.reply(200, first, **JSON)

    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, retry_slips=True)
    with upstream(respond) as above, running(above.url, tmp_path, PERU, options=options) as gateway:
        status, headers, body = send(gateway)
        assert (status, headers["content-type"], body) == (200, "application/json", first)
        assert headers["x-drike-slip"] == "1" and len(above.calls) == 2


def test_the_first_answer_waits_no_longer_than_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.slips._LEAST_PATIENCE", 0.1)
    monkeypatch.setattr("drike.gateway.slips._MOST_PATIENCE", 0.1)
    ended = threading.Event()

    def respond(handler: RawHandler, call: Received) -> None:
        if call.body.count(b"The capital of Peru is Oslo") > 1:
            ended.wait(60)
        handler.reply(200, whole("chat", "It is Lima."), **JSON)

    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, retry_slips=True)
    with upstream(respond) as above, running(above.url, tmp_path, PERU, options=options) as gateway:
        try:
            status, headers, body = send(gateway)
        finally:
            ended.set()
        assert status == 200 and headers["x-drike-slip"] == "1" and b"It is Lima." in body


def test_patience_grows_with_the_first_answer_up_to_a_bound() -> None:
    assert [_patience(seconds) for seconds in (0, 1, 4, 10, 15, 100)] == [5, 5, 8, 20, 30, 30]


def test_whatever_fails_in_the_second_attempt_the_first_answer_is_given(tmp_path: Path) -> None:
    async def fails() -> bytes:
        raise RuntimeError("it cannot be written")

    with serving(tmp_path) as (gateway, _):
        edit = gateway.gateway.editor.edit

        async def edited(*given: Any, **more: Any) -> Any:
            return replace(await edit(*given, **more), again=fails)

        gateway.gateway.editor.edit = edited  # type: ignore[method-assign]
        status, headers, body = send(gateway)
        assert status == 200 and headers["x-drike-slip"] == "1" and b"It is Lima." in body


def test_without_the_option_or_in_shadow_nothing_is_asked_again(tmp_path: Path) -> None:
    for mode, retry in ((Mode.ON, False), (Mode.SHADOW, True)):
        (tmp_path / mode).mkdir()
        with serving(tmp_path / mode, mode, retry) as (gateway, above):
            assert "x-drike-slip" not in send(gateway)[1] and len(above.calls) == 1
            assert of_edit(counts(gateway)) == {"matched": 1, "old": 1}
