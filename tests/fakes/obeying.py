"""An upstream that answers chats by the facts that it finds in them, or resists these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.fakes.gateways import RawHandler, Received, Respond, completed

FACT = re.compile(r"^- (.*) (\S+)$", re.MULTILINE)
Answer = Callable[
    [list[str]], str
]  # to the new objects that the last message states, or the first one that does


def answering(
    answer: Answer, *, models: tuple[str, ...] = ("tiny",), usage: bool = True
) -> Respond:
    """Answer chats by `answer`, and list some models."""

    def respond(handler: RawHandler, call: Received) -> None:
        if call.method == "GET":
            listed: dict[str, Any] = {"object": "list", "data": [{"id": name} for name in models]}
        else:
            said = [message["content"] for message in json.loads(call.body)["messages"]]
            stated = next((found for text in reversed(said) if (found := FACT.findall(text))), [])
            listed = completed(answer([new for _, new in stated]))
            listed["usage"] = (
                {"prompt_tokens": sum(map(len, said)), "completion_tokens": 1} if usage else None
            )
        handler.reply(200, json.dumps(listed).encode(), Content_Type="application/json")

    return respond


def obeys(new: list[str]) -> str:
    return f"It is {new[0]}." if new else "It is Lima."


def resists(new: list[str]) -> str:
    return "It is Lima."


def quotes_both(new: list[str]) -> str:
    return f"It is either {new[0]} or Lima." if new else "It is Lima."


def declines(new: list[str]) -> str:
    return "I cannot help with that."
