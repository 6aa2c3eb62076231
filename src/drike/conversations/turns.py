"""Turns of a conversation, read from requests of four APIs of OpenAI and Anthropic.

The forms of servers that imitate them are read, too. Fields that hold no text of a turn are not
looked at; a form is refused only where a text of a turn could be missed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from drike.support.records import encodable
from drike.text.transcripts import hands_on

MAX_MESSAGES = 2_000  # or items
JsonPath = tuple[str | int, ...]
Values = Mapping[str, Any]


class UnreadError(Exception):
    """A request whose texts cannot be read, though an upstream may be able to.

    `reason`: for metrics. `remedy`: what to send instead.
    """

    def __init__(
        self, reason: str, sentence: str, remedy: str = "send one text to answer, in plain JSON"
    ) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.remedy = remedy


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
    """What one speaker says at once.

    A user's turn is one question; each text of a tool's is a source of its own.
    """

    speaker: Speaker
    texts: tuple[Text, ...]

    @property
    def said(self) -> str:
        """Its texts, one a line."""
        return "\n".join(text for _, text in self.texts)


@dataclass(frozen=True)
class Conversation:
    """The turns of a request that have texts.

    before: the upstream's id of earlier turns, if it holds these. stays: whether that id is the
    conversation's in all its requests, not the last response's.
    """

    api: Api
    turns: tuple[Turn, ...]
    before: str | None = None
    stays: bool = False

    @property
    def texts(self) -> Mapping[JsonPath, str]:
        """All texts, by their keys in the request."""
        return {path: text for turn in self.turns for path, text in turn.texts}

    @property
    def question(self) -> Turn | None:
        """The last turn, if it is a user's."""
        if self.turns and self.turns[-1].speaker is Speaker.USER:
            return self.turns[-1]
        return None

    @property
    def said(self) -> str:
        """What the user says last, if need be beside a tool's result; "" if others end."""
        if self.turns and self.turns[-1].speaker in (Speaker.USER, Speaker.BESIDE):
            return encodable(self.turns[-1].said)
        return ""


_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "human": Speaker.USER,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
    "ipython": Speaker.TOOL,
    "observation": Speaker.TOOL,
}
_FIELDS_OF_TURNS = ("messages", "input")  # lists whose items are turns


def read(api: Api, values: Values) -> Conversation:
    """The conversation of a request.

    Raises UnreadError if texts could be missed, ValueError for too many messages.
    """
    turns: list[Turn] = []
    for (speaker, _), spoken in groupby(_spoken_texts(api, values), key=_turn_of):
        turns.append(_turn(speaker, tuple(text for _, text in spoken)))

    if api is not Api.RESPONSES:
        return Conversation(api, tuple(turns))
    response_id = values.get("previous_response_id")
    before = response_id or _id_of_conversation(values)
    if not isinstance(before, str):
        return Conversation(api, tuple(turns))
    return Conversation(api, tuple(turns), before, stays=not response_id)


def _turn(speaker: Speaker, texts: tuple[Text, ...]) -> Turn:
    """A turn; where an agent hands on what the user said, it is read as the user's."""
    turn = Turn(speaker, texts)
    if speaker is Speaker.ASSISTANT and hands_on(turn.said):
        return Turn(Speaker.USER, texts)
    return turn


def _spoken_texts(api: Api, values: Values) -> Iterator[tuple[Speaker, Text]]:
    """Each text of a request with its speaker, in the order in which a model reads them."""
    for speaker, texts in _READERS[api](values):
        for text in texts:
            yield speaker, text


def _turn_of(spoken: tuple[Speaker, Text]) -> tuple[Speaker, JsonPath]:
    """What the texts of one turn have in common: their speaker, and their message or field."""
    speaker, text = spoken
    depth = 2 if text.path[0] in _FIELDS_OF_TURNS else 1
    return speaker, text.path[:depth]


def _id_of_conversation(values: Values) -> object:
    """The id of a conversation that the upstream stores and the request continues, if any."""
    conversation = values.get("conversation")
    if isinstance(conversation, dict):
        return conversation.get("id")
    return conversation


Spoken = Iterator[tuple[Speaker, Iterable[Text]]]


def _chat(values: Values) -> Spoken:
    for path, message in _items(values, "messages"):
        yield _speaker(message), _texts(message.get("content"), (*path, "content"))


def _completion(values: Values) -> Spoken:
    prompt = values.get("prompt")
    if isinstance(prompt, str):
        yield Speaker.USER, [Text(("prompt",), prompt)]
    elif isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        yield Speaker.USER, [Text(("prompt", 0), prompt[0])]
    elif prompt not in (None, []):
        raise _unread("it has several prompts, or tokens")


def _responses(values: Values) -> Spoken:
    instructions = values.get("instructions")
    if isinstance(instructions, str):
        yield Speaker.SYSTEM, [Text(("instructions",), instructions)]

    text = values.get("input")
    if text is None and isinstance(values.get("prompt"), dict):
        raise _unread("its prompt is stored at the upstream")
    if isinstance(text, str):
        yield Speaker.USER, [Text(("input",), text)]
        return
    for path, item in _items(values, "input"):
        kind = _text_field(item, "type") or "message"
        if kind == "message":
            yield _speaker(item), _texts(item.get("content"), (*path, "content"))
        elif "output" in item:  # of a function, a shell, a search, whatever the tool is
            yield Speaker.TOOL, _texts(item["output"], (*path, "output"), strict=False)


def _messages(values: Values) -> Spoken:
    yield Speaker.SYSTEM, _texts(values.get("system"), ("system",))
    for path, message in _items(values, "messages"):
        content = message.get("content")
        content_path = (*path, "content")
        if _speaker(message) is Speaker.USER and isinstance(content, list):
            yield from _user_blocks(content, content_path)
        else:
            yield _speaker(message), _texts(content, content_path)


def _user_blocks(content: list[Any], path: JsonPath) -> Spoken:
    """The blocks of a user's message to Anthropic.

    What tools returned comes first, then the user's text; documents come last, as they are read
    with their question.
    """
    has_results = any(_text_field(block, "type") == "tool_result" for block in content)
    yield from _sources(content, path, "tool_result")
    yield from _sources(content, path, "search_result")
    speaker = Speaker.BESIDE if has_results else Speaker.USER
    yield speaker, _texts(content, path, kinds=("text",))
    yield from _sources(content, path, "document")


def _sources(content: list[Any], path: JsonPath, kind: str) -> Spoken:
    """The texts of each block of a kind."""
    for place, block in enumerate(content):
        if _text_field(block, "type") == kind:
            yield Speaker.TOOL, _source(block, (*path, place))


def _source(block: object, path: JsonPath) -> Iterator[Text]:
    """The texts of a document or a tool's result, and of the documents in this result."""
    match block:
        case {"type": "tool_result", "content": content}:
            content_path = (*path, "content")
            yield from _texts(content, content_path, strict=False)
            if isinstance(content, list):
                for place, part in enumerate(content):
                    yield from _document(part, (*content_path, place))
        case _:
            yield from _document(block, path)


def _document(block: object, path: JsonPath) -> Iterator[Text]:
    """The texts of a document or a search result; nothing of any other block."""
    match block:
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            yield Text((*path, "source", "data"), text)
        case {"type": "document", "source": {"type": "content", "content": content}}:
            yield from _texts(content, (*path, "source", "content"), strict=False)
        case {"type": "search_result", "content": content}:
            yield from _texts(content, (*path, "content"), strict=False)


_READERS: Mapping[Api, Callable[[Values], Spoken]] = {
    Api.CHAT: _chat,
    Api.COMPLETIONS: _completion,
    Api.RESPONSES: _responses,
    Api.MESSAGES: _messages,
}


def _items(values: Values, name: str) -> Iterator[tuple[JsonPath, dict[str, Any]]]:
    """The items of a list of turns, with their keys."""
    items = values.get(name)
    if items is None:
        return
    if not isinstance(items, list):
        raise _unread(f"{name} is no list")
    if len(items) > MAX_MESSAGES:
        raise ValueError(f"there are {len(items):,} messages: send {MAX_MESSAGES:,} at most")
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise _unread(f"{name} has an item that is no object")
        yield (name, place), item


def _texts(
    content: object, path: JsonPath, *, strict: bool = True, kinds: Collection[str] = ()
) -> Iterator[Text]:
    """The texts of a content: itself, or those of its parts.

    strict: whether a text could be missed in a content of another form. kinds: of parts that count;
    without them any that has a text.
    """
    if isinstance(content, str):
        yield Text(path, content)
    elif isinstance(content, list):
        for place, part in enumerate(content):
            part_path = (*path, place)
            if isinstance(part, str):  # as some servers take it
                yield Text(part_path, part)
            elif isinstance(part, dict):
                if not kinds or part.get("type") in kinds:
                    yield from _texts_of_part(part, part_path)
            elif strict:
                raise _unread("a message has a part that is neither text nor object")
    elif content is not None and strict:
        raise _unread("a message has a content of another form")


def _texts_of_part(part: dict[str, Any], path: JsonPath) -> Iterator[Text]:
    """The texts of a part, whatever its type is called."""
    names = [name for name in ("text", "stdout", "stderr") if isinstance(part.get(name), str)]
    if not names and part.get("type") in ("text", "input_text", "output_text"):
        raise _unread("a part of a message has no text")
    for name in names:
        yield Text((*path, name), part[name])


def _speaker(message: Values) -> Speaker:
    role = _text_field(message, "role").casefold()
    return _SPEAKERS.get(role, Speaker.ASSISTANT)


def _text_field(values: object, name: str) -> str:
    """A field of an object that is a text; "" if there is none."""
    value = values.get(name) if isinstance(values, Mapping) else None
    return value if isinstance(value, str) else ""


def _unread(why: str) -> UnreadError:
    return UnreadError("form", f"the body is in another form: {why}")
