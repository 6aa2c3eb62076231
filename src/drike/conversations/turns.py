"""Turns of a conversation, whatever the API that it was sent to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

JsonPath = tuple[str | int, ...]


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
        """What the user says last; "" if that is not the end."""
        return encodable(self.question.said) if self.question else ""


def encodable(text: str) -> str:
    """A text with a question mark for each lone surrogate, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()
