"""Requests to an OpenAI-compatible server, and the one error that comes of each way they can fail.

The `openai` client does the talking: it tries again what may pass (no connection, a reset, 408, 409, 429, 5xx, and here
also an answer that is not JSON), waits as long as Retry-After says, and gives up after `attempts`. Around it stand a
deadline for the whole call, which ends slow drips and long waits alike, and a bound on the size of an answer. What goes
wrong becomes a `ServerError` (it may pass) or a `RefusedError` (it will not), one sentence with the remedy.

Requests run on an event loop in a thread of their own, so that this works wherever the caller stands, in a notebook
too. The key is put on a request at the last moment and taken out of everything that comes back.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from drike.models import ModelError
from drike.models.address import is_loopback
from drike.models.spending import Meter

BODY_LIMIT = 8 * 1024 * 1024  # bytes; log-probabilities of a prompt at the end of a long window take about half of it
_DEFLATED = 64  # a compressed answer may grow, so it may be this many times smaller
SHARED = 1000  # characters; prompts that share a beginning this long are worth a server's prefix cache
_CONNECT_SECONDS = 10.0
_FAREWELL_SECONDS = 2.0
_EMPTY, _NO_JSON = "gives an empty answer", "answers with something that is not JSON"
_TOO_LONG = ("context length", "context window", "too long", "maximum context")
# What some models refuse, and what to say instead; they tell by 400 with the parameter's name.
_INSTEAD = {"max_tokens": "max_completion_tokens", "temperature": None}


class ServerError(ModelError):
    """A server could not be reached, failed, or gave no usable answer in time; it may be better later."""


class RefusedError(ModelError):
    """A server will not do what it is asked: key, quota, model, prompt. `status` is HTTP's, where there was one."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Call:
    """A request to be sent: where below the address, its JSON, the text it costs, and how much may be written."""

    path: str
    body: Mapping[str, object]
    text: str
    max_tokens: int


def families(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts that share a long beginning, the longest of each family first; a text without kin is alone."""
    kin: dict[str, list[int]] = defaultdict(list)
    alone = []
    for i, text in enumerate(texts):
        if len(text) < SHARED:
            alone.append([i])
        else:
            kin[text[:SHARED]].append(i)
    return [sorted(family, key=lambda i: -len(texts[i])) for family in kin.values()] + alone


class Wire:
    """A connection to one server.

    Args:
        url: where the API begins, such as https://api.openai.com/v1/.
        key: sent as bearer token; None sends none.
        remedy: what to do about a refused key.
        meter: counts what is sent and answered, and stops at limits.
        deadline: seconds for one answer, all attempts and waits included.
        attempts: most requests for one answer.
        concurrency: most requests at a time.
    """

    def __init__(
        self, url: str, key: str | None, *, remedy: str, meter: Meter, deadline: float, attempts: int, concurrency: int
    ) -> None:
        self.url = url
        self.deadline = deadline
        self.attempts = attempts
        self.meter = meter
        self._remedy = remedy
        self._clean = (lambda text: text.replace(key, "[key]")) if key else str
        self._unwanted: set[str] = set()
        self._slots = asyncio.Semaphore(concurrency)
        self._loop = asyncio.new_event_loop()
        self._client = openai.AsyncOpenAI(
            api_key="set on each request",
            base_url=url,
            max_retries=attempts - 1,
            # An attempt is given up after this long a silence; the deadline is asyncio's.
            timeout=httpx2.Timeout(deadline / attempts, connect=min(_CONNECT_SECONDS, deadline / attempts)),
            http_client=httpx2.AsyncClient(
                # A redirect would take prompts to a server that nobody named; a proxy has no business on loopback.
                follow_redirects=False,
                trust_env=not is_loopback(httpx2.URL(url).host),
                event_hooks={"request": [_outgoing(key, meter)], "response": [_incoming]},
                limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            ),
        )
        thread = threading.Thread(target=self._loop.run_forever, name="drike-requests", daemon=True)
        thread.start()
        self.close = weakref.finalize(self, _close, self._loop, thread, self._client)

    def send(self, calls: Sequence[Call]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The JSON of each answer with the index of its call, as they arrive.

        Of calls whose texts begin alike the longest is sent alone, then the others together: by then the server may
        have read their beginning. After a failure nothing more is sent, but what is on its way is waited for.
        Raises ServerError, RefusedError, SpentError.
        """
        done: queue.SimpleQueue[tuple[int, asyncio.Task[dict[str, Any] | None]]] = queue.SimpleQueue()
        running = asyncio.run_coroutine_threadsafe(self._send_families(calls, done), self._loop)
        failure: ModelError | None = None
        try:
            for _ in calls:
                i, task = done.get()
                try:
                    answer = task.result()
                except ModelError as error:
                    failure = failure or error
                else:
                    if answer is not None:
                        yield i, answer
        finally:
            running.cancel()
        if failure is not None:
            raise failure

    async def _send_families(
        self, calls: Sequence[Call], done: queue.SimpleQueue[tuple[int, asyncio.Task[dict[str, Any] | None]]]
    ) -> None:
        over = asyncio.Event()

        def start(i: int) -> asyncio.Task[dict[str, Any] | None]:
            task = asyncio.create_task(self._answer(calls[i], over))
            task.add_done_callback(lambda task: done.put((i, task)))
            return task

        async def family(first: int, others: Sequence[int]) -> None:
            await asyncio.gather(start(first), return_exceptions=True)
            await asyncio.gather(*map(start, others), return_exceptions=True)

        await asyncio.gather(*(family(first, others) for first, *others in families([call.text for call in calls])))

    async def _answer(self, call: Call, over: asyncio.Event) -> dict[str, Any] | None:
        """The JSON of an answer; None if another call of the same lot has failed before this one was sent."""
        async with self._slots:
            if over.is_set():
                return None
            try:
                with self.meter.reserved(call.text, call.max_tokens):
                    body = await self._post(call)
                    self._count(call, body)
                return body
            except ModelError:
                over.set()
                raise

    async def _post(self, call: Call) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self.deadline):
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
            raise ServerError(
                f"{self.url} gave no whole answer within {self.deadline:g} seconds: allow more with --deadline, "
                "or ask less at a time with --concurrency"
            ) from None
        except openai.OpenAIError as error:
            raise self._explained(error, call) from None
        body = json.loads(self._clean(response.text))
        if not isinstance(body, dict):
            raise ServerError(
                f"{self.url} answered with something that is no JSON object: is it the address of an API?"
            )
        if isinstance(body.get("error"), dict) and not body.get("choices"):  # said with status 200 by some routers
            raise ServerError(f"{self.url} failed ({_brief(str(body['error'].get('message')))}): try again later")
        return body

    def _count(self, call: Call, body: Mapping[str, Any]) -> None:
        read, written, prefix = token_counts(body)
        self.meter.answered(call.text, read, written, prefix or 0, call.max_tokens)

    def _explained(self, error: openai.OpenAIError, call: Call) -> ModelError:
        """The one error that a failed request becomes."""
        if isinstance(error, openai.APIStatusError):
            return self._explained_status(error.status_code, self._clean(_message(error)), call)
        if isinstance(error, openai.APITimeoutError):
            return ServerError(
                f"{self.url} was silent for {self.deadline / self.attempts:g} seconds, {self.attempts} times: "
                "is it up, and is --deadline long enough for it?"
            )
        if str(error.__cause__) in (_EMPTY, _NO_JSON):
            return ServerError(f"{self.url} {error.__cause__}, {self.attempts} times: is it the address of an API?")
        reason = type(error.__cause__ or error).__name__
        return ServerError(f"{self.url} cannot be reached ({reason}): start the server, or mend the address")

    def _explained_status(self, status: int, message: str, call: Call) -> ModelError:
        told = f"{status}: {message}" if message else str(status)
        too_long = status == 413 or (status == 400 and any(word in message.casefold() for word in _TOO_LONG))
        if status == 429:
            remedy = f"still limits the rate after {self.attempts} attempts: lower --concurrency, or go on later"
        elif status in (408, 409) or status >= 500:
            remedy = f"failed {self.attempts} times: try again later"
        elif status in (401, 403):
            remedy = f"refuses the key: {self._remedy}"
        elif status == 404:
            remedy = (
                f"has no {call.path} for {call.body.get('model')}: mend the model's name or the address, "
                "or choose the other one of --template plain and chat"
            )
        elif too_long:
            remedy = "finds the prompt too long: give fewer demonstrations"
        elif status < 400:
            remedy = "sends us elsewhere: give the address where the API is now"
        else:
            remedy = "refuses the request: choose another model or other options"
        passing = status in (408, 409, 429) or status >= 500
        sentence = f"{self.url} {remedy} ({told})"
        return ServerError(sentence) if passing else RefusedError(sentence, status)


def token_counts(body: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Tokens read, written, and read from the server's own prefix cache, as far as an answer tells."""
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
        # The client's own headers tell about this machine and account, and may hold another service's key.
        for name in [name for name in request.headers if name.startswith(("authorization", "openai-", "x-stainless-"))]:
            del request.headers[name]
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = "drike"

    return prepare


class _Bounded(httpx2.AsyncByteStream):
    """A response body that ends in an error where it grows too large."""

    def __init__(self, stream: Any, limit: int, url: str) -> None:
        self._stream, self._left, self._url = stream, limit, url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise RefusedError(
                    f"{self._url} answers with more than {BODY_LIMIT >> 20} MB: is it the right address?"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _incoming(response: httpx2.Response) -> None:
    """Read a response within bounds. What is no JSON is made a failure of the connection, so that it is tried again."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    where = str(response.request.url.copy_with(query=None))
    response.stream = _Bounded(response.stream, BODY_LIMIT if plain else BODY_LIMIT // _DEFLATED, where)
    await response.aread()
    if response.is_success:
        try:
            json.loads(response.content.decode("utf-8"))
        except (ValueError, RecursionError):
            kind = _NO_JSON if response.content.strip() else _EMPTY
            raise httpx2.RemoteProtocolError(kind, request=response.request) from None
    elif response.status_code == 402 or (response.status_code == 429 and b"insufficient_quota" in response.content):
        status = response.status_code
        raise RefusedError(f"the account has no money left ({status}): top it up, or use another key", status)


def _message(error: openai.APIStatusError) -> str:
    """What the server says was wrong, shortened; "" where it says nothing in the API's form."""
    body = error.body
    if isinstance(body, list) and len(body) == 1:  # Gemini's form
        [body] = body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    told = body.get("message") or body.get("detail") if isinstance(body, dict) else None
    return _brief(told) if isinstance(told, str) else ""


def _brief(text: str) -> str:
    line = " ".join(text.split())
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= 200 else f"{line[:200]}..."


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: openai.AsyncOpenAI) -> None:
    """End what is on its way, hang up, and end the loop's thread."""

    async def farewell() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await client.close()
        await loop.shutdown_default_executor()  # it looks up names
        loop.stop()

    asyncio.run_coroutine_threadsafe(farewell(), loop)
    if threading.current_thread() is not thread:  # it is where a wire that nobody holds is collected in its own thread
        thread.join(_FAREWELL_SECONDS)
        if not thread.is_alive():
            loop.close()
