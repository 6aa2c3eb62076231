"""Read requests, webhooks and logs of requests as conversations, all here; and write edits around their texts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drike.conversations.dialects import read
from drike.conversations.turns import Api, Conversation, JsonPath, Speaker, Text, Turn, UnreadError, encodable
from drike.errors import DataError
from drike.serving.bodies import read_json, read_object, text_spans, unpacked
from drike.serving.options import Mode
from drike.stores.records import EditVersion

if TYPE_CHECKING:  # logs of requests are read without what a gateway needs
    from drike.serving.answers import PassingAnswer
    from drike.serving.upstream import UpstreamCall

# Below the address of an API: where requests are read, and the form of each.
CHAT, COMPLETION, RESPONSES, MESSAGES = "/chat/completions", "/completions", "/responses", "/messages"
COUNTS_TOKENS = (f"{RESPONSES}/input_tokens", f"{MESSAGES}/count_tokens")  # of a request that is not answered
APIS: Mapping[str, Api] = {
    CHAT: Api.CHAT,
    COMPLETION: Api.COMPLETIONS,
    RESPONSES: Api.RESPONSES,
    MESSAGES: Api.MESSAGES,
    COUNTS_TOKENS[0]: Api.RESPONSES,
    COUNTS_TOKENS[1]: Api.MESSAGES,
}
_LOGGED = ("body", "request")  # keys under which logs keep a request
_QUESTIONS = ("query", "question")


@dataclass(frozen=True)
class EditableRequest:
    """A request with texts. body: as it was sent. json: it in UTF-8, without compression. values: of this."""

    body: bytes
    json: bytes
    values: Mapping[str, Any]
    conversation: Conversation

    def with_texts(self, texts: Mapping[JsonPath, str]) -> bytes:
        """The JSON with other texts at some paths; all other bytes stay, also of a text that only gets more."""
        values: Any = self.values
        parts, done = [], 0
        for path, (begin, end) in sorted(text_spans(self.json, texts).items(), key=lambda item: item[1]):
            old, new = reduce(getitem, path, values), texts[path]
            kept_from, kept_to, added = end - 1, begin + 1, new
            if new.endswith(old):
                kept_from, added = begin + 1, new[: len(new) - len(old)]
            elif new.startswith(old):
                kept_to, added = end - 1, new[len(old) :]
            parts += [self.json[done:kept_to], json.dumps(added)[1:-1].encode()]
            done = kept_from
        return b"".join([*parts, self.json[done:]])


@dataclass(frozen=True)
class EditedRequest:
    """A body to pass on, and what became of the request.

    scope: fired, abstained, degraded, unread or off, for the header x-drike-scope. edits: those in force that match,
    those of later turns first. contradicted: ids of edits whose old object a tool or document states. keep: keeps what
    was decided under the id by which the upstream keeps the conversation; None where it keeps none. asked: the edits
    that the answer is about. doubted: those about which the gate was in doubt. tokens: that facts add, or would add if
    edits were on. note: takes the answer to be counted, once it has passed; None where it passes elsewhere. again:
    writes a body with the facts twice, for an answer that slips; None where none is asked for again. question: the last
    one, where samples are kept.
    """

    body: bytes
    scope: str
    mode: Mode
    edits: tuple[EditVersion, ...] = ()
    contradicted: tuple[int, ...] = ()
    keep: Callable[[str], None] | None = None
    model: object = None
    asked: tuple[EditVersion, ...] = ()
    doubted: tuple[EditVersion, ...] = ()
    tokens: int = 0
    note: Callable[[PassingAnswer | None], None] = lambda answer: None
    again: Callable[[], Awaitable[bytes]] | None = None
    question: str = ""

    def in_place_of(self, call: UpstreamCall) -> UpstreamCall:
        """The call with this body, which is not compressed if it has changed; nor may an answer be that is read."""
        dropped = {b"content-encoding"} if self.body is not call.body else set()
        added = [(b"accept-encoding", b"identity")] if self.keep or self.asked else []
        kept = [header for header in call.headers if header[0] not in dropped | {name for name, _ in added}]
        return replace(call, body=self.body, headers=[*kept, *added])


def read_request(api: Api, body: bytes, encoding: bytes = b"") -> EditableRequest | None:
    """The request in a body; None without a text of a user or a tool. Raises UnreadError, ValueError (too much)."""
    text, values = read_object(unpacked(body, encoding))
    conversation = read(api, values)
    asks = any(turn.speaker in (Speaker.USER, Speaker.TOOL) for turn in conversation.turns)
    return EditableRequest(body, text, values, conversation) if asks else None


def one_message(model: str, text: str, **more: object) -> EditableRequest:
    """A chat with a user's only message."""
    values = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    body = json.dumps(values).encode()
    return EditableRequest(body, body, values, read(Api.CHAT, values))


def parse(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request; None for all else, which is not ours to read. ValueError if nested too deeply."""
    try:
        return read_object(body)[1]
    except UnreadError:
        return None


def asked(text: str) -> Conversation:
    """The conversation in which a user asks this."""
    return Conversation(Api.CHAT, (Turn(Speaker.USER, (Text(("messages", 0, "content"), text),)),))


def logged(line: bytes) -> Conversation | None:
    """The conversation of a request in a log; None if no user asks at its end, or what is asked is blank.

    A line is a request or a question as JSON: an object with `messages`, `prompt`, `input`, `query` or `question`, or
    with such an object as its `body` or `request`, which may be JSON in a string; or a string. Raises ValueError for
    another line, with the reason as a noun.
    """
    try:
        values: object = parse(line)
    except ValueError:
        raise ValueError("too deep, or with too many messages") from None
    values = _json_or_none(line) if values is None else values
    for key in _LOGGED:
        inner = values.get(key) if isinstance(values, dict) else None
        inner = _json_or_none(inner) if isinstance(inner, str) else inner
        values = inner if isinstance(inner, dict) else values
    if isinstance(values, str):
        return _asking(asked(encodable(values)))
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    forms = {"messages": Api.MESSAGES if "system" in values else Api.CHAT, "input": Api.RESPONSES}
    api = next((api for key, api in forms.items() if key in values), Api.COMPLETIONS)
    try:
        if conversation := _asking(read(api, values)):
            return conversation
    except UnreadError:
        pass
    except ValueError:
        raise ValueError("too deep, or with too many messages") from None
    question = next((values[key] for key in _QUESTIONS if isinstance(values.get(key), str)), None)
    if question is None and not {"messages", "prompt", "input"} & values.keys():
        raise ValueError("no messages, prompt, input, query or question")
    return _asking(asked(encodable(question or "")))


def read_questions(path: Path) -> list[Conversation]:
    """The different conversations of a file: .jsonl as `logged` reads it, or a question a line. Raises DataError."""
    try:
        if path.suffix.casefold() == ".jsonl":
            read = []
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                try:
                    read.append(logged(line) if line.strip() else None)
                except ValueError as problem:
                    remedy = "correct it, or name the file .txt"
                    raise DataError(f"{path}, line {number} is not a request ({problem}): {remedy}") from None
        else:
            read = [_asking(asked(line.strip())) for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None
    questions = list(dict.fromkeys(conversation for conversation in read if conversation))
    if not questions:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return questions


def _asking(conversation: Conversation) -> Conversation | None:
    return conversation if conversation.said.strip() else None


def _json_or_none(text: bytes | str) -> object:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None
