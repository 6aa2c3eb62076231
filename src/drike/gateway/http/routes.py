"""An OpenAI-compatible endpoint with edits in force (docs/reference/gateway.md). No request is written anywhere.

A chat or text completion that concerns an edit is passed on with one text changed; all else passes byte for byte.
"""

import asyncio
import json
import re
import secrets
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from drike.conversations.rendering import defused
from drike.conversations.turns import Api, UnreadError, read
from drike.edits.record import StoreError
from drike.gateway.editing import RequestEditor, report
from drike.gateway.http import relay
from drike.gateway.http.admission import FEEDBACK, PREFIX, WEBHOOKS, admit, normal_path
from drike.gateway.http.keys import Keys, Principal
from drike.gateway.http.relay import Limits, PassingAnswer, RequestError, answered
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.http.upstream import Headers, Upstream, UpstreamCall, UpstreamError
from drike.gateway.options import Mode
from drike.gateway.requests import (
    APIS,
    COMPLETION,
    MESSAGES,
    RESPONSES,
    SMALL,
    EditedRequest,
    parse,
)
from drike.gateway.tenants import EditFeed
from drike.stores.inbox import FullInboxError, Inbox, report_of

_ENDS = (COMPLETION, RESPONSES, MESSAGES)  # of paths that are probably for text
_REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")
# An answer that the upstream keeps, and the first id in it that is not its conversation's; text has no such quotes.
_RESPONSE, _USUAL = (
    re.compile(rb'"object"\s*:\s*"response"'),
    re.compile(rb'"id"\s*:\s*"(resp[\w+/=-]{1,996})"'),
)
_ID = re.compile(
    rb'(?<!"conversation":\{)(?<!"conversation": \{)"id"\s*:\s*"([!#-\[\]-~]{1,1000})"'
)
_BEGINNING = 64 << 10  # bytes in which it stands
_OF_REPORTS = Limits(body=64 << 10)
MOST_REPORTS, _SECONDS = 60, 60.0  # reports of a key in a time
_SECONDS_FOR_STORE = 5.0  # that others may hold
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_Taken = dict[tuple[str, str], deque[float]]


class Metrics:
    """What a gateway counts, for Prometheus. No label holds a tenant, an edit or anything of a request's content."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = (
            partial(Counter, registry=self.registry),
            partial(Gauge, registry=self.registry),
        )
        text = "Requests by status and by what the gate decided"
        self.requests = counter("drike_requests", text, ["status", "scope"])
        text = "Time a request spent in the gateway before it was passed on"
        self.overhead = Histogram(
            "drike_overhead_seconds", text, buckets=_BUCKETS, registry=self.registry
        )
        text = "Questions to the upstream whether an edit is concerned, by its answer"
        self.questions = counter("drike_questions", text, ["answer"])
        self.unread = counter(
            "drike_unread", "Bodies whose texts could not be read, by why", ["reason"]
        )
        text = "Texts of edited requests in which an imitation of the block of facts was defused"
        self.defused = counter("drike_defused", text)
        text = "Tool results and documents that state the old object of an edit"
        self.conflicts = counter("drike_conflicts", text)
        text = "Edits that requests concern, by what the answer states of each, and whether they were on"
        self.answers = counter("drike_answers", text, ["stated", "mode"])
        self.in_flight = gauge("drike_in_flight", "Requests in flight")
        self.edits = gauge("drike_edits_in_force", "Edits in force, of all tenants")
        self.proposed = gauge("drike_edits_proposed", "Proposals that wait for approval")
        self.due = gauge("drike_edits_due", "Edits in use whose review is due")


@dataclass(eq=False)
class Gateway:
    """The ASGI application of the gateway's port. feed: a tenant's edits. reported: when keys last sent reports."""

    upstream: Upstream
    feed: Callable[[str], Awaitable[EditFeed]]
    editor: RequestEditor
    metrics: Metrics
    keys: Keys | None
    limits: Limits = field(default_factory=Limits)
    reported: _Taken = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=MOST_REPORTS)), init=False
    )
    _in_flight: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        began = time.perf_counter()
        sent = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = (
            sent if _REQUEST_ID.fullmatch(sent) else b"drike-" + secrets.token_hex(12).encode()
        )
        more: Headers = [(b"x-request-id", request_id)]
        status, decided, whole = 0, "none", False

        async def send_and_see(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._in_flight += 1
        self.metrics.in_flight.inc()
        try:
            scope = {**scope, "raw_path": normal_path(bytes(scope["raw_path"]))}
            principal, path = (
                admit(scope, self.keys, self.limits, self._in_flight),
                scope["raw_path"],
            )
            limits = _OF_REPORTS if path == FEEDBACK else self.limits
            call, whole = (
                _call(scope, await relay.read_body(scope, receive, limits), request_id),
                True,
            )
            feed = await self.feed(principal.tenant)
            if path == FEEDBACK:
                await relay.send_json(
                    send_and_see, 201, await self._take_report(call.body, feed, principal), more
                )
            elif path in WEBHOOKS:
                decided = await self._answer_webhook(
                    call, feed, request_id.decode(), send_and_see, more
                )
            else:
                edited = await self._edited(call, feed, request_id.decode())
                call, decided = edited.in_place_of(call), edited.scope
                more += _headers(edited)
                await self._pass_on(call, edited, receive, send_and_see, more=more, began=began)
        except (RequestError, UpstreamError) as error:
            decided = getattr(error, "scope", None) or decided
            if error.status == 408 or (not whole and not await relay.drain(receive)):
                more.append((b"connection", b"close"))
            await relay.send_error(send_and_see, error, more)
        except ClientDisconnect:
            status = 499
        except asyncio.CancelledError:
            if not status:
                await relay.send_error(send_and_see, relay.ENDING, more)
            raise
        except Exception as error:
            report(error)
            if not status:
                failure = RequestError(500, "internal_error", "the gateway failed: try again")
                await relay.send_error(send_and_see, failure, more)
        finally:
            self._in_flight -= 1
            self.metrics.in_flight.dec()
            self.metrics.requests.labels(str(status), decided).inc()

    async def _edited(self, call: UpstreamCall, feed: EditFeed, request_id: str) -> EditedRequest:
        """What becomes of a call; one to an endpoint whose requests are not read passes as it is."""
        path = call.path.partition("?")[0]
        if call.method == "POST" and path in APIS:
            return await self.editor.edit(APIS[path], call, feed, request_id, ask=self.editor.asks)
        if call.method == "POST" and path.endswith(
            _ENDS
        ):  # /engines/MODEL/completions and the like, of older servers
            return self.editor.unread(call, feed, UnreadError("path", f"{path} is not read"))
        mode = self.editor.mode_for(feed)
        return EditedRequest(call.body, "off" if mode is Mode.OFF else "unread", mode)

    async def _pass_on(
        self,
        call: UpstreamCall,
        edited: EditedRequest,
        receive: Receive,
        send: Send,
        *,
        more: Headers,
        began: float,
    ) -> None:
        """Pass a call on that came at `began`, and its answer back. more: headers. Raises UpstreamError."""
        answer, overhead = None, time.perf_counter() - began
        try:
            async with relay.while_connected(receive), self.upstream.exchange(call) as first:
                reply, slipped = await answered(self.upstream, call, edited, first)
                more += (
                    [(b"x-drike-slip", b",".join(b"%d" % id for id in slipped))] if slipped else []
                )
                answer = PassingAnswer(reply, slipped)
                if any(
                    name == b"x-request-id" for name, _ in reply.headers
                ):  # to be quoted to its operator
                    del more[0]
                more.append((b"x-drike-overhead-ms", b"%.2f" % (1000 * overhead)))
                await relay.stream_response(
                    replace(reply, chunks=_watched(reply.chunks, edited, answer)), send, more
                )
        finally:
            edited.note(answer)
            self.metrics.overhead.observe(overhead)

    async def _answer_webhook(
        self, call: UpstreamCall, feed: EditFeed, id: str, send: Send, more: Headers
    ) -> str:
        """Answer a webhook; return what the gate decided."""
        decided = "none"

        async def edit(
            chat: bytes,
        ) -> bytes:  # asking nobody: a webhook has neither the model nor its key
            nonlocal decided
            edited = await self.editor.edit(Api.CHAT, replace(call, body=chat), feed, id, ask=False)
            decided = edited.scope
            edited.note(None)
            more.extend(_headers(edited))
            return edited.body

        try:
            answer = await webhook_answer(call.body, edit)
            await relay.send_json(send, 200, json.dumps(answer, allow_nan=False).encode(), more)
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        return decided

    async def _take_report(self, body: bytes, feed: EditFeed, principal: Principal) -> bytes:
        """Keep a report of a wrong answer; return its number as JSON. Raises RequestError, StoreError."""
        taken, now = self.reported[principal.tenant, principal.key], time.monotonic()
        if len(taken) == MOST_REPORTS and taken[0] > now - _SECONDS:
            sentence = f"this key has sent {MOST_REPORTS} reports in a minute: wait for one"
            raise RequestError(429, "too_many_reports", sentence)
        try:
            given = report_of(parse(body))
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        taken.append(now)
        author = principal.author if principal.key else None
        try:
            async with asyncio.timeout(_SECONDS_FOR_STORE):
                [added] = await in_daemon_thread(Inbox(feed.store.database).add, [given], author)
        except FullInboxError as problem:
            raise RequestError(429, "inbox_full", str(problem)) from None
        except (TimeoutError, StoreError):
            raise RequestError(
                503, "unavailable", "the store cannot be used now: send the report again"
            ) from None
        return json.dumps({"report": added.number}).encode()


def _headers(edited: EditedRequest) -> Headers:
    edits = ",".join(f"{edit.id}@{edit.version}" for edit in edited.edits)
    conflicts = ",".join(map(str, edited.contradicted))
    headers = {
        b"scope": edited.scope,
        b"mode": edited.mode,
        b"conflict": conflicts,
        b"edits": edits,
    }
    return [(b"x-drike-" + name, value.encode()) for name, value in headers.items() if value]


async def webhook_answer(
    body: bytes, edit: Callable[[bytes], Awaitable[bytes]]
) -> dict[str, object]:
    """The answer to another gateway's webhook, whose chat `edit` edits. Raises ValueError for another form.

    LiteLLM posts {"texts": [...], "structured_messages": [...], "input_type": "request"} and reads {"action": "NONE"},
    {"action": "GUARDRAIL_INTERVENED", "texts": [...]} with as many texts, or {"action": "BLOCKED", "blocked_reason"}.
    agentgateway posts {"body": {"messages": [...]}} and reads {"action": {"reason"}}, {"action": {"body": {"messages":
    [...]}, "reason"}} or {"action": {"body": "...", "status_code", "reason"}}. Answers of models pass unchanged, and so
    do texts without messages: LiteLLM sends prompts to complete in the same form as texts to embed, speak or draw. What
    `edit` refuses is refused with status 200: with another, the webhook could be taken for one that is down.
    """
    values = (parse(body) if len(body) <= SMALL else await in_daemon_thread(parse, body)) or {}
    chat, texts = values.get("body"), values.get("texts")
    messages: Any = values.get("structured_messages")
    if isinstance(chat, dict):
        messages = chat.get("messages")
    elif not isinstance(texts, list):
        raise ValueError(
            'the body has neither "texts" nor "body": send the form of LiteLLM or of agentgateway'
        )
    elif values.get("input_type") == "response":
        messages = None
    edited = messages
    try:
        if isinstance(messages, list):
            model = (chat if isinstance(chat, dict) else values).get("model")
            request = {"messages": messages, **({"model": model} if isinstance(model, str) else {})}
            edited = json.loads(await edit(json.dumps(request).encode()))["messages"]
    except RequestError as refusal:
        if not isinstance(chat, dict):
            return {"action": "BLOCKED", "blocked_reason": str(refusal)}
        return {
            "action": {"body": str(refusal), "status_code": refusal.status, "reason": refusal.code}
        }
    if isinstance(chat, dict):
        change = {"body": {**chat, "messages": edited}, "reason": "facts were added"}
        return {"action": {"reason": "no edit concerns this"} if edited == messages else change}
    changed = texts if edited == messages else _changed(texts or [], messages, edited)
    return (
        {"action": "NONE"}
        if changed == texts
        else {"action": "GUARDRAIL_INTERVENED", "texts": changed}
    )


def _changed(texts: list[Any], messages: list[Any], edited: list[Any]) -> list[Any]:
    """The texts as edited, each sought from the end, as LiteLLM leaves some out, and the last turn matters most."""
    before, after = (read(Api.CHAT, {"messages": said}).texts for said in (messages, edited))
    changed, place = (
        [defused(text) if isinstance(text, str) else text for text in texts],
        len(texts),
    )
    places: dict[str | None, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        places[text if isinstance(text, str) else None].append(i)
    for path, text in reversed(list(before.items())):
        if earlier := bisect_left(places[text], place):
            place = places[text][earlier - 1]
            changed[place] = after[path]
    return changed


async def _watched(
    chunks: AsyncIterator[bytes], edited: EditedRequest, answer: PassingAnswer
) -> AsyncIterator[bytes]:
    """The chunks of an answer; on their way it is read, and the id by which the upstream keeps the conversation."""
    begin, keep = b"", edited.keep
    async for chunk in chunks:
        if keep:
            begin += chunk
            found, match = _RESPONSE.search(begin), _USUAL.search(begin)
            if match := match or (
                found and _ID.search(begin, begin.rfind(b"\n\n", 0, found.start()) + 1)
            ):
                keep(match[1].decode())
            if match or len(begin) >= _BEGINNING:
                keep = None
        yield chunk
        if edited.asked:  # once the client has it
            answer.take(chunk)
    answer.complete = True


def _call(scope: Scope, body: bytes, request_id: bytes) -> UpstreamCall:
    path, query = bytes(scope["raw_path"]).removeprefix(PREFIX), scope["query_string"]
    address = (path + b"?" + query if query else path).decode("latin-1")
    headers = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
    return UpstreamCall(scope["method"], address, [*headers, (b"x-request-id", request_id)], body)
