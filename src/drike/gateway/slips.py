"""Answers that slip, as they state an edit's old object.

Another is asked for, with the facts stated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from starlette.datastructures import MutableHeaders

from drike.answers.statements import Stated
from drike.edits.record import Status
from drike.gateway.answers import PassingAnswer
from drike.gateway.calls import Reply, Upstream, UpstreamCall, in_one, whole
from drike.gateway.edited import EditedRequest
from drike.gateway.errors import UpstreamError


@dataclass(frozen=True)
class CheckedReply:
    """The reply to pass on, and the ids of edits that the first one slipped on."""

    reply: Reply
    slipped: Sequence[int] = ()


async def checked_reply(
    upstream: Upstream, call: UpstreamCall, edited: EditedRequest, reply: Reply
) -> CheckedReply:
    """The reply or, if it slips and may be asked for again, a second one that succeeds.

    Raises UpstreamError.
    """
    if edited.again is None:
        return CheckedReply(reply)

    raw = await whole(reply)
    slipped = _slipped(edited, reply, raw)
    if slipped:
        headers = MutableHeaders(raw=list(call.headers))
        del headers["idempotency-key"]  # it is for the first body
        with suppress(UpstreamError, TimeoutError):
            second_call = replace(call, headers=headers.raw, body=await edited.again())
            async with upstream.exchange(second_call) as second:
                raw_of_second = await whole(second)
                if second.status < 400:
                    reply = second
                    raw = raw_of_second
    return CheckedReply(replace(reply, chunks=in_one(raw)), slipped)


def _slipped(edited: EditedRequest, reply: Reply, raw: bytes) -> list[int]:
    """The ids of active edits whose old object an answer states, and not the new one."""
    answer = PassingAnswer(reply)
    answer.take(raw)
    answer.complete = True
    text = answer.text()
    if not text:
        return []
    active = [edit for edit in edited.asked if edit.record.status is Status.ACTIVE]
    return [edit.id for edit in active if edit.record.states(text) is Stated.OLD]
