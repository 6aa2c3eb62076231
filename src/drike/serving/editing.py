"""A request becomes an edited request: decide which edits it concerns, and put them into its text, within a deadline.

Where the gate fails or is late, the request goes out unedited, unless it names the subject of an edit that is enforced;
so does a request that cannot be read, unless any edit is enforced. All but small work is done in the tenant's threads.
Where the gate is uncertain, the upstream may be asked, yes or no, with the model and the headers of the request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from drike.gates.decision import Decision, YesOrNo
from drike.gates.verification import answer_of, questions
from drike.serving.bodies import SMALL, UnreadError
from drike.serving.feed import EditFeed
from drike.serving.metrics import Metrics
from drike.serving.options import GatewayOptions, Mode
from drike.serving.placement import Placement, defused
from drike.serving.relay import RequestError, UnreadRequestError
from drike.serving.requests import CHAT, COMPLETION, EditableRequest, read_request
from drike.serving.threads import in_daemon_thread
from drike.serving.upstream import Upstream, UpstreamCall, UpstreamError
from drike.stores.records import EditVersion

_LOG = logging.getLogger(__name__)
_SECONDS_TO_READ = 5.0  # a large body
_SECONDS_TO_TRY = 10.0  # what an operator waits for
_SHARE_OF_QUESTIONS = 0.9  # of the time that is left; the rest is for editing
_KEPT = ("model", "reasoning_effort", "chat_template_kwargs")  # who answers, and how much it thinks
# No limit on tokens suits every server: newer models of OpenAI refuse `max_tokens` and a temperature with status 400,
# many other servers do not know `max_completion_tokens`. The name that the request itself uses comes first, else
# `max_tokens`; status 400 leads to the other one.
_BRIEF: Mapping[str, object] = {"max_tokens": 16, "temperature": 0}
_THINKING: Mapping[str, object] = {"max_completion_tokens": 512}  # includes what the model thinks
_DROPPED = frozenset((b"accept", b"accept-encoding", b"content-encoding", b"idempotency-key"))
_OK, _BAD_REQUEST = 200, 400


@dataclass(frozen=True)
class EditedRequest:
    """A body to pass on, and what became of the request.

    scope: fired, abstained, degraded, unread or off, for the header x-drike-scope. edits: those in force that match.
    """

    body: bytes
    scope: str
    edits: tuple[EditVersion, ...] = ()

    def in_place_of(self, call: UpstreamCall) -> UpstreamCall:
        """The call with this body, which is not compressed if it has changed."""
        if self.body is call.body:
            return call
        headers = [header for header in call.headers if header[0] != b"content-encoding"]
        return replace(call, body=self.body, headers=headers)


class RequestEditor:
    """Edits requests. chat, completion: how edits change chats, and prompts to complete."""

    def __init__(
        self, upstream: Upstream, *, chat: Placement, completion: Placement, options: GatewayOptions, metrics: Metrics
    ) -> None:
        self.mode = Mode(options.mode or Mode.SHADOW)
        self.asks = options.ask
        self._deadline_ms = options.deadline_ms
        self._upstream = upstream
        self._metrics = metrics
        self._placements = {CHAT: chat, COMPLETION: completion}

    def deadline(self, feed: EditFeed) -> float:
        """Seconds for deciding on and editing a request."""
        return (self._deadline_ms or (250 if feed.index.encoder else 50)) / 1000

    async def edit(
        self, endpoint: str, call: UpstreamCall, feed: EditFeed, request_id: str, *, ask: bool
    ) -> EditedRequest:
        """The body of a call under the edits that it concerns. Raises RequestError.

        endpoint: what the body is for, which is not the path of a webhook. ask: the upstream, if the gate is uncertain.
        """
        if self.mode is Mode.OFF:
            return EditedRequest(call.body, "off")
        request = None
        try:
            request = await _read(endpoint, call, feed)
            if request is None:
                return EditedRequest(call.body, "abstained")
            return await self._edit(request, call, feed, request_id, ask=ask)
        except RequestError:
            raise
        except UnreadError as problem:
            self._metrics.unread.labels(problem.reason).inc()
            if self.mode is Mode.ON and feed.enforces:
                sentence = f"an edit is enforced here, and {problem}: send one text to answer, in plain JSON"
                raise UnreadRequestError(400, "unread_body", sentence) from None
            return EditedRequest(call.body, "unread")
        except Exception as error:  # whatever is wrong with the gate, requests are answered
            report(error)
            if self.mode is Mode.ON and await self._may_be_enforced(request, feed):
                raise _not_applied() from None
            return EditedRequest(call.body, "degraded")

    async def trial(
        self, request: EditableRequest, call: UpstreamCall, feed: EditFeed, *, ask: bool
    ) -> tuple[Decision, bytes]:
        """The decision on a request, which is not recorded, and its edited body. Raises RequestError if it is late."""
        ask, until = ask and self.asks, time.perf_counter() + _SECONDS_TO_TRY
        work = partial(feed.decide, request.target.queries, verifying=ask, until=until)
        try:
            async with asyncio.timeout(_SECONDS_TO_TRY):
                decision = await feed.aside.do(work, until)
                if ask and decision.uncertain:
                    decision = await self._resolved(decision, request, call, self.deadline(feed))
                return decision, await in_daemon_thread(self.applied, request, decision)
        except TimeoutError:
            raise RequestError(503, "too_slow", "the gate is busy, or the text takes it too long: try again") from None

    def applied(self, request: EditableRequest, decision: Decision) -> bytes:
        """The body of a request under a decision, whatever the mode, with imitations of the block in it defused."""
        if not decision.applied:
            return request.body
        target, texts = request.target, request.texts
        calm = {path: defused(text) for path, text in texts.items()}
        changed = {path: text for path, text in calm.items() if text != texts[path]}
        self._metrics.defused.inc(len(changed))
        placement = self._placements[request.endpoint]
        changed[target.path] = placement.place(decision.edits, calm[target.path], target.queries[0])
        return request.with_texts(changed)

    async def _edit(
        self, request: EditableRequest, call: UpstreamCall, feed: EditFeed, request_id: str, *, ask: bool
    ) -> EditedRequest:
        """Raises TimeoutError, and RequestError where the answer about an enforced edit is missing."""
        until = time.perf_counter() + self.deadline(feed)

        def decide() -> EditedRequest | Decision:
            decision = feed.decide(request.target.queries, verifying=ask, until=until)
            return decision if ask and decision.uncertain else finish(decision)

        def finish(decision: Decision) -> EditedRequest:
            if time.perf_counter() > until:  # nobody waits for it
                raise TimeoutError
            feed.record(request_id, decision)
            if not decision.applied:
                return EditedRequest(request.body, "abstained")
            body = request.body if self.mode is Mode.SHADOW else self.applied(request, decision)
            return EditedRequest(body, "fired", decision.applied)

        result = await feed.deciding.do(decide, until)
        if isinstance(result, EditedRequest):
            return result
        seconds = _SHARE_OF_QUESTIONS * (until - time.perf_counter())
        decision = await self._resolved(result, request, call, seconds)
        if self.mode is Mode.ON and _enforced_without_answer(decision):
            feed.record(request_id, decision)
            raise _not_applied()
        return await feed.deciding.do(lambda: finish(decision), until)

    async def _resolved(
        self, decision: Decision, request: EditableRequest, call: UpstreamCall, seconds: float
    ) -> Decision:
        """A decision with the upstream's answers about its uncertain candidates, all asked at once."""
        answers = await asyncio.gather(
            *(_answer(self._upstream, call, request.values, question, seconds) for question in questions(decision))
        )
        for answer in answers:
            self._metrics.questions.labels(answer).inc()
        return decision.resolved(answers)

    async def _may_be_enforced(self, request: EditableRequest | None, feed: EditFeed) -> bool:
        """Whether a request that was not decided on names the subject of an enforced edit, or that is not known."""
        if request is None or not feed.enforces:
            return feed.enforces
        try:
            work = partial(feed.enforced, request.target.queries)
            return await feed.aside.do(work, time.perf_counter() + self.deadline(feed))
        except Exception as error:  # fail closed
            report(error)
            return True


async def _read(endpoint: str, call: UpstreamCall, feed: EditFeed) -> EditableRequest | None:
    """The request in a call; a large body is read in a thread. Raises RequestError, UnreadError, TimeoutError."""
    encoding = b",".join(value for name, value in call.headers if name == b"content-encoding")
    try:
        if len(call.body) <= SMALL and not encoding:
            return read_request(endpoint, call.body)
        work = partial(read_request, endpoint, call.body, encoding)
        return await feed.aside.do(work, time.perf_counter() + _SECONDS_TO_READ)
    except ValueError as problem:
        raise RequestError(400, "bad_request", str(problem)) from None


def report(error: Exception) -> None:
    """Log where an error arose, without its text, which might quote a request."""
    if not isinstance(error, TimeoutError):
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames]
        _LOG.error("%s in %s", type(error).__name__, " > ".join(places))


def _enforced_without_answer(decision: Decision) -> bool:
    """Whether a question failed about an edit that must not be left out."""
    records = (candidate.edit.record for candidate in decision.uncertain if candidate.answer is YesOrNo.FAILED)
    return any(record.must_apply for record in records)


def _not_applied() -> RequestError:
    return RequestError(503, "edit_not_applied", "an enforced edit could not be applied in time: try again")


async def _answer(
    upstream: Upstream, call: UpstreamCall, values: Mapping[str, Any], question: str, seconds: float
) -> YesOrNo:
    """What the upstream says to a question. It never raises.

    call, values: the request in which the question arose, and its body. seconds: until the answer counts as failed.
    """
    chat = call.path.startswith("/chat")
    asked = {"messages": [{"role": "user", "content": question}]} if chat else {"prompt": question}
    kept = {name: values[name] for name in _KEPT if name in values}
    headers = [header for header in call.headers if header[0] not in _DROPPED]
    try:
        async with asyncio.timeout(seconds):
            for limit in (_THINKING, _BRIEF) if "max_completion_tokens" in values else (_BRIEF, _THINKING):
                body = json.dumps({**kept, **asked, **limit}).encode()
                async with upstream.exchange(UpstreamCall("POST", call.path, headers, body)) as reply:
                    raw = b"".join([chunk async for chunk in reply.chunks])
                if reply.status != _BAD_REQUEST:
                    break
        choice = json.loads(raw)["choices"][0] if reply.status == _OK else {}
        return answer_of(choice["message"]["content"] if chat else choice["text"])
    except (UpstreamError, TimeoutError, ValueError, LookupError, TypeError):
        return YesOrNo.FAILED
