"""Asks the upstream, yes or no, whether a question concerns an uncertain edit.

What is asked is the gateway's own: nothing of a client's request goes with it but the model, the
API and, where the upstream knows clients by these, their credentials. So no client can bend an
answer that is kept for others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from drike.conversations.turns import Api
from drike.gates.confirmation import answer_of
from drike.gates.decision import YesOrNo
from drike.gateway.answers import LONGEST_TEXT, text_of
from drike.gateway.calls import RawHeaders, Upstream, UpstreamCall, whole
from drike.gateway.errors import UpstreamError
from drike.gateway.requests import CHAT, COMPLETION, MESSAGES, RESPONSES, EditableRequest
from drike.models.served.failures import failure_in
from drike.models.served.quirks import NEWER_LIMIT, for_newer_models

_PATHS: Mapping[Api, str] = {
    Api.CHAT: CHAT,
    Api.COMPLETIONS: COMPLETION,
    Api.RESPONSES: RESPONSES,
    Api.MESSAGES: MESSAGES,
}
# Keys under which a request has its text; the requests of other APIs have messages.
_TEXT_KEYS = {Api.COMPLETIONS: "prompt", Api.RESPONSES: "input"}
# The only parameter of an address that is kept: without it, some services find no API.
_VERSION = "api-version"
# Headers that say who asks, and who pays.
_CREDENTIALS = (
    b"authorization",
    b"api-key",
    b"x-api-key",
    b"x-goog-api-key",
    b"openai-organization",
    b"openai-project",
)
_JSON_HEADERS: RawHeaders = [(b"content-type", b"application/json")]
_HEADERS_OF_MESSAGES: RawHeaders = [*_JSON_HEADERS, (b"anthropic-version", b"2023-06-01")]

# Limits on an answer, the briefest first. Status 400, or an answer that is cut off, leads to the
# next one.
_Limit = Mapping[str, object]
_BRIEF: _Limit = {"max_tokens": 16, "temperature": 0}
_THINKING: _Limit = {**for_newer_models(_BRIEF), NEWER_LIMIT: 512}  # includes what the model thinks
_LIMITS: Mapping[Api, Sequence[_Limit]] = {
    Api.CHAT: (_BRIEF, _THINKING),
    Api.COMPLETIONS: (_BRIEF, _THINKING),
    Api.RESPONSES: ({"max_output_tokens": 512, "store": False},),
    Api.MESSAGES: (_BRIEF, {"max_tokens": 512}),
}
_CUT_OFF = ("length", "max_tokens")
_MOST_KNOWN = 1_000  # models of which it is known which limit they take


@dataclass(frozen=True)
class Asked:
    """Who is asked: where, which model, and with what headers.

    headers: with the names of credentials alone where the upstream gets none of a client's. tenant:
    whose connections are used.
    """

    api: Api
    path: str
    model: str | None
    headers: tuple[tuple[bytes, bytes], ...]
    tenant: str

    @cached_property
    def key(self) -> str:
        """A word for all this, under which answers are kept; no credentials can be read in it."""
        everything = repr((self.api, self.path, self.model, self.headers, self.tenant))
        digest = hashlib.blake2b(everything.encode("utf-8", "surrogatepass"), digest_size=16)
        return digest.hexdigest()


class Asker:
    """Asks an upstream."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._first_limits: dict[str, int] = {}  # by the key of `Asked`

    def asked_for(self, call: UpstreamCall, request: EditableRequest) -> Asked:
        """Who is asked about edits in a user's request."""
        api = request.conversation.api
        model = request.values.get("model")
        headers = list(_HEADERS_OF_MESSAGES if api is Api.MESSAGES else _JSON_HEADERS)
        for name, value in call.headers:
            if name.lower() in _CREDENTIALS:
                # The upstream puts its own key into the header that has the client's.
                passed = value if self._upstream.passes_credentials else b""
                headers.append((name.lower(), passed))
        return Asked(
            api,
            _path(api, call),
            model if isinstance(model, str) else None,
            tuple(headers),
            call.tenant,
        )

    async def ask(self, asked: Asked, question: str, seconds: float) -> YesOrNo:
        """What is said to a question within so many seconds; it never raises."""
        failures = (UpstreamError, TimeoutError, ValueError, LookupError, TypeError, AttributeError)
        with suppress(*failures):
            async with asyncio.timeout(seconds):
                return await self._answer(asked, question)
        return YesOrNo.FAILED

    async def _answer(self, asked: Asked, question: str) -> YesOrNo:
        """What is said under the first limit under which an answer comes.

        Raises UpstreamError, and whatever comes of an answer in another form.
        """
        limits = _LIMITS[asked.api]
        first = self._first_limits.pop(asked.key, 0)
        for number in range(first, len(limits)):
            body = json.dumps({**_request(asked, question), **limits[number]}).encode()
            call = UpstreamCall("POST", asked.path, list(asked.headers), body, asked.tenant)
            async with self._upstream.exchange(call) as reply:
                raw = await whole(reply)
            if reply.status == 400:
                continue
            if reply.status != 200:
                return YesOrNo.FAILED
            values = json.loads(raw)
            verdict = _verdict(values)
            if verdict is not YesOrNo.FAILED:
                self._remember(asked, number)
                return verdict
            if not _is_cut_off(values):
                return YesOrNo.FAILED
        return YesOrNo.FAILED

    def _remember(self, asked: Asked, limit: int) -> None:
        """Begin with this limit the next time."""
        if len(self._first_limits) >= _MOST_KNOWN:
            self._first_limits.clear()
        self._first_limits[asked.key] = limit


def _path(api: Api, call: UpstreamCall) -> str:
    """Where a question is sent.

    This is not where tokens are only counted, though the user's request may be.
    """
    parameters = dict(parse_qsl(call.path.partition("?")[2]))
    if _VERSION not in parameters:
        return _PATHS[api]
    return f"{_PATHS[api]}?{urlencode({_VERSION: parameters[_VERSION]})}"


def _request(asked: Asked, question: str) -> Mapping[str, object]:
    """The question in the form of an API, to a model."""
    model = {} if asked.model is None else {"model": asked.model}
    if asked.api in _TEXT_KEYS:
        return {**model, _TEXT_KEYS[asked.api]: question}
    return {**model, "messages": [{"role": "user", "content": question}]}


def _verdict(values: Any) -> YesOrNo:
    if failure_in(values, str) is not None:
        return YesOrNo.FAILED
    text = text_of(values)
    return answer_of(text) if len(text) <= LONGEST_TEXT else YesOrNo.FAILED


def _is_cut_off(values: Any) -> bool:
    """Whether an answer ended at its limit, as where a model thinks first."""
    choices = values.get("choices")
    reason = choices[0].get("finish_reason") if choices else values.get("stop_reason")
    return reason in _CUT_OFF
