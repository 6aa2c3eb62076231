"""A model of this process as an upstream, in OpenAI's form: one request at a time, greedily, without sampling.

Text completions are plain. A chat goes through the model's chat template; a model without one, such as the embedded
model, which only completes, completes the text of the last message with one line.
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

from drike.errors import ModelError
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, LanguageModel
from drike.serving.relay import error_body
from drike.serving.upstream import Call, Reply, UpstreamError

_WAITING = 64  # requests; more are refused
_MOST_TOKENS, _REPLY_TOKENS = 4096, 256
Replies = Callable[[list[dict[str, str]], int], Completion]


class _UnusableRequestError(ValueError):
    """A request that this model cannot answer."""


class LocalUpstream:
    """A model as an upstream.

    Args:
        model: completes texts.
        reply: answers messages with role and content; None for a model that only completes.
    """

    def __init__(self, model: LanguageModel, reply: Replies | None = None) -> None:
        self.name = model.info.name
        self._model = model
        self._reply = reply
        self._thread = ThreadPoolExecutor(1, "drike-model")  # a model is not safe to share between threads
        self._waiting = 0
        self._began = int(time.time())

    async def open(self) -> None:
        """Nothing: the model is loaded."""

    async def close(self) -> None:
        """Drop requests that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def problem(self) -> str | None:
        """None."""
        return None

    @asynccontextmanager
    async def exchange(self, call: Call) -> AsyncIterator[Reply]:
        """Answer a call; a stream comes word by word once the answer is written."""
        path = call.path.partition("?")[0]
        if (call.method, path) == ("GET", "/models"):
            entry = {"id": self.name, "object": "model", "created": self._began, "owned_by": "drike"}
            yield _whole({"object": "list", "data": [entry]})
            return
        if call.method != "POST" or path not in ("/chat/completions", "/completions"):
            yield _whole(f"{self.name} has no {call.method} /v1{path}: ask for completions or models", 404)
            return
        if self._waiting >= _WAITING:
            raise UpstreamError(f"{self._waiting} requests wait for {self.name}: try again in a second", 429)
        self._waiting += 1
        try:
            asked = _read(path, call.body)
            done = await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, asked)
        except (_UnusableRequestError, ModelError) as problem:
            yield _whole(str(problem), 400)
            return
        finally:
            self._waiting -= 1
        if asked.stream:
            yield Reply(200, [(b"content-type", b"text/event-stream")], _sent(_events(asked, done, self.name)))
        else:
            yield _whole(_object(asked, done, self.name))

    def _answer(self, asked: _Asked) -> Completion:
        if asked.messages is None or self._reply is None:
            text = asked.prompt if asked.messages is None else asked.messages[-1]["content"]
            stop = "\n" if asked.messages is not None else None
            [done] = self._model.generate([text], asked.tokens or MAX_ANSWER_TOKENS, stop)
        else:
            done = self._reply(asked.messages, asked.tokens or _REPLY_TOKENS)
        if asked.messages is not None:
            done = replace(done, text=done.text.lstrip())
        ends = [at for one in asked.stop if (at := done.text.find(one)) >= 0]
        return replace(done, text=done.text[: min(ends)]) if ends else done


@dataclass(frozen=True)
class _Asked:
    """A request: messages of a chat, or a prompt."""

    messages: list[dict[str, str]] | None
    prompt: str
    tokens: int | None
    stop: tuple[str, ...]
    stream: bool
    usage: bool


def _read(path: str, body: bytes) -> _Asked:
    """Raises _UnusableRequestError with the field."""
    try:
        values: Any = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise _UnusableRequestError("the body is no JSON object: send one with messages or a prompt")
    tokens = values.get("max_completion_tokens") or values.get("max_tokens")
    if tokens is not None and (type(tokens) is not int or not 1 <= tokens <= _MOST_TOKENS):
        raise _UnusableRequestError(f"max_tokens must be a number from 1 to {_MOST_TOKENS}")
    stop = values.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(one, str) and one for one in stop):
        raise _UnusableRequestError("stop must be a text or a list of texts")
    if values.get("n") not in (None, 1):
        raise _UnusableRequestError("n must be 1: this model answers greedily")
    options = values.get("stream_options")
    usage = isinstance(options, Mapping) and options.get("include_usage") is True
    stream = values.get("stream") is True
    more: dict[str, Any] = {"tokens": tokens, "stop": tuple(stop), "stream": stream, "usage": usage}
    if path == "/completions":
        prompt = values.get("prompt")
        prompt = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
        if not isinstance(prompt, str):
            raise _UnusableRequestError("prompt must be one text")
        return _Asked(None, _utf8(prompt), **more)
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _UnusableRequestError("messages must be a list with at least one message")
    return _Asked([_message(one) for one in messages], "", **more)


def _message(given: object) -> dict[str, str]:
    role = given.get("role") if isinstance(given, dict) else None
    content: Any = given.get("content") if isinstance(given, dict) else None
    if isinstance(content, list):
        content = "\n".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
    if not isinstance(role, str) or not isinstance(content, str):
        raise _UnusableRequestError("every message needs a role and a content of text")
    return {"role": role, "content": _utf8(content)}


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _object(asked: _Asked, done: Completion, model: str) -> dict[str, object]:
    chat = asked.messages is not None
    said = {"message": {"role": "assistant", "content": done.text}} if chat else {"text": done.text}
    choice = {"index": 0, **said, "finish_reason": _reason(asked, done), "logprobs": None}
    return {**_head(asked, model, "chat.completion"), "choices": [choice], "usage": _usage(done)}


def _events(asked: _Asked, done: Completion, model: str) -> Iterator[bytes]:
    """The chunks of a stream: the words with the space before each, then the end."""
    head, chat = _head(asked, model, "chat.completion.chunk"), asked.messages is not None
    words = done.text.split(" ")
    for word in [*words[:1], *(f" {one}" for one in words[1:])]:
        said: dict[str, object] = {"delta": {"role": "assistant", "content": word}} if chat else {"text": word}
        yield _event({**head, "choices": [{"index": 0, **said, "finish_reason": None, "logprobs": None}]})
    said = {"delta": {}} if chat else {"text": ""}
    yield _event({**head, "choices": [{"index": 0, **said, "finish_reason": _reason(asked, done), "logprobs": None}]})
    if asked.usage:
        yield _event({**head, "choices": [], "usage": _usage(done)})
    yield b"data: [DONE]\n\n"


def _head(asked: _Asked, model: str, kind: str) -> dict[str, object]:
    chat = asked.messages is not None
    id = f"{'chatcmpl' if chat else 'cmpl'}-{time.time_ns():x}"
    return {"id": id, "object": kind if chat else "text_completion", "created": int(time.time()), "model": model}


def _reason(asked: _Asked, done: Completion) -> str:
    return "length" if asked.tokens and (done.completion_tokens or 0) >= asked.tokens else "stop"


def _usage(done: Completion) -> dict[str, int] | None:
    read, written = done.prompt_tokens, done.completion_tokens
    if read is None or written is None:
        return None
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _whole(value: dict[str, object] | str, status: int = 200) -> Reply:
    """An answer, or an error from a sentence."""
    body = error_body(value, "bad_request") if isinstance(value, str) else json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return Reply(status, headers, _sent(iter([body])))


async def _sent(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
