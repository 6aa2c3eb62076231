"""Answers that slip, as they state an edit's old object.

Another is asked for, with the facts stated twice. It takes the place of the first one only if it is
as complete an answer and does not slip, and the first one waits for it no longer than `_patience`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from starlette.datastructures import Headers, MutableHeaders

from drike.answers.statements import Stated
from drike.answers.time_limit import OverTimeError, TimeLimit
from drike.edits.record import EditVersion, Status
from drike.gateway.answers import LONGEST_READ, PassingAnswer
from drike.gateway.calls import Reply, Upstream, UpstreamCall, in_one
from drike.gateway.edited import EditedRequest
from drike.gateway.errors import UpstreamError, report
from drike.gateway.http.threads import in_daemon_thread

_SECONDS_OF_ANSWER = 0.5  # that judging an answer may take, after which it counts as no slip
_LEAST_PATIENCE = 5.0  # seconds
_MOST_PATIENCE = 30.0
# What APIs call the end of an answer that is not all that the model would say.
_CUT = ("length", "max_tokens", "incomplete", "content_filter", "refusal", "in_progress")


@dataclass(frozen=True)
class CheckedReply:
    """The reply to pass on, and the ids of edits that the first one slipped on."""

    reply: Reply
    slipped: Sequence[int] = ()


@dataclass(frozen=True)
class _Held:
    """A reply that is held back. raw: what has come of it. complete: whether that is all."""

    reply: Reply
    raw: bytes
    complete: bool

    @property
    def passed_on(self) -> Reply:
        """The reply with what was held back, and what may still come."""
        chunks = in_one(self.raw)
        if not self.complete:
            chunks = _one_after_the_other(chunks, self.reply.chunks)
        return replace(self.reply, chunks=chunks)


async def checked_reply(
    upstream: Upstream, call: UpstreamCall, edited: EditedRequest, reply: Reply, began: float
) -> CheckedReply:
    """The reply or, if it slips and may be asked for again, a second one that succeeds.

    began: when the call was sent, by `time.perf_counter`. Raises UpstreamError.
    """
    if edited.again is None or not PassingAnswer(reply).is_json:
        return CheckedReply(reply)
    first = await _held(reply)
    slipped = await _slipped(edited, first)
    if not slipped:
        return CheckedReply(first.passed_on)

    second = None
    try:
        async with asyncio.timeout(_patience(time.perf_counter() - began)):
            second = await _second(upstream, call, edited)
    except (UpstreamError, TimeoutError):
        pass
    except Exception as error:  # of any kind, as there is an answer to give
        report(error)
    if second and _is_like(second, first) and await _slipped(edited, second) == []:
        return CheckedReply(second.passed_on, slipped)
    return CheckedReply(first.passed_on, slipped)


def _patience(seconds: float) -> float:
    """How many seconds a first answer that took so many waits for a second one."""
    return min(max(2 * seconds, _LEAST_PATIENCE), _MOST_PATIENCE)


async def _second(upstream: Upstream, call: UpstreamCall, edited: EditedRequest) -> _Held:
    """What the upstream answers when it is asked again. Raises UpstreamError."""
    assert edited.again  # noqa: S101 - it was looked at
    headers = MutableHeaders(raw=list(call.headers))
    del headers["idempotency-key"]  # it is for the first body
    second_call = replace(call, headers=headers.raw, body=await edited.again())
    async with upstream.exchange(second_call) as reply:
        return await _held(reply)


async def _held(reply: Reply) -> _Held:
    """A reply up to the longest that is judged; what follows still comes. Raises UpstreamError."""
    raw = bytearray()
    async for chunk in reply.chunks:
        raw += chunk
        if len(raw) > LONGEST_READ:
            return _Held(reply, bytes(raw), complete=False)
    return _Held(reply, bytes(raw), complete=True)


async def _slipped(edited: EditedRequest, held: _Held) -> list[int] | None:
    """The ids of active edits whose old object an answer states, and not the new one.

    None for an answer that says nothing, or that cannot be judged.
    """
    answer = PassingAnswer(held.reply)
    answer.take(held.raw)
    answer.complete = held.complete
    text = answer.text()
    if not text:
        return None
    active = [edit for edit in edited.asked if edit.record.status is Status.ACTIVE]
    with suppress(OverTimeError):
        return await in_daemon_thread(_states_old, active, text, edited.question)
    return None


def _states_old(edits: Sequence[EditVersion], text: str, question: str) -> list[int]:
    """The ids of edits whose old object the answer to a question states alone.

    Raises OverTimeError.
    """
    limit = TimeLimit(_SECONDS_OF_ANSWER)
    stated = [edit.record.states(text, question, limit) for edit in edits]
    return [edit.id for edit, says in zip(edits, stated, strict=True) if says is Stated.OLD]


def _is_like(second: _Held, first: _Held) -> bool:
    """Whether a second answer can take the place of a first one: as complete, of the same form."""
    if not second.complete or second.reply.status != first.reply.status:
        return False
    form = _form(second)
    form_of_first = _form(first)
    if form is None or form_of_first is None or (form.is_cut and not form_of_first.is_cut):
        return False
    return replace(form, is_cut=form_of_first.is_cut) == form_of_first


@dataclass(frozen=True)
class _Form:
    """What two answers have in common, one of which could stand for the other.

    kind: the name of the object. is_cut: whether the model ended before its answer did.
    """

    media_type: str
    kind: object
    choices: int
    is_cut: bool


def _form(held: _Held) -> _Form | None:
    """The form of an answer; None for what is no JSON object."""
    media_type = Headers(raw=held.reply.headers).get("content-type", "").partition(";")[0]
    try:
        values = json.loads(held.raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    choices = values.get("choices")
    choices = choices if isinstance(choices, list) else []
    ends = [choice.get("finish_reason") for choice in choices if isinstance(choice, dict)]
    ends += [values.get("status"), values.get("stop_reason")]
    return _Form(
        media_type.strip().casefold(),
        values.get("object", values.get("type")),
        len(choices),
        any(end in _CUT for end in ends),
    )


async def _one_after_the_other(
    first: AsyncIterator[bytes], second: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    async for chunk in first:
        yield chunk
    async for chunk in second:
        yield chunk
