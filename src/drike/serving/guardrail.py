"""Webhooks by which other gateways ask for edits: LiteLLM's generic guardrail, and agentgateway's guardrail webhook.

LiteLLM posts {"texts": [...], "structured_messages": [...], "input_type": "request"} and reads {"action": "NONE"}, or
{"action": "GUARDRAIL_INTERVENED", "texts": [...]} with as many texts. agentgateway posts {"body": {"messages": [...]}}
and reads {"action": {"reason"}} or {"action": {"body": {"messages": [...]}, "reason"}}. Answers of models pass.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from drike.serving.context import chat_target, parse

PATHS = frozenset(b"/guardrail" + end for end in (b"", b"/beta/litellm_basic_guardrail_api", b"/request", b"/response"))
_PASS: dict[str, object] = {"reason": "no edit concerns this"}


async def answer(body: bytes, edit: Callable[[bytes], Awaitable[bytes]]) -> dict[str, object]:
    """The answer to a webhook. edit: gives the body of a chat with its edits. Raises ValueError for another form."""
    asked = parse(body) or {}
    inner = asked.get("body")
    if isinstance(inner, dict):
        messages = inner.get("messages")
        edited = await _messages(messages, edit) if isinstance(messages, list) else messages
        change = {"body": {**inner, "messages": edited}, "reason": "facts were added"}
        return {"action": _PASS if edited == messages else change}
    texts = asked.get("texts")
    if not isinstance(texts, list):
        raise ValueError('the body has neither "texts" nor "body": send the form of LiteLLM or of agentgateway')
    if asked.get("input_type") == "response":
        return {"action": "NONE"}
    messages = asked.get("structured_messages")
    if not isinstance(messages, list) or not messages:
        messages = [{"role": "user", "content": text} for text in texts] if len(texts) == 1 else []
    edited = await _messages(messages, edit)
    before, after = chat_target({"messages": messages}), chat_target({"messages": edited})
    if edited == messages or not before or not after or before.text not in texts:
        return {"action": "NONE"}
    last = len(texts) - 1 - texts[::-1].index(before.text)
    return {"action": "GUARDRAIL_INTERVENED", "texts": [*texts[:last], after.text, *texts[last + 1 :]]}


async def _messages(messages: list[Any], edit: Callable[[bytes], Awaitable[bytes]]) -> list[Any]:
    edited = await edit(json.dumps({"messages": messages}).encode())
    found: list[Any] = json.loads(edited)["messages"]
    return found
