"""An answer that states the old object under an edit is asked for once more, in the open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drike.edits.record import EditRecord
from drike.gateway.options import GatewayOptions, Mode
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


def test_an_answer_that_is_held_back_is_bounded(tmp_path: Path) -> None:
    with serving(tmp_path) as (gateway, above):
        status, _, body = send(gateway, padding=17 << 20)
        assert (
            status == 502
            and "more than 16 MB" in json.loads(body)["error"]["message"]
            and len(above.calls) == 1
        )
        status, _, body = send(gateway, text="Hello", padding=17 << 20)
        assert status == 200 and len(body) > 17 << 20  # it concerns no edit


def test_without_the_option_or_in_shadow_nothing_is_asked_again(tmp_path: Path) -> None:
    for mode, retry in ((Mode.ON, False), (Mode.SHADOW, True)):
        (tmp_path / mode).mkdir()
        with serving(tmp_path / mode, mode, retry) as (gateway, above):
            assert "x-drike-slip" not in send(gateway)[1] and len(above.calls) == 1
            assert of_edit(counts(gateway)) == {"matched": 1, "old": 1}
