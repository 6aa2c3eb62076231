"""The text of an answer, read while it passes: JSON or a stream of events, in the forms of four APIs.

A slip is an answer that states the old object under an edit: it is held back, and the upstream is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from drike.serving.requests import EditedRequest
from drike.serving.upstream import Reply, Upstream, UpstreamCall, UpstreamError, in_one, whole
from drike.stated import Stated
from drike.stores.records import Status

_MOST_TEXT = 64 << 10  # characters; what follows is not read
_MOST_RAW = 1 << 20  # bytes of an answer in JSON, or of one event
_BATCH = 8 << 10  # bytes of a stream that are read at once
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OK = 200


class PassingAnswer:
    """An answer as its chunks pass. slipped: ids of edits whose old object an answer before it stated.

    complete: set once its last chunk has passed. ok: whether it is no error.
    """

    def __init__(self, reply: Reply, slipped: Sequence[int] = ()) -> None:
        headers = {name: value.strip().lower() for name, value in reply.headers}
        kind, plain = headers.get(b"content-type", b""), headers.get(b"content-encoding", b"identity") == b"identity"
        self._streams = kind.startswith(b"text/event-stream")
        self._readable = reply.status == _OK and plain and (self._streams or b"json" in kind)
        self._raw: list[bytes] = []
        self._due, self._text = _BATCH, ""
        self._size = 0  # bytes that are not read yet
        self.ok, self.complete, self.slipped = reply.status < 400, False, slipped

    def take(self, chunk: bytes) -> None:
        """Hold a chunk that was passed on; of a stream, what is long enough is read."""
        if not self._readable or len(self._text) >= _MOST_TEXT:
            return
        self._raw.append(chunk)
        self._size += len(chunk)
        if self._streams and self._size > self._due:
            self._read()
        if self._size > _MOST_RAW:
            self.drop()

    @property
    def held(self) -> int:
        """About how many bytes of it are in memory."""
        return self._size + len(self._text)

    def drop(self) -> None:
        """Forget what is held; the answer is not read."""
        self._readable, self._raw, self._size, self._text = False, [], 0, ""

    def text(self) -> str | None:
        """What the model says; None where that was not read: for another form, a compressed or a cut answer, a call."""
        if not (self._readable and self.complete):
            return None
        if self._streams:
            self._raw.append(b"\n\n")
            self._read()
        else:
            self._text = _said(b"".join(self._raw))
        return self._text[:_MOST_TEXT] if self._text.strip() else None

    def _read(self) -> None:
        raw = b"".join(self._raw)
        ends = [place + len(end) for end in _EVENT_ENDS if (place := raw.rfind(end)) >= 0]
        whole = max(ends, default=0)
        lines = raw[:whole].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        self._text += "".join([_said(_data(event)) for event in lines.split("\n\n") if event])
        self._raw, self._size = [raw[whole:]], len(raw) - whole
        self._due = 2 * self._size + _BATCH  # so that a long event is not gone through with each of its chunks


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


def text_of(values: object) -> str:
    """The text of the first choice of an answer, or what an event adds to it; "" for all else."""
    match values:
        case {"choices": [dict(choice), *_]}:
            message = choice.get("delta") or choice.get("message") or choice
            first = isinstance(message, dict) and not choice.get("index")
            return _text(message.get("content")) + _text(message) if first else ""
        case (
            {"type": "response.output_text.delta" | "response.refusal.delta", "delta": said}
            | {"type": "content_block_delta", "delta": said}
            | {"content": said}
        ):
            return _text(said)
        case {"output": list(items)}:
            messages = (item for item in items if isinstance(item, dict) and item.get("type") == "message")
            return "".join(_text(message.get("content")) for message in messages)
    return ""


def _text(content: object) -> str:
    """A text, or the texts of its parts."""
    if isinstance(content, dict):
        return _text(content.get("text")) + _text(content.get("refusal"))
    if isinstance(content, list):
        return "".join(map(_text, content))
    return content if isinstance(content, str) else ""


def _data(event: str) -> str:
    if "\n" not in event and event.startswith("data:"):  # most
        return event[5:]
    return "\n".join(line[5:] for line in event.split("\n") if line.startswith("data:"))


def _said(raw: bytes | str) -> str:
    try:
        return text_of(json.loads(raw)) if raw else ""
    except (ValueError, RecursionError):
        return ""
