"""Slips, answers that state the old object under an edit: they are held back, and the upstream is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from drike.serving.answers import PassingAnswer
from drike.serving.requests import EditedRequest
from drike.serving.upstream import Reply, Upstream, UpstreamCall, UpstreamError, in_one, whole
from drike.stated import Stated
from drike.stores.records import Status


async def answered(
    upstream: Upstream, call: UpstreamCall, edited: EditedRequest, reply: Reply
) -> tuple[Reply, Sequence[int]]:
    """The reply or, if it slips and may be asked for again, a second one that succeeds; and the edits that slipped."""
    if edited.again is None:
        return reply, ()
    answer, raw = PassingAnswer(reply), await whole(reply)
    answer.take(raw)
    answer.complete = True
    active, text = [edit for edit in edited.asked if edit.record.status is Status.ACTIVE], answer.text()
    slipped = [edit.id for edit in active if text and edit.record.states(text) is Stated.OLD]
    if slipped:
        with suppress(UpstreamError, TimeoutError):
            async with upstream.exchange(replace(call, body=await edited.again())) as second:
                further = await whole(second)
                reply, raw = (second, further) if second.status < 400 else (reply, raw)
    return replace(reply, chunks=in_one(raw)), slipped
