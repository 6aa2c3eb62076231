"""An OpenAI-compatible endpoint with edits in force (docs/reference/gateway.md).

Nothing of a request is written anywhere.

A chat or text completion that concerns an edit is passed on with one text changed; all else passes
byte for byte.
"""

import asyncio
import json
import re
import secrets
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from drike.conversations.turns import Api, UnreadError
from drike.edits.record import StoreError
from drike.gateway.answers import ConversationId, PassingAnswer
from drike.gateway.bodies import parse
from drike.gateway.calls import Upstream, UpstreamCall
from drike.gateway.edited import EditedRequest
from drike.gateway.editing import RequestEditor
from drike.gateway.errors import ENDING, RequestError, UpstreamError, report
from drike.gateway.feed import EditFeed
from drike.gateway.guardrails import guardrail_answer
from drike.gateway.http import relay
from drike.gateway.http.admission import (
    CAPTURE,
    FEEDBACK,
    PREFIX,
    WEBHOOKS,
    admit,
    admit_reader,
    no_such_report,
    normal_path,
)
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.http.relay import Limits
from drike.gateway.http.shares import Bodies, Shares
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.metrics import Metrics
from drike.gateway.options import Mode
from drike.gateway.requests import APIS, may_ask
from drike.gateway.slips import checked_reply
from drike.gateway.traces import NO_TRACE, NO_TRACES, RequestTrace, Traces
from drike.live.capturing import capture, draft_of
from drike.live.report_progress import (
    EditEvidence,
    ReportProgress,
    is_link,
    link_of,
    progress_of,
)
from drike.stores.inbox import (
    LARGEST,
    FullInboxError,
    Inbox,
    LargeReportError,
    ReportState,
    report_of,
)

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_LIMITS_OF_REPORTS = Limits(body=LARGEST)
_MOST_DRAINED = 100
MOST_REPORTS = 60  # of a key in a minute
_MINUTE = 60.0  # seconds
_SECONDS_FOR_STORE = 5.0  # to take a report, while others may hold it


@dataclass(eq=False)
class _Visit:
    """A request of a client, and what is known of its answer.

    headers: those to add to the answer. began: by `time.perf_counter`. status: of the answer, once
    it begins. outcome: what became of the request, as the header x-drike-scope says it.
    """

    scope: Scope
    receive: Receive
    client: Send
    began: float
    request_id: str
    headers: MutableHeaders
    status: int = 0
    outcome: str = "none"
    body_is_read: bool = False
    trace: RequestTrace = NO_TRACE

    async def send(self, message: Message) -> None:
        """Send to the client, and note the status."""
        self.status = message.get("status", self.status)
        await self.client(message)


_Given = TypeVar("_Given")
_Handler = Callable[[_Visit, UpstreamCall, EditFeed, Principal], Awaitable[None]]


@dataclass(frozen=True)
class _Route:
    handler: _Handler
    limits: Limits


@dataclass(eq=False)
class Gateway:
    """The ASGI application of the gateway's port. feed: a tenant's edits."""

    upstream: Upstream
    feed: Callable[[str], Awaitable[EditFeed]]
    editor: RequestEditor
    metrics: Metrics
    keys: Keys | None
    limits: Limits = field(default_factory=Limits)
    traces: Traces = NO_TRACES
    _draining: int = field(default=0, init=False)  # refused requests whose bodies still come

    def __post_init__(self) -> None:
        keys = self.keys
        most = self.limits.at_once
        self._worked_on = Shares(most, lambda: len(keys.tenants) if keys else 1)
        self._bodies = Bodies(Shares(most, lambda: len(keys.keys) if keys else 1))
        self._reports = _ReportsOfKeys()
        guardrail = _Route(self._answer_guardrail, self.limits)
        self._usual_route = _Route(self._pass_on, self.limits)
        self._routes: Mapping[bytes, _Route] = {
            FEEDBACK: _Route(self._take_report, _LIMITS_OF_REPORTS),
            CAPTURE: _Route(self._take_draft, _LIMITS_OF_REPORTS),
            **dict.fromkeys(WEBHOOKS, guardrail),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        visit = _visit(scope, receive, send)
        self.metrics.in_flight.inc()
        try:
            await self._answer(visit)
        except (RequestError, UpstreamError) as error:
            visit.outcome = error.scope or visit.outcome
            # A connection can serve another request only once all of this one's body is read.
            if error.status == 408 or not (visit.body_is_read or await self._drain(receive)):
                visit.headers["connection"] = "close"
            await relay.send_error(visit.send, error, visit.headers)
        except ClientDisconnect:
            visit.status = 499
        except asyncio.CancelledError:
            if not visit.status:
                await relay.send_error(visit.send, ENDING, visit.headers)
            raise
        except Exception as error:
            report(error)
            if not visit.status:
                failure = RequestError(500, "internal_error", "the gateway failed: try again")
                await relay.send_error(visit.send, failure, visit.headers)
        finally:
            self.metrics.in_flight.dec()
            self.metrics.requests.labels(str(visit.status), visit.outcome).inc()
            visit.trace.ended(visit.status, visit.outcome)

    async def _answer(self, visit: _Visit) -> None:
        """Admit a request, read it, and hand it to the handler of its path."""
        path = normal_path(bytes(visit.scope["raw_path"]))
        scope = {**visit.scope, "raw_path": path}
        if path.startswith(FEEDBACK + b"/"):
            await self._show_report(visit, scope)
            return
        principal = admit(scope, self.keys, self.limits)
        route = self._routes.get(path, self._usual_route)
        place = partial(self._bodies.place, principal.key)
        body = await relay.read_body(scope, visit.receive, route.limits, place)
        visit.body_is_read = True
        with self._worked_on.taken(principal.tenant):
            call = _call(scope, body, visit.request_id, principal.tenant)
            visit.trace = self.traces.begin(call, path.decode("latin-1"), visit.began)
            feed = await self._feed_of(principal)
            await route.handler(visit, call, feed, principal)

    async def _drain(self, receive: Receive) -> bool:
        """Read the rest of a refused body; return whether it ended.

        So many refused requests are waited for, and no more.
        """
        if self._draining >= _MOST_DRAINED:
            return False
        self._draining += 1
        try:
            return await relay.drain(receive)
        finally:
            self._draining -= 1

    def shortage(self) -> str | None:
        """Why requests of all tenants would be refused now; None if they would not."""
        if not self._worked_on.are_taken:
            return None
        return f"{self.limits.at_once:,} requests are in flight, and others are refused"

    async def _feed_of(self, principal: Principal) -> EditFeed:
        """The edits that a request sees. Raises RequestError."""
        try:
            return await self.feed(principal.tenant)
        except StoreError as problem:  # which says where the store is: not for clients
            report(problem)
            raise RequestError(
                503,
                "unavailable",
                "the edits of this key's tenant cannot be opened: tell the gateway's operator",
            ) from None

    async def _pass_on(
        self, visit: _Visit, call: UpstreamCall, feed: EditFeed, principal: Principal
    ) -> None:
        """Edit a call, pass it on, and its answer back. Raises RequestError, UpstreamError."""
        # Read, view, follow, confirm, render, splice: the steps of `RequestEditor`.
        edited = await self._edited(call, feed, visit.request_id)
        visit.outcome = edited.scope
        visit.headers.update(edited.headers)
        visit.trace.decided(edited)
        call = visit.trace.sent(edited.in_place_of(call), edited)
        edited = replace(edited, decision=None, request=None)  # not held while the answer comes
        overhead = time.perf_counter() - visit.began

        # Upstream.
        answer = None
        sent = time.perf_counter()
        try:
            async with relay.while_connected(visit.receive), self.upstream.exchange(call) as first:
                checked = await checked_reply(self.upstream, call, edited, first, sent)
                reply = checked.reply
                if checked.slipped:
                    visit.headers["x-drike-slip"] = ",".join(map(str, checked.slipped))
                if "x-request-id" in Headers(raw=reply.headers):  # to be quoted to its operator
                    del visit.headers["x-request-id"]
                visit.headers["x-drike-overhead-ms"] = f"{1000 * overhead:.2f}"

                # Relay, and watch.
                trace = visit.trace if visit.trace.reads else None
                answer = PassingAnswer(reply, checked.slipped, trace)
                watched = replace(reply, chunks=_watched(reply.chunks, edited, answer))
                await relay.stream_response(watched, visit.send, visit.headers)
        finally:
            visit.trace.answered(waits=answer is not None)
            edited.note(answer)
            self.metrics.overhead.observe(overhead)

    async def _edited(self, call: UpstreamCall, feed: EditFeed, request_id: str) -> EditedRequest:
        """The call edited, or as it is where requests of its endpoint are not read."""
        editor = self.editor
        endpoint = call.endpoint
        api = APIS.get(endpoint) if call.method == "POST" else None
        if api is not None:
            return await editor.edit(api, call, feed, request_id)
        if may_ask(call.method, endpoint):
            problem = UnreadError("path", f"{call.method} {endpoint} is not read")
            return editor.unread(call, feed, problem)

        mode = editor.mode_for(feed)
        scope = "off" if mode is Mode.OFF else "unread"
        return EditedRequest(call.body, scope, mode)

    async def _answer_guardrail(
        self, visit: _Visit, call: UpstreamCall, feed: EditFeed, principal: Principal
    ) -> None:
        """Answer another gateway's webhook. Raises RequestError."""

        async def edit(chat: bytes) -> bytes:
            chat_call = replace(call, body=chat)
            edited = await self.editor.edit(Api.CHAT, chat_call, feed, visit.request_id)
            edited.note(None)
            visit.trace.decided(edited)
            visit.outcome = edited.scope
            visit.headers.update(edited.headers)
            return edited.body

        try:
            answer = await guardrail_answer(call.body, edit)
            body = json.dumps(answer, allow_nan=False).encode()
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        await relay.send_json(visit.send, 200, body, visit.headers)

    async def _take_report(
        self, visit: _Visit, call: UpstreamCall, feed: EditFeed, principal: Principal
    ) -> None:
        """Keep a report of a wrong answer, and answer with its number. Raises RequestError."""
        wrong_answer = self._given(report_of, call, principal)
        author = principal.author if principal.key else None

        def work() -> dict[str, object]:
            added = Inbox(feed.store.database).take(wrong_answer, author)
            link = link_of(feed.store, principal.tenant, added.number)
            return {"report": added.number, "link": link}

        body = json.dumps(await _in_store(work)).encode()
        await relay.send_json(visit.send, 201, body, visit.headers)

    async def _show_report(self, visit: _Visit, scope: Scope) -> None:
        """Answer with what became of a report, to who has its link or a key. Raises RequestError.

        A key for reports alone shows its own.
        """
        asked = admit_reader(scope, self.keys, self.limits)
        feed = await self._feed_of(asked.principal)

        def work() -> ReportProgress | None:
            store = feed.store
            tenant = asked.principal.tenant
            if asked.token and not is_link(store, tenant, asked.number, asked.token):
                return None
            wrong_answer = Inbox(store.database).find(asked.number)
            if wrong_answer is None or wrong_answer.state is ReportState.SAMPLE:
                return None
            may_read_all = asked.token or asked.principal.role.includes(KeyRole.USE)
            if not may_read_all and wrong_answer.author != asked.principal.author:
                return None
            return progress_of(wrong_answer, store, EditEvidence.of(store, feed.snapshot))

        progress = await _in_store(work)
        if progress is None:
            raise no_such_report()
        visit.headers["cache-control"] = "no-store"
        body = json.dumps(progress.values()).encode()
        await relay.send_json(visit.send, 200, body, visit.headers)

    async def _take_draft(
        self, visit: _Visit, call: UpstreamCall, feed: EditFeed, principal: Principal
    ) -> None:
        """Propose what a person changed in a draft; answer with what was decided, and why.

        Raises RequestError.
        """
        given = self._given(draft_of, call, principal)
        author = principal.author if principal.key else None

        def work() -> dict[str, object]:
            captured = capture(feed.store, given, feed.index, author=author, is_of_key=True)
            feed.refresh()
            answer = captured.values()
            if captured.report is not None:
                answer["link"] = link_of(feed.store, principal.tenant, captured.report.number)
            return answer

        answer = await _in_store(work)
        status = 201 if "link" in answer else 200
        body = json.dumps(answer).encode()
        await relay.send_json(visit.send, status, body, visit.headers)

    def _given(
        self, read: Callable[[object], _Given], call: UpstreamCall, principal: Principal
    ) -> _Given:
        """What a reporter sends, counted against what its key may send. Raises RequestError."""
        self._reports.check(principal)
        try:
            given = read(parse(call.body))
        except LargeReportError as problem:
            raise RequestError(413, "report_too_large", str(problem)) from None
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        self._reports.count(principal)
        return given


async def _in_store(work: Callable[[], _Given]) -> _Given:
    """What work on a store returns. Raises RequestError where it cannot be done now."""
    try:
        async with asyncio.timeout(_SECONDS_FOR_STORE):
            return await in_daemon_thread(work)
    except FullInboxError as problem:
        raise RequestError(429, "inbox_full", str(problem)) from None
    except (TimeoutError, StoreError):
        raise RequestError(
            503, "unavailable", "the store cannot be used now: send the report again"
        ) from None


class _ReportsOfKeys:
    """When each key sent its last reports, of which so many are taken in a minute."""

    def __init__(self) -> None:
        newest = partial(deque[float], maxlen=MOST_REPORTS)
        self._times: defaultdict[tuple[str, str], deque[float]] = defaultdict(newest)

    def check(self, principal: Principal) -> None:
        """Raises RequestError where a key has sent too many."""
        times = self._times[principal.tenant, principal.key]
        if len(times) == MOST_REPORTS and times[0] > time.monotonic() - _MINUTE:
            sentence = f"this key has sent {MOST_REPORTS} reports in a minute: wait for one"
            raise RequestError(429, "too_many_reports", sentence)

    def count(self, principal: Principal) -> None:
        """Count one more."""
        self._times[principal.tenant, principal.key].append(time.monotonic())


def _visit(scope: Scope, receive: Receive, send: Send) -> _Visit:
    """A request that has just come, with its id; one without a usable id gets one."""
    began = time.perf_counter()
    request_id = Headers(scope=scope).get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(request_id):
        request_id = f"drike-{secrets.token_hex(12)}"
    headers = MutableHeaders({"x-request-id": request_id})
    return _Visit(scope, receive, send, began, request_id, headers)


def _call(scope: Scope, body: bytes, request_id: str, tenant: str) -> UpstreamCall:
    """A request as it is passed on, unless it is edited."""
    path = bytes(scope["raw_path"]).removeprefix(PREFIX)
    query = scope["query_string"]
    address = path + b"?" + query if query else path
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["x-request-id"]
    headers["x-request-id"] = request_id
    return UpstreamCall(scope["method"], address.decode("latin-1"), headers.raw, body, tenant)


async def _watched(
    chunks: AsyncIterator[bytes], edited: EditedRequest, answer: PassingAnswer
) -> AsyncIterator[bytes]:
    """The chunks of an answer, which reads them as they pass.

    In them, the id is looked for under which the upstream stores the conversation.
    """
    conversation_id = ConversationId(edited.keep) if edited.keep else None
    async for chunk in chunks:
        if conversation_id:
            conversation_id.look_in(chunk)
        yield chunk
        if edited.asked or answer.trace:  # once the client has it
            answer.take(chunk)
    answer.complete = True
