"""A model of this process as an upstream, in OpenAI's form.

It answers greedily, without sampling. Requests that wait together are answered together, if they
ask for as many tokens and for no stream; all others one at a time. Together, sums are rounded
otherwise than alone, so that of two tokens that are about equally likely the other may be written.

A model without a chat template, which only completes, completes the last message of a chat with one
line.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from drike.conversations.turns import Api, UnreadError, read
from drike.errors import ModelError
from drike.gateway.bodies import parse
from drike.gateway.calls import Reply, Upstream, UpstreamCall, in_one
from drike.gateway.errors import UpstreamError, error_body
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.requests import CHAT, COMPLETION
from drike.models.protocols import ANSWER_TOKENS, Completion, ContrastiveModel, LanguageModel
from drike.models.served.quirks import NEWER_LIMIT, OLDER_LIMIT
from drike.prompts import NO_CONTRAST, Against, Contrast
from drike.support.records import encodable

_MAX_WAITING = 64  # requests; more are refused
_MAX_TOGETHER = 16  # requests that are answered at once
_MAX_TOKENS = 4096  # that a request may ask for
_REPLY_TOKENS = 256  # of a reply in a chat, where the request does not say

_STREAM_HEADERS = [(b"content-type", b"text/event-stream")]
_END = b"data: [DONE]\n\n"  # of a stream

Message = dict[str, str]  # with role and content
Json = dict[str, object]
Tell = Callable[[str], None]  # is given the text so far, while it is written


class WriteReply(Protocol):
    """Answers the messages of a chat, by contrast with other messages if some are given."""

    def __call__(
        self,
        messages: list[Message],
        max_tokens: int,
        tell: Tell | None = None,
        *,
        bare: list[Message] | None = None,
        contrast: Contrast | None = None,
    ) -> Completion:
        """The answer. tell: is given the text so far."""


class WriteReplies(Protocol):
    """Answers the messages of several chats together."""

    def __call__(self, conversations: Sequence[list[Message]], max_tokens: int) -> list[Completion]:
        """The answers, in order."""


@dataclass(frozen=True)
class _LocalRequest:
    """A request with messages of a chat, or else with a prompt.

    usage: whether a stream ends with it. bare: the same request without facts, with which the
    answer is contrasted.
    """

    messages: list[Message]
    prompt: str
    tokens: int | None
    stop: list[str]
    stream: bool
    usage: bool
    bare: _LocalRequest | None = None


@dataclass(frozen=True)
class _Waiting:
    """A request that waits for its answer."""

    request: _LocalRequest
    completion: Future[Completion] = field(default_factory=Future)

    @property
    def tokens(self) -> int:
        """The most tokens that its answer may have."""
        return self.request.tokens or _REPLY_TOKENS


class LocalUpstream(Upstream):
    """A model as an upstream.

    reply: answers messages with role and content; None where it only completes texts. replies:
    answers several chats together; None if it cannot. contrast: answers under facts are contrasted
    with those without, unless alpha is 0.
    """

    def __init__(
        self,
        model: LanguageModel,
        reply: WriteReply | None = None,
        contrast: Contrast = NO_CONTRAST,
        replies: WriteReplies | None = None,
    ) -> None:
        self.name = model.info.name
        self.passes_credentials = False
        self.chats = reply is not None
        self._model = model
        self._reply = reply
        self._replies = replies
        self._contrast = contrast
        self._queue = deque[_Waiting]()  # requests that may be answered together
        # One thread, as a model is not safe to share between threads.
        self._thread = ThreadPoolExecutor(1, "drike-model")
        self._waiting = 0
        self._created = int(time.time())

    async def close(self) -> None:
        """Drop requests that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """Answer a call.

        A stream has an event for each word. In a chat, words come as they are written, unless a
        text is to stop the answer, which could be found in a word that has come already.
        """
        async with AsyncExitStack() as leaving:
            yield await self._replied(call, leaving)

    async def _replied(self, call: UpstreamCall, leaving: AsyncExitStack) -> Reply:
        """The answer to a call. leaving: what is done once nobody reads it any more."""
        endpoint = call.endpoint
        if (call.method, endpoint) == ("GET", "/models"):
            return _json_reply({"object": "list", "data": [self._described()]})
        if call.method != "POST" or endpoint not in (CHAT, COMPLETION):
            sentence = (
                f"{self.name} has no {call.method} /v1{endpoint}: ask for completions or models"
            )
            return _error_reply(sentence, 404)
        if self._waiting >= _MAX_WAITING:
            raise UpstreamError(
                f"{self._waiting} requests wait for {self.name}: try again in a second", 429
            )
        try:
            request = await in_daemon_thread(_read, endpoint, call.body)
            if self._contrast.alpha and call.unedited is not None:
                bare = await in_daemon_thread(_read, endpoint, call.unedited)
                request = replace(request, bare=bare)
            if request.stream and request.messages and self._reply and not request.stop:
                return await self._streamed(request, leaving)
            completion = await self._completed(request, None)
        except (ValueError, ModelError) as problem:
            return _error_reply(str(problem), 400)
        return _answer_reply(_Answer(request, completion, self.name))

    def _described(self) -> Json:
        """The model's entry in a list of models."""
        return {
            "id": self.name,
            "object": "model",
            "created": self._created,
            "owned_by": "drike",
        }

    async def _streamed(self, request: _LocalRequest, leaving: AsyncExitStack) -> Reply:
        """The answer to a chat as a stream that has begun. Raises ModelError."""
        loop = asyncio.get_running_loop()
        texts: asyncio.Queue[str | None] = asyncio.Queue()

        def tell(text: str | None) -> None:
            loop.call_soon_threadsafe(texts.put_nowait, text)

        writing = asyncio.ensure_future(self._completed(request, tell))
        writing.add_done_callback(lambda _: texts.put_nowait(None))
        leaving.callback(writing.cancel)
        text = await texts.get()
        if text is None:
            await writing  # raises what went wrong, while that can still be said by a status

        async def events() -> AsyncIterator[bytes]:
            """The words that are whole by now, and at last the rest."""
            answer = _Answer(request, Completion(""), self.name)
            head = answer.head()
            told = text
            sent = 0
            while told is not None:
                words = told.lstrip()
                whole = max(words.rfind(" "), sent)
                if whole > sent:
                    yield _event(answer.part(head, words[sent:whole]))
                    sent = whole
                told = await texts.get()
            try:
                completion = await writing
            except ModelError as problem:
                raise UpstreamError(f"{self.name} failed: {problem}") from None
            answer = replace(answer, completion=completion)
            for chunk in answer.chunks(head, sent):
                yield _event(chunk)
            yield _END

        return Reply(200, _STREAM_HEADERS, events())

    async def _completed(self, request: _LocalRequest, tell: Tell | None) -> Completion:
        """What the model writes, once it has answered those that wait. Raises ModelError.

        tell: is told in another thread what is written.
        """
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            if self._replies and request.messages and request.bare is None and tell is None:
                waiting = _Waiting(request)
                self._queue.append(waiting)
                await loop.run_in_executor(self._thread, self._answer_first, self._replies)
                return _stopped(request, waiting.completion.result())
            return await loop.run_in_executor(self._thread, self._write, request, tell)
        finally:
            self._waiting -= 1

    def _answer_first(self, replies: WriteReplies) -> None:
        """Answer the first request that waits, and others that can be answered together with it.

        It is called once for each request, in order, so that each is answered by its call or an
        earlier one.
        """
        if not self._queue:
            return
        tokens = self._queue[0].tokens
        together = [waiting for waiting in self._queue if waiting.tokens == tokens][:_MAX_TOGETHER]
        for waiting in together:
            self._queue.remove(waiting)
        try:
            _answer(together, replies)
        except ModelError:
            for waiting in together:  # those that can be answered alone are
                try:
                    _answer([waiting], replies)
                except ModelError as problem:
                    waiting.completion.set_exception(problem)

    def _write(self, request: _LocalRequest, tell: Tell | None) -> Completion:
        if request.messages and self._reply:
            completion = self._replied_to(request, self._reply, tell)
        else:
            completion = self._continued(request)
        return _stopped(request, completion)

    def _replied_to(
        self, request: _LocalRequest, reply: WriteReply, tell: Tell | None
    ) -> Completion:
        tokens = request.tokens or _REPLY_TOKENS
        if request.bare is None:
            return reply(request.messages, tokens, tell)
        bare = request.bare.messages
        return reply(request.messages, tokens, tell, bare=bare, contrast=self._contrast)

    def _continued(self, request: _LocalRequest) -> Completion:
        """A prompt continued by a model that only completes, or the last message of a chat."""
        prompts = [_text_to_continue(request)]
        tokens = request.tokens or ANSWER_TOKENS
        stop = "\n" if request.messages else None
        if request.bare is None:
            [completion] = self._model.generate(prompts, tokens, stop)
            return completion
        against = Against((_text_to_continue(request.bare),), self._contrast)
        contrastive = cast("ContrastiveModel", self._model)
        [completion] = contrastive.generate_contrasted(prompts, [against], tokens, stop)
        return completion


def _answer(together: Sequence[_Waiting], replies: WriteReplies) -> None:
    """Answer requests for as many tokens. Raises ModelError, and has answered none of them then."""
    conversations = [waiting.request.messages for waiting in together]
    for waiting, completion in zip(
        together, replies(conversations, together[0].tokens), strict=True
    ):
        waiting.completion.set_result(completion)


def _stopped(request: _LocalRequest, completion: Completion) -> Completion:
    """A completion up to the texts that are to stop it."""
    text = completion.text.lstrip() if request.messages else completion.text
    ends = [text.find(stop) for stop in request.stop if stop in text]
    if ends:
        text = text[: min(ends)]
    return replace(completion, text=text)


def _text_to_continue(request: _LocalRequest) -> str:
    """A prompt, or the last message of a chat."""
    return request.messages[-1]["content"] if request.messages else request.prompt


def _read(endpoint: str, body: bytes) -> _LocalRequest:
    """Raises ValueError with the field."""
    values = parse(body)
    if values is None:
        raise ValueError("the body is not a JSON object: send one with messages or a prompt")
    tokens = _token_limit(values)
    stop = values.get("stop")
    if stop is None or stop == "":
        stop = []
    if isinstance(stop, str):
        stop = [stop]
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise ValueError("stop must be a text or a list of texts")
    if values.get("n") not in (None, 1):
        raise ValueError("n must be 1: this model answers greedily")

    messages: list[Message] = []
    prompt = ""
    if endpoint == COMPLETION:
        texts = _texts(Api.COMPLETIONS, values)
        if texts is None:
            raise ValueError("prompt must be one text")
        prompt = texts
    else:
        messages = _messages(values.get("messages"))

    stream_options = values.get("stream_options")
    usage = isinstance(stream_options, Mapping) and stream_options.get("include_usage") is True
    return _LocalRequest(messages, prompt, tokens, stop, values.get("stream") is True, usage)


def _token_limit(values: Mapping[str, Any]) -> int | None:
    """The most tokens that a request asks for, by the newer of two fields; None if by neither.

    Raises ValueError.
    """
    given = [(name, values.get(name)) for name in (NEWER_LIMIT, OLDER_LIMIT)]
    limits = [(name, limit) for name, limit in given if limit is not None]
    for name, limit in limits:
        if type(limit) is not int or not 1 <= limit <= _MAX_TOKENS:
            raise ValueError(f"{name} must be a number from 1 to {_MAX_TOKENS}")
    return limits[0][1] if limits else None


def _messages(messages: object) -> list[Message]:
    """The messages of a chat, each with one text. Raises ValueError."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a list with at least one message")
    read_messages = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        text = _texts(Api.CHAT, {"messages": [message]})
        if text is None and isinstance(message, dict):
            text = _calls_as_text(message.get("tool_calls"))
        if not isinstance(role, str) or text is None:
            raise ValueError("every message needs a role and a content of text")
        read_messages.append({"role": role, "content": text})
    return read_messages


def _calls_as_text(calls: object) -> str | None:
    """The tool calls of a message without text, as a model without tools reads them.

    None if there are none that can be read.
    """
    if not isinstance(calls, list) or not calls:
        return None
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    lines = []
    for function in functions:
        if isinstance(function, dict):
            lines.append(f"{function.get('name')}({function.get('arguments')})")
    return encodable("\n".join(lines)) if len(lines) == len(calls) else None


def _texts(api: Api, values: Mapping[str, Any]) -> str | None:
    """The texts of a request, one a line; None if it has none."""
    try:
        turns = read(api, values).turns
    except UnreadError:
        return None
    return "\n".join(encodable(turn.said) for turn in turns) if turns else None


@dataclass(frozen=True)
class _Answer:
    """A completion as the answer to a request, in OpenAI's form."""

    request: _LocalRequest
    completion: Completion
    model: str

    def whole(self) -> Json:
        """The answer in one piece."""
        head = self.head()
        choice = self._choice("message", self.completion.text, self._finish_reason)
        return {**head, "choices": [choice], "usage": self._usage}

    def chunks(self, head: Json, sent: int = 0) -> Iterator[Json]:
        """The answer as a stream: the words with the space before each, then the end.

        sent: characters of it that were sent already.
        """
        first, *others = self.completion.text[sent:].split(" ")
        for word in (first, *(f" {word}" for word in others)):
            if word or not sent:
                yield self.part(head, word)
        yield {**head, "choices": [self._choice("delta", None, self._finish_reason)]}
        if self.request.usage:
            yield {**head, "choices": [], "usage": self._usage}

    def part(self, head: Json, text: str) -> Json:
        """A part of the answer in a stream."""
        return {**head, "choices": [self._choice("delta", text, None)]}

    def head(self) -> Json:
        """What all parts of the answer begin with."""
        if self.request.messages:
            prefix = "chatcmpl"
            kind = "chat.completion.chunk" if self.request.stream else "chat.completion"
        else:
            prefix = "cmpl"
            kind = "text_completion"
        return {
            "id": f"{prefix}-{time.time_ns():x}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }

    def _choice(self, key: str, text: str | None, finish_reason: str | None) -> Json:
        """A piece of the answer, under this key where it is one of a chat; None for its end."""
        content: Json
        if not self.request.messages:
            content = {"text": text or ""}
        elif text is None:
            content = {key: {}}
        else:
            content = {key: {"role": "assistant", "content": text}}
        return {"index": 0, **content, "finish_reason": finish_reason, "logprobs": None}

    @property
    def _finish_reason(self) -> str:
        written = self.completion.completion_tokens or 0
        is_cut = self.request.tokens is not None and written >= self.request.tokens
        return "length" if is_cut else "stop"

    @property
    def _usage(self) -> Json | None:
        prompt_tokens = self.completion.prompt_tokens
        written = self.completion.completion_tokens
        if prompt_tokens is None or written is None:
            return None
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written,
            "total_tokens": prompt_tokens + written,
        }


def _answer_reply(answer: _Answer) -> Reply:
    if not answer.request.stream:
        return _json_reply(answer.whole())
    events = b"".join(map(_event, answer.chunks(answer.head())))
    return Reply(200, _STREAM_HEADERS, in_one(events + _END))


def _event(chunk: Json) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _json_reply(value: Json) -> Reply:
    return _reply(200, json.dumps(value).encode())


def _error_reply(sentence: str, status: int) -> Reply:
    return _reply(status, error_body(sentence, "bad_request"))


def _reply(status: int, body: bytes) -> Reply:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return Reply(status, headers, in_one(body))
