"""Decides which edits a request concerns, and puts them into its text, within a deadline.

A request on which the gate fails or is late goes out unedited; it is refused instead if it names
the subject of an edit that is enforced. A request that cannot be read goes out unedited, too; it is
refused if any edit is enforced.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from starlette.datastructures import Headers

from drike.conversations.following import Followed
from drike.conversations.imitations import imitates_in_keys, texts_in
from drike.conversations.memory import Memory, Standing
from drike.conversations.rendering import Placement, Restating, added_tokens
from drike.conversations.turns import Api, Conversation, Speaker, UnreadError
from drike.gates.decision import Decision
from drike.gateway.bodies import SMALL
from drike.gateway.calls import UpstreamCall, header_text
from drike.gateway.edited import LONGEST_QUESTION, EditedRequest
from drike.gateway.errors import RequestError, report
from drike.gateway.feed import EditFeed
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.requests import CHAT, COUNTS_TOKENS, EditableRequest, read_request
from drike.gateway.unseen import (
    ENDS_UNASKED,
    leaves_out,
    unclear_header,
    unclear_model,
    unread_question,
)
from drike.support.records import encodable

# Stands for a client's call where an operator tries a chat.
TRIAL = UpstreamCall("POST", CHAT, [(b"content-type", b"application/json")], b"")
_SECONDS_TO_READ = 5.0  # for a large body
_SECONDS_TO_TRY = 10.0  # for a chat that an operator tries
_USUAL_DEADLINE = 0.05  # seconds to decide on and edit a request
_DEADLINE_WITH_ENCODER = 0.25
# A request has as many deadlines as turns of its user, up to this many: after a restart, none of
# them has been decided on here.
_MOST_DEADLINES = 8
# So many of what tools returned have one more, up to this many: an agent may send hundreds at once.
_SOURCES_OF_DEADLINE = 8
_MOST_DEADLINES_OF_SOURCES = 32


_IMITATED_IN_KEY = (
    "a key of the body imitates the delimiters of the gateway's facts: give it another name"
)


@dataclass(frozen=True)
class _Task:
    """A request to be edited.

    is_read: whether it is known that no question hides in the request. is_trial: whether an
    operator tries the request, so that no client waits and nothing is remembered. states_twice:
    whether the facts of a question are stated behind it, too.
    """

    request: EditableRequest
    call: UpstreamCall
    feed: EditFeed
    is_read: bool = False
    is_trial: bool = False
    states_twice: bool = False

    @property
    def conditions(self) -> Mapping[str, str]:
        """What conditions of edits are compared with: the model, and the headers."""
        headers = {
            name.decode("latin-1").lower(): header_text(value).strip()
            for name, value in self.call.headers
        }
        return {**headers, "model": str(self.request.values.get("model") or "")}


@dataclass(frozen=True)
class _Written:
    """The facts that the turns of a request get, and its body with them.

    left_out: whether an enforced edit gets none though the last turn, which is neither a user's nor
    a tool's, names its subject: what a model would answer is in no question of a user.
    """

    followed: Followed
    body: bytes
    left_out: bool = False


class RequestEditor:
    """Edits requests, in steps: read, view, follow, render, splice.

    `edit` reads a request. `_write` then runs in a thread: it views the edits of this moment,
    follows the conversation under them, renders the facts and splices them in.

    chat, completion: how edits are written into chats, and into prompts to complete.
    """

    def __init__(
        self,
        *,
        chat: Placement,
        completion: Placement,
        options: GatewayOptions,
        metrics: Metrics,
    ) -> None:
        self.mode = Mode(options.mode or Mode.SHADOW)
        self.placements = defaultdict(lambda: chat, {Api.COMPLETIONS: completion})
        self._options = options
        self._metrics = metrics

    def mode_for(self, feed: EditFeed, conversation: Conversation | None = None) -> Mode:
        """What is done with a request of a tenant.

        conversation: the request's; None for one that is not read.
        """
        return feed.switch.mode_of(conversation, self.mode)

    def deadline(self, feed: EditFeed, asking_turns: int = 1, sources: int = 0) -> float:
        """Seconds for deciding on a request and editing it.

        asking_turns: how many turns of its user it has. Each has the same time, as the earlier ones
        may never have been decided on here, either. sources: how many turns of tools it has.
        """
        if self._options.deadline_ms:
            seconds = self._options.deadline_ms / 1000
        else:
            seconds = _DEADLINE_WITH_ENCODER if feed.index.encoder else _USUAL_DEADLINE
        of_turns = max(1, min(asking_turns, _MOST_DEADLINES))
        of_sources = min(sources // _SOURCES_OF_DEADLINE, _MOST_DEADLINES_OF_SOURCES)
        return seconds * (of_turns + of_sources)

    async def edit(
        self, api: Api, call: UpstreamCall, feed: EditFeed, request_id: str
    ) -> EditedRequest:
        """The call's request under the edits that it concerns. Raises RequestError."""
        edited = await self._edited_or_as_it_is(api, call, feed, request_id)
        if call.endpoint in COUNTS_TOKENS:  # no model answers
            return replace(edited, asked=(), keep=None)
        # What is noted has no text of the request but the question, by which its answer is judged.
        outcome = replace(
            edited, body=b"", keep=None, again=None, unedited=None, decision=None, request=None
        )
        return replace(edited, note=partial(feed.watch.note, outcome, metrics=self._metrics))

    async def _edited_or_as_it_is(
        self, api: Api, call: UpstreamCall, feed: EditFeed, request_id: str
    ) -> EditedRequest:
        """The call's request edited or, where that fails, as it came.

        Raises RequestError, also where it fails and an edit is enforced.
        """
        mode = self.mode_for(feed)
        if mode is Mode.OFF:
            return EditedRequest(call.body, "off", mode)
        request = None
        try:
            request = await _read(api, call, feed)
            mode = self.mode_for(feed, request.conversation)
            task = _Task(request, call, feed)
            if mode is Mode.ON and feed.enforces:
                await self._require_clear(task, feed.enforced_conditions)
            if mode is Mode.ON and feed.enforces_for(task.conditions):
                await self._require(task, partial(unread_question, request, feed.earlier))
                task = replace(task, is_read=True)
            if not request.asks_something:
                return EditedRequest(call.body, "abstained", mode, request=request)
            return await self._with_facts(task, request_id, mode)
        except RequestError:
            raise
        except UnreadError as problem:
            return self.unread(call, feed, problem)
        except Exception as error:  # whatever is wrong with the gate, requests are answered
            report(error)
            if mode is Mode.ON and await self._may_be_enforced(request, call, feed):
                raise _not_applied() from None
            return EditedRequest(call.body, "degraded", mode)

    async def _with_facts(self, task: _Task, request_id: str, mode: Mode) -> EditedRequest:
        """The request with its facts. Raises TimeoutError, RequestError."""
        written = await self._written(task)
        followed = written.followed
        if followed.decision:
            task.feed.record(request_id, followed.decision)
        if written.left_out:
            raise self._refused(ENDS_UNASKED)
        if mode is Mode.ON and followed.around and imitates_in_keys(task.request.values):
            raise RequestError(400, "imitated_block", _IMITATED_IN_KEY)
        self._metrics.conflicts.inc(len(followed.contradicted))

        request = task.request
        uncertain = followed.decision.uncertain if followed.decision else ()
        wants_echo = bool(request.values.get("echo"))  # the answer begins with the facts
        has_facts = mode is Mode.ON and written.body is not request.body
        return EditedRequest(
            body=written.body if mode is Mode.ON else request.body,
            scope="fired" if followed.edits else "abstained",
            mode=mode,
            edits=followed.edits,
            contradicted=followed.contradicted,
            keep=_keeper(task, followed),
            model=request.values.get("model"),
            asked=() if wants_echo else followed.asked,
            doubted=tuple(candidate.edit for candidate in uncertain),
            tokens=added_tokens(followed.around.values()),
            again=self._second_try(task, followed, mode),
            question=_question(request, followed)[:LONGEST_QUESTION],
            unedited=request.json if has_facts else None,
            decision=followed.decision,
            request=request,
        )

    async def _written(self, task: _Task) -> _Written:
        """What `_write` returns in the time that there is for it. Raises TimeoutError."""
        feed = task.feed
        began = time.perf_counter()
        turns = task.request.conversation.turns
        asking_turns = sum(turn.speaker in (Speaker.USER, Speaker.BESIDE) for turn in turns)
        sources = sum(turn.speaker is Speaker.TOOL for turn in turns)
        seconds = self.deadline(feed, asking_turns, sources)
        if task.is_trial:
            thread = feed.aside
            memory = Memory()
            until = began + _SECONDS_TO_TRY
        else:
            thread = feed.deciding
            memory = None
            until = began + seconds

        return await thread.do(partial(self._write, task, memory=memory, until=until), until)

    def _write(self, task: _Task, *, memory: Memory | None, until: float) -> _Written:
        """Follow the conversation under the edits of this moment, and splice the facts into it.

        Raises TimeoutError if late.
        """
        conversation = task.request.conversation
        placement = self.placements[conversation.api]
        if task.states_twice:
            placement = Restating(placement)
        # View.
        follower = task.feed.follower(
            placement,
            sources=self._options.tool_results == "on",
            until=until,
            memory=memory,
            values=task.conditions,
        )
        # Follow.
        standing = task.feed.earlier.standing(conversation.before, follower.index)
        followed = follower.follow(conversation, standing)
        left_out = task.is_read and leaves_out(conversation, followed, task.feed, follower.index)

        # Render.
        values = task.request.values
        new_texts = followed.texts(conversation, values)
        # A text that is not part of its new one had delimiters of a block in it.
        old_texts = texts_in(values) if new_texts else {}
        defused = [path for path, text in new_texts.items() if old_texts[path] not in text]
        self._metrics.defused.inc(len(defused))

        # Splice.
        body = task.request.with_texts(new_texts) if new_texts else task.request.body
        if time.perf_counter() > until:  # nobody waits for it
            raise TimeoutError
        return _Written(followed, body, left_out)

    def _second_try(
        self, task: _Task, followed: Followed, mode: Mode
    ) -> Callable[[], Awaitable[bytes]] | None:
        """What writes the body of a second request, in case the answer to the first slips.

        None where there is no second request.
        """
        conversation = task.request.conversation
        may_retry = (
            self._options.retry_slips
            and mode is Mode.ON
            and conversation.api is not Api.COMPLETIONS
            and not task.request.values.get("stream")
        )
        if not may_retry or not followed.asked:
            return None

        async def body_with_facts_twice() -> bytes:
            written = await self._written(replace(task, states_twice=True))
            return written.body

        return body_with_facts_twice

    async def trial(self, chat: EditableRequest, feed: EditFeed) -> tuple[Decision, bytes]:
        """The decision on a chat that ends in a question, and the chat's body as it is edited.

        Neither is recorded. Raises RequestError if it takes too long.
        """
        task = _Task(chat, replace(TRIAL, tenant=feed.tenant), feed, is_trial=True)
        try:
            async with asyncio.timeout(_SECONDS_TO_TRY):
                written = await self._written(task)
        except TimeoutError:
            raise RequestError(
                503, "too_slow", "the gate is busy, or the text takes it too long: try again"
            ) from None
        decision = written.followed.decision
        assert decision, "a chat that ends in a question is decided on"  # noqa: S101
        return decision, written.body

    def unread(self, call: UpstreamCall, feed: EditFeed, problem: UnreadError) -> EditedRequest:
        """A call that cannot be read, to be passed on as it is.

        Raises RequestError where an edit is enforced.
        """
        mode = self.mode_for(feed)
        if mode is Mode.OFF:
            return EditedRequest(call.body, "off", mode)
        self._metrics.unread.labels(problem.reason).inc()
        if mode is Mode.ON and feed.enforces:
            raise _not_read(problem)
        return EditedRequest(call.body, "unread", mode)

    async def _require_clear(self, task: _Task, conditions: set[str]) -> None:
        """Raises RequestError where a request does not clearly say what conditions depend on."""
        problem = unclear_header(task.call.headers, conditions)
        if problem:
            raise self._refused(problem)
        if "model" in conditions:
            await self._require(task, partial(unclear_model, task.request))

    async def _require(self, task: _Task, looking: Callable[[], UnreadError | None]) -> None:
        """Raises RequestError for what is found wrong with a request while an edit is enforced."""
        if len(task.call.body) <= SMALL:
            problem = looking()
        else:
            problem = await task.feed.aside.do(looking, time.perf_counter() + _SECONDS_TO_READ)
        if problem:
            raise self._refused(problem)

    def _refused(self, problem: UnreadError) -> RequestError:
        """What refuses a request in which a question about an enforced edit may hide."""
        self._metrics.unread.labels(problem.reason).inc()
        return _not_read(problem)

    async def _may_be_enforced(
        self, request: EditableRequest | None, call: UpstreamCall, feed: EditFeed
    ) -> bool:
        """Whether a request that was not decided on may name the subject of an enforced edit."""
        if not feed.enforces:
            return False
        if request is None:  # it was not read, so that it may name any subject
            return True
        try:
            texts = _texts_to_look_up(request.conversation)
            conditions = _Task(request, call, feed).conditions
            earlier = feed.earlier.standing(request.conversation.before, feed.index) or Standing()
            names_enforced = partial(feed.enforced, texts, conditions, earlier.edit_ids)
            return await feed.aside.do(names_enforced, time.perf_counter() + self.deadline(feed))
        except Exception as error:  # fail closed
            report(error)
            return True


def _texts_to_look_up(conversation: Conversation) -> list[str]:
    """The texts in which a gate may find a name: each turn, and what the user says in several."""
    turns = [encodable(turn.said) for turn in conversation.turns]
    texts = [encodable(text) for text in conversation.texts.values()]
    users = [
        encodable(turn.said)
        for turn in conversation.turns
        if turn.speaker in (Speaker.USER, Speaker.BESIDE)
    ]
    return list(dict.fromkeys((*turns, *texts, "\n".join(users))))


async def _read(api: Api, call: UpstreamCall, feed: EditFeed) -> EditableRequest:
    """The request in a call; a large body is read in a thread.

    Raises RequestError, UnreadError, TimeoutError.
    """
    encoding = ",".join(Headers(raw=call.headers).getlist("content-encoding"))
    try:
        if len(call.body) <= SMALL and not encoding:
            return read_request(api, call.body)
        reading = partial(read_request, api, call.body, encoding)
        return await feed.aside.do(reading, time.perf_counter() + _SECONDS_TO_READ)
    except ValueError as problem:
        raise RequestError(400, "bad_request", str(problem)) from None


def _keeper(task: _Task, followed: Followed) -> Callable[[str], None] | None:
    """What remembers the edits of a conversation, given the id under which the upstream stores it.

    None where the upstream stores none, or there is nothing to remember.
    """
    conversation = task.request.conversation
    if conversation.api is not Api.RESPONSES:
        return None
    earlier = task.feed.earlier
    before = conversation.before
    standing = followed.standing
    # Without edits now, those of earlier turns are to be replaced by none.
    had_edits = earlier.standing(before, task.feed.index) is not None
    if not standing.edits and not had_edits and not task.is_read:
        return None
    if before and conversation.stays:
        return partial(earlier.keep, before, standing=standing)
    return partial(earlier.keep, standing=standing, is_read=task.is_read)


def _question(request: EditableRequest, followed: Followed) -> str:
    """What the user asks last; "" if no turn of theirs has been decided on."""
    if request.conversation.said:
        return request.conversation.said
    return followed.decisions[-1].query if followed.decisions else ""


def _not_read(problem: UnreadError) -> RequestError:
    sentence = f"an edit is enforced here, and {problem}: {problem.remedy}"
    return RequestError(400, "unread_body", sentence, "unread")


def _not_applied() -> RequestError:
    return RequestError(
        503, "edit_not_applied", "an enforced edit could not be applied in time: try again"
    )
