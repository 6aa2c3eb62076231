"""The text of an answer, read while it passes: JSON or a stream of events, in the forms of four APIs."""

from __future__ import annotations

import json
import re

from drike.serving.upstream import Reply

_MOST_TEXT = 64 << 10  # characters; what follows is not read
_MOST_RAW = 1 << 20  # bytes of an answer in JSON, or of one event
_BATCH = 8 << 10  # bytes of a stream that are read at once
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_OK = 200


class PassingAnswer:
    """An answer as its chunks pass. complete: whether the last one has; set by whoever passes them on."""

    def __init__(self, reply: Reply) -> None:
        headers = dict(reply.headers)
        kind = headers.get(b"content-type", b"").strip().lower()
        self._streams = kind.startswith(b"text/event-stream")
        plain = headers.get(b"content-encoding", b"identity").strip().lower() == b"identity"
        self._readable = reply.status == _OK and plain and (self._streams or b"json" in kind)
        self._raw: list[bytes] = []
        self._due, self._text = _BATCH, ""
        self.size = 0  # bytes that are held
        self.ok, self.complete = reply.status < 400, False

    def take(self, chunk: bytes) -> None:
        """Hold a chunk that was passed on; of a stream, what is long enough is read."""
        if not self._readable or len(self._text) >= _MOST_TEXT:
            return
        self._raw.append(chunk)
        self.size += len(chunk)
        if self._streams and self.size > self._due:
            self._read()
        self._readable = self.size <= _MOST_RAW

    def text(self) -> str | None:
        """What the model says; None where that was not read: for another form, a compressed or a cut answer, a call."""
        if not (self._readable and self.complete):
            return None
        if self._streams:
            self._raw.append(b"\n\n")
            self._read()
        else:
            self._text = text_of(_json(b"".join(self._raw)))
        return self._text[:_MOST_TEXT] if self._text.strip() else None

    def _read(self) -> None:
        *events, rest = _EVENT_END.split(b"".join(self._raw))
        said = (text_of(_json(_data(event))) for event in events if event)
        self._text += "".join(said)
        self._raw, self.size = [rest], len(rest)
        self._due = 2 * self.size + _BATCH  # so that a long event is not gone through with each of its chunks


def text_of(values: object) -> str:
    """The text of the first choice of an answer, or what an event adds to it; "" for all else."""
    match values:
        case {"choices": [{"index": int(index)}, *_]} if index:
            said: object = None
        case {"choices": [{"delta": dict(message)} | {"message": dict(message)}, *_]}:
            said = [message.get("content"), message.get("refusal")]
        case (
            {"choices": [{"text": said}, *_]}
            | {"type": "response.output_text.delta" | "response.refusal.delta", "delta": said}
            | {"type": "content_block_delta", "delta": {"text": said}}
        ):
            pass
        case {"output": list(items)}:
            messages = [item for item in items if isinstance(item, dict) and item.get("type") == "message"]
            said = [message.get("content") for message in messages]
        case {"content": said}:
            pass
        case _:
            said = None
    return _text(said)


def _text(content: object) -> str:
    """A text, or the texts of its parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(map(_text, content))
        case dict():
            return _text(content.get("text")) + _text(content.get("refusal"))
    return ""


def _data(event: bytes) -> bytes:
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
