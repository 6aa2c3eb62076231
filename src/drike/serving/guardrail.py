"""Webhooks by which other gateways ask for edits: LiteLLM's generic guardrail, and agentgateway's guardrail webhook.

LiteLLM posts {"texts": [...], "structured_messages": [...], "input_type": "request"} and reads {"action": "NONE"},
{"action": "GUARDRAIL_INTERVENED", "texts": [...]} with as many texts, or {"action": "BLOCKED", "blocked_reason"}.
agentgateway posts {"body": {"messages": [...]}} and reads {"action": {"reason"}}, {"action": {"body": {"messages":
[...]}, "reason"}} or {"action": {"body": "...", "status_code", "reason"}}. Answers of models pass, and so do texts
without messages: LiteLLM sends prompts to complete in the same form as texts to embed, to speak or to draw.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from drike.serving.context import chat_target, parse
from drike.serving.relay import RequestError

# LiteLLM appends the second; agentgateway asks for /request and /response, wherever its configuration puts them.
_ENDS = (b"", b"/beta/litellm_basic_guardrail_api", b"/request", b"/response")
PATHS = frozenset((b"/request", b"/response", *(b"/guardrail" + end for end in _ENDS)))
_PASS: dict[str, object] = {"reason": "no edit concerns this"}


async def answer(body: bytes, edit: Callable[[bytes], Awaitable[bytes]]) -> dict[str, object]:
    """The answer to a webhook. Raises ValueError for another form.

    edit: gives the body of a chat with its edits; a RequestError of it refuses the chat, as a status other than 200
    could be taken for a webhook that is down.
    """
    asked = parse(body) or {}
    inner, texts = asked.get("body"), asked.get("texts")
    if isinstance(inner, dict):
        messages = inner.get("messages")
        try:
            edited = await _messages(messages, edit) if isinstance(messages, list) else messages
        except RequestError as refused:
            return {"action": {"body": str(refused), "status_code": refused.status, "reason": refused.code}}
        change = {"body": {**inner, "messages": edited}, "reason": "facts were added"}
        return {"action": _PASS if edited == messages else change}
    if not isinstance(texts, list):
        raise ValueError('the body has neither "texts" nor "body": send the form of LiteLLM or of agentgateway')
    messages = asked.get("structured_messages")
    if asked.get("input_type") == "response" or not isinstance(messages, list):
        return {"action": "NONE"}
    try:
        edited = await _messages(messages, edit)
    except RequestError as refused:
        return {"action": "BLOCKED", "blocked_reason": str(refused)}
    before, after = chat_target({"messages": messages}), chat_target({"messages": edited})
    if edited == messages or not before or not after or before.text not in texts:
        return {"action": "NONE"}
    last = len(texts) - 1 - texts[::-1].index(before.text)
    return {"action": "GUARDRAIL_INTERVENED", "texts": [*texts[:last], after.text, *texts[last + 1 :]]}


async def _messages(messages: list[Any], edit: Callable[[bytes], Awaitable[bytes]]) -> list[Any]:
    edited = await edit(json.dumps({"messages": messages}).encode())
    found: list[Any] = json.loads(edited)["messages"]
    return found
