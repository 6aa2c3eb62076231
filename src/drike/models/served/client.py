"""Requests to an OpenAI-compatible server, its responses, of which nothing is trusted, and the error of each failure.

The `openai` client retries failures that may pass (no connection, a reset, 408, 409, 429, 5xx, an answer that is not
JSON) as Retry-After says. Requests run on an event loop in a thread of their own: only there can one that waits or
hangs be cancelled at its deadline or at Ctrl-C.
"""

import asyncio
import json
import os
import queue
import threading
import weakref
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

import httpx2
import openai

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.served import (
    Address,
    ApiOptions,
    Meter,
    TokenCounts,
    error_message,
    is_loopback,
    token_counts,
)
from drike.support.parallel import POLL_SECONDS, StoppedError, TaskGroup, current_group
from drike.support.records import encodable

T = TypeVar("T")

SHARED = (
    1000  # characters; prompts that share a beginning this long are worth a server's prefix cache
)
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_BODY_LIMIT = (
    16 * 1024 * 1024
)  # bytes, decoded; log-probabilities of a long prompt take about a quarter of it
_NOT_JSON, _EMPTY = "answers with something that is not JSON", "gives an empty answer"
_SECOND_ANSWER = "answers a request twice on one connection"
_SHORTEST_KEY = 8  # characters; a shorter one is a placeholder, and may stand in any text
_LONGEST_INTEGER = 18  # digits; a longer one is read as a float, which no count accepts
_TOO_LONG = ("context length", "context window", "too long", "maximum context")
# Parameters that some models refuse, with 400 and the parameter's name, and what to send instead.
_INSTEAD = {"max_tokens": "max_completion_tokens", "temperature": None}


class ApiCall(NamedTuple):
    """A request: its path below the address, its JSON without None, the text it costs, and an answer's most tokens."""

    path: str
    body: Mapping[str, object]
    text: str
    max_tokens: int


def families(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts grouped by a long shared beginning, the longest of each group first."""
    groups: dict[str | int, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        groups[i if len(text) < SHARED else text[:SHARED]].append(i)
    return [sorted(group, key=lambda i: -len(texts[i])) for group in groups.values()]


class Connection:
    """A connection to one server, for threads to share. key: None sends none. attempts: most requests for an answer."""

    def __init__(
        self, address: Address, key: str | None, options: ApiOptions, attempts: int
    ) -> None:
        self.meter = Meter(options)
        self._url, self._key_variable = address.url, address.key_variable
        self._deadline, self._attempts = options.deadline, attempts
        self._process = os.getpid()
        hidden = (
            key if key and len(key) >= _SHORTEST_KEY else None
        )  # in no attribute, so that no dump shows it
        self._hide_key = (lambda text: text.replace(hidden, "[key]")) if hidden else str
        self._unwanted: set[str] = set()
        self._slots = asyncio.Semaphore(options.concurrency)
        self._loop = asyncio.new_event_loop()
        silence, most, url = (
            options.deadline / attempts,
            options.concurrency,
            httpx2.URL(address.url),
        )
        self._client = openai.AsyncOpenAI(
            api_key="set on each request", base_url=address.url, max_retries=attempts - 1,
            # An attempt is given up after this long a silence; the deadline is asyncio's.
            timeout=httpx2.Timeout(silence, connect=min(_CONNECT_SECONDS, silence)),
            http_client=httpx2.AsyncClient(
                # A redirect would take prompts to a server that nobody named; a proxy has no business on loopback.
                follow_redirects=False, trust_env=not is_loopback(url.host),
                verify=url.scheme != "http",  # without encryption, certificates are not read: they take 40 ms
                event_hooks={"request": [_outgoing(key, self.meter)], "response": [_read_body]},
                limits=httpx2.Limits(max_connections=most, max_keepalive_connections=most),
            ),
        )  # fmt: skip
        thread = threading.Thread(target=self._loop.run_forever, name="drike-requests", daemon=True)
        thread.start()
        self.close = weakref.finalize(self, _close, self._loop, thread, self._client)

    def send(
        self, calls: Sequence[ApiCall], read: Callable[[int, Mapping[str, Any]], T]
    ) -> Iterator[tuple[int, T]]:
        """Send calls and yield `read` of each answer's JSON, with the index of its call, as they arrive.

        `read` runs in the thread of the requests. After a failure, of `read` too, no thread of the same `TaskGroup`
        sends anything more; requests in flight are awaited until the group is abandoned. Raises ServerError,
        RefusedError, SpendingLimitError, and any ModelError of `read`; StoppedError if calls were not sent because
        another failed or the group is over; ModelError if it is closed, or after a fork.
        """
        self._check_open()
        group = current_group()
        done: queue.SimpleQueue[tuple[int, asyncio.Task[T]]] = queue.SimpleQueue()

        async def put(first: int, *others: int) -> None:
            task = asyncio.create_task(
                self._answer(calls[first], lambda answer: read(first, answer), group)
            )
            task.add_done_callback(lambda task: done.put((first, task)))
            await asyncio.gather(
                task, return_exceptions=True
            )  # by then the server has read the shared beginning
            await asyncio.gather(*(put(i) for i in others))

        async def put_all() -> None:
            await asyncio.gather(
                *(put(*family) for family in families([call.text for call in calls]))
            )

        running = asyncio.run_coroutine_threadsafe(put_all(), self._loop)
        failures: list[Exception] = []
        try:
            for _ in calls:
                i, task = self._next(done, group)
                try:
                    item = task.result()
                except (ModelError, StoppedError) as error:
                    failures.append(error)
                except asyncio.CancelledError:
                    raise self._closed() from None
                else:
                    yield i, item
        finally:
            running.cancel()
        if failures:
            raise next(
                (failure for failure in failures if failure is group.failure), StoppedError()
            )

    async def _answer(
        self, call: ApiCall, read: Callable[[Mapping[str, Any]], T], group: TaskGroup
    ) -> T:
        """Send a call and read its answer. Raises StoppedError if the group was over before it was sent."""
        async with self._slots:
            if group.over:
                raise StoppedError
            try:
                with self.meter.reserved(call.text, call.max_tokens):
                    body, counts = await self._post(call), TokenCounts()
                    try:  # an estimate, if the server's counts are refused
                        counts = token_counts(body, self._url)
                    finally:
                        self.meter.answered(call.text, counts, call.max_tokens)
                return read(body)
            except ModelError as error:
                group.stop(error)
                raise

    def check_answer(self, text: str) -> str:
        """Return the text of an answer. Raises RefusedError if it contains the key; lone surrogates are replaced."""
        if self._hide_key(text) != text:
            raise RefusedError(
                f"{self._url} repeats the key in an answer: set another key, and use another server"
            )
        return encodable(text)

    def _check_open(self) -> None:
        if not self.close.alive:
            raise self._closed()
        if self._process != os.getpid():
            raise ModelError(
                f"{self._url} was connected before this process was forked: open the model again here"
            )

    def _closed(self) -> ModelError:
        return ModelError(f"the connection to {self._url} was closed: open the model again")

    def _next(self, done: queue.SimpleQueue[T], group: TaskGroup) -> T:
        while True:
            try:
                return done.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._check_open()
                if group.abandoned:
                    raise StoppedError from None

    async def _post(self, call: ApiCall) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._deadline):
                while True:
                    named = (
                        (_INSTEAD[key] if key in self._unwanted else key, call.body[key])
                        for key in call.body
                    )
                    sent = {
                        name: value
                        for name, value in named
                        if name is not None and value is not None
                    }
                    try:
                        answer = await self._client.post(
                            call.path, cast_to=httpx2.Response, body=sent
                        )
                        return _json_object(answer.extensions["json"], self._url, self._hide_key)
                    except openai.BadRequestError as error:
                        refused = {
                            name for name in _INSTEAD.keys() & sent.keys() if name == error.param
                        }
                        if not refused or "unsupported" not in str(error.code):
                            raise
                        self._unwanted |= refused
        except TimeoutError:
            remedy = (
                "allow more with `deadline`, or send fewer requests at a time with `concurrency`"
            )
            raise ServerError(
                f"{self._url} gave no whole answer within {self._deadline:g} seconds: {remedy}"
            ) from None
        except openai.OpenAIError as error:
            message = error_message(getattr(error, "body", None), self._hide_key)
            raise self._explained(
                error, message, f"{call.path} for {call.body.get('model')}"
            ) from None

    def _explained(self, error: openai.OpenAIError, message: str, asked: str) -> ModelError:
        """The error that a failed request for `asked` becomes: ServerError if it may pass. message: the server's."""
        url, times = self._url, self._attempts
        if isinstance(error, openai.APITimeoutError):
            silence = f"{self._deadline / times:g} seconds, {times} times"
            return ServerError(
                f"{url} was silent for {silence}: is it up, and is `deadline` long enough for it?"
            )
        if not isinstance(error, openai.APIStatusError):
            if str(error.__cause__) in (_EMPTY, _NOT_JSON, _SECOND_ANSWER):
                return ServerError(
                    f"{url} {error.__cause__}, {times} times: is it the address of an API?"
                )
            reason = type(error.__cause__ or error).__name__
            return ServerError(
                f"{url} cannot be reached ({reason}): start the server, or correct the address"
            )
        status = error.status_code
        temporary = status in (408, 409, 429) or status >= 500
        if status == 429:
            remedy = (
                f"still limits the rate after {times} attempts: lower `concurrency`, or go on later"
            )
        elif temporary:
            remedy = f"failed {times} times: try again later"
        elif status in (401, 403):
            remedy = f"refuses the key: set ${self._key_variable} to a valid key"
        elif status == 404:
            remedy = f"has no {asked}: correct the model's name or the address, or choose the other `template`"
        elif status == 413 or (
            status == 400 and any(word in message.casefold() for word in _TOO_LONG)
        ):
            remedy = "finds the prompt too long: give fewer demonstrations"
        elif status < 400:
            remedy = "redirects to another address: give that one"
        else:
            remedy = "refuses the request: choose another model or other options"
        sentence = f"{url} {remedy} ({f'{status}: {message}' if message else status})"
        return ServerError(sentence) if temporary else RefusedError(sentence, status)


def _outgoing(key: str | None, meter: Meter) -> Callable[[httpx2.Request], Any]:
    async def prepare(request: httpx2.Request) -> None:
        meter.sent()
        # The client's own headers describe this machine and account, and may hold another service's key.
        for name in [
            name
            for name in request.headers
            if name.startswith(("authorization", "openai-", "x-stainless-"))
        ]:
            del request.headers[name]
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = "drike"

    return prepare


async def _read_body(response: httpx2.Response) -> None:
    """Read and decode a response, and keep its JSON as its extension "json"; for use as an event hook.

    One that should be JSON and is not becomes a failed connection, so that it is retried. Raises RefusedError if the
    body is too large, in memory or decoded, or oddly compressed, or if the account has no money left.
    """
    stream = response.extensions["network_stream"]
    if not hasattr(
        stream, "reads"
    ):  # the connection's first response: from now on, what is read is counted
        read = stream.read

        async def counted(*args: Any, **kwargs: Any) -> Any:
            stream.reads += 1
            return await read(*args, **kwargs)

        stream.read, stream.reads, stream.reads_before = counted, 0, -1
    if stream.reads == stream.reads_before:
        # Nothing was read since the last response, so this one came with it, before the request was sent.
        await stream.aclose()
        raise httpx2.RemoteProtocolError(_SECOND_ANSWER, request=response.request)
    response.stream = httpx2.ByteStream(await _decoded(response))
    response.headers.pop("content-encoding", None)
    response.encoding = "utf-8"  # whatever its headers say
    await response.aread()
    stream.reads_before = stream.reads
    status = response.status_code
    if response.is_success:
        try:
            number = lambda digits: (int if len(digits) <= _LONGEST_INTEGER else float)(digits)  # noqa: E731
            response.extensions["json"] = json.loads(response.content.decode(), parse_int=number)
        except (ValueError, RecursionError):
            kind = _NOT_JSON if response.content.strip() else _EMPTY
            raise httpx2.RemoteProtocolError(kind, request=response.request) from None
    elif status == 402 or (status == 429 and b"insufficient_quota" in response.content):
        raise RefusedError(
            f"the account has no money left ({status}): top it up, or use another key", status
        )


async def _decoded(response: httpx2.Response) -> bytes:
    """The body without its compression; b"", as an empty answer, for a damaged one."""
    where, encoding = (
        response.request.url.copy_with(query=None),
        response.headers.get("content-encoding", "identity"),
    )

    def check_size(body: bytes | bytearray) -> None:
        if len(body) > _BODY_LIMIT:
            raise RefusedError(
                f"{where} answers with more than {_BODY_LIMIT >> 20} MB: is it the right address?"
            )

    body = bytearray()
    raw: Any = response.stream
    async with aclosing(raw) as stream:
        async for chunk in stream:
            body += chunk
            check_size(body)
    if not body or encoding.strip().casefold() == "identity":
        return bytes(body)
    if encoding.strip().casefold() not in ("gzip", "deflate"):
        what = f"{where} compresses its answers ({encoding[:40]!r}) although asked not to"
        raise RefusedError(f"{what}: correct the address, or the proxy before it")
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, _BODY_LIMIT + 1)
    except zlib.error:
        return b""
    check_size(plain)
    return plain


def _json_object(body: object, url: str, hide: Callable[[str], str]) -> dict[str, Any]:
    """The JSON object of an answer. Raises ServerError for another value, and for an error sent with status 200."""
    if not isinstance(body, dict):
        raise ServerError(
            f"{url} answered with something that is no JSON object: is it the address of an API?"
        )
    if isinstance(body.get("error"), dict) and not body.get("choices"):
        raise ServerError(f"{url} failed ({error_message(body, hide)}): try again later")
    return body


def _close(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: openai.AsyncOpenAI
) -> None:
    """Cancel requests in flight, close the connections, and end the loop's thread."""
    if not thread.is_alive():  # a fork has only the thread that forked
        return

    async def shut_down() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await client.close()
        await loop.shutdown_default_executor()  # it looks up names
        loop.stop()

    asyncio.run_coroutine_threadsafe(shut_down(), loop)
    if (
        threading.current_thread() is not thread
    ):  # as it is if a dropped connection is collected there
        thread.join(_CLOSE_SECONDS)
        if not thread.is_alive():
            loop.close()
