"""Requests to an OpenAI-compatible server.

The `openai` client retries what may pass (no connection, a reset, 408, 409, 429, 5xx, and here also an answer that is
not JSON), waits as long as Retry-After says, and gives up after `attempts`. Around it are a deadline for the whole
call, which ends slow responses and long waits alike, and a limit on the size of an answer. Each failure becomes a
`ServerError` (it may pass) or a `RefusedError` (it will not), one sentence with the remedy.

Requests run on an event loop in a thread of their own: only there can one that waits or hangs be cancelled at its
deadline or at Ctrl-C, and it works in a notebook and for any number of threads. The key is added to a request at the
last moment and removed from everything that comes back.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import openai

from drike.errors import ModelError
from drike.models.served.address import is_loopback
from drike.models.served.failures import Server, checked, explained, read_within_bounds, too_late
from drike.models.served.spending import Meter
from drike.parallel import ATTENTION, StoppedError, TaskGroup, current_group

T = TypeVar("T")

SHARED = 1000  # characters; prompts that share a beginning this long are worth a server's prefix cache
_CONNECT_SECONDS = 10.0
_FAREWELL_SECONDS = 2.0
# Parameters that some models refuse, with 400 and the parameter's name, and what to send instead.
_INSTEAD = {"max_tokens": "max_completion_tokens", "temperature": None}


@dataclass(frozen=True)
class Call:
    """A request: its path below the address, its JSON, the text it costs, and the most tokens of an answer."""

    path: str
    body: Mapping[str, object]
    text: str
    max_tokens: int


def families(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts grouped by a long shared beginning, the longest of each group first."""
    kin: dict[str, list[int]] = defaultdict(list)
    alone = []
    for i, text in enumerate(texts):
        if len(text) < SHARED:
            alone.append([i])
        else:
            kin[text[:SHARED]].append(i)
    return [sorted(family, key=lambda i: -len(texts[i])) for family in kin.values()] + alone


async def _in_families(texts: Sequence[str], put: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Send the first of every family alone, then its others together."""

    async def family(first: int, others: Sequence[int]) -> None:
        await put(first)
        await asyncio.gather(*(put(i) for i in others))

    await asyncio.gather(*(family(first, others) for first, *others in families(texts)))


class Connection:
    """A connection to one server; threads may share it.

    Args:
        server: its URL (where the API begins), and the deadline and attempts for one answer.
        key: sent as bearer token; None sends none.
        meter: counts what is sent and answered, and stops at limits.
        concurrency: most requests at a time.
    """

    def __init__(self, server: Server, key: str | None, meter: Meter, concurrency: int) -> None:
        self.meter = meter
        self._at = server
        url, silence = server.url, server.deadline / server.attempts
        self._clean = (lambda text: text.replace(key, "[key]")) if key else str
        self._unwanted: set[str] = set()
        self._slots = asyncio.Semaphore(concurrency)
        self._loop = asyncio.new_event_loop()
        self._client = openai.AsyncOpenAI(
            api_key="set on each request",
            base_url=url,
            max_retries=server.attempts - 1,
            # An attempt is given up after this long a silence; the deadline is asyncio's.
            timeout=httpx2.Timeout(silence, connect=min(_CONNECT_SECONDS, silence)),
            http_client=httpx2.AsyncClient(
                # A redirect would take prompts to a server that nobody named; a proxy has no business on loopback.
                follow_redirects=False,
                trust_env=not is_loopback(httpx2.URL(url).host),
                event_hooks={"request": [_outgoing(key, meter)], "response": [read_within_bounds]},
                limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            ),
        )
        thread = threading.Thread(target=self._loop.run_forever, name="drike-requests", daemon=True)
        thread.start()
        self.close = weakref.finalize(self, _close, self._loop, thread, self._client)

    def send(self, calls: Sequence[Call], read: Callable[[int, Mapping[str, Any]], T]) -> Iterator[tuple[int, T]]:
        """What `read` makes of each answer's JSON, with the index of its call, as they arrive.

        Of calls whose texts begin alike the longest is sent alone, then the others together: by then the server may
        have read their beginning. After a failure, of `read` too, neither this nor another thread of the same
        `TaskGroup` sends anything more; what is on its way is waited for until the group is abandoned. `read` runs in
        the thread of the requests. Raises ServerError, RefusedError, SpendingLimitError, what ModelError `read` raises;
        StoppedError where another's failure, or the end of the group, kept calls from being sent.
        """
        group = current_group()
        done: queue.SimpleQueue[tuple[int, asyncio.Task[T | None]]] = queue.SimpleQueue()

        async def put(i: int) -> None:
            task = asyncio.create_task(self._answer(calls[i], lambda answer: read(i, answer), group))
            task.add_done_callback(lambda task: done.put((i, task)))
            await asyncio.gather(task, return_exceptions=True)

        running = asyncio.run_coroutine_threadsafe(_in_families([call.text for call in calls], put), self._loop)
        failures: list[ModelError] = []
        unsent = False
        try:
            for _ in calls:
                i, task = _next(done, group)
                try:
                    item = task.result()
                except ModelError as error:
                    failures.append(error)
                else:
                    if item is not None:
                        yield i, item
                    unsent |= item is None
        finally:
            running.cancel()
        for failure in failures:
            if failure is group.failure:
                raise failure
        if failures or unsent:
            raise StoppedError

    async def _answer(self, call: Call, read: Callable[[Mapping[str, Any]], T], group: TaskGroup) -> T | None:
        """Send a call and read its answer; None if the group was over before it was sent."""
        async with self._slots:
            if group.over:
                return None
            try:
                with self.meter.reserved(call.text, call.max_tokens):
                    body = await self._post(call)
                    prompt, written, prefix = token_counts(body)
                    self.meter.answered(call.text, prompt, written, prefix or 0, call.max_tokens)
                return read(body)
            except ModelError as error:
                group.stop(error)
                raise

    async def _post(self, call: Call) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._at.deadline):
                while True:
                    sent = {
                        name: value
                        for given, value in call.body.items()
                        if (name := _INSTEAD[given] if given in self._unwanted else given) is not None
                    }
                    try:
                        response = await self._client.post(call.path, cast_to=httpx2.Response, body=sent)
                        break
                    except openai.BadRequestError as error:
                        if (
                            error.param not in _INSTEAD
                            or error.param not in sent
                            or "unsupported" not in str(error.code)
                        ):
                            raise
                        self._unwanted.add(error.param)
        except TimeoutError:
            raise too_late(self._at) from None
        except openai.OpenAIError as error:
            problem = explained(error, self._at, f"{call.path} for {call.body.get('model')}")
            problem.args = tuple(self._clean(str(part)) for part in problem.args)
            raise problem from None
        return checked(json.loads(self._clean(response.text)), self._at.url)


def _next(done: queue.SimpleQueue[T], group: TaskGroup) -> T:
    """Wait for what arrives next. Raises StoppedError if the group is abandoned before."""
    while True:
        try:
            return done.get(timeout=ATTENTION)
        except queue.Empty:
            if group.abandoned:
                raise StoppedError from None


def token_counts(body: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Tokens read, written, and found in the server's own prefix cache; None if the answer does not say."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        usage = body.get("meta_info")  # SGLang's own form
    if not isinstance(usage, dict):
        return None, None, None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("cached_tokens")
    return _count_of(usage.get("prompt_tokens")), _count_of(usage.get("completion_tokens")), _count_of(cached)


def _count_of(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _outgoing(key: str | None, meter: Meter) -> Callable[[httpx2.Request], Any]:
    async def prepare(request: httpx2.Request) -> None:
        meter.sent()
        # The client's own headers describe this machine and account, and may hold another service's key.
        for name in [name for name in request.headers if name.startswith(("authorization", "openai-", "x-stainless-"))]:
            del request.headers[name]
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = "drike"

    return prepare


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: openai.AsyncOpenAI) -> None:
    """Cancel requests in flight, close the connections, and end the loop's thread."""

    async def farewell() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await client.close()
        await loop.shutdown_default_executor()  # it looks up names
        loop.stop()

    asyncio.run_coroutine_threadsafe(farewell(), loop)
    if threading.current_thread() is not thread:  # as it is if a dropped connection is collected there
        thread.join(_FAREWELL_SECONDS)
        if not thread.is_alive():
            loop.close()
