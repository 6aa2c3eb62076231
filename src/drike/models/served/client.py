"""A connection to an OpenAI-compatible server, and the error that each of its failures becomes.

The `openai` client retries failures that may pass (no connection, a reset, 408, 409, 429, 5xx, an
answer that is not JSON); where a server asks for a longer pause, it is waited for here, within the
deadline. Requests run on an event loop in a thread of their
own: only there can one that waits or hangs be cancelled at its deadline or at Ctrl-C.
"""

import asyncio
import os
import queue
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

import httpx2
import openai

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.served.addresses import Address, is_loopback
from drike.models.served.failures import error_message, is_too_long, may_pass, require_success
from drike.models.served.pauses import UNTOLD, in_words, pause_asked_for
from drike.models.served.quirks import for_newer_models, refused_parameters
from drike.models.served.responses import RETRIED_ANSWERS, json_object, read_response
from drike.models.served.spending import ApiOptions, Meter
from drike.models.served.token_counts import TokenCounts, token_counts
from drike.support import progress
from drike.support.parallel import POLL_SECONDS, StoppedError, TaskGroup, current_group
from drike.support.records import encodable

T = TypeVar("T")

SHARED = 1000  # characters; a common beginning this long is worth a server's prefix cache
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_SHORTEST_KEY = 8  # characters; a shorter one is a placeholder, and may stand in any text


class ApiCall(NamedTuple):
    """A request.

    path: below the address. body: its JSON, of which fields that are None are not sent. text: what
    is read, and costs money. max_tokens: most tokens of the answer.
    """

    path: str
    body: Mapping[str, object]
    text: str
    max_tokens: int


def families(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts grouped by a long shared beginning, the longest of each group first."""
    groups: dict[str | int, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        if len(text) < SHARED:
            groups[i].append(i)  # a group of its own
        else:
            groups[text[:SHARED]].append(i)
    return [sorted(group, key=lambda i: -len(texts[i])) for group in groups.values()]


class Connection:
    """A connection to one server, for threads to share.

    key: None sends none. attempts: most requests for an answer.
    """

    def __init__(
        self, address: Address, key: str | None, options: ApiOptions, attempts: int
    ) -> None:
        self.meter = Meter(options)
        self._url = address.url
        self._key_variable = address.key_variable
        self._deadline = options.deadline
        self._attempts = attempts
        self._process = os.getpid()
        self._hide_key = _hiding(key)
        self._refused: set[str] = set()  # parameters that the model has refused
        self._told_until = 0.0  # by the loop's time: the end of the pause that people know of
        self._slots = asyncio.Semaphore(options.concurrency)
        self._loop = asyncio.new_event_loop()
        self._client = _api_client(address.url, key, options, attempts, self.meter)
        thread = threading.Thread(target=self._loop.run_forever, name="drike-requests", daemon=True)
        thread.start()
        self.close = weakref.finalize(self, _close, self._loop, thread, self._client)

    def send(
        self, calls: Sequence[ApiCall], read: Callable[[int, Mapping[str, Any]], T]
    ) -> Iterator[tuple[int, T]]:
        """Send calls and yield `read` of each answer's JSON as it arrives, with its call's index.

        `read` runs in the thread of the requests. After a failure, of `read` too, no thread of the
        same `TaskGroup` sends anything more; requests in flight are awaited until the group is
        abandoned. Raises ServerError, RefusedError, SpendingLimitError, and any ModelError of
        `read`; StoppedError if calls were not sent because another failed or the group is over;
        ModelError if it is closed, or after a fork.
        """
        self._check_open()
        group = current_group()
        done: queue.SimpleQueue[tuple[int, asyncio.Task[T]]] = queue.SimpleQueue()

        async def send_one(i: int) -> None:
            answer = self._answer(calls[i], lambda values: read(i, values), group)
            task = asyncio.create_task(answer)
            task.add_done_callback(lambda task: done.put((i, task)))
            await asyncio.gather(task, return_exceptions=True)  # its failure is in the queue

        async def send_family(first: int, *others: int) -> None:
            await send_one(first)  # after this the server has read the shared beginning
            await asyncio.gather(*(send_one(i) for i in others))

        async def send_all() -> None:
            groups = families([call.text for call in calls])
            await asyncio.gather(*(send_family(*family) for family in groups))

        running = asyncio.run_coroutine_threadsafe(send_all(), self._loop)
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

        # Of several failures, the group's first one says what happened; the others only followed.
        for failure in failures:
            if failure is group.failure:
                raise failure
        if failures:
            raise StoppedError

    def check_answer(self, text: str) -> str:
        """Return the text of an answer.

        Raises RefusedError if it contains the key; lone surrogates are replaced.
        """
        if self._hide_key(text) != text:
            raise RefusedError(
                f"{self._url} repeats the key in an answer: set another key, and use another server"
            )
        return encodable(text)

    async def _answer(
        self, call: ApiCall, read: Callable[[Mapping[str, Any]], T], group: TaskGroup
    ) -> T:
        """Send a call and read its answer.

        Raises StoppedError if the group was over before it was sent.
        """
        async with self._slots:
            if group.over:
                raise StoppedError
            try:
                with self.meter.reserved(call.text, call.max_tokens):
                    values = await self._post(call, group)
                    counts = TokenCounts()  # so that it is estimated, if the server's are refused
                    try:
                        counts = token_counts(values, self._url)
                    finally:
                        self.meter.answered(call.text, counts, call.max_tokens)
                require_success(values, self._url, self._hide_key)
                return read(values)
            except ModelError as error:
                group.stop(error)
                raise

    async def _post(self, call: ApiCall, group: TaskGroup) -> dict[str, Any]:
        """The JSON of the answer to a call, after the pauses that the server asks for.

        Raises ModelError, and StoppedError if the group is over in a pause.
        """
        try:
            async with asyncio.timeout(self._deadline) as limit:
                for attempt in count(1):
                    try:
                        return await self._posted(call, self._attempts - attempt)
                    except openai.APIStatusError as error:
                        pause = pause_asked_for(error.response.headers) or 0.0
                        is_ours = pause > UNTOLD and may_pass(error.status_code)
                        if not is_ours or attempt == self._attempts:
                            raise
                        self._check_pause(pause, limit, error)
                        await _rest(pause, group)
                raise AssertionError  # the last attempt has an answer, or has failed
        except TimeoutError:
            remedy = (
                "allow more with `deadline`, or send fewer requests at a time with `concurrency`"
            )
            raise ServerError(
                f"{self._url} gave no whole answer within {self._deadline:g} seconds: {remedy}"
            ) from None
        except openai.APIStatusError as error:
            wanted = f"{call.path} for {call.body.get('model')}"
            raise self._as_model_error(error, wanted) from None
        except openai.OpenAIError as error:
            raise self._unanswered(error) from None

    async def _posted(self, call: ApiCall, retries: int) -> dict[str, Any]:
        """The JSON of the answer to a call, without the parameters that the model refuses.

        Raises OpenAIError.
        """
        while True:
            accepted = for_newer_models(call.body, self._refused)
            body = {name: value for name, value in accepted.items() if value is not None}
            try:
                response = await self._client.post(
                    call.path, cast_to=httpx2.Response, body=body, options={"max_retries": retries}
                )
            except openai.BadRequestError as error:
                newly_refused = refused_parameters(body, error.param, error.code)
                if not newly_refused:
                    raise
                self._refused |= newly_refused
            else:
                return json_object(response.extensions["json"], self._url, self._hide_key)

    def _check_pause(
        self, pause: float, limit: asyncio.Timeout, error: openai.APIStatusError
    ) -> None:
        """Tell people of a pause. Raises ServerError for one that the deadline does not allow."""
        end = limit.when()
        message = error_message(error.body, self._hide_key)
        said = f"{error.status_code}: {message}" if message else f"{error.status_code}"
        if end is not None and pause > end - self._loop.time():
            raise ServerError(
                f"{self._url} asks to wait {in_words(pause)} ({said}), longer than `deadline` "
                f"({self._deadline:g} seconds) allows: go on after that, or allow more"
            )
        until = self._loop.time() + pause
        if until > self._told_until + UNTOLD:  # else people know of it from another request
            self._told_until = until
            progress.tell(f"{self._url} asks to wait {in_words(pause)} ({said}): waiting")

    def _unanswered(self, error: openai.OpenAIError) -> ServerError:
        """The error that a request becomes to which there was no answer that can be read."""
        if isinstance(error, openai.APITimeoutError):
            silence = f"{self._deadline / self._attempts:g} seconds, {self._attempts} times"
            return ServerError(
                f"{self._url} was silent for {silence}: is it up, and is `deadline` long enough"
                " for it?"
            )
        cause = error.__cause__
        if str(cause) in RETRIED_ANSWERS:
            return ServerError(
                f"{self._url} {cause}, {self._attempts} times: is it the address of an API?"
            )
        reason = type(cause or error).__name__
        return ServerError(
            f"{self._url} cannot be reached ({reason}): start the server, or correct the address"
        )

    def _as_model_error(self, error: openai.APIStatusError, wanted: str) -> ModelError:
        """The error that a status becomes: ServerError if it may pass, else RefusedError.

        wanted: path and model.
        """
        status = error.status_code
        message = error_message(error.body, self._hide_key)
        if status == 429:
            what = (
                f"still limits the rate after {self._attempts} attempts: lower `concurrency`, or go"
                " on later"
            )
        elif may_pass(status):
            what = f"failed {self._attempts} times: try again later"
        elif status in (401, 403):
            what = f"refuses the key: set ${self._key_variable} to a valid key"
        elif status == 404:
            what = (
                f"has no {wanted}: correct the model's name or the address, or choose the other"
                " `template`"
            )
        elif is_too_long(status, message):
            what = "finds the prompt too long: give fewer demonstrations"
        elif status < 400:
            what = "redirects to another address: give that one"
        else:
            what = "refuses the request: choose another model or other options"

        details = f"{status}: {message}" if message else f"{status}"
        pause = pause_asked_for(error.response.headers)
        if pause and may_pass(status):
            details += f"; it asks to wait {in_words(pause)}"
        sentence = f"{self._url} {what} ({details})"
        return ServerError(sentence) if may_pass(status) else RefusedError(sentence, status)

    def _next(self, done: queue.SimpleQueue[T], group: TaskGroup) -> T:
        """The next item of a queue.

        Raises StoppedError if the group is abandoned, ModelError if this was closed.
        """
        while True:
            try:
                return done.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._check_open()
                if group.abandoned:
                    raise StoppedError from None

    def _check_open(self) -> None:
        if not self.close.alive:
            raise self._closed()
        if self._process != os.getpid():
            raise ModelError(
                f"{self._url} was connected before this process was forked: open the model again"
                " here"
            )

    def _closed(self) -> ModelError:
        return ModelError(f"the connection to {self._url} was closed: open the model again")


async def _rest(seconds: float, group: TaskGroup) -> None:
    """Wait as a server asks. Raises StoppedError when the group is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        if group.over:
            raise StoppedError
        await asyncio.sleep(min(POLL_SECONDS, until - loop.time()))


async def _leave_pause(response: httpx2.Response) -> None:
    """An event hook that leaves a pause that a server asks for to `Connection`."""
    if response.is_error and (pause_asked_for(response.headers) or 0.0) > UNTOLD:
        response.headers["x-should-retry"] = "false"


def _hiding(key: str | None) -> Callable[[str], str]:
    """A function that replaces the key in a text.

    It holds the key, so that no attribute does, which a dump shows.
    """
    if key is None or len(key) < _SHORTEST_KEY:
        return str
    hidden = key
    return lambda text: text.replace(hidden, "[key]")


def _api_client(
    url: str, key: str | None, options: ApiOptions, attempts: int, meter: Meter
) -> openai.AsyncOpenAI:
    """A client that sends no headers but ours, and whose answers are read by `read_response`."""
    address = httpx2.URL(url)
    silence = options.deadline / attempts  # seconds after which an attempt is given up
    http_client = httpx2.AsyncClient(
        follow_redirects=False,  # they would take prompts to a server that nobody named
        trust_env=not is_loopback(address.host),  # a proxy has no business on loopback
        verify=address.scheme != "http",  # reading certificates takes 40 ms
        event_hooks={"request": [_outgoing(key, meter)], "response": [read_response, _leave_pause]},
        limits=httpx2.Limits(
            max_connections=options.concurrency, max_keepalive_connections=options.concurrency
        ),
    )
    return openai.AsyncOpenAI(
        api_key="set on each request",
        base_url=url,
        max_retries=attempts - 1,
        # The deadline itself is asyncio's.
        timeout=httpx2.Timeout(silence, connect=min(_CONNECT_SECONDS, silence)),
        http_client=http_client,
    )


def _outgoing(key: str | None, meter: Meter) -> Callable[[httpx2.Request], Any]:
    """An event hook that counts each request, and replaces the client's own headers.

    Those describe this machine and account, and may hold another service's key.
    """

    async def prepare(request: httpx2.Request) -> None:
        meter.sent()
        for name in list(request.headers):
            if name.startswith(("authorization", "openai-", "x-stainless-")):
                del request.headers[name]
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = "drike"

    return prepare


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
    # A connection that was dropped may be collected in this very thread, which cannot wait for
    # itself.
    if threading.current_thread() is not thread:
        thread.join(_CLOSE_SECONDS)
        if not thread.is_alive():
            loop.close()
