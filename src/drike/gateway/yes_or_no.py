"""Asks the upstream, yes or no, whether a question concerns an uncertain edit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

from starlette.datastructures import MutableHeaders

from drike.conversations.turns import Api
from drike.gates.confirmation import answer_of
from drike.gates.decision import YesOrNo
from drike.gateway.answers import text_of
from drike.gateway.calls import Upstream, UpstreamCall, whole
from drike.gateway.errors import UpstreamError
from drike.gateway.requests import EditableRequest
from drike.models.served.failures import failure_in
from drike.models.served.quirks import NEWER_LIMIT, for_newer_models

# Keys under which a request has its text; the requests of other APIs have messages.
_TEXT_KEYS = {Api.COMPLETIONS: "prompt", Api.RESPONSES: "input"}
# What a question takes over of the user's request: who answers, and how much it thinks.
_TAKEN_OVER = ("model", "reasoning_effort", "chat_template_kwargs")
# Headers of the user's request that a question does without.
_LEFT_OUT = ("accept", "accept-encoding", "content-encoding", "idempotency-key")

# Limits on an answer. The kind that the user's request itself has comes first; status 400 leads to
# the other one.
_Limit = Mapping[str, object]
_BRIEF: _Limit = {"max_tokens": 16, "temperature": 0}
_THINKING: _Limit = {**for_newer_models(_BRIEF), NEWER_LIMIT: 512}  # includes what the model thinks
_OF_RESPONSES: _Limit = {"max_output_tokens": 512, "store": False}
_THINKING_OF_MESSAGES: _Limit = {"max_tokens": 512}


async def ask_upstream(
    upstream: Upstream, call: UpstreamCall, request: EditableRequest, question: str, seconds: float
) -> YesOrNo:
    """What the upstream says to a question within so many seconds; it never raises.

    call, request: of the user.
    """
    taken_over = {name: request.values[name] for name in _TAKEN_OVER if name in request.values}
    values = {**taken_over, **_text(request.conversation.api, question)}
    path = _path(request.conversation.api, call)
    headers = MutableHeaders(raw=list(call.headers))
    for name in _LEFT_OUT:
        del headers[name]

    with suppress(UpstreamError, TimeoutError, ValueError, LookupError, TypeError, AttributeError):
        async with asyncio.timeout(seconds):
            for limit in _limits(request):
                body = json.dumps({**values, **limit}).encode()
                question_call = UpstreamCall("POST", path, headers.raw, body, call.tenant)
                async with upstream.exchange(question_call) as reply:
                    raw = await whole(reply)
                if reply.status != 400:
                    break
        if reply.status == 200:
            values = json.loads(raw)
            if failure_in(values, str) is None:
                return answer_of(text_of(values))
    return YesOrNo.FAILED


def _text(api: Api, question: str) -> Mapping[str, object]:
    """The question in the form of an API."""
    if api in _TEXT_KEYS:
        return {_TEXT_KEYS[api]: question}
    return {"messages": [{"role": "user", "content": question}]}


def _path(api: Api, call: UpstreamCall) -> str:
    """Where the question is sent.

    This is not where tokens are only counted, though the user's request may be.
    """
    if api in (Api.RESPONSES, Api.MESSAGES):
        return "/" + call.endpoint.split("/")[1]
    return call.path


def _limits(request: EditableRequest) -> Sequence[_Limit]:
    """The limits on an answer, to be tried in turn."""
    api = request.conversation.api
    if api is Api.RESPONSES:
        return (_OF_RESPONSES,)
    if api is Api.MESSAGES:
        return (_BRIEF, _THINKING_OF_MESSAGES)
    if NEWER_LIMIT in request.values:
        return (_THINKING, _BRIEF)
    return (_BRIEF, _THINKING)
