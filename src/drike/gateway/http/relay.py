"""Requests and answers between a client and the upstream: reading with limits, and passing on as it comes.

The text of an answer is read while it passes; where it slips, and states an edit's old object, another is asked for.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from drike.answers.statements import Stated
from drike.edits.record import Status
from drike.gateway.http.upstream import (
    Headers,
    Reply,
    Upstream,
    UpstreamCall,
    UpstreamError,
    in_one,
    whole,
)
from drike.gateway.requests import EditedRequest, parse

_MAX_DRAINED, _SECONDS_TO_DRAIN = 32 << 20, 2.0  # bytes of a refused body
_SECONDS_TO_READ = 60.0  # that a client may take for a chunk
_MOST_TEXT = 64 << 10  # characters; what follows is not read
_MOST_RAW = 1 << 20  # bytes of an answer in JSON, or of one event
_BATCH = 8 << 10  # bytes of a stream that are read at once
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_END = {"type": "http.response.body", "body": b"", "more_body": False}


@dataclass(frozen=True)
class Limits:
    """What a client may ask for. body, headers: bytes. seconds: to send a body. at_once: requests in flight."""

    body: int = 10 << 20
    headers: int = 16 << 10
    seconds: float = 30.0
    at_once: int = 1_000


_OF_ADMIN = Limits(body=1 << 20)


class RequestError(Exception):
    """A request that is refused. code: for programs. scope: for x-drike-scope, where it was decided."""

    def __init__(self, status: int, code: str, sentence: str, scope: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.code, self.scope = status, code, scope


ENDING = RequestError(503, "ending", "the gateway is being stopped: try again")


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """The body of a request. Raises RequestError for one that is too large or too slow, ClientDisconnect."""
    most = f"{limits.body >> 20} MB" if limits.body >> 20 else f"{limits.body >> 10} KB"
    too_large = RequestError(
        413, "body_too_large", f"the body has more than {most}: send less at once"
    )
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if declared.isdigit() and int(declared) > limits.body:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            while (message := await receive())["type"] != "http.disconnect":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(parts)
            raise ClientDisconnect
    except TimeoutError:
        raise RequestError(
            408, "too_slow", f"the body took more than {limits.seconds:g} s: send it again"
        ) from None


async def read_values(request: Request) -> dict[str, Any]:
    """The JSON object of a request to the admin port; {} without a body. Raises as `read_body`."""
    with suppress(ValueError):
        if (
            values := parse(await read_body(request.scope, request.receive, _OF_ADMIN) or b"{}")
        ) is not None:
            return values
    raise RequestError(400, "bad_request", "the body is not a JSON object")


async def drain(receive: Receive) -> bool:
    """Read the rest of a refused body, as a client may listen only once it has sent all. Return whether it ended."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS_TO_DRAIN):
            while size < _MAX_DRAINED:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return bool(message["type"] == "http.request")
    return False


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block when the client hangs up, and raise ClientDisconnect; its body must have been read."""
    task, gone = asyncio.current_task(), False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task:
            task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone or not task or task.uncancel():
            raise
        raise ClientDisconnect from None
    finally:
        watcher.cancel()


async def stream_response(reply: Reply, send: Send, more: Headers) -> None:
    """Send an answer as it comes. Raises UpstreamError only if nothing has been sent yet.

    If it breaks off, or the gateway ends, a stream of events ends with one that holds the error, and without `[DONE]`;
    another answer is left incomplete, so that the connection is closed.
    """
    content_type = next((value for name, value in reply.headers if name == b"content-type"), b"")
    events, ended = (
        content_type.startswith(b"text/event-stream"),
        True,
    )  # ended: the last event is complete
    chunks = aiter(reply.chunks)
    first = b"" if events else await anext(chunks, b"")
    await send(
        {"type": "http.response.start", "status": reply.status, "headers": reply.headers + more}
    )
    try:
        if first:
            await _send_chunk(send, first)
        async for chunk in chunks:
            await _send_chunk(send, chunk)
            ended = chunk.endswith((b"\n\n", b"\r\n\r\n"))
    except (UpstreamError, asyncio.CancelledError) as problem:
        # The latter where the gateway is being stopped; or the client is gone, and sees nothing of this.
        error = problem if isinstance(problem, UpstreamError) else ENDING
        if events:  # without its name, Anthropic's clients would pass over it, and take the answer for whole
            event = b"event: error\ndata: " + error_body(str(error), error.code) + b"\n\n"
            await _send_chunk(send, event if ended else b"\n\n" + event)
            await send(_END)
        if error is ENDING:
            raise
        return
    await send(_END)


async def send_error(send: Send, error: RequestError | UpstreamError, more: Headers) -> None:
    """Answer with an error in OpenAI's form."""
    further = [(b"retry-after", b"1")] if error.status == 429 else []
    if scope := getattr(error, "scope", None):
        further.append((b"x-drike-scope", scope.encode()))
    await send_json(send, error.status, error_body(str(error), error.code), [*more, *further])


async def send_json(send: Send, status: int, body: bytes, more: Headers) -> None:
    """Answer with JSON."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({**_END, "body": body})


def error_body(sentence: str, code: str) -> bytes:
    """An error as OpenAI's and Anthropic's clients read it."""
    error = {"message": sentence, "type": "drike_error", "param": None, "code": code}
    return json.dumps({"type": "error", "error": error}).encode()


async def _send_chunk(send: Send, chunk: bytes) -> None:
    try:
        async with asyncio.timeout(_SECONDS_TO_READ):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TimeoutError:
        raise ClientDisconnect from None


class PassingAnswer:
    """An answer as it passes, `complete` once it has. slipped: ids of edits whose old object one before it stated."""

    def __init__(self, reply: Reply, slipped: Sequence[int] = ()) -> None:
        headers = {name: value.strip().lower() for name, value in reply.headers}
        kind, plain = (
            headers.get(b"content-type", b""),
            headers.get(b"content-encoding", b"identity") == b"identity",
        )
        self._streams = kind.startswith(b"text/event-stream")
        self._readable = reply.status == 200 and plain and (self._streams or b"json" in kind)
        self._raw: list[bytes] = []
        self._due, self._text = _BATCH, ""
        self._size = 0  # bytes that are not read yet
        self.ok, self.complete, self.slipped = reply.status < 400, False, slipped

    def take(self, chunk: bytes) -> None:
        """Hold a chunk that was passed on; of a stream, what is long enough is read."""
        if not self._readable or len(self._text) >= _MOST_TEXT:
            return
        self._raw.append(chunk)
        self._size += len(chunk)
        if self._streams and self._size > self._due:
            self._read()
        if self._size > _MOST_RAW:
            self.drop()

    @property
    def held(self) -> int:
        """About how many bytes of it are in memory."""
        return self._size + len(self._text)

    def drop(self) -> None:
        """Forget what is held; the answer is not read."""
        self._readable, self._raw, self._size, self._text = False, [], 0, ""

    def text(self) -> str | None:
        """What the model says; None where that was not read: for another form, a compressed or a cut answer, a call."""
        if not (self._readable and self.complete):
            return None
        if self._streams:
            self._raw.append(b"\n\n")
            self._read()
        else:
            self._text = _said(b"".join(self._raw))
        return self._text[:_MOST_TEXT] if self._text.strip() else None

    def _read(self) -> None:
        raw = b"".join(self._raw)
        whole = max(
            (place + len(end) for end in _EVENT_ENDS if (place := raw.rfind(end)) >= 0), default=0
        )
        lines = raw[:whole].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        events = (event.split("\n") for event in lines.split("\n\n") if event)
        self._text += "".join(
            [_said("\n".join(s[5:] for s in event if s.startswith("data:"))) for event in events]
        )
        self._raw, self._size = [raw[whole:]], len(raw) - whole
        self._due = (
            2 * self._size + _BATCH
        )  # so that a long event is not gone through with each of its chunks


async def answered(
    upstream: Upstream, call: UpstreamCall, edited: EditedRequest, reply: Reply
) -> tuple[Reply, Sequence[int]]:
    """The reply or, if it slips and may be asked for again, a second one that succeeds; and the edits that slipped."""
    if edited.again is None:
        return reply, ()
    answer, raw = PassingAnswer(reply), await whole(reply)
    answer.take(raw)
    answer.complete = True
    active, text = (
        [edit for edit in edited.asked if edit.record.status is Status.ACTIVE],
        answer.text(),
    )
    slipped = [edit.id for edit in active if text and edit.record.states(text) is Stated.OLD]
    if slipped:
        with suppress(UpstreamError, TimeoutError):
            headers = [
                header for header in call.headers if header[0] != b"idempotency-key"
            ]  # it is for the first body
            async with upstream.exchange(
                replace(call, headers=headers, body=await edited.again())
            ) as second:
                further = await whole(second)
                reply, raw = (second, further) if second.status < 400 else (reply, raw)
    return replace(reply, chunks=in_one(raw)), slipped


def text_of(values: object) -> str:
    """The text of the first choice of an answer, or what an event adds to it; "" for all else."""
    match values:
        case {"choices": [dict(choice), *_]}:
            message = choice.get("delta") or choice.get("message") or choice
            first = isinstance(message, dict) and not choice.get("index")
            return _text(message.get("content")) + _text(message) if first else ""
        case (
            {"type": "response.output_text.delta" | "response.refusal.delta", "delta": said}
            | {"type": "content_block_delta", "delta": said}
            | {"content": said}
        ):
            return _text(said)
        case {"output": list(items)}:
            messages = (
                item for item in items if isinstance(item, dict) and item.get("type") == "message"
            )
            return "".join(_text(message.get("content")) for message in messages)
    return ""


def _text(content: object) -> str:
    """A text, or the texts of its parts."""
    if isinstance(content, dict):
        return _text(content.get("text")) + _text(content.get("refusal"))
    if isinstance(content, list):
        return "".join(map(_text, content))
    return content if isinstance(content, str) else ""


def _said(raw: bytes | str) -> str:
    try:
        return text_of(json.loads(raw)) if raw else ""
    except (ValueError, RecursionError):
        return ""
