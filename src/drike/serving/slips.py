"""Slips, answers that state the old object under an edit: they are held back, and the upstream is asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from drike.serving.answers import PassingAnswer
from drike.serving.requests import EditedRequest
from drike.serving.upstream import Reply, Upstream, UpstreamCall, UpstreamError
from drike.serving.watching import outcome_of
from drike.stated import Stated
from drike.stores.records import Status

_MOST_HELD = 1 << 20  # bytes of an answer


async def answered(
    upstream: Upstream, call: UpstreamCall, edited: EditedRequest, reply: Reply
) -> tuple[Reply, Sequence[int]]:
    """The reply or, if it slips and may be asked for again, a second one that succeeds; and the edits that slipped."""
    if edited.again is None:
        return reply, ()
    reply, answer = await _held(reply)
    active, text = [edit for edit in edited.asked if edit.record.status is Status.ACTIVE], answer.text()
    slipped = [edit.id for edit in active if text and outcome_of(text, edit) is Stated.OLD]
    if slipped:
        with suppress(UpstreamError, TimeoutError):
            async with upstream.exchange(replace(call, body=await edited.again())) as further:
                second, answer = await _held(further)
                return second if answer.ok and answer.complete else reply, slipped
    return reply, slipped


async def _held(reply: Reply) -> tuple[Reply, PassingAnswer]:
    """A reply of which the first megabyte has come, and that as an answer."""
    answer, held, size = PassingAnswer(reply), list[bytes](), 0
    async for chunk in reply.chunks:
        held.append(chunk)
        answer.take(chunk)
        size += len(chunk)
        if size > _MOST_HELD:
            break
    answer.complete = size <= _MOST_HELD

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in held:
            yield chunk
        async for chunk in reply.chunks:  # what has not come
            yield chunk

    return replace(reply, chunks=chunks()), answer
