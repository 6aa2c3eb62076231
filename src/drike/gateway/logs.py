"""Conversations in logs of requests and in files of questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drike.conversations.turns import Api, Conversation, Speaker, Text, Turn, UnreadError, read
from drike.errors import DataError
from drike.gateway.bodies import parse, read_json
from drike.support.records import encodable

_LOGGED = ("body", "request")  # keys under which logs keep a request
_TEXTS = ("messages", "prompt", "input")  # keys under which a request has its texts
_QUESTIONS = ("query", "question")
_TOO_MUCH = "too deep, or with too many messages"


def single_question(text: str) -> Conversation | None:
    """The conversation in which a user asks this; None for a blank text."""
    if not text.strip():
        return None
    question = Text(("messages", 0, "content"), encodable(text))
    return Conversation(Api.CHAT, (Turn(Speaker.USER, (question,)),))


def logged(line: bytes) -> Conversation | None:
    """The conversation of a request in a log; None if no user asks anything at its end.

    A line is a request or a question as JSON: an object with `messages`, `prompt`, `input`, `query`
    or `question`, or with such an object as its `body` or `request`, which may be JSON in a string;
    or a string. Raises ValueError for another line, with the reason as a noun.
    """
    values = _logged_values(line)
    if isinstance(values, str):
        return single_question(values)
    if not isinstance(values, dict):
        raise ValueError("no JSON object")

    conversation = _conversation_in(values)
    if conversation is not None:
        return conversation
    for key in _QUESTIONS:
        question = values.get(key)
        if isinstance(question, str):
            return single_question(question)
    if values.keys().isdisjoint(_TEXTS):
        raise ValueError("no messages, prompt, input, query or question")
    return None


def _logged_values(line: bytes) -> object:
    """The request in a line, without what the log has around it. Raises ValueError."""
    try:
        values: object = parse(line)
    except ValueError:
        raise ValueError(_TOO_MUCH) from None
    if values is None:
        values = _json_or_none(line)

    for key in _LOGGED:
        inner = values.get(key) if isinstance(values, dict) else None
        if isinstance(inner, str):
            inner = _json_or_none(inner)
        if isinstance(inner, dict):
            values = inner
    return values


def _conversation_in(values: Mapping[str, object]) -> Conversation | None:
    """The conversation of a request that ends with a user's question; None for all else.

    Raises ValueError.
    """
    if "messages" in values:
        api = Api.MESSAGES if "system" in values else Api.CHAT
    elif "input" in values:
        api = Api.RESPONSES
    else:
        api = Api.COMPLETIONS
    try:
        conversation = read(api, values)
    except UnreadError:
        return None
    except ValueError:
        raise ValueError(_TOO_MUCH) from None
    return conversation if conversation.said.strip() else None


def _json_or_none(text: bytes | str) -> object:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None


def read_questions(path: Path) -> list[Conversation]:
    """The different conversations of a file: .jsonl as `logged` reads it, or a question a line.

    Raises DataError.
    """
    try:
        if path.suffix.casefold() == ".jsonl":
            conversations = _logged_in(path)
        else:
            lines = path.read_text("utf-8").splitlines()
            conversations = [single_question(line.strip()) for line in lines]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None

    different = list(dict.fromkeys(conversation for conversation in conversations if conversation))
    if not different:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return different


def _logged_in(path: Path) -> list[Conversation | None]:
    """The conversation of each line.

    Raises OSError, and DataError with the number of a line that is none.
    """
    conversations = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            conversations.append(logged(line))
        except ValueError as problem:
            remedy = "correct it, or name the file .txt"
            raise DataError(
                f"{path}, line {number} is not a request ({problem}): {remedy}"
            ) from None
    return conversations
