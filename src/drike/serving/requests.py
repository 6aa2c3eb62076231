"""Read requests in OpenAI's form: the text that an edit would change, and the queries that a gate decides on.

In a chat, the last message counts, and only if a user wrote it; a gate also gets it together with the user turn before
it, which helps where the last one alone says too little. In a text completion, the prompt counts. The gateway, its
local model, its webhooks and logs of requests are all read here, so that they agree on what a request asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drike.errors import DataError
from drike.serving.bodies import JsonPath, UnreadError, read_json, read_object, text_spans, unpacked, value_at

CHAT, COMPLETION = "/chat/completions", "/completions"  # below the address of an API
MAX_MESSAGES = 2_000
_LOGGED = ("body", "request")  # keys under which logs keep a request
_QUESTIONS = ("query", "question")


@dataclass(frozen=True)
class Target:
    """The text of a request that an edit would change.

    path: its keys in the body. text: as it is now. queries: what to decide on, in order, until an edit matches.
    """

    path: JsonPath
    text: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class EditableRequest:
    """A chat or text completion with a text that an edit would change.

    endpoint: `CHAT` or `COMPLETION`. body: as it was sent. json: it in UTF-8, without compression. values: of this.
    """

    endpoint: str
    body: bytes
    json: bytes
    values: Mapping[str, Any]
    target: Target

    @property
    def texts(self) -> dict[JsonPath, str]:
        """All texts of the messages, or the prompt, by their keys in the body."""
        if self.endpoint == COMPLETION:
            return {self.target.path: self.target.text}
        messages = [(i, message) for i, message in enumerate(self.values["messages"]) if isinstance(message, dict)]
        return {("messages", i, "content", *path): text for i, message in messages for path, text in _texts(message)}

    def with_texts(self, texts: Mapping[JsonPath, str]) -> bytes:
        """The JSON with other texts at some paths, and all other bytes as they were.

        Where a text only gets something before it, the bytes of the old text also stay.
        """
        parts, done = [], 0
        for path, (start, end) in sorted(text_spans(self.json, texts).items(), key=lambda item: item[1]):
            old, new = value_at(self.values, path), texts[path]
            added = new[: len(new) - len(old)] if new.endswith(old) else None
            parts.append(self.json[done : start + 1])
            parts.append(json.dumps(new if added is None else added)[1:-1].encode())
            done = start + 1 if added is not None else end - 1
        return b"".join([*parts, self.json[done:]])


def read_request(endpoint: str, body: bytes, encoding: bytes = b"") -> EditableRequest | None:
    """The request in a body; None if it has no text that an edit would change.

    encoding: how the body is compressed, as HTTP's Content-Encoding has it. Raises UnreadError, and ValueError as
    `parse` does.
    """
    text, values = _read(unpacked(body, encoding))
    target = chat_target(values) if endpoint == CHAT else completion_target(values)
    if target is None and not (_is_chat(values) if endpoint == CHAT else values.get("prompt") in (None, [])):
        raise UnreadError("form", "the body has several prompts, tokens, or messages in another form")
    return EditableRequest(endpoint, body, text, values, target) if target else None


def one_message(model: str, text: str, **more: object) -> EditableRequest:
    """A chat with a user's only message."""
    values = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    body = json.dumps(values).encode()
    return EditableRequest(CHAT, body, body, values, Target(("messages", 0, "content"), text, (encodable(text),)))


def parse(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request; None if it is something else, which is not ours to read.

    Raises ValueError if it is nested too deeply, or has too many messages.
    """
    try:
        return _read(body)[1]
    except UnreadError:
        return None


def chat_target(values: Mapping[str, Any]) -> Target | None:
    """The first text of the last message; None if no user wrote that message, or it has no text."""
    messages = values.get("messages")
    if not isinstance(messages, list):
        return None
    turns = [i for i, message in enumerate(messages) if isinstance(message, dict) and message.get("role") == "user"]
    texts = _texts(messages[-1]) if turns and turns[-1] == len(messages) - 1 else []
    if not texts:
        return None
    [(path, text), *_] = texts
    last = message_text(messages[-1]) or ""
    before = message_text(messages[turns[-2]]) if len(turns) > 1 else None
    queries = (last, f"{before}\n{last}") if before else (last,)
    return Target(("messages", turns[-1], "content", *path), text, tuple(map(encodable, queries)))


def completion_target(values: Mapping[str, Any]) -> Target | None:
    """The prompt of a text completion; None for several prompts, and for tokens."""
    prompt = values.get("prompt")
    path: JsonPath = ("prompt",)
    if isinstance(prompt, list) and len(prompt) == 1:
        path, prompt = ("prompt", 0), prompt[0]
    return Target(path, prompt, (encodable(prompt),)) if isinstance(prompt, str) else None


def message_text(message: Mapping[str, Any]) -> str | None:
    """The texts of a message, one a line; None if it has none."""
    texts = _texts(message)
    return "\n".join(text for _, text in texts) if texts else None


def encodable(text: str) -> str:
    """A text with a question mark for each lone surrogate, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()


def logged_queries(line: bytes) -> tuple[str, ...]:
    """The queries of a request in a log, as in `Target`; none if the gateway would not decide on it.

    A line is a request or a question as JSON: an object with `messages`, `prompt`, `query` or `question`, or with such
    an object as its `body` or `request`, which may be JSON in a string; or a string. Raises ValueError for another
    line, with the reason as a noun.
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
        return _not_blank(encodable(values))
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    target = chat_target(values) if "messages" in values else completion_target(values)
    if target:
        return _not_blank(*target.queries)
    question = next((values[key] for key in _QUESTIONS if isinstance(values.get(key), str)), None)
    if question is None and not {"messages", "prompt"} & values.keys():
        raise ValueError("no messages, prompt, query or question")
    return _not_blank(encodable(question or ""))


def read_questions(path: Path) -> list[tuple[str, ...]]:
    """The queries of each different request of a file: JSON lines (.jsonl) as `logged_queries` reads them.

    Other files have one question a line. Raises DataError for a line that is no request, and for a file that cannot be
    read or has none.
    """
    try:
        if path.suffix.casefold() == ".jsonl":
            lines = [(number, line) for number, line in enumerate(path.read_bytes().splitlines(), 1) if line.strip()]
            asked = [_logged_queries_at(f"{path}, line {number}", line) for number, line in lines]
        else:
            asked = [_not_blank(line.strip()) for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None
    questions = list(dict.fromkeys(queries for queries in asked if queries))
    if not questions:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return questions


def _logged_queries_at(place: str, line: bytes) -> tuple[str, ...]:
    try:
        return logged_queries(line)
    except ValueError as problem:
        raise DataError(f"{place} is not a request ({problem}): correct it, or name the file .txt") from None


def _not_blank(*queries: str) -> tuple[str, ...]:
    return queries if any(query.strip() for query in queries) else ()


def _read(body: bytes) -> tuple[bytes, dict[str, Any]]:
    """The body in UTF-8 and its values, as `read_object`. Raises ValueError for too many messages, too."""
    text, values = read_object(body)
    messages = values.get("messages")
    if isinstance(messages, list) and len(messages) > MAX_MESSAGES:
        raise ValueError(f"there are {len(messages):,} messages: send {MAX_MESSAGES:,} at most")
    return text, values


def _texts(message: Mapping[str, Any]) -> list[tuple[JsonPath, str]]:
    """The texts of a message, each with its keys below `content`."""
    content = message.get("content")
    if isinstance(content, str):
        return [((), content)]
    texts: list[tuple[JsonPath, str]] = []
    for i, part in enumerate(content) if isinstance(content, list) else ():
        if isinstance(part, str):  # as some servers take it
            texts.append(((i,), part))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):  # whatever its type is called
            texts.append(((i, "text"), part["text"]))
    return texts


def _is_chat(values: Mapping[str, Any]) -> bool:
    """Whether messages have the form that `chat_target` reads."""
    match values.get("messages", []):
        case [*_, {"content": [*parts]}]:
            return all(isinstance(part, str | dict) for part in parts)
        case [*_, dict(last)]:
            return isinstance(last.get("content"), str | None)
        case messages:
            return bool(messages == [])


def _json_or_none(text: bytes | str) -> object:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None
