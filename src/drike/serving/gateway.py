"""An OpenAI-compatible endpoint with edits in force: an application changes its base URL, nothing else.

A chat or text completion that concerns an edit is passed on with one text changed; everything else passes byte for
byte. Where the gate fails or is late, the request goes out unedited, unless it names the subject of an edit that is
enforced. Nothing of a request is written anywhere.

Answers carry `x-drike-scope` (fired, abstained, degraded; off where the mode is), `x-drike-edits` (id@version, ...),
`x-drike-mode`, `x-drike-overhead-ms` and `x-request-id`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.types import Message, Receive, Scope, Send

from drike.gates.decision import Decision, YesOrNo
from drike.models.served.address import is_loopback
from drike.serving import guardrail
from drike.serving.feed import EditFeed
from drike.serving.keys import Principal, Role
from drike.serving.metrics import Metrics
from drike.serving.placement import Placement
from drike.serving.relay import (
    ClientDisconnectError,
    Limits,
    RequestError,
    drain,
    read_body,
    reply_json,
    send_error,
    stream_response,
    while_connected,
)
from drike.serving.requests import EditableRequest, Target, chat_target, completion_target, parse
from drike.serving.upstream import Call, Headers, Upstream, UpstreamError
from drike.serving.verification import answers
from drike.stores.records import EditVersion, Status

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)
_PREFIX = b"/v1"
_REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_WAITING = 256  # decisions; more than that are late anyway
_SHARE_OF_QUESTIONS = 0.9  # of the time that is left; the rest is for editing
# What any key may use of the upstream: it answers, and lists and changes nothing that it keeps for other clients.
_FOR_ALL = re.compile(
    rb"(GET|HEAD) /v1/models(/.*)?"
    rb"|POST /v1/((chat/)?completions|embeddings|responses|messages(/count_tokens)?|moderations|rerank|score"
    rb"|(de)?tokenize|audio/(speech|transcriptions|translations)|images/(generations|edits|variations))/?"
)
_TARGETS: Mapping[bytes, Callable[..., Target | None]] = {
    b"/chat/completions": chat_target, b"/completions": completion_target,
}  # fmt: skip


class Mode(StrEnum):
    """What a gateway does with edits."""

    SHADOW = "shadow"  # decide and count, change nothing
    ON = "on"
    OFF = "off"  # pass everything on


@dataclass(frozen=True)
class Settings:
    """How a gateway works.

    deadline: seconds for deciding and editing a request; None is 0.05, or 0.25 where the gate has an encoder. ask: ask
    the upstream, yes or no, where the gate is in doubt; any other answer, or none within the deadline, counts as no.
    own_pages: without keys, web pages of other sites are refused, which would ask with the upstream's key.
    """

    mode: Mode = Mode.SHADOW
    deadline: float | None = None
    ask: bool = False
    own_pages: bool = False
    limits: Limits = field(default_factory=Limits)


def bearer(scope: Scope) -> str:
    """The key in a request's headers, also where webhooks send it; empty without one."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    kind, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return key.strip() if kind.casefold() == "bearer" else headers.get(b"x-api-key", b"").decode("latin-1")


@dataclass(frozen=True)
class Edited:
    """A body to pass on, and what the gate said: fired, abstained or degraded. edits: that fired."""

    body: bytes
    scope: str
    edits: tuple[EditVersion, ...] = ()


class Gateway:
    """The ASGI application of the gateway's port.

    Args:
        upstream: answers.
        live: the edits of a tenant, by its name.
        chat, completion: how edits change chats, and prompts to complete.
        settings: mode, deadline and limits.
        access: what the holder of a key may do; None is nothing.
        metrics: counts.
    """

    def __init__(
        self,
        upstream: Upstream,
        live: Callable[[str], Awaitable[EditFeed]],
        *,
        chat: Placement,
        completion: Placement,
        settings: Settings = Settings(),
        access: Callable[[str], Principal | None] = lambda key: Principal(),
        metrics: Metrics | None = None,
    ) -> None:
        self.upstream = upstream
        self.live = live
        self.settings = settings
        self.access = access
        self.metrics = metrics or Metrics()
        self._placements = {b"/chat/completions": chat, b"/completions": completion}
        self._deciding = ThreadPoolExecutor(1, "drike-gate")
        self._waiting = 0
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        began = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request = given if _REQUEST_ID.fullmatch(given) else b"drike-" + secrets.token_hex(12).encode()
        more: Headers = [(b"x-request-id", request)]
        status, decided, overhead, whole = 0, "none", None, False

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._in_flight += 1
        self.metrics.in_flight.set(self._in_flight)
        try:
            grant = self._admit(scope)
            path = bytes(scope["raw_path"]).removeprefix(_PREFIX)
            body = await read_body(scope, receive, self.settings.limits)
            whole = True
            query = scope["query_string"]
            address = (path + b"?" + query if query else path).decode("latin-1")
            call = Call(scope["method"], address, _with_id(scope["headers"], request), body)
            if scope["raw_path"] in guardrail.PATHS:
                decided = await self._guardrail(call, await self.live(grant.tenant), request.decode(), sending, more)
                return
            if scope["method"] == "POST" and path in _TARGETS:
                live = await self.live(grant.tenant)
                edited = await self._edit(path, call, live, request.decode(), ask=self.settings.ask)
                call, decided = replace(call, body=edited.body), edited.scope
                more += _headers(edited, self.settings.mode)
            overhead = time.perf_counter() - began
            async with while_connected(receive), self.upstream.exchange(call) as reply:
                if any(name == b"x-request-id" for name, _ in reply.headers):  # to be quoted to its operator
                    del more[0]
                more.append((b"x-drike-overhead-ms", b"%.2f" % (1000 * overhead)))
                await stream_response(reply, sending, more)
        except (RequestError, UpstreamError) as error:
            if error.status == 408 or (not whole and not await drain(receive)):
                more.append((b"connection", b"close"))
            await send_error(sending, error, more)
        except ClientDisconnectError:
            status = 499
        except Exception as error:
            _report(error)
            if not status:
                await send_error(sending, RequestError(500, "internal_error", "the gateway failed: try again"), more)
        finally:
            self._in_flight -= 1
            self.metrics.in_flight.set(self._in_flight)
            self.metrics.count(status, decided, overhead)

    def edited(self, path: bytes, body: bytes, decision: Decision) -> bytes:
        """The body of a request under a decision, whatever the mode."""
        parsed = parse(body)
        target = _TARGETS[path](parsed) if parsed else None
        edits = active(decision)
        return self._placed(path, body, parsed, target, edits) if parsed and target and edits else body

    def deadline(self, live: EditFeed) -> float:
        """Seconds for deciding and editing a request."""
        return self.settings.deadline or (0.25 if live.index.encoder else 0.05)

    def close(self) -> None:
        """Let go of the thread that decides."""
        self._deciding.shutdown(wait=False, cancel_futures=True)

    def _admit(self, scope: Scope) -> Principal:
        """Check everything that can be checked without the body. Raises RequestError."""
        limits = self.settings.limits
        if self._in_flight > limits.at_once:
            raise RequestError(429, "busy", f"{limits.at_once:,} requests are in flight: try again in a second")
        if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limits.headers:
            raise RequestError(431, "headers_too_large", f"the headers have more than {limits.headers >> 10} KB")
        if scope["method"] not in _METHODS:
            raise RequestError(405, "no_such_method", f"{scope['method']} is not passed on: use POST or GET")
        path = bytes(scope["raw_path"])
        if not path.startswith(_PREFIX + b"/") and path not in guardrail.PATHS:
            raise RequestError(404, "no_such_path", "there is nothing here: let the base URL end in /v1")
        if any(part in (b".", b"..") for part in re.split(rb"[/\\]", unquote_to_bytes(path))):
            raise RequestError(400, "bad_path", "the path has . or .. in it: give it without them")
        pages = ((b"origin", b""), (b"host", b"http://")) if self.settings.own_pages else ()
        for name, prefix in pages:  # another site's name may lead here, too
            given = next((value for header, value in scope["headers"] if header == name), None)
            if given is not None and not is_loopback(_host(prefix + given)):
                sentence = "without keys only this machine's own addresses are answered: make a key (drike keys add)"
                raise RequestError(403, f"wrong_{name.decode()}", sentence)
        grant = self.access(bearer(scope))
        if grant is None:
            raise RequestError(401, "invalid_api_key", "the key is not one of this gateway's: send a valid one")
        asked = scope["method"].encode() + b" " + path
        if not (grant.role.includes(Role.ADMIN) or path in guardrail.PATHS or _FOR_ALL.fullmatch(asked)):
            raise RequestError(403, "not_permitted", "files, batches and the like need a key with the role admin")
        return grant

    async def _guardrail(self, call: Call, live: EditFeed, request: str, send: Send, more: Headers) -> str:
        """Answer a webhook; return what the gate said."""
        decided = "none"

        async def edit(chat: bytes) -> bytes:  # without questions: a webhook has neither the model nor its key
            nonlocal decided
            edited = await self._edit(b"/chat/completions", replace(call, body=chat), live, request, ask=False)
            decided = edited.scope
            more.extend(_headers(edited, self.settings.mode))
            return edited.body

        try:
            await reply_json(send, 200, await guardrail.answer(call.body, edit), more)
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        return decided

    async def _edit(self, path: bytes, call: Call, live: EditFeed, request: str, *, ask: bool) -> Edited:
        """The body of a call under the edits that its question concerns. Raises RequestError."""
        body = call.body
        if self.settings.mode is Mode.OFF:
            return Edited(body, "off")
        try:
            parsed = parse(body)
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        target = _TARGETS[path](parsed) if parsed else None
        if parsed is None or target is None:
            return Edited(body, "abstained")

        def decide() -> Edited | Decision:
            decision = live.decide(target.queries, doubts=ask)
            return decision if ask and decision.uncertain else edited(decision)

        def edited(decision: Decision) -> Edited:
            live.keep(request, decision)
            edits = active(decision)
            if not edits:
                return Edited(body, "abstained")
            if self.settings.mode is Mode.SHADOW:
                return Edited(body, "fired", edits)
            return Edited(self._placed(path, body, parsed, target, edits), "fired", edits)

        refusal = RequestError(503, "edit_not_applied", "an enforced edit could not be applied in time: try again")
        until = time.perf_counter() + self.deadline(live)
        try:
            found = await self._decided(decide, until)
            if isinstance(found, Decision):
                seconds = _SHARE_OF_QUESTIONS * (until - time.perf_counter())
                decision = await self.resolved(found, call, parsed, seconds)
                if self.settings.mode is Mode.ON and _must_answer(decision):
                    live.keep(request, decision)
                    raise refusal
                found = await self._decided(lambda: edited(decision), until)
            return found
        except RequestError:
            raise
        except Exception as error:  # whatever is wrong with the gate, requests are answered
            _report(error)
            if self.settings.mode is Mode.ON and live.enforced(target.queries):
                raise refusal from None
            return Edited(body, "degraded")

    async def resolved(self, decision: Decision, call: Call, parsed: Mapping[str, Any], seconds: float) -> Decision:
        """A decision after the questions to the upstream that it leads to. call, parsed: a request and its body."""
        said = await answers(self.upstream, call, parsed, decision, seconds)
        for one in said:
            self.metrics.questions.labels(one).inc()
        return decision.resolved(said)

    async def _decided(self, work: Callable[[], Result], until: float) -> Result:
        """What the thread that decides returns. Raises TimeoutError if it does not until then."""
        if self._waiting >= _WAITING:
            raise TimeoutError
        self._waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._deciding, work)
            return await asyncio.wait_for(future, until - time.perf_counter())
        finally:
            self._waiting -= 1

    def _placed(
        self, path: bytes, body: bytes, parsed: dict[str, Any], target: Target, edits: Sequence[EditVersion]
    ) -> bytes:
        facts = [one.record.edit_in(target.queries[-1]) for one in edits]
        text = self._placements[path].place(facts, target.text, target.queries[0])
        return EditableRequest(path.decode(), body, parsed, target).with_text(text)


def active(decision: Decision) -> tuple[EditVersion, ...]:
    """The edits of a decision that change answers; others are only counted."""
    return tuple(one for one in decision.matched if one.record.status is Status.ACTIVE)


def _must_answer(decision: Decision) -> bool:
    """Whether a question failed about an edit that must not be left out."""
    entries = (one.edit.record for one in decision.uncertain if one.answer is YesOrNo.FAILED)
    return any(entry.enforce and entry.status is Status.ACTIVE for entry in entries)


def _headers(edited: Edited, mode: Mode) -> Headers:
    listed = ",".join(f"{one.id}@{one.version}" for one in edited.edits)
    named = [(b"x-drike-edits", listed.encode())] if listed else []
    return [(b"x-drike-scope", edited.scope.encode()), (b"x-drike-mode", mode.encode()), *named]


def _host(origin: bytes) -> str | None:
    try:
        return urlsplit(origin.decode("latin-1")).hostname
    except ValueError:
        return None


def _report(error: Exception) -> None:
    """Log where an error arose, without its text, which might quote a request."""
    if not isinstance(error, TimeoutError):
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames]
        _LOG.error("%s in %s", type(error).__name__, " > ".join(places))


def _with_id(headers: Sequence[tuple[bytes, bytes]], request: bytes) -> Headers:
    return [*((name, value) for name, value in headers if name != b"x-request-id"), (b"x-request-id", request)]
