"""Guardrails: webhooks that other gateways call before a request reaches a model.

Here they put edits in force.

LiteLLM posts {"texts": [...], "structured_messages": [...], "input_type": "request"} and reads
{"action": "NONE"}, {"action": "GUARDRAIL_INTERVENED", "texts": [...]} with as many texts, or
{"action": "BLOCKED", "blocked_reason"}. agentgateway posts {"body": {"messages": [...]}} and reads
{"action": {"reason"}}, {"action": {"body": {"messages": [...]}, "reason"}} or {"action": {"body":
"...", "status_code", "reason"}}.

Answers of models pass unchanged, and so do texts without messages: LiteLLM sends prompts to
complete in the same form as texts to embed, speak or draw. What is refused is refused with status
200, so that these guardrails fail closed: with another status, the webhook could be taken for one
that is down.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drike.conversations.imitations import defused
from drike.conversations.turns import Api, read
from drike.gateway.bodies import SMALL, parse
from drike.gateway.errors import RequestError
from drike.gateway.http.threads import in_daemon_thread

Json = dict[str, object]


class Hook(Protocol):
    """A webhook's request, in the form of another gateway.

    messages: of the chat; no list where nothing is edited.
    """

    @property
    def messages(self) -> Any:
        """The messages as they were sent."""

    @property
    def model(self) -> object:
        """The model's name, if it is text."""

    def answer(self, edited: Any) -> Json:
        """The answer where the messages became these. Raises UnreadError, ValueError."""

    def refusal(self, error: RequestError) -> Json:
        """The answer that lets the request go no further."""


@dataclass(frozen=True)
class LiteLlmHook:
    """LiteLLM's form: texts, and the messages in which they are."""

    values: Mapping[str, Any]

    @property
    def messages(self) -> Any:
        """As `Hook` says."""
        is_answer_of_model = self.values.get("input_type") == "response"
        return None if is_answer_of_model else self.values.get("structured_messages")

    @property
    def model(self) -> object:
        """As `Hook` says."""
        return self.values.get("model")

    def answer(self, edited: Any) -> Json:
        """As `Hook` says."""
        texts = self.values["texts"]
        if edited != self.messages:
            new_texts = texts_as_edited(texts, self.messages, edited)
            if new_texts != texts:
                return {"action": "GUARDRAIL_INTERVENED", "texts": new_texts}
        return {"action": "NONE"}

    def refusal(self, error: RequestError) -> Json:
        """As `Hook` says."""
        return {"action": "BLOCKED", "blocked_reason": str(error)}


@dataclass(frozen=True)
class AgentgatewayHook:
    """agentgateway's form: the chat as it is sent to the model."""

    chat: Mapping[str, Any]

    @property
    def messages(self) -> Any:
        """As `Hook` says."""
        return self.chat.get("messages")

    @property
    def model(self) -> object:
        """As `Hook` says."""
        return self.chat.get("model")

    def answer(self, edited: Any) -> Json:
        """As `Hook` says."""
        if edited == self.messages:
            return {"action": {"reason": "no edit concerns this"}}
        body = {**self.chat, "messages": edited}
        return {"action": {"body": body, "reason": "facts were added"}}

    def refusal(self, error: RequestError) -> Json:
        """As `Hook` says."""
        return {"action": {"body": str(error), "status_code": error.status, "reason": error.code}}


async def guardrail_answer(body: bytes, edit: Callable[[bytes], Awaitable[bytes]]) -> Json:
    """The answer to another gateway's webhook, whose chat `edit` edits.

    Raises ValueError for another form.
    """
    if len(body) <= SMALL:
        values = parse(body)
    else:
        values = await in_daemon_thread(parse, body)
    hook = read_hook(values or {})

    if not isinstance(hook.messages, list):
        return hook.answer(hook.messages)
    chat: dict[str, object] = {"messages": hook.messages}
    if isinstance(hook.model, str):
        chat["model"] = hook.model
    try:
        edited_chat = json.loads(await edit(json.dumps(chat).encode()))
    except RequestError as refusal:
        return hook.refusal(refusal)
    return hook.answer(edited_chat["messages"])


def read_hook(values: Mapping[str, Any]) -> Hook:
    """The request of a webhook. Raises ValueError for another form."""
    chat = values.get("body")
    if isinstance(chat, dict):
        return AgentgatewayHook(chat)
    if isinstance(values.get("texts"), list):
        return LiteLlmHook(values)
    raise ValueError(
        'the body has neither "texts" nor "body": send the form of LiteLLM or of agentgateway'
    )


def texts_as_edited(texts: list[Any], messages: list[Any], edited: list[Any]) -> list[Any]:
    """The texts of messages as these were edited.

    Each is sought among the texts from the end, as LiteLLM leaves some out, and the last turn
    matters most.
    """
    new_texts = [defused(text) if isinstance(text, str) else text for text in texts]
    places_by_text: dict[str | None, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        places_by_text[text if isinstance(text, str) else None].append(i)

    before = read(Api.CHAT, {"messages": messages}).texts
    after = read(Api.CHAT, {"messages": edited}).texts
    place = len(texts)  # of the text that was found last
    for path, text in reversed(list(before.items())):
        places = places_by_text[text]
        earlier = bisect_left(places, place)
        if earlier:
            place = places[earlier - 1]
            new_texts[place] = after[path]
    return new_texts
