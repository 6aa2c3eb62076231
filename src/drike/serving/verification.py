"""Ask the upstream, yes or no, about the edits on which a gate is in doubt: the model of the request, with its headers.

No limit on tokens suits every server: newer models of OpenAI refuse `max_tokens` and a temperature with status 400,
many other servers do not know `max_completion_tokens`. The name that the request itself uses comes first, else
`max_tokens`; status 400 leads to the other one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from drike.gates.decision import Decision, YesOrNo
from drike.gates.verification import answer_of, questions
from drike.serving.upstream import Call, Upstream, UpstreamError

_KEPT = ("model", "reasoning_effort", "chat_template_kwargs")  # who answers, and how much it thinks
_BRIEF: Mapping[str, object] = {"max_tokens": 16, "temperature": 0}
_THINKING: Mapping[str, object] = {"max_completion_tokens": 512}  # includes what the model thinks
_DROPPED = frozenset((b"accept", b"accept-encoding", b"idempotency-key"))
_DONE, _REFUSED = 200, 400


async def answers(
    upstream: Upstream, call: Call, parsed: Mapping[str, Any], decision: Decision, seconds: float
) -> list[YesOrNo]:
    """What the upstream says about each doubtful candidate, all asked at once. It never raises.

    call, parsed: the request in which the doubt arose, and its body. seconds: what is not answered then has failed.
    """
    return await asyncio.gather(*(_answer(upstream, call, parsed, one, seconds) for one in questions(decision)))


async def _answer(upstream: Upstream, call: Call, parsed: Mapping[str, Any], question: str, seconds: float) -> YesOrNo:
    chat = call.path.startswith("/chat")
    asked = {"messages": [{"role": "user", "content": question}]} if chat else {"prompt": question}
    kept = {name: parsed[name] for name in _KEPT if name in parsed}
    headers = [pair for pair in call.headers if pair[0] not in _DROPPED]
    try:
        async with asyncio.timeout(seconds):
            for limit in (_THINKING, _BRIEF) if "max_completion_tokens" in parsed else (_BRIEF, _THINKING):
                body = json.dumps({**kept, **asked, **limit}).encode()
                async with upstream.exchange(Call("POST", call.path, headers, body)) as reply:
                    raw = b"".join([chunk async for chunk in reply.chunks])
                if reply.status != _REFUSED:
                    break
        choice = json.loads(raw)["choices"][0] if reply.status == _DONE else {}
        return answer_of(choice["message"]["content"] if chat else choice["text"])
    except (UpstreamError, TimeoutError, ValueError, LookupError, TypeError):
        return YesOrNo.FAILED
