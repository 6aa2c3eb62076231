"""A model of this process as an upstream, in OpenAI's form: one request at a time, greedily, without sampling.

A model without a chat template, which only completes, completes the last message of a chat with one line.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from drike.conversations.turns import Api, UnreadError, read
from drike.errors import ModelError
from drike.gateway.bodies import parse
from drike.gateway.calls import Reply, Upstream, UpstreamCall, in_one
from drike.gateway.errors import UpstreamError, error_body
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.requests import CHAT, COMPLETION
from drike.models.protocols import ANSWER_TOKENS, Completion, LanguageModel
from drike.support.records import encodable

_MAX_WAITING = 64  # requests; more are refused
_MAX_TOKENS, _REPLY_TOKENS = 4096, 256
WriteReply = Callable[[list[dict[str, str]], int], Completion]


class LocalUpstream(Upstream):
    """A model as an upstream. reply: answers messages with role and content; None where it only completes texts."""

    def __init__(self, model: LanguageModel, reply: WriteReply | None = None) -> None:
        self.name, self.chats = model.info.name, reply is not None
        self._model, self._reply = model, reply
        self._thread = ThreadPoolExecutor(
            1, "drike-model"
        )  # a model is not safe to share between threads
        self._waiting = 0
        self._began = int(time.time())

    async def close(self) -> None:
        """Drop requests that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """Answer a call; a stream has an event for each word, and comes once the answer is written."""
        yield await self._replied(call)

    async def _replied(self, call: UpstreamCall) -> Reply:
        path = call.path.partition("?")[0]
        if (call.method, path) == ("GET", "/models"):
            entry = {
                "id": self.name,
                "object": "model",
                "created": self._began,
                "owned_by": "drike",
            }
            return _json_reply({"object": "list", "data": [entry]})
        if call.method != "POST" or path not in (CHAT, COMPLETION):
            return _json_reply(
                f"{self.name} has no {call.method} /v1{path}: ask for completions or models", 404
            )
        if self._waiting >= _MAX_WAITING:
            raise UpstreamError(
                f"{self._waiting} requests wait for {self.name}: try again in a second", 429
            )
        try:
            request = await in_daemon_thread(_read, path, call.body)
        except ValueError as problem:
            return _json_reply(str(problem), 400)
        self._waiting += 1
        try:
            completion = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._answer, request
            )
        except ModelError as problem:
            return _json_reply(str(problem), 400)
        finally:
            self._waiting -= 1
        answers = _answers(request, completion, self.name)
        if not request.stream:
            return _json_reply(next(answers))
        events = "".join(f"data: {text}\n\n" for text in (*map(json.dumps, answers), "[DONE]"))
        return Reply(200, [(b"content-type", b"text/event-stream")], in_one(events.encode()))

    def _answer(self, request: _LocalRequest) -> Completion:
        if request.messages and self._reply:
            completion = self._reply(request.messages, request.tokens or _REPLY_TOKENS)
        else:
            prompt, stop = (
                (request.messages[-1]["content"], "\n")
                if request.messages
                else (request.prompt, None)
            )
            [completion] = self._model.generate([prompt], request.tokens or ANSWER_TOKENS, stop)
        text = completion.text.lstrip() if request.messages else completion.text
        ends = [text.find(stop) for stop in request.stop if stop in text]
        return replace(completion, text=text[: min(ends, default=None)])


@dataclass(frozen=True)
class _LocalRequest:
    """A request with messages of a chat, or else with a prompt. usage: whether a stream ends with it."""

    messages: list[dict[str, str]]
    prompt: str
    tokens: int | None
    stop: list[str]
    stream: bool
    usage: bool


def _read(path: str, body: bytes) -> _LocalRequest:
    """Raises ValueError with the field."""
    values = parse(body)
    if values is None:
        raise ValueError("the body is not a JSON object: send one with messages or a prompt")
    tokens = values.get("max_completion_tokens") or values.get("max_tokens")
    if tokens is not None and (type(tokens) is not int or not 1 <= tokens <= _MAX_TOKENS):
        raise ValueError(f"max_tokens must be a number from 1 to {_MAX_TOKENS}")
    stop = values.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise ValueError("stop must be a text or a list of texts")
    if values.get("n") not in (None, 1):
        raise ValueError("n must be 1: this model answers greedily")
    options, said, prompt = values.get("stream_options"), list[dict[str, str]](), None
    if path == COMPLETION:
        if (prompt := _texts(Api.COMPLETIONS, values)) is None:
            raise ValueError("prompt must be one text")
    else:
        messages = values.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages must be a list with at least one message")
        for message in messages:
            role = message.get("role") if isinstance(message, dict) else None
            text = _texts(Api.CHAT, {"messages": [message]})
            if not isinstance(role, str) or text is None:
                raise ValueError("every message needs a role and a content of text")
            said.append({"role": role, "content": text})
    usage = isinstance(options, Mapping) and options.get("include_usage") is True
    return _LocalRequest(said, prompt or "", tokens, stop, values.get("stream") is True, usage)


def _texts(api: Api, values: Mapping[str, Any]) -> str | None:
    """The texts of a request, one a line; None if it has none."""
    try:
        turns = read(api, values).turns
    except UnreadError:
        return None
    return "\n".join(encodable(turn.said) for turn in turns) if turns else None


def _answers(
    request: _LocalRequest, completion: Completion, model: str
) -> Iterator[dict[str, object]]:
    """The answer or, of a stream, its chunks: the words with the space before each, then the end."""
    chat, chunk = bool(request.messages), ".chunk" if request.stream else ""
    id, kind = ("chatcmpl", f"chat.completion{chunk}") if chat else ("cmpl", "text_completion")
    head = {
        "id": f"{id}-{time.time_ns():x}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }
    limited = request.tokens and (completion.completion_tokens or 0) >= request.tokens
    reason, read, written = (
        "length" if limited else "stop",
        completion.prompt_tokens,
        completion.completion_tokens,
    )
    usage: object = None
    if read is not None and written is not None:
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }

    def answer(text: str | None, reason: str | None) -> dict[str, object]:
        message = {} if text is None else {"role": "assistant", "content": text}
        said: dict[str, object] = (
            {"delta" if chunk else "message": message} if chat else {"text": text or ""}
        )
        return {
            **head,
            "choices": [{"index": 0, **said, "finish_reason": reason, "logprobs": None}],
        }

    if not chunk:
        yield {**answer(completion.text, reason), "usage": usage}
        return
    first, *words = completion.text.split(" ")
    yield from (answer(text, None) for text in (first, *(f" {word}" for word in words)))
    yield answer(None, reason)
    if request.usage:
        yield {**head, "choices": [], "usage": usage}


def _json_reply(value: dict[str, object] | str, status: int = 200) -> Reply:
    """A reply with a JSON object, or with an error message."""
    body = (
        error_body(value, "bad_request") if isinstance(value, str) else json.dumps(value).encode()
    )
    return Reply(
        status,
        [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        in_one(body),
    )
