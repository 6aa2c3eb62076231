"""What models say: the texts of answers in each form of an API, read while they pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from starlette.datastructures import Headers

from drike.answers.thoughts import without_thoughts
from drike.gateway.calls import Reply
from drike.models.served.answer_texts import is_thought
from drike.models.served.failures import failure_in
from drike.support.rows import value_at

LONGEST_TEXT = 64 << 10  # characters; what follows is not read
LONGEST_READ = 1 << 20  # bytes of an answer in JSON, or of one event
_BATCH = 8 << 10  # bytes of a stream that are read at once
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_BEGINNING = 64 << 10  # bytes in which an answer has its id
# An answer that the upstream keeps, and the first id in it that is not its conversation's. Text has
# no such quotes.
_KEPT_ANSWER = re.compile(rb'"object"\s*:\s*"response"')
_USUAL_ID = re.compile(rb'"id"\s*:\s*"(resp[\w+/=-]{1,996})"')
_ANY_ID = re.compile(
    rb'(?<!"conversation":\{)(?<!"conversation": \{)"id"\s*:\s*"([!#-\[\]-~]{1,1000})"'
)
_FAILURES = ("error", "response.failed", "response.cancelled")  # types of events
_FAILED = ("failed", "cancelled")  # states of an answer
_ENDS = ("message_stop", "response.completed", "response.incomplete", "response.done")
_OBJECTS = ("message",)  # types of whole answers, which are no events
_ERROR_EVENT = re.compile(r"^event: ?error\s*$", re.M)
_DATA = "data:"  # the beginning of a line of an event that has a part of the answer


class AnswerTrace(Protocol):
    """Is told of an answer while it passes (`gateway.traces`)."""

    def first_chunk(self) -> None:
        """The answer begins."""

    def take(self, values: object) -> None:
        """The answer, or an event of one, has these values."""

    def judged(self, text: str | None, outcomes: Sequence[str]) -> None:
        """The answer has been judged. text: None where it was not read."""


class PassingAnswer:
    """An answer as it passes, `complete` once it has.

    slipped: ids of edits whose old object one before it stated. trace: is told of the answer.
    """

    def __init__(
        self, reply: Reply, slipped: Sequence[int] = (), trace: AnswerTrace | None = None
    ) -> None:
        headers = Headers(raw=reply.headers)
        kind = headers.get("content-type", "").strip().lower()
        encoding = headers.get("content-encoding", "identity").strip().lower()
        self._streams = kind.startswith("text/event-stream")
        self._readable = (
            reply.status == 200 and encoding == "identity" and (self._streams or "json" in kind)
        )
        self._raw: list[bytes] = []
        self._size = 0  # bytes that are not read yet
        self._due = _BATCH  # the size from which a stream is read
        self._text = ""
        self._has_failed = False  # of a stream, whether an event says that the upstream has
        self._has_ended = False  # of a stream, whether an event says that it is all
        self.ok = reply.status < 400
        self.complete = False
        self.slipped = slipped
        self.trace = trace
        self._has_begun = False

    def take(self, chunk: bytes) -> None:
        """Hold a chunk that was passed on; of a stream, what is long enough is read."""
        if self.trace and not self._has_begun:
            self.trace.first_chunk()
        self._has_begun = True
        if not self._readable:
            return
        if len(self._text) >= LONGEST_TEXT:  # only how it ends matters
            self._raw = [b"".join((*self._raw, chunk))[-_BATCH:]]
            return
        self._raw.append(chunk)
        self._size += len(chunk)
        if self._streams and self._size > self._due:
            self._read_events()
        if self._size > LONGEST_READ:
            self.drop()

    @property
    def is_json(self) -> bool:
        """Whether it is a successful answer in one piece, of a form that is read."""
        return self._readable and not self._streams

    @property
    def held(self) -> int:
        """About how many bytes of it are in memory."""
        return self._size + len(self._text)

    def drop(self) -> None:
        """Forget what is held; the answer is not read."""
        self._readable = False
        self._raw = []
        self._size = 0
        self._text = ""

    def text(self) -> str | None:
        """What the model says; None where that was not read.

        This is so for another form, a compressed or a cut answer, thoughts alone, and a call. A
        stream is cut as well where an event has an error, or none says that it ends.
        """
        if not (self._readable and self.complete):
            return None
        if self._streams:
            self._raw.append(b"\n\n")
            self._read_events()
            if self._has_failed or not self._has_ended:
                return None
        else:
            values = _parsed(b"".join(self._raw))
            if self.trace:
                self.trace.take(values)
            self._text = _said(values)
        text = self._text[:LONGEST_TEXT]
        return text if without_thoughts(text).strip() else None

    def _read_events(self) -> None:
        """Read the events that are complete, and hold the beginning of the next one."""
        raw = b"".join(self._raw)
        end = _end_of_events(raw)
        lines = raw[:end].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        read = [_read_event(event) for event in lines.split("\n\n") if event]
        if self.trace:
            for event in read:
                self.trace.take(event.values)
        self._text += "".join([event.text for event in read])
        self._has_failed = self._has_failed or any(event.fails for event in read)
        self._has_ended = self._has_ended or any(event.ends for event in read)

        self._raw = [raw[end:]]
        self._size = len(raw) - end
        # So that a long event is not gone through with each of its chunks.
        self._due = 2 * self._size + _BATCH


class ConversationId:
    """Looks in a passing answer for the id under which the upstream keeps the conversation.

    It is handed to `keep`.
    """

    def __init__(self, keep: Callable[[str], None]) -> None:
        self._keep: Callable[[str], None] | None = keep  # None once it is found, or will not be
        self._beginning = b""

    def look_in(self, chunk: bytes) -> None:
        """Look in what has passed with this chunk."""
        if self._keep is None:
            return
        self._beginning += chunk
        found = _id_in(self._beginning)
        if found:
            self._keep(found)
        if found or len(self._beginning) >= _BEGINNING:
            self._keep = None


def _id_in(beginning: bytes) -> str | None:
    """The id of a kept answer in its beginning, if it is there."""
    found = _USUAL_ID.search(beginning)
    if found is None:
        answer = _KEPT_ANSWER.search(beginning)
        if answer is None:
            return None
        event_begins = beginning.rfind(b"\n\n", 0, answer.start()) + 1
        found = _ANY_ID.search(beginning, event_begins)
    return found[1].decode() if found else None


def text_of(values: object) -> str:
    """The text of the first choice of an answer, or what an event adds to it; "" for all else."""
    match values:
        case {"choices": [dict(choice), *_]}:
            message = choice.get("delta") or choice.get("message") or choice
            if not isinstance(message, dict) or choice.get("index"):
                return ""
            return _text_in(message.get("content")) + _text_in(message)
        case (
            {"type": "response.output_text.delta" | "response.refusal.delta", "delta": content}
            | {"type": "content_block_delta", "delta": content}
            | {"content": content}
        ):
            return _text_in(content)
        case {"output": list(items)}:
            messages = (
                item for item in items if isinstance(item, dict) and item.get("type") == "message"
            )
            return "".join(_text_in(message.get("content")) for message in messages)
    return ""


def _text_in(content: object) -> str:
    """A text, or the texts of its parts."""
    if isinstance(content, dict):
        if is_thought(content):
            return ""
        return _text_in(content.get("text")) + _text_in(content.get("refusal"))
    if isinstance(content, list):
        return "".join(map(_text_in, content))
    return content if isinstance(content, str) else ""


def _parsed(raw: bytes | str) -> object:
    """The value of a JSON text; None for what is none."""
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return None


class _Event(NamedTuple):
    """An event of a stream: the text that it adds, and whether it is an error or the end.

    values: all that it says.
    """

    text: str = ""
    fails: bool = False
    ends: bool = False
    values: object = None


def _read_event(event: str) -> _Event:
    lines = event.split("\n")
    data = "\n".join(line.removeprefix(_DATA) for line in lines if line.startswith(_DATA))
    if data.strip() == "[DONE]":
        return _Event(ends=True)
    values = _parsed(data)
    fails = _fails(values) or _ERROR_EVENT.search(event) is not None
    return _Event(_said(values), fails, _ends(values), values)


def _said(values: object) -> str:
    """The text of an answer or event; "" for a failure, and for one nested too deeply."""
    try:
        return "" if _fails(values) else text_of(values)
    except RecursionError:
        return ""


def _fails(values: object) -> bool:
    """Whether an upstream says in an answer, or an event of one, that it has failed."""
    match values:
        case {"error": problem} | {"errors": problem} if problem:
            return True
        case {"type": str(kind), **rest} if kind not in _OBJECTS:
            return kind in _FAILURES or value_at(rest, "response", "status") in _FAILED
        case {"object": "error"} | {"output": _, "status": "failed" | "cancelled"}:
            return True
        case {"choices": []}:  # of an event with the usage, or of an answer that says nothing
            return False
    return isinstance(values, dict) and failure_in(values, str) is not None


def _ends(values: object) -> bool:
    """Whether an event says that the answer, or its first choice, is complete."""
    match values:
        case {"choices": [dict(choice), *_]}:
            return bool(choice.get("finish_reason")) and not choice.get("index")
        case {"type": "message_delta", "delta": {"stop_reason": reason}}:
            return bool(reason)
        case {"type": str(kind)}:
            return kind in _ENDS
        case {"stop": True} | {"done": True}:
            return True
    return False


def _end_of_events(raw: bytes) -> int:
    """Where the last complete event of a part of a stream ends; 0 if none does."""
    ends = [0]
    for mark in _EVENT_ENDS:
        place = raw.rfind(mark)
        if place >= 0:
            ends.append(place + len(mark))
    return max(ends)
