"""Any request in any dialect is edited, passed as it is, or refused: never a fault of the gateway, never half edited.

`make test` tries 200 through the whole gateway in process, `make reliability` 200,000, and 2,000
over sockets.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from drike.conversations.imitations import defused
from drike.gates.by_name import Named
from drike.gateway.calls import Reply, UpstreamCall
from drike.gateway.http.routes import Gateway
from drike.live.corrections import Corrections
from drike.stores.opening import open_store
from tests.fakes.conversations import BLOCK, RECORDS
from tests.fakes.gateways import running
from tests.fakes.made_up_requests import APIS, made_up, requests
from tests.fakes.tally import Tally
from tests.fakes.upstreams import upstream

FEW, MANY, OVER_SOCKETS = 200, 200_000, 2_000
SCOPES = {"fired", "abstained", "unread"}


class Keeping:
    """An upstream that keeps the last body, and answers every request as if it had been stored."""

    name = "keeping"
    body: bytes | None = None

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def problem(self) -> None: ...

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        async def chunks() -> AsyncIterator[bytes]:
            yield b'{"id": "resp_1", "object": "response"}'

        self.body = call.body
        yield Reply(200, [(b"content-type", b"application/json")], chunks())


async def ask(
    gateway: Gateway, path: str, body: bytes, encoding: bytes
) -> tuple[int, dict[bytes, bytes]]:
    """Send a request to the gateway, without a socket; return the status and headers of its answer."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [*headers, (b"content-encoding", encoding)] if encoding else headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Message] = []
    whole = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if whole:
            return whole.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await gateway(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


def is_edited(new: str, calm: str) -> bool:
    """Whether a text is another one with a block before it, behind it, or both."""
    blocks = rf"(?:{BLOCK.pattern}\n\n)?{re.escape(calm)}(?:\n\n{BLOCK.pattern.replace('1', '3')})?"
    return new != calm and re.fullmatch(blocks, new, re.DOTALL) is not None


def differences(old: object, new: object, path: tuple[Any, ...] = ()) -> Iterator[str]:
    """What is changed in an edited request beside blocks around texts, and prompts that end in the old text."""
    if isinstance(old, str) and isinstance(new, str):
        calm = defused(old)
        right = is_edited(new, calm)
        if (
            new not in (old, calm)
            and not right
            and not (path[:1] == ("prompt",) and new.endswith(calm))
        ):
            yield f"{path}: {old!r} became {new!r}"
    elif isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        for key, value in old.items():
            yield from differences(value, new[key], (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, value in enumerate(old):
            yield from differences(value, new[i], (*path, i))
    elif json.dumps(old) != json.dumps(new):
        yield f"{path}: another value"


def wrong(status: int, scope: str, sent: tuple[bytes, bytes], got: bytes | None) -> Iterator[str]:
    """What is wrong with the answer to a request.

    got: what the upstream got; None if it was not asked.
    """
    body, encoding = sent
    if status != 200:
        if not 400 <= status < 500 or got is not None:
            yield f"status {status}"
    elif got is None or scope not in SCOPES:
        yield f"status {status}, but {scope}"
    elif scope != "fired":
        if got != body:
            yield f"{scope}, but the body has changed"
    else:
        yield from differences(
            json.loads(gzip.decompress(body) if encoding == b"gzip" else body), json.loads(got)
        )


def series(gateway: Gateway, number: int, seed: int) -> tuple[Counter[str], list[str]]:
    """What became of made-up requests, and what was wrong."""
    results, mistakes = Counter[str](), list[str]()

    async def send_all() -> None:
        for path, body, encoding in requests(number, seed):
            above.body = None
            status, headers = await ask(gateway, f"/v1{path}", body, encoding)
            scope = headers.get(b"x-drike-scope", b"none").decode()
            results[scope if status == 200 else str(status)] += 1
            mistakes.extend(
                f"{path} {problem}"
                for problem in wrong(status, scope, (body, encoding), above.body)
            )

    above = gateway.upstream
    assert isinstance(above, Keeping)
    asyncio.run(send_all())
    return results, mistakes


def check(number: int, seed: int, place: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(Keeping(), place, *RECORDS) as serving:
        results, mistakes = series(serving.gateway, number, seed)
    print(f"{number:,} made-up requests: {dict(results)}")
    assert mistakes[:5] == [] and not caplog.records  # a fault would be logged
    assert results.total() == number and {"fired", "abstained", "unread", "400"} <= results.keys()


def test_any_request_is_edited_passed_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(FEW, 0, tmp_path, caplog)


@pytest.mark.reliability
def test_200_000_requests_are_edited_passed_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    tally("made-up requests in four dialects", MANY)
    check(MANY, 1, tmp_path, caplog)


def check_library(number: int, seed: int, place: Path) -> None:
    """Put edits into made-up requests without a gateway.

    The requests themselves stay as they are.
    """
    rng, edited, mistakes = random.Random(seed), 0, list[str]()
    with closing(open_store(place / "edits.db")) as store:
        for record in RECORDS:
            store.put(record)
    with Corrections(place / "edits.db", gate=Named()) as edits:
        for _ in range(number):
            endpoint, request = made_up(rng)
            before = json.dumps(request)
            corrected = edits.apply(request, api=APIS[endpoint])
            assert json.dumps(request) == before and corrected.reason
            edited += bool(corrected.edits)
            mistakes += differences(request, corrected.request)
            assert corrected.edits or corrected.request is request
    assert mistakes[:5] == [] and edited > number / 5


def test_the_library_takes_any_request(tmp_path: Path) -> None:
    check_library(FEW, 0, tmp_path)


@pytest.mark.reliability
def test_the_library_takes_20_000_requests(tmp_path: Path, tally: Tally) -> None:
    tally("made-up requests in four dialects", MANY // 10)
    check_library(MANY // 10, 1, tmp_path)


@pytest.mark.reliability
def test_2_000_requests_over_sockets(tmp_path: Path, tally: Tally) -> None:
    tally("made-up requests in four dialects", OVER_SOCKETS)
    mistakes, results = list[str](), Counter[str]()
    answering = upstream(lambda handler, call: handler.reply(200, b'{"id": "resp_1"}'))
    with answering as above, running(above.url, tmp_path, *RECORDS) as gateway:
        for path, body, encoding in requests(OVER_SOCKETS, 2):
            above.calls.clear()
            more = {"Content_Encoding": encoding.decode()} if encoding else {}
            status, headers, _ = gateway.ask("POST", f"/v1{path}", body, **more)
            got, scope = (
                above.calls[-1].body if above.calls else None,
                headers.get("x-drike-scope", "none"),
            )
            results[scope if status == 200 else str(status)] += 1
            mistakes += [
                f"{path} {problem}" for problem in wrong(status, scope, (body, encoding), got)
            ]
    print(f"over sockets: {dict(results)}")
    assert mistakes[:5] == []
