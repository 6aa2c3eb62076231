"""Reads requests of clients within limits, and passes answers on to them as they come."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from drike.gateway.bodies import parse
from drike.gateway.calls import Reply
from drike.gateway.errors import ENDING, RequestError, UpstreamError, error_body

_MAX_DRAINED = 32 << 20  # bytes of a refused body
_SECONDS_TO_DRAIN = 2.0
_SECONDS_FOR_CHUNK = 60.0  # that a client may take for a chunk of an answer
_WITHOUT_BODY = (204, 304)  # statuses of which the length, if any is given, is not the answer's
_END = {"type": "http.response.body", "body": b"", "more_body": False}


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    body, headers: bytes. seconds: to send a body. at_once: requests that are worked on; as many
    more may be sending their bodies.
    """

    body: int = 10 << 20
    headers: int = 16 << 10
    seconds: float = 30.0
    at_once: int = 1_000


_OF_ADMIN = Limits(body=1 << 20)
Place = Callable[[asyncio.Timeout], AbstractContextManager[None]]


def _any_place(deadline: asyncio.Timeout) -> AbstractContextManager[None]:
    """Room for every body."""
    return nullcontext()


async def read_body(
    scope: Scope, receive: Receive, limits: Limits, place: Place = _any_place
) -> bytes:
    """The body of a request.

    place: is held while it is sent. Raises RequestError for one that is too large or too slow,
    ClientDisconnect.
    """
    declared_size = Headers(scope=scope).get("content-length", "")
    if declared_size.isdecimal() and int(declared_size) > limits.body:
        raise _too_large(limits)

    try:
        async with asyncio.timeout(limits.seconds) as deadline:
            with place(deadline):
                return await _whole_body(receive, limits)
    except TimeoutError:
        raise RequestError(
            408,
            "too_slow",
            f"the body took too long ({limits.seconds:g} s at most, 1 s while others of the key "
            "wait): send it again",
        ) from None


async def _whole_body(receive: Receive, limits: Limits) -> bytes:
    """All parts of a body. Raises RequestError for one that is too large, ClientDisconnect."""
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > limits.body:
            raise _too_large(limits)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limits: Limits) -> RequestError:
    megabytes = limits.body >> 20
    most = f"{megabytes} MB" if megabytes else f"{limits.body >> 10} KB"
    return RequestError(413, "body_too_large", f"the body has more than {most}: send less at once")


async def read_values(request: Request) -> dict[str, Any]:
    """The JSON object of a request to the admin port; {} without a body. Raises as `read_body`."""
    body = await read_body(request.scope, request.receive, _OF_ADMIN)
    values = None
    with suppress(ValueError):
        values = parse(body or b"{}")
    if values is None:
        raise RequestError(400, "bad_request", "the body is not a JSON object")
    return values


async def drain(receive: Receive) -> bool:
    """Read the rest of a refused body, as a client may listen only once it has sent all.

    Return whether it ended.
    """
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
    """Cancel the block when the client hangs up, and raise ClientDisconnect.

    Its body must have been read.
    """
    task = asyncio.current_task()
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        if task:
            task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        cancelled_by_others = not is_gone or not task or task.uncancel() > 0
        if cancelled_by_others:
            raise
        raise ClientDisconnect from None
    finally:
        watcher.cancel()


async def stream_response(reply: Reply, send: Send, added: MutableHeaders) -> None:
    """Send an answer as it comes, with some headers added.

    Raises UpstreamError only if nothing has been sent yet.

    If it breaks off, or the gateway ends, a stream of events ends with one that holds the error,
    and without `[DONE]`; another answer is left incomplete, so that the connection is closed.
    """
    content_type = Headers(raw=reply.headers).get("content-type", "")
    is_stream_of_events = content_type.startswith("text/event-stream")
    chunks = aiter(reply.chunks)
    # Of an answer in one piece the status is sent once some of it has come: until then another can
    # be sent.
    first = b"" if is_stream_of_events else await anext(chunks, b"")
    headers = reply.headers + added.raw
    if reply.status in _WITHOUT_BODY:
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})

    event_is_complete = True
    try:
        if first:
            await _send_chunk(send, first)
        async for chunk in chunks:
            await _send_chunk(send, chunk)
            event_is_complete = chunk.endswith((b"\n\n", b"\r\n\r\n"))
    except UpstreamError as problem:
        if is_stream_of_events:
            await _send_error_event(send, problem, event_is_complete)
        return
    except asyncio.CancelledError:
        # The gateway is being stopped; or the client is gone, and sees nothing of this.
        if is_stream_of_events:
            await _send_error_event(send, ENDING, event_is_complete)
        raise
    await send(_END)


async def _send_error_event(
    send: Send, error: RequestError | UpstreamError, event_is_complete: bool
) -> None:
    """End a stream of events.

    Without its name, Anthropic's clients would pass over the last one, and see no error.
    """
    event = b"event: error\ndata: " + error_body(str(error), error.code) + b"\n\n"
    await _send_chunk(send, event if event_is_complete else b"\n\n" + event)
    await send(_END)


async def send_error(
    send: Send, error: RequestError | UpstreamError, added: MutableHeaders
) -> None:
    """Answer with an error in OpenAI's form."""
    headers = MutableHeaders(raw=list(added.raw))
    if error.status == 429:
        headers["retry-after"] = str(error.retry_after)
    if error.scope:
        headers["x-drike-scope"] = error.scope
    await send_json(send, error.status, error_body(str(error), error.code), headers)


async def send_json(send: Send, status: int, body: bytes, added: MutableHeaders) -> None:
    """Answer with JSON."""
    headers = MutableHeaders({"content-type": "application/json", "content-length": str(len(body))})
    await send(
        {"type": "http.response.start", "status": status, "headers": headers.raw + added.raw}
    )
    await send({**_END, "body": body})


async def _send_chunk(send: Send, chunk: bytes) -> None:
    try:
        async with asyncio.timeout(_SECONDS_FOR_CHUNK):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TimeoutError:
        raise ClientDisconnect from None
