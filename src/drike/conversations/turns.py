"""Turns of a conversation, read from requests of four APIs of OpenAI and Anthropic, in the forms of imitators, too.

Fields that hold no text of a turn are not looked at; a form is refused only where a text of a turn
could be missed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from drike.support.records import encodable

MAX_MESSAGES = 2_000  # or items
JsonPath = tuple[str | int, ...]
Values = Mapping[str, Any]


class UnreadError(Exception):
    """A request whose texts cannot be read, though an upstream may be able to. `reason`: for metrics."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Api(StrEnum):
    """A form of requests."""

    CHAT = "chat"  # OpenAI's chat completions
    COMPLETIONS = "completions"  # a text to complete
    RESPONSES = "responses"  # OpenAI's responses
    MESSAGES = "messages"  # Anthropic's messages, and the count of their tokens


class Speaker(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"  # whoever built the application
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"  # what a tool returned, or a document
    BESIDE = "beside"  # the user, or a program, in one message with what a tool returned


class Text(NamedTuple):
    """A text of a request, and its keys there."""

    path: JsonPath
    text: str


@dataclass(frozen=True)
class Turn:
    """What one speaker says at once. A user's turn is one question; each text of a tool's is a source of its own."""

    speaker: Speaker
    texts: tuple[Text, ...]

    @property
    def said(self) -> str:
        """Its texts, one a line."""
        return "\n".join(text for _, text in self.texts)


@dataclass(frozen=True)
class Conversation:
    """The turns of a request that have texts. before: the upstream's id of earlier turns, if it holds these."""

    api: Api
    turns: tuple[Turn, ...]
    before: str | None = None
    stays: bool = (
        False  # whether that id is the conversation's in all its requests, not the last response's
    )

    @property
    def texts(self) -> Mapping[JsonPath, str]:
        """All texts, by their keys in the request."""
        return {path: text for turn in self.turns for path, text in turn.texts}

    @property
    def question(self) -> Turn | None:
        """The last turn, if it is a user's."""
        return self.turns[-1] if self.turns and self.turns[-1].speaker is Speaker.USER else None

    @property
    def said(self) -> str:
        """What the user says last, if beside a tool's result; "" if that is not the end."""
        return next(
            (
                encodable(t.said)
                for t in self.turns[-1:]
                if t.speaker in (Speaker.USER, Speaker.BESIDE)
            ),
            "",
        )


_SPEAKERS = {
    "system": Speaker.SYSTEM, "developer": Speaker.SYSTEM, "user": Speaker.USER, "human": Speaker.USER,
    "tool": Speaker.TOOL, "function": Speaker.TOOL, "ipython": Speaker.TOOL, "observation": Speaker.TOOL,
}  # fmt: skip
_LISTS = ("messages", "input")  # fields whose items are turns


def read(api: Api, values: Values) -> Conversation:
    """The conversation of a request. UnreadError if texts could be missed, ValueError for too many messages."""
    pairs = ((speaker, text) for speaker, texts in _READERS[api](values) for text in texts)
    spoken = groupby(
        pairs, key=lambda pair: (pair[0], pair[1].path[: 2 if pair[1].path[0] in _LISTS else 1])
    )
    turns = tuple(Turn(speaker, tuple(text for _, text in texts)) for (speaker, _), texts in spoken)
    conversation = values.get("conversation")
    id = conversation.get("id") if isinstance(conversation, dict) else conversation
    before = (
        values.get("previous_response_id") or id
    )  # a stored response or conversation that the request continues
    known = api is Api.RESPONSES and isinstance(before, str)
    return Conversation(
        api, turns, before if known else None, known and not values.get("previous_response_id")
    )


Spoken = Iterator[tuple[Speaker, Iterable[Text]]]


def _completion(values: Values) -> Spoken:
    prompt = values.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        yield Speaker.USER, [Text(("prompt", 0), prompt[0])]
    elif isinstance(prompt, str):
        yield Speaker.USER, [Text(("prompt",), prompt)]
    elif prompt not in (None, []):
        raise _unread("it has several prompts, or tokens")


def _responses(values: Values) -> Spoken:
    if isinstance(instructions := values.get("instructions"), str):
        yield Speaker.SYSTEM, [Text(("instructions",), instructions)]
    if isinstance(values.get("prompt"), dict) and values.get("input") is None:
        raise _unread("its prompt is stored at the upstream")
    if isinstance(text := values.get("input"), str):
        yield Speaker.USER, [Text(("input",), text)]
        return
    for path, item in _items(values, "input"):
        kind = _kind(item, "type") or "message"
        if kind == "message":
            yield _speaker(item), _texts(item.get("content"), (*path, "content"))
        elif "output" in item:  # of a function, a shell, a search, whatever the tool is
            yield Speaker.TOOL, _texts(item["output"], (*path, "output"), strict=False)


def _messages(values: Values) -> Spoken:
    yield Speaker.SYSTEM, _texts(values.get("system"), ("system",))
    for path, message in _items(values, "messages"):
        content, place = message.get("content"), (*path, "content")
        if _speaker(message) is not Speaker.USER or not isinstance(content, list):
            yield _speaker(message), _texts(content, place)
            continue
        results = any(
            isinstance(block, dict) and block.get("type") == "tool_result" for block in content
        )
        for kind in (
            "tool_result",
            "search_result",
            "text",
            "document",
        ):  # a document is read with its question
            if kind == "text":
                yield (
                    Speaker.BESIDE if results else Speaker.USER,
                    _texts(content, place, kinds=("text",)),
                )
                continue
            for i, block in enumerate(content):
                if isinstance(block, dict) and block.get("type") == kind:
                    yield Speaker.TOOL, _source(block, (*place, i))


def _source(block: object, path: JsonPath, *, inner: bool = False) -> Iterator[Text]:
    """The texts of a document or a tool's result, and of the documents in this; not of those in these."""
    match block:
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            yield Text((*path, "source", "data"), text)
        case {"type": "document", "source": {"type": "content", "content": content}}:
            yield from _texts(content, (*path, "source", "content"), strict=False)
        case {"type": "search_result", "content": content}:
            yield from _texts(content, (*path, "content"), strict=False)
        case {"type": "tool_result", "content": content} if not inner:
            yield from _texts(content, (*path, "content"), strict=False)
            for i, part in enumerate(content if isinstance(content, list) else ()):
                yield from _source(part, (*path, "content", i), inner=True)


_READERS: Mapping[Api, Callable[[Values], Spoken]] = {
    Api.CHAT: lambda values: (
        (_speaker(said), _texts(said.get("content"), (*path, "content"))) for path, said in _items(values, "messages")
    ),
    Api.COMPLETIONS: _completion, Api.RESPONSES: _responses, Api.MESSAGES: _messages,
}  # fmt: skip


def _items(values: Values, name: str) -> Iterator[tuple[JsonPath, dict[str, Any]]]:
    items = values.get(name)
    if items is None:
        return
    if not isinstance(items, list):
        raise _unread(f"{name} is no list")
    if len(items) > MAX_MESSAGES:
        raise ValueError(f"there are {len(items):,} messages: send {MAX_MESSAGES:,} at most")
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise _unread(f"{name} has an item that is no object")
        yield (name, i), item


def _texts(
    content: object, path: JsonPath, *, strict: bool = True, kinds: Collection[object] = ()
) -> Iterator[Text]:
    """The texts of a content: itself, or of its parts. kinds: of parts that count; without them any that has a text."""
    if isinstance(content, str):
        yield Text(path, content)
    elif isinstance(content, list):
        for i, part in enumerate(content):
            if isinstance(part, str):  # as some servers take it
                yield Text((*path, i), part)
            elif isinstance(part, dict) and (not kinds or part.get("type") in kinds):
                named = [
                    name for name in ("text", "stdout", "stderr") if isinstance(part.get(name), str)
                ]
                yield from (
                    Text((*path, i, name), part[name]) for name in named
                )  # whatever its type is called
                if not named and part.get("type") in ("text", "input_text", "output_text"):
                    raise _unread("a part of a message has no text")
            elif not isinstance(part, dict) and strict:
                raise _unread("a message has a part that is neither text nor object")
    elif content is not None and strict:
        raise _unread("a message has a content of another form")


def _speaker(message: Values) -> Speaker:
    return _SPEAKERS.get(_kind(message, "role").casefold(), Speaker.ASSISTANT)


def _kind(values: Values, name: str) -> str:
    kind = values.get(name)
    return kind if isinstance(kind, str) else ""


def _unread(why: str) -> UnreadError:
    return UnreadError("form", f"the body is in another form: {why}")
