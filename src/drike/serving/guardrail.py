"""Webhooks by which other gateways ask for edits: LiteLLM's generic guardrail, and agentgateway's guardrail webhook.

LiteLLM posts {"texts": [...], "structured_messages": [...], "input_type": "request"} and reads {"action": "NONE"},
{"action": "GUARDRAIL_INTERVENED", "texts": [...]} with as many texts, or {"action": "BLOCKED", "blocked_reason"}.
agentgateway posts {"body": {"messages": [...]}} and reads {"action": {"reason"}}, {"action": {"body": {"messages":
[...]}, "reason"}} or {"action": {"body": "...", "status_code", "reason"}}. Answers of models pass unchanged, and so do
texts without messages: LiteLLM sends prompts to complete in the same form as texts to embed, to speak or to draw.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from drike.conversations.rendering import defused
from drike.conversations.turns import Api, read
from drike.serving.relay import RequestError
from drike.serving.requests import SMALL, parse
from drike.serving.threads import in_daemon_thread

_PASS: dict[str, object] = {"reason": "no edit concerns this"}
EditChat = Callable[[bytes], Awaitable[bytes]]


async def answer(body: bytes, edit: EditChat) -> dict[str, object]:
    """The answer to a webhook, whose chat `edit` edits. Raises ValueError for another form.

    What `edit` refuses is refused with status 200: with another one, the webhook could be taken for one that is down.
    """
    values = (parse(body) if len(body) <= SMALL else await in_daemon_thread(parse, body)) or {}
    chat, texts = values.get("body"), values.get("texts")
    messages: Any = values.get("structured_messages")
    if isinstance(chat, dict):
        messages = chat.get("messages")
    elif not isinstance(texts, list):
        raise ValueError('the body has neither "texts" nor "body": send the form of LiteLLM or of agentgateway')
    elif values.get("input_type") == "response":
        messages = None
    edited = messages
    try:
        if isinstance(messages, list):
            edited = json.loads(await edit(json.dumps({"messages": messages}).encode()))["messages"]
    except RequestError as refusal:
        if not isinstance(chat, dict):
            return {"action": "BLOCKED", "blocked_reason": str(refusal)}
        return {"action": {"body": str(refusal), "status_code": refusal.status, "reason": refusal.code}}
    if isinstance(chat, dict):
        change = {"body": {**chat, "messages": edited}, "reason": "facts were added"}
        return {"action": _PASS if edited == messages else change}
    changed = texts if edited == messages else _changed(texts or [], messages, edited)
    return {"action": "NONE"} if changed == texts else {"action": "GUARDRAIL_INTERVENED", "texts": changed}


def _changed(texts: list[Any], messages: list[Any], edited: list[Any]) -> list[Any]:
    """The texts as edited, each sought from the end, as LiteLLM leaves some out, and the last turn matters most."""
    before, after = (read(Api.CHAT, {"messages": said}).texts for said in (messages, edited))
    changed, place = [defused(text) if isinstance(text, str) else text for text in texts], len(texts)
    for path, text in reversed(list(before.items())):
        if text in texts[:place]:
            place = max(i for i in range(place) if texts[i] == text)
            changed[place] = after[path]
    return changed
