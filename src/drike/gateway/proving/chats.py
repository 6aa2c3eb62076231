"""Ask an upstream for chats as a client.

Requests stay within limits on calls and money, and are sent again where it fails for a while.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from drike.errors import RefusedError, ServerError, UsageError
from drike.gateway.calls import RawHeaders, Reply, Upstream, UpstreamCall, in_one, whole
from drike.gateway.edited import EditedRequest
from drike.gateway.errors import RequestError, UpstreamError
from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.requests import CHAT
from drike.models.served import Meter, error_message, longest_answer, may_pass, token_counts
from drike.models.served.answer_texts import answer_text
from drike.models.served.cache import AnswerCache, key_of
from drike.models.served.failures import require_success
from drike.models.served.pauses import in_words, pause_asked_for
from drike.models.served.quirks import token_limit_of
from drike.support.records import parse, read

TOKENS = 256  # of an answer, where the request does not say
_ATTEMPTS = 4  # of a request
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts
_KEPT_SECONDS = 86_400.0  # after which an interrupted run asks again
_HEADERS: RawHeaders = [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]

Settings = Mapping[str, object]  # further fields of a request
EditCall = Callable[[UpstreamCall], Awaitable[EditedRequest]]


class GatewayUpstream(HttpUpstream):
    """A running gateway of drike's, whose answers keep the headers that say what it decided."""

    hidden_headers = ()


class MeteredUpstream(Upstream):
    """An upstream within a meter's limits, whose answers come whole.

    `exchange` raises SpendingLimitError, too.
    """

    def __init__(self, inner: Upstream, meter: Meter) -> None:
        self.name = inner.name
        self.passes_credentials = inner.passes_credentials
        self.meter = meter
        self.open = inner.open  # type: ignore[method-assign]
        self.close = inner.close  # type: ignore[method-assign]
        self._inner = inner

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """The answer to a call; its tokens are counted if it is a request for one."""
        text = call.body.decode("utf-8", "replace")
        most = token_limit_of(json.loads(call.body or b"{}"), TOKENS)
        with self.meter.reserved(text, most):
            self.meter.sent()
            async with self._inner.exchange(call) as reply:
                raw = await whole(reply)
            values = _json(raw)
            if call.body and reply.status == 200 and isinstance(values, dict):
                self.meter.answered(text, token_counts(values, self.name), most)
        yield replace(reply, chunks=in_one(raw))


class DryUpstream(Upstream):
    """Sends nothing: counts the tokens of a chat by `count`, and gives an answer of full length."""

    def __init__(self, name: str, count: Callable[[str], int]) -> None:
        self.name = name
        self._count = count

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """An answer; the one to a question yes or no is yes, after which most is sent."""
        request = json.loads(call.body or b"{}")
        read = sum(self._count(message["content"]) for message in request.get("messages", []))
        most = token_limit_of(request, TOKENS)
        usage = {"prompt_tokens": read, "completion_tokens": most}
        choice = {"message": {"content": longest_answer(most, "Yes ")}}
        reply = {"choices": [choice], "usage": usage, "data": [{"id": "model"}]}
        yield Reply(200, [], in_one(json.dumps(reply).encode()))


@dataclass(frozen=True)
class ChatAnswer:
    """What a model said."""

    text: str
    seconds: float  # until it was there
    at: float  # the time of day, in seconds
    prompt_tokens: int | None
    decided: Mapping[str, str]  # the headers of drike's gateway


@dataclass
class Client:
    """Asks for chats, each once. model: the name that requests give.

    settings: further fields of requests; where an upstream refuses some (status 400), it gets the
    next. headers: such as a key. deadline: seconds for an answer, with all attempts. cache,
    kept_for: where answers are kept, and for which run, so that it may be interrupted. reused: how
    many of these there were.
    """

    upstream: Upstream
    model: str
    settings: Sequence[Settings] = ({},)
    headers: RawHeaders = field(default_factory=list)
    deadline: float = 120.0
    cache: AnswerCache | None = None
    kept_for: str = ""
    reused: int = 0
    _setting: int = 0
    _asked: dict[str, asyncio.Future[ChatAnswer]] = field(default_factory=dict)

    async def ask(
        self, messages: Sequence[Mapping[str, str]], sample: int = 0, edit: EditCall | None = None
    ) -> tuple[ChatAnswer, EditedRequest | None]:
        """The answer to a chat, asked once for each sample, and its request as `edit` changed it.

        Raises ModelError.
        """
        while True:
            setting = self._setting
            request = {"model": self.model, "messages": messages, **self.settings[setting]}
            call = self._call("POST", CHAT, json.dumps(request).encode())
            try:
                edited = await edit(call) if edit else None
                if edited:
                    call = edited.in_place_of(call)
                return await self._asked_once(call, sample), edited
            except RequestError as problem:
                raise ServerError(f"the request was not edited: {problem}") from None
            except RefusedError as problem:
                if problem.status != 400 or setting + 1 == len(self.settings):
                    raise
                self._setting = max(self._setting, setting + 1)

    async def only_model(self) -> str:
        """The name of the upstream's only model.

        Raises ServerError, RefusedError; UsageError for several.
        """
        values, _ = await self._sent(self._call("GET", "/models", b""))
        listed = values.get("data")
        if not isinstance(listed, list):
            listed = []
        names = [str(entry["id"]) for entry in listed if "id" in entry]
        if len(names) != 1:
            such = f", such as {names[0]}" if names else ""
            raise UsageError(
                f"{self.upstream.name} lists {len(names):,} models: name one as --model{such}"
            )
        return names[0]

    def _call(self, method: str, path: str, body: bytes) -> UpstreamCall:
        return UpstreamCall(method, path, [*_HEADERS, *self.headers], body)

    async def _asked_once(self, call: UpstreamCall, sample: int) -> ChatAnswer:
        """The answer to a call, which several may wait for. One of them may end before it comes."""
        key = key_of(self.kept_for, self.upstream.name, call.body.decode(), sample)
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(self._answer(key, call))
        return await asyncio.shield(self._asked[key])

    async def _answer(self, key: str, call: UpstreamCall) -> ChatAnswer:
        kept = self._kept(key)
        if kept:
            self.reused += 1
            return kept
        values, answer = await self._sent(call)
        answer = replace(answer, text=answer_text(values, self.upstream.name))
        if self.cache:
            self.cache.put(key, json.dumps(asdict(answer)).encode())
        return answer

    def _kept(self, key: str) -> ChatAnswer | None:
        """The answer that an interrupted run got, unless it is old."""
        row = self.cache.get([key]).get(key) if self.cache else None
        if row is None:
            return None
        with suppress(ValueError):  # another version of drike wrote it
            answer = read(ChatAnswer, parse(row))
            if time.time() - answer.at < _KEPT_SECONDS:
                return answer
        return None

    async def _sent(self, call: UpstreamCall) -> tuple[dict[str, Any], ChatAnswer]:
        """The JSON of an answer, and all of the answer but its text.

        Asks again where that may help. Raises ServerError, RefusedError.
        """
        name = self.upstream.name
        problem = ""
        pause = _FIRST_PAUSE
        try:
            async with asyncio.timeout(self.deadline) as limit:
                for attempt in range(_ATTEMPTS):
                    if attempt:
                        await asyncio.sleep(pause)
                        pause = min(4 * pause, _LONGEST_PAUSE)
                    began = time.perf_counter()
                    try:
                        async with self.upstream.exchange(call) as reply:
                            raw = await whole(reply)
                    except UpstreamError as failure:
                        problem = str(failure).partition(":")[0]
                        continue
                    seconds = time.perf_counter() - began
                    values = _json(raw)
                    if reply.status == 200:
                        require_success(values, name, str)
                    if reply.status == 200 and isinstance(values, dict):
                        tokens = token_counts(values, name).prompt
                        decided = _headers_of_gateway(reply)
                        return values, ChatAnswer("", seconds, time.time(), tokens, decided)
                    asked_for = pause_asked_for(_named(reply))
                    pause = asked_for or pause
                    problem = f"{reply.status}: {error_message(values, str) or 'no answer in JSON'}"
                    if 400 <= reply.status < 500 and not may_pass(reply.status):
                        raise RefusedError(
                            f"{name} refuses the request ({problem}): "
                            "correct the address, the key or --model",
                            reply.status,
                        )
                    if asked_for and not _allows(limit, asked_for):
                        problem += f"; it asks to wait {in_words(asked_for)}"
                        break
        except TimeoutError:
            problem = problem or f"no whole answer within {self.deadline:g} s"
        raise ServerError(
            f"{name} failed ({problem}): start or correct it, and give the same command again"
        )


def _headers_of_gateway(reply: Reply) -> dict[str, str]:
    return {
        name.decode(): value.decode("latin-1")
        for name, value in reply.headers
        if name.startswith(b"x-drike-")
    }


def _named(reply: Reply) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers}


def _allows(limit: asyncio.Timeout, pause: float) -> bool:
    """Whether a pause ends before a time limit."""
    end = limit.when()
    return end is None or asyncio.get_running_loop().time() + pause < end


def _json(raw: bytes) -> object:
    with suppress(ValueError):
        return parse(raw)
    return None
