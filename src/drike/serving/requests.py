"""Read requests in OpenAI's form: the text that an edit would change, and the queries that a gate decides on.

In a chat, the last message counts, and only if a user wrote it; a gate also gets it together with the user turn before
it, which helps where the last one alone says too little. In a text completion, the prompt counts. The gateway, its
local model, its webhooks and logs of requests are all read here, so that they agree on what a request asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from drike.errors import DataError

CHAT, COMPLETION = "/chat/completions", "/completions"  # below the address of an API
MAX_MESSAGES, MAX_DEPTH = 2_000, 64
_LOGGED = ("body", "request")  # keys under which logs keep a request
_QUESTIONS = ("query", "question")
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep: flatten it"

JsonPath = tuple[str | int, ...]


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

    endpoint: `CHAT` or `COMPLETION`. body: as it was sent. values: its JSON.
    """

    endpoint: str
    body: bytes
    values: Mapping[str, Any]
    target: Target

    def with_text(self, text: str) -> bytes:
        """The body with another text at the target, and all other bytes as they were if the text can be located."""
        changed = _changed(self.values, self.target.path, text)
        for ascii_only in (True, False):
            old, new = (
                json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
                for value in (self.target.text, text)
            )
            start = self.body.rfind(old)
            spliced = self.body[:start] + new + self.body[start + len(old) :]
            if start >= 0 and parse(spliced) == changed:
                return spliced
        return json.dumps(changed).encode()


def read_request(endpoint: str, body: bytes) -> EditableRequest | None:
    """The request in a body; None if it has no text that an edit would change. Raises ValueError as `parse` does."""
    values = parse(body)
    if values is None:
        return None
    target = chat_target(values) if endpoint == CHAT else completion_target(values)
    return EditableRequest(endpoint, body, values, target) if target else None


def one_message(model: str, text: str, **more: object) -> EditableRequest:
    """A chat with a user's only message."""
    values = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return EditableRequest(
        CHAT, json.dumps(values).encode(), values, Target(("messages", 0, "content"), text, (encodable(text),))
    )


def parse(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request; None if it is something else, which is not ours to read.

    Raises ValueError if it is nested too deeply, or has too many messages.
    """
    try:
        values = _parse_json(body)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # also for bytes that are no text
        return None
    if not isinstance(values, dict):
        return None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _too_deep(values):
        raise ValueError(_TOO_DEEP)
    messages = values.get("messages")
    if isinstance(messages, list) and len(messages) > MAX_MESSAGES:
        raise ValueError(f"there are {len(messages):,} messages: send {MAX_MESSAGES:,} at most")
    return values


def chat_target(values: Mapping[str, Any]) -> Target | None:
    """The first text of the last message; None if no user wrote that message, or it has no text."""
    messages = values.get("messages")
    if not isinstance(messages, list):
        return None
    turns = [i for i, message in enumerate(messages) if isinstance(message, dict) and message.get("role") == "user"]
    if not turns or turns[-1] != len(messages) - 1:
        return None
    texts = _texts(messages[-1])
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


def _texts(message: Mapping[str, Any]) -> list[tuple[JsonPath, str]]:
    """The texts of a message, each with its keys below `content`."""
    content = message.get("content")
    if isinstance(content, str):
        return [((), content)]
    parts = enumerate(content) if isinstance(content, list) else ()
    return [
        ((i, "text"), part["text"])
        for i, part in parts
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]


def _changed(value: Any, path: Sequence[str | int], text: str) -> Any:
    """A copy of a JSON value with another text at a path; what is not on the path is shared."""
    if not path:
        return text
    changed = value.copy()
    changed[path[0]] = _changed(value[path[0]], path[1:], text)
    return changed


def _too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (container.values() if isinstance(container, dict) else container for container in level)
        level = [item for item in chain.from_iterable(inner) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _parse_json(text: bytes | str) -> object:
    return json.loads(text, parse_constant=_refuse)


def _json_or_none(text: bytes | str) -> object:
    try:
        return _parse_json(text)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
