"""Bodies and answers between a client and the upstream: streams, limits of time and size, and what breaks off.

The text of an answer is read as it passes, whatever its form and however it is split, within bounds.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pytest

from drike.gateway.answers import PassingAnswer, text_of
from drike.gateway.calls import RawHeaders, Reply
from drike.gateway.http.relay import Limits
from tests.fakes.api_answers import PATHS, SAYINGS, pieces_of, split, stream, whole
from tests.fakes.gateways import Running, running
from tests.fakes.servers import FAILURES_WITH_200, ONLY_THOUGHTS
from tests.fakes.upstreams import RawHandler, Received, Recorded, events, upstream
from tests.fakes.waiting import HANG, wait_until

CHAT = "/v1/chat/completions"
JSON: RawHeaders = [(b"content-type", b"application/json; charset=utf-8")]
EVENTS: RawHeaders = [(b"content-type", b"text/event-stream")]


@pytest.mark.parametrize("seed", range(2))
def test_streams_pass_byte_for_byte_however_they_are_split(tmp_path: Path, seed: int) -> None:
    rng, whole = (
        random.Random(seed),
        events(["Os", "lo", " é€ ", "."]).replace(b"\\u20ac", "€".encode()),
    )

    def split(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        cuts = sorted(rng.sample(range(1, len(whole)), 7))
        for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            handler.chunk(whole[begin:end])
        handler.chunk(b"")

    with upstream(split) as above, running(above.url, tmp_path) as gateway:
        status, headers, body = gateway.chat("Hello", stream=True)
        assert (status, headers["content-type"], body) == (200, "text/event-stream", whole)


def test_chunks_are_forwarded_as_they_come(tmp_path: Path) -> None:
    released = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        handler.chunk(b"data: 1\n\n")
        assert released.wait(HANG)
        handler.chunk(b"data: 2\n\n")
        handler.chunk(b"")

    with (
        upstream(wait) as above,
        running(above.url, tmp_path) as gateway,
        opened(gateway) as stream,
    ):
        assert stream.read(len(b"9\r\ndata: 1\n\n")) == b"9\r\ndata: 1\n\n"
        released.set()
        assert b"data: 2\n\n" in stream.read(len(b"\r\n9\r\ndata: 2\n\n"))


@pytest.mark.parametrize("partial", [b"data: {}\n\n", b'data: {"choi'])
def test_an_upstream_that_dies_in_a_stream_ends_it_with_one_error(
    tmp_path: Path, partial: bytes
) -> None:
    def die(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        handler.chunk(partial)
        time.sleep(0.05)
        handler.break_off()

    with upstream(die) as above, running(above.url, tmp_path) as gateway:
        status, _, body = gateway.chat("Hello", stream=True)
        assert status == 200 and body.startswith(partial) and b"[DONE]" not in body
        [*_, last, nothing] = body.split(b"\n\n")
        assert (
            json.loads(last.removeprefix(b"event: error\ndata: "))["error"]["code"]
            == "upstream_error"
            and not nothing
        )


def test_other_answers_that_break_off_do_not_seem_complete(tmp_path: Path) -> None:
    def die(handler: RawHandler, call: Received) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.wfile.flush()
        time.sleep(0.05)
        handler.break_off()

    with (
        upstream(die) as above,
        running(above.url, tmp_path) as gateway,
        pytest.raises(http.client.IncompleteRead),
    ):
        gateway.chat("Hello")


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_whole_whatever_length_it_states(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """A 304 states that of the answer which the client has, another server a wrong one."""

    def tell(handler: RawHandler, call: Received) -> None:
        handler.send_response(status)
        handler.send_header("ETag", "now")
        handler.send_header("Content-Length", "100")
        handler.end_headers()

    with upstream(tell) as above, running(above.url, tmp_path) as gateway:
        connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=HANG)
        for method in ("GET", "POST", "HEAD"):
            connection.request(method, "/v1/models", headers={"If-None-Match": "now"})
            response = connection.getresponse()
            assert (response.status, response.headers["etag"]) == (status, "now")
            assert response.read() == b""
        connection.close()
    assert not caplog.records


def test_a_client_that_hangs_up_cancels_the_upstream(tmp_path: Path) -> None:
    noticed = threading.Event()

    def endless(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        try:
            while True:
                handler.chunk(b"data: {}\n\n")
                time.sleep(0.01)
        except OSError:
            noticed.set()

    with upstream(endless) as above, running(above.url, tmp_path) as gateway:
        with opened(gateway) as stream:
            stream.read(10)
        assert noticed.wait(HANG)
        wait_until(lambda: gateway.metrics.in_flight._value.get() == 0)


class opened:  # noqa: N801
    """A raw connection that has sent a streaming chat and read the head of its answer."""

    def __init__(self, gateway: Running) -> None:
        host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
        self.client = socket.create_connection((host, int(port)), timeout=HANG)

    def send(self) -> None:
        body = b'{"stream": true, "messages": [{"role": "user", "content": "Hello"}]}'
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        self.client.sendall(head + body)

    def __enter__(self) -> BinaryIO:
        self.send()
        stream = self.client.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        return stream

    def __exit__(self, *_: object) -> None:
        self.client.shutdown(socket.SHUT_RDWR)
        self.client.close()


def test_a_slow_body_times_out(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, limits=Limits(seconds=0.1)) as gateway:
        host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port)), timeout=HANG) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
            )
            answer = client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 408") and b"connection: close" in answer


@pytest.mark.parametrize("partial", [b"data: {}\n\n", b'data: {"choi', b""])
def test_a_gateway_that_is_stopped_ends_its_answers_with_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partial: bytes
) -> None:
    """A stream with an event, a request that has no answer yet with a status."""
    monkeypatch.setattr("drike.gateway.http.server._SECONDS_TO_END", 0.2)

    def endless(handler: RawHandler, call: Received) -> None:
        if partial:
            handler.begin_stream()
            handler.chunk(partial)
        handler.recorded.gone.wait(HANG)

    with upstream(endless) as above:
        with running(above.url, tmp_path) as gateway:
            opening = opened(gateway)
            if partial:
                stream = opening.__enter__()
                stream.readline()
            else:
                opening.send()
                stream = opening.client.makefile("rb")
                wait_until(lambda: above.calls)
        answer = stream.read()
        above.gone.set()
    if partial:
        *_, last, end, _, _ = answer.split(b"\r\n")
        assert (
            end == b"0"
            and b"[DONE]" not in answer
            and (partial.endswith(b"\n") or last.startswith(b"\n\n"))
        )
        error = json.loads(last.strip().removeprefix(b"event: error\ndata: "))["error"]
    else:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503") and b"connection: close" in head
        error = json.loads(body)["error"]
    assert error["code"] == "ending"


async def nothing():
    return
    yield b""


def passed(
    headers: RawHeaders, chunks: Iterable[bytes], *, status: int = 200, complete: bool = True
) -> PassingAnswer:
    answer = PassingAnswer(Reply(status, headers, nothing()))
    for chunk in chunks:
        answer.take(chunk)
    answer.complete = complete
    return answer


@pytest.mark.parametrize("kind", [*FAILURES_WITH_200, *ONLY_THOUGHTS])
def test_failures_and_thoughts_alone_are_no_answers_to_be_judged(kind: str) -> None:
    raw = json.dumps({**FAILURES_WITH_200, **ONLY_THOUGHTS}[kind]).encode()
    assert passed(JSON, [raw]).text() is None


@pytest.mark.parametrize("api", PATHS)
def test_an_answer_is_read_in_every_form_and_split(api: str) -> None:
    draw = random.Random(0)
    for said in (text for text in SAYINGS.values() if text):
        assert passed(JSON, split(whole(api, said), draw)).text() == said
        for newline in ("\n", "\r\n", "\r"):
            raw = stream(api, pieces_of(said, draw), newline)
            assert passed(EVENTS, split(raw, draw)).text() == said
            assert passed(EVENTS, [raw]).text() == said


FAILED_EVENTS = {
    "chat": [
        b'data: {"error": {"message": "out of memory"}}',
        b'data: {"object": "error", "message": "out of memory", "code": 500}',
        b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}',
        b'data: {"detail": "out of memory"}',
        b"event: error\ndata: out of memory",
    ],
    "messages": [b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}'],
    "responses": [
        b'data: {"type": "error", "code": "server_error", "message": "out of memory"}',
        b'data: {"type": "response.failed", "response": {"status": "failed", "output": []}}',
    ],
}
FAILED_EVENTS["completions"] = FAILED_EVENTS["chat"]


@pytest.mark.parametrize("api", PATHS)
def test_a_stream_that_fails_midway_is_no_answer_to_be_judged(api: str) -> None:
    raw = stream(api, ["It is ", "Oslo."])
    ends = [raw.index(b"\n\n") + 2, raw.index(b"Oslo")]
    ends[1] = raw.index(b"\n\n", ends[1]) + 2
    for failed in FAILED_EVENTS[api]:
        for end in ends:
            cut = raw[:end] + failed + b"\n\n"
            assert passed(EVENTS, [cut]).text() is None
            assert passed(EVENTS, [cut + b"data: [DONE]\n\n"]).text() is None
            assert passed(EVENTS, [cut + raw[end:]]).text() is None
            assert passed(EVENTS, split(cut + raw[end:], random.Random(0))).text() is None
    long = stream(api, ["word " * 40] * 500)
    assert passed(EVENTS, [long[:-200], b"\n\n" + FAILED_EVENTS[api][0]]).text() is None


@pytest.mark.parametrize("api", PATHS)
def test_a_stream_that_ends_without_saying_so_is_cut(api: str) -> None:
    raw = stream(api, ["It is ", "Oslo."])
    end = raw.index(b"\n\n", raw.index(b"Oslo")) + 2
    assert passed(EVENTS, [raw[:end]]).text() is None
    assert passed(EVENTS, [raw]).text() == "It is Oslo."


def test_the_end_of_the_first_choice_is_the_end() -> None:
    said = b'data: {"choices": [{"index": 0, "delta": {"content": "Oslo"}}]}\n\n'
    for index, text in ((0, "Oslo"), (1, None)):
        choice = {"index": index, "delta": {}, "finish_reason": "stop"}
        end = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        assert passed(EVENTS, [said + end]).text() == text


def test_a_long_stream_is_read_up_to_its_bound_and_held_in_little_memory() -> None:
    answer = passed(EVENTS, (), complete=True)
    for _ in range(30):
        answer.take(stream("chat", ["word " * 40] * 100))
        assert answer.held < 150_000
    text = answer.text()
    assert text is not None and len(text) == 64 << 10 and text.startswith("word word ")


def test_what_is_not_an_answer_in_text_is_unread() -> None:
    said = whole("chat", "Oslo")
    call = {
        "choices": [
            {"message": {"content": None, "tool_calls": [{"function": {"arguments": "Oslo"}}]}}
        ]
    }
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
        (
            {
                "choices": [
                    {"delta": {"content": [{"type": "text", "text": "a"}, "b", {"thinking": "c"}]}}
                ]
            },
            "ab",
        ),
        ({"choices": []}, ""),
        ({"choices": [{"delta": [1]}, {"delta": {"content": "Oslo"}}]}, ""),
        (
            {
                "output": [
                    {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
                    3,
                ]
            },
            "No.",
        ),
        ({"error": {"message": "Oslo"}}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_texts_of_forms(values: object, text: str) -> None:
    assert text_of(values) == text


def test_an_event_may_have_other_lines_and_several_of_data() -> None:
    raw = b'id: 1\nevent: x\ndata: {"choices": [{"delta":\ndata: {"content": "Oslo"}}]}\nretry: 3\n\ndata: [DONE]\n\n'
    assert passed(EVENTS, [raw]).text() == "Oslo"
    deep = b'data: {"choices": [{"delta": {"content": ' + b"[" * 900 + b"]" * 900 + b"}}]}\n\n"
    assert passed(EVENTS, [deep * 10, raw]).text() == "Oslo"
