"""Read requests, in bodies that may be large and hostile or in logs, and write edits around their texts.

JSON is never written again: an edit replaces bytes of single texts (`text_spans`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drike.conversations.turns import (
    Api,
    Conversation,
    JsonPath,
    Speaker,
    Text,
    Turn,
    UnreadError,
    read,
)
from drike.edits.record import EditVersion
from drike.errors import DataError
from drike.gateway.options import Mode
from drike.support.records import encodable

if TYPE_CHECKING:  # logs of requests are read without what a gateway needs
    from drike.gateway.http.relay import PassingAnswer
    from drike.gateway.http.upstream import UpstreamCall

# Below the address of an API: where requests are read, and the form of each.
CHAT, COMPLETION, RESPONSES, MESSAGES = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
)
COUNTS_TOKENS = (
    f"{RESPONSES}/input_tokens",
    f"{MESSAGES}/count_tokens",
)  # of a request that is not answered
APIS: Mapping[str, Api] = {
    CHAT: Api.CHAT, COMPLETION: Api.COMPLETIONS, RESPONSES: Api.RESPONSES, MESSAGES: Api.MESSAGES,
    COUNTS_TOKENS[0]: Api.RESPONSES, COUNTS_TOKENS[1]: Api.MESSAGES,
}  # fmt: skip
SMALL = 16 << 10  # bytes of a body that is read at once; larger ones are read in a thread
MAX_DEPTH = 64
MAX_VALUES = 100_000  # of a body; so many take at most some 15 MB and 90 ms
MAX_UNPACKED, _MAX_MEMBERS = (
    10 << 20,
    16,
)  # bytes of a compressed body, and pieces that it is made of
_WINDOWS = {
    b"gzip": (31,),
    b"x-gzip": (31,),
    b"deflate": (15, -15),
}  # zlib's; some deflate without zlib's header
_LOGGED = ("body", "request")  # keys under which logs keep a request
_SEPARATORS = (b",", b"[", b"{")
_JSON, _BETWEEN = json.JSONDecoder(), re.compile(r"[ \t\r\n,:]*")
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep: flatten it"


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
        for path, (begin, end) in sorted(
            text_spans(self.json, texts).items(), key=lambda item: item[1]
        ):
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
    """A body to pass on, and what became of the request."""

    body: bytes
    scope: str  # fired, abstained, degraded, unread or off, for the header x-drike-scope
    mode: Mode
    edits: tuple[EditVersion, ...] = ()  # that match, those of later turns first
    contradicted: tuple[int, ...] = ()  # ids of edits whose old object a tool or document states
    keep: Callable[[str], None] | None = (
        None  # what was decided, under the upstream's id of the conversation
    )
    model: object = None
    asked: tuple[EditVersion, ...] = ()  # the edits that the answer is about
    doubted: tuple[EditVersion, ...] = ()  # those about which the gate was in doubt
    tokens: int = 0  # that facts add, or would if edits were on
    # Takes the answer to be counted, once it has passed; None where it passes elsewhere.
    note: Callable[[PassingAnswer | None], None] = lambda answer: None
    # Writes a body with the facts twice, for an answer that slips; None where none is asked for again.
    again: Callable[[], Awaitable[bytes]] | None = None
    question: str = ""  # the last one, where samples are kept

    def in_place_of(self, call: UpstreamCall) -> UpstreamCall:
        """The call with this body, which is not compressed if it has changed; nor may an answer be that is read."""
        dropped = {b"content-encoding"} if self.body is not call.body else set()
        added = [(b"accept-encoding", b"identity")] if self.keep or self.asked else []
        kept = [
            header
            for header in call.headers
            if header[0] not in dropped | {name for name, _ in added}
        ]
        return replace(call, body=self.body, headers=[*kept, *added])


def read_request(api: Api, body: bytes, encoding: bytes = b"") -> EditableRequest | None:
    """The request in a body; None without a text of a user or a tool. Raises UnreadError, ValueError (too much)."""
    text, values = read_object(unpacked(body, encoding))
    conversation = read(api, values)
    asks = any(
        turn.speaker not in (Speaker.SYSTEM, Speaker.ASSISTANT) for turn in conversation.turns
    )
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


def unpacked(body: bytes, encoding: bytes) -> bytes:
    """A body without its compression. Raises UnreadError for one that is unknown, damaged, or grows too large."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    for window in _WINDOWS.get(name, ()):
        parts, left, rest = [], MAX_UNPACKED, body
        for _ in range(_MAX_MEMBERS if window == 31 else 1):
            unpacker = zlib.decompressobj(window)
            try:
                parts.append(unpacker.decompress(rest, left + 1))
            except zlib.error:
                break
            left, rest = left - len(parts[-1]), unpacker.unused_data
            if left < 0:
                raise UnreadError(
                    "size", f"the body has more than {MAX_UNPACKED >> 20} MB when it is unpacked"
                )
            if unpacker.eof and not rest:
                return b"".join(parts)
    raise UnreadError("encoding", "the body is not in the gzip or deflate of its Content-Encoding")


def read_object(body: bytes) -> tuple[bytes, dict[str, Any]]:
    """A body in UTF-8 and its values. Raises UnreadError, and ValueError if it is nested too deeply."""
    try:
        encoding = json.detect_encoding(body)
        if not encoding.startswith("utf-8"):
            body = body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
        if _too_many_values(body):
            raise UnreadError("size", f"the body has more than {MAX_VALUES:,} values")
        values = read_json(body)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # also for bytes that are no text
        values = None
    if not isinstance(values, dict):
        raise UnreadError("json", "the body is not a JSON object in UTF-8")
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _too_deep(values):
        raise ValueError(_TOO_DEEP)
    return body, values


def read_json(text: bytes | str) -> object:
    """JSON without NaN and Infinity, in 4 times its bytes, 8 with rare characters. ValueError, RecursionError."""
    return json.loads(text, parse_constant=_refuse)


def asked(text: str) -> Conversation | None:
    """The conversation in which a user asks this; None for a blank text."""
    said = Text(("messages", 0, "content"), encodable(text))
    return Conversation(Api.CHAT, (Turn(Speaker.USER, (said,)),)) if text.strip() else None


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
        return asked(values)
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    forms = {"messages": Api.MESSAGES if "system" in values else Api.CHAT, "input": Api.RESPONSES}
    api = next((api for key, api in forms.items() if key in values), Api.COMPLETIONS)
    try:
        conversation = read(api, values)
        if conversation.said.strip():
            return conversation
    except UnreadError:
        pass
    except ValueError:
        raise ValueError("too deep, or with too many messages") from None
    question = next(
        (values[key] for key in ("query", "question") if isinstance(values.get(key), str)), None
    )
    if question is None and not {"messages", "prompt", "input"} & values.keys():
        raise ValueError("no messages, prompt, input, query or question")
    return asked(question or "")


def read_questions(path: Path) -> list[Conversation]:
    """The different conversations of a file: .jsonl as `logged` reads it, or a question a line. Raises DataError."""
    try:
        if path.suffix.casefold() == ".jsonl":
            said = []
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                try:
                    said.append(logged(line) if line.strip() else None)
                except ValueError as problem:
                    remedy = "correct it, or name the file .txt"
                    raise DataError(
                        f"{path}, line {number} is not a request ({problem}): {remedy}"
                    ) from None
        else:
            said = [asked(line.strip()) for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None
    questions = list(dict.fromkeys(conversation for conversation in said if conversation))
    if not questions:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return questions


def _json_or_none(text: bytes | str) -> object:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None


def text_spans(text: bytes, paths: Iterable[JsonPath]) -> dict[JsonPath, tuple[int, int]]:
    """Where the texts at these paths stand in JSON in UTF-8, with their quotes; of repeated keys the last counts."""
    wanted: dict[Any, Any] = {}
    for path in paths:
        level = wanted
        for key in path:
            level = level.setdefault(key, {})
    spans: dict[JsonPath, tuple[int, int]] = {}
    characters = text.decode("latin-1")  # one for each byte, so that places in both are the same
    _find(characters, characters.index("{"), wanted, (), spans)
    return spans


def _find(
    text: str,
    start: int,
    wanted: dict[Any, Any],
    path: JsonPath,
    spans: dict[JsonPath, tuple[int, int]],
) -> int:
    """Where the value at `start` ends; the spans in it of the paths in `wanted`, a tree of keys, are added."""
    opening = text[start]
    if not wanted or opening not in "[{":
        _, end = _JSON.raw_decode(text, start)
        if not wanted:
            spans[path] = start, end
        return end
    place, i = _after(text, start + 1), 0
    while text[place] not in "]}":
        key: str | int = i
        if opening == "{":
            _, end = _JSON.raw_decode(text, place)
            key, place = json.loads(text[place:end].encode("latin-1")), _after(text, end)
        if key in wanted:
            place = _find(text, place, wanted[key], (*path, key), spans)
        else:
            _, place = _JSON.raw_decode(text, place)
        place, i = _after(text, place), i + 1
    return place + 1


def _after(text: str, place: int) -> int:
    """Where the next key or value begins, or the object or list ends."""
    return _BETWEEN.match(text, place).end()  # type: ignore[union-attr]  # it matches nothing, too


def _too_many_values(text: bytes) -> bool:
    """Whether JSON has more than `MAX_VALUES` values or texts; for text that is no JSON, up to where it is."""
    if sum(map(text.count, _SEPARATORS)) <= MAX_VALUES:
        return False
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') // 2 > MAX_VALUES:
        return True
    outside = b"".join(bare.split(b'"')[::2])  # of texts
    return sum(map(outside.count, _SEPARATORS)) > MAX_VALUES


def _too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (
            container.values() if isinstance(container, dict) else container for container in level
        )
        level = [item for item in chain.from_iterable(inner) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
