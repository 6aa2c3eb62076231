"""A request becomes an edited request: decide which edits it concerns, and put them into its text, within a deadline.

Where the gate fails or is late, the request goes out unedited, unless it names the subject of an edit that is enforced;
so does a request that cannot be read, unless any edit is enforced.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from drike.conversations.following import Followed, Memory
from drike.conversations.rendering import Placement, Restating, added_tokens
from drike.conversations.turns import Api, Conversation, Speaker, UnreadError
from drike.gates.confirmation import answer_of, questions
from drike.gates.decision import Decision, YesOrNo
from drike.gateway.http.relay import RequestError, text_of
from drike.gateway.http.upstream import Upstream, UpstreamCall, UpstreamError, header_text, whole
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.requests import (
    CHAT,
    COUNTS_TOKENS,
    SMALL,
    EditableRequest,
    EditedRequest,
    read_request,
)
from drike.gateway.tenants import Answers, EditFeed, UnansweredError
from drike.models.served.quirks import NEWER_LIMIT, for_newer_models
from drike.support.records import encodable

if TYPE_CHECKING:
    from drike.gateway.http.routes import Metrics

TRIAL = UpstreamCall(
    "POST", CHAT, [(b"content-type", b"application/json")], b""
)  # whoever tries a chat
_LOG = logging.getLogger(__name__)
_SECONDS_TO_READ = 5.0  # a large body
_SECONDS_TO_TRY = 10.0  # what an operator waits for
_MOST_DEADLINES = 8  # for turns that have not been decided on here before, as after a restart
_MOST_ASKED = (
    8  # turns of a request about which the upstream is asked, with all edits of each at once
)
_SHARE_OF_QUESTIONS = 0.9  # of the time that is left; the rest is for editing
_PROMPTS = {
    Api.COMPLETIONS: "prompt",
    Api.RESPONSES: "input",
}  # where a request has its text; others have messages
_KEPT = ("model", "reasoning_effort", "chat_template_kwargs")  # who answers, and how much it thinks
# Limits on an answer; status 400 leads to the next ones.
_BRIEF: Mapping[str, object] = {"max_tokens": 16, "temperature": 0}
_THINKING = {**for_newer_models(_BRIEF), NEWER_LIMIT: 512}
_LIMITS = {
    Api.RESPONSES: ({"max_output_tokens": 512, "store": False},),
    Api.MESSAGES: (_BRIEF, {"max_tokens": 512}),
}
_DROPPED = frozenset((b"accept", b"accept-encoding", b"content-encoding", b"idempotency-key"))


class RequestEditor:
    """Edits requests. chat, completion: how edits are written into chats, and into prompts to complete."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        chat: Placement,
        completion: Placement,
        options: GatewayOptions,
        metrics: Metrics,
    ) -> None:
        self.mode, self.asks = Mode(options.mode or Mode.SHADOW), options.ask
        self._upstream, self._options, self._metrics = upstream, options, metrics
        self.placements = defaultdict(lambda: chat, {Api.COMPLETIONS: completion})

    def mode_for(self, feed: EditFeed, conversation: Conversation | None = None) -> Mode:
        """What is done with a conversation of a tenant; None for a request that is not read."""
        return feed.switch.mode_of(conversation, self.mode)

    def deadline(self, feed: EditFeed, turns: int = 1) -> float:
        """Seconds for deciding on and editing a request; so many more for earlier turns, which may be new here, too."""
        seconds = (self._options.deadline_ms or (250 if feed.index.encoder else 50)) / 1000
        return seconds * max(1, min(turns, _MOST_DEADLINES))

    async def edit(
        self, api: Api, call: UpstreamCall, feed: EditFeed, request_id: str, *, ask: bool
    ) -> EditedRequest:
        """The body of a call under the edits that it concerns. ask: the upstream, if uncertain. Raises RequestError."""
        mode, request = self.mode_for(feed), None
        edited = EditedRequest(call.body, "off" if mode is Mode.OFF else "abstained", mode)
        try:
            if mode is not Mode.OFF and (request := await _read(api, call, feed)):
                mode = self.mode_for(feed, request.conversation)
                edited = await self._edit(request, call, feed, request_id, mode=mode, ask=ask)
        except RequestError:
            raise
        except UnreadError as problem:
            edited = self.unread(call, feed, problem)
        except Exception as error:  # whatever is wrong with the gate, requests are answered
            report(error)
            if mode is Mode.ON and await self._may_be_enforced(request, call, feed):
                raise _not_applied() from None
            edited = EditedRequest(call.body, "degraded", mode)
        if call.path.partition("?")[0] in COUNTS_TOKENS:
            return replace(edited, asked=(), keep=None)
        outcome = replace(
            edited, body=b"", keep=None, again=None
        )  # without any text but a sample's
        return replace(edited, note=partial(feed.watch.note, outcome, metrics=self._metrics))

    def unread(self, call: UpstreamCall, feed: EditFeed, problem: UnreadError) -> EditedRequest:
        """A call that cannot be read passes as it is. Raises RequestError where an edit is enforced."""
        mode = self.mode_for(feed)
        if mode is Mode.OFF:
            return EditedRequest(call.body, "off", mode)
        self._metrics.unread.labels(problem.reason).inc()
        if mode is Mode.ON and feed.enforces:
            sentence = (
                f"an edit is enforced here, and {problem}: send one text to answer, in plain JSON"
            )
            raise RequestError(400, "unread_body", sentence, "unread")
        return EditedRequest(call.body, "unread", mode)

    async def trial(
        self, chat: EditableRequest, feed: EditFeed, *, ask: bool = True
    ) -> tuple[Decision, bytes]:
        """The decision on a chat that ends in a question, not recorded, and its body. Raises RequestError if late."""
        try:
            async with asyncio.timeout(_SECONDS_TO_TRY):
                followed, body = await self._followed(
                    chat, TRIAL, feed, ask=ask and self.asks, trying=True
                )
        except TimeoutError:
            raise RequestError(
                503, "too_slow", "the gate is busy, or the text takes it too long: try again"
            ) from None
        assert followed.decision, "a request of one message"  # noqa: S101
        return followed.decision, body

    async def _edit(
        self,
        request: EditableRequest,
        call: UpstreamCall,
        feed: EditFeed,
        request_id: str,
        *,
        mode: Mode,
        ask: bool,
    ) -> EditedRequest:
        """Raises TimeoutError, and RequestError where the answer about an enforced edit is missing."""
        followed, body = await self._followed(request, call, feed, ask=ask)
        if followed.decision:
            feed.record(request_id, followed.decision)
        uncertain = (
            candidate for decision in followed.decisions for candidate in decision.uncertain
        )
        failed = (
            candidate.edit.record for candidate in uncertain if candidate.answer is YesOrNo.FAILED
        )
        conversation, standing = request.conversation, followed.standing
        if mode is Mode.ON and any(record.must_apply for record in failed):
            raise _not_applied()
        self._metrics.conflicts.inc(len(followed.contradicted))
        before = conversation.before
        same = (before,) if before and conversation.stays else ()
        kept = conversation.api is Api.RESPONSES and (
            standing.edits or feed.earlier.standing(before, feed.index)
        )
        keep = partial(feed.earlier.keep, *same, standing=standing) if kept else None
        doubted = (
            tuple(candidate.edit for candidate in followed.decision.uncertain)
            if followed.decision
            else ()
        )
        retries = (
            self._options.retry_slips
            and mode is Mode.ON
            and conversation.api is not Api.COMPLETIONS
        )
        question = conversation.said or "".join(
            decision.query for decision in followed.decisions[-1:]
        )

        async def again() -> bytes:
            return (await self._followed(request, call, feed, ask=ask, twice=True))[1]

        return EditedRequest(
            body if mode is Mode.ON else request.body, "fired" if followed.edits else "abstained", mode,
            followed.edits, followed.contradicted, keep, model=request.values.get("model"),
            asked=() if request.values.get("echo") else followed.asked, doubted=doubted,
            tokens=added_tokens(followed.around.values()),
            again=again if retries and followed.asked and not request.values.get("stream") else None,
            question=question if feed.watch.sampling.most else "",
        )  # fmt: skip

    async def _followed(
        self, request: EditableRequest, call: UpstreamCall, feed: EditFeed, *, ask: bool, trying: bool = False,
        twice: bool = False,  # state the facts of questions behind them, too
    ) -> tuple[Followed, bytes]:  # fmt: skip
        """What a request gets, and its edited body. TimeoutError if late. trying: no client waits."""
        conversation, turns, began = (
            request.conversation,
            request.conversation.turns,
            time.perf_counter(),
        )
        seconds = self.deadline(
            feed, sum(turn.speaker in (Speaker.USER, Speaker.BESIDE) for turn in turns)
        )
        until = began + (_SECONDS_TO_TRY if trying else seconds)
        asked_until = began + seconds * (1 if trying else _SHARE_OF_QUESTIONS)
        thread, memory = (feed.aside, Memory()) if trying else (feed.deciding, None)
        answers = Answers() if trying or not ask else feed.answered.copy()

        def follow() -> tuple[Followed, bytes]:
            given, sources = answers if ask else None, self._options.tool_results == "on"
            placement = self.placements[conversation.api]
            placement = Restating(placement) if twice else placement
            values = _values(request, call)
            reader = feed.follower(
                placement, sources=sources, answers=given, until=until, memory=memory, values=values
            )
            followed = reader.follow(
                conversation, feed.earlier.standing(conversation.before, reader.index)
            )
            changed, sent = followed.texts(conversation), conversation.texts
            self._metrics.defused.inc(sum(sent[path] not in text for path, text in changed.items()))
            body = request.with_texts(changed) if changed else request.body
            if time.perf_counter() > until:  # nobody waits for it
                raise TimeoutError
            return followed, body

        for _ in range(_MOST_ASKED):
            try:
                return await thread.do(follow, until)
            except UnansweredError as missing:
                (decision, keys), left = missing.args, asked_until - time.perf_counter()
                said = await asyncio.gather(
                    *(self._answer(call, request, q, left) for q in questions(decision))
                )
                new = dict(zip(keys, said, strict=True))
                answers |= new
                if not trying:
                    feed.remember(new)
        raise TimeoutError

    async def _answer(
        self, call: UpstreamCall, request: EditableRequest, question: str, seconds: float
    ) -> YesOrNo:
        """What the upstream says to a question within so many seconds; it never raises. call, request: of the user."""
        api, values, answer = request.conversation.api, request.values, YesOrNo.FAILED
        asked = (
            {_PROMPTS[api]: question}
            if api in _PROMPTS
            else {"messages": [{"role": "user", "content": question}]}
        )
        kept = {name: values[name] for name in _KEPT if name in values}
        of_chats = (_THINKING, _BRIEF) if NEWER_LIMIT in values else (_BRIEF, _THINKING)
        limits = _LIMITS.get(api, of_chats)
        headers = [header for header in call.headers if header[0] not in _DROPPED]
        path = (
            f"/{call.path.partition('?')[0].split('/')[1]}"
            if api in (Api.RESPONSES, Api.MESSAGES)
            else call.path
        )
        with suppress(
            UpstreamError, TimeoutError, ValueError, LookupError, TypeError, AttributeError
        ):
            async with asyncio.timeout(seconds):
                for limit in limits:
                    body = json.dumps({**kept, **asked, **limit}).encode()
                    async with self._upstream.exchange(
                        UpstreamCall("POST", path, headers, body)
                    ) as reply:
                        raw = await whole(reply)
                    if reply.status != 400:
                        break
            if reply.status == 200:
                answer = answer_of(text_of(json.loads(raw)))
        self._metrics.questions.labels(answer).inc()
        return answer

    async def _may_be_enforced(
        self, request: EditableRequest | None, call: UpstreamCall, feed: EditFeed
    ) -> bool:
        """Whether a request that was not decided on names the subject of an enforced edit, or that is not known."""
        if request is None or not feed.enforces:
            return feed.enforces
        try:
            said = [encodable(turn.said) for turn in request.conversation.turns]
            work = partial(feed.enforced, said, _values(request, call))
            return await feed.aside.do(work, time.perf_counter() + self.deadline(feed))
        except Exception as error:  # fail closed
            report(error)
            return True


async def _read(api: Api, call: UpstreamCall, feed: EditFeed) -> EditableRequest | None:
    """The request in a call; a large body is read in a thread. Raises RequestError, UnreadError, TimeoutError."""
    encoding = b",".join(value for name, value in call.headers if name == b"content-encoding")
    try:
        if len(call.body) <= SMALL and not encoding:
            return read_request(api, call.body)
        work = partial(read_request, api, call.body, encoding)
        return await feed.aside.do(work, time.perf_counter() + _SECONDS_TO_READ)
    except ValueError as problem:
        raise RequestError(400, "bad_request", str(problem)) from None


def _values(request: EditableRequest, call: UpstreamCall) -> Mapping[str, str]:
    """What conditions of edits are compared with (`audience.applies`)."""
    headers = {name.decode("latin-1").lower(): header_text(value) for name, value in call.headers}
    return {**headers, "model": str(request.values.get("model") or "")}


def report(error: Exception) -> None:
    """Log where an error arose, without its text, which might quote a request."""
    if not isinstance(error, TimeoutError):
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames]
        _LOG.error("%s in %s", type(error).__name__, " > ".join(places))


def _not_applied() -> RequestError:
    return RequestError(
        503, "edit_not_applied", "an enforced edit could not be applied in time: try again"
    )
