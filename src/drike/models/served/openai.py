"""Models behind an OpenAI-compatible API: no weights, often no log-probabilities, money per token.

A model is named as `openai:gpt-4o-mini`, `gemini:gemini-2.0-flash` or
`vllm:meta-llama/Llama-3.1-8B@http://localhost:8000/v1` (see `address`). With template "chat" a prompt is one user turn
of chat/completions, with "plain" the text of completions. `connect` opens a `ServedWriter`, or, where a probe shows
that the server rates given continuations (see `given`), a `ServedModel`, which also scores. Answers are cut here; the
server is not asked to stop at a line break, since chat models like to begin with one.

Several threads may ask at once (`Concurrent`). What fails for one of them ends the others where they work for one
`TaskGroup`, as they do in evaluation and training.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, TypeVar

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, Request, Score, cut
from drike.models.served import logprobs as given
from drike.models.served.address import KEY, Address, parse_address
from drike.models.served.client import Call, Wire, token_counts
from drike.models.served.spending import Meter, Price, Spending
from drike.prompts import chat_messages

Template = Literal["plain", "chat"]
T = TypeVar("T")

DEADLINE = 120.0
ATTEMPTS = 4
CONCURRENCY = 8


@dataclass(frozen=True)
class Identity:
    """What a run folder records of a served model: enough to ask the same one the same way, and no secret."""

    name: str
    server: str
    template: str
    scoring: str
    thinking_tokens: int
    effort: str | None
    openai: str


def connect(
    name: str,
    *,
    template: Template = "chat",
    allow_http: bool = False,
    price: Price | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    deadline: float = DEADLINE,
    attempts: int = ATTEMPTS,
    concurrency: int = CONCURRENCY,
    thinking_tokens: int = 0,
    effort: str | None = None,
    text_only: bool = False,
) -> ServedWriter | ServedModel:
    """Open a served model; with template "plain" it is first probed for scores, by two to six short requests.

    price, max_calls, max_cost: see `Meter`. deadline: seconds for one answer, with all waits and attempts. concurrency:
    requests at a time, and edits that may be asked about at once. thinking_tokens: added to the length of every answer,
    for models that think before they write; effort: sent as reasoning_effort. text_only: never ask for scores.
    Raises ModelError: ServerError, RefusedError, SpendingLimitError.
    """
    address = parse_address(name, allow_http=allow_http)
    key = os.environ.get(address.key_variable) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelError(f"${address.key_variable} holds characters that no key has: set it again")
    if key is None and address.key_variable != KEY:
        raise ModelError(f"{address.service} wants a key: set ${address.key_variable}")
    meter = Meter(price, max_calls=max_calls, max_cost=max_cost)
    remedy = f"set ${address.key_variable} to a valid key"
    wire = Wire(
        address.url, key, remedy=remedy, meter=meter, deadline=deadline, attempts=attempts, concurrency=concurrency
    )
    line = _Line(wire, address, template, thinking_tokens, effort)
    if template == "chat" or text_only:
        return ServedWriter(line, "text only: asked for" if text_only else "text only: a chat gives no scores")
    way, found = probe(line)
    return ServedWriter(line, f"text only: {found}") if way is None else ServedModel(line, way)


@dataclass(frozen=True)
class _Line:
    """What both kinds of served model are made of: a wire, and what is said over it."""

    wire: Wire
    address: Address
    template: Template
    thinking_tokens: int
    effort: str | None

    def completions(
        self, prompts: Sequence[str], max_tokens: int, stop: str | None
    ) -> Iterator[tuple[int, Completion]]:
        room = max_tokens + self.thinking_tokens
        calls = [self._call(prompt, room) for prompt in prompts]

        def read(i: int, answer: Mapping[str, Any]) -> Completion:
            read, written, _ = token_counts(answer)
            return Completion(cut(self._text(answer), stop), read, written)

        return self.wire.send(calls, read)

    def scores(self, requests: Sequence[Request], way: given.Way) -> Iterator[tuple[int, Score]]:
        for request in requests:
            if not request.continuation.strip():
                raise ModelError(f"the continuation {request.continuation!r} is empty: give the words to be scored")
        calls = [self._rating(request, way) for request in requests]
        return self.wire.send(calls, lambda i, answer: given.read(way, answer, requests[i]))

    def _call(self, prompt: str, room: int) -> Call:
        prompt = _whole(prompt)
        body: dict[str, object] = {"model": self.address.model, "max_tokens": room, "temperature": 0}
        if self.effort is not None:
            body["reasoning_effort"] = self.effort
        if self.template == "plain":
            return Call("completions", {**body, "prompt": prompt}, prompt, room)
        messages = chat_messages(prompt)
        return Call("chat/completions", {**body, "messages": messages}, messages[0]["content"], room)

    def _rating(self, request: Request, way: given.Way) -> Call:
        text = _whole(request.prompt + request.continuation)
        path = way.path
        if path.startswith("../"):  # beside the API, not below it
            path = self.address.url.removesuffix("v1/") + path.removeprefix("../")
        return Call(path, way.body(self.address.model, text), text, 1)

    def _text(self, answer: Mapping[str, Any]) -> str:
        """What was written. Raises ServerError for an answer of another form, or one that thought and wrote nothing."""
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            raise ServerError(f"{self.address.url} answers without a choice: is it the address of an API?")
        message = choice.get("message") if self.template == "chat" else choice
        if not isinstance(message, dict):
            raise ServerError(f"{self.address.url} answers in another form: try the other one of --template")
        text, finish = message.get("content" if self.template == "chat" else "text"), choice.get("finish_reason")
        if text is None and (finish == "content_filter" or isinstance(message.get("refusal"), str)):
            return ""  # the model will not say: this is its answer
        if (text is None or text == "") and finish == "length":
            raise ServerError(
                f"{self.address.model} used up its tokens before it wrote anything: give a model that thinks more room "
                "with --thinking-tokens, or --reasoning-effort none"
            )
        if not isinstance(text, str):
            raise ServerError(f"{self.address.url} answers without a text: try again, or another model")
        return _whole(text)

    def identity(self, scoring: str) -> Identity:
        return Identity(
            self.address.model, self.address.url, self.template, scoring, self.thinking_tokens, self.effort,
            version("openai"),
        )  # fmt: skip


def probe(line: _Line) -> tuple[given.Way | None, str]:
    """The way by which a server rates given continuations, or None and why it cannot.

    Raises ModelError where the server fails, or refuses more than the way of asking.
    """
    requests = [Request(given.PROBE, given.OBVIOUS), Request(given.PROBE, given.ODD)]
    found = []
    for way in given.WAYS:
        if way.path.startswith("../") and line.address.service != "sglang":
            continue
        try:
            [obvious, odd] = [score for _, score in sorted(line.scores(requests, way), key=lambda pair: pair[0])]
            given.check(obvious, odd)
        except RefusedError as error:
            if error.status not in (400, 404, 405, 422, 501) or (error.status == 404 and way.path == "completions"):
                raise
            found.append(f"{way.name}: refused ({error.status})")
        except ServerError:
            raise
        except ModelError as error:
            found.append(f"{way.name}: {given.reason(error.__cause__)}")
        except ValueError as problem:
            found.append(f"{way.name}: {problem}")
        else:
            return way, way.name
    return None, "; ".join(found)


class ServedWriter:
    """A `LanguageModel` behind an API. Its completions also come one by one (`Arriving`)."""

    def __init__(self, line: _Line, scoring: str) -> None:
        self.name = line.address.model
        self.parallel = line.wire.concurrency  # an edit has a request on its way at any time, and often more
        self.scoring = scoring
        self._line = line

    @property
    def spending(self) -> Spending:
        """What was used since the model was opened, the probe included."""
        return self._line.wire.meter.spending

    @property
    def price(self) -> Price:
        """What a token costs."""
        return self._line.wire.meter.price

    def describe(self) -> Identity:
        """What a run folder records of the model."""
        return self._line.identity(self.scoring)

    def completions(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        """Completions as they arrive, with the index of their prompt."""
        return self._line.completions(prompts, max_tokens, stop)

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """One completion a prompt, in order. Raises ServerError, RefusedError, SpendingLimitError."""
        return _in_order(self.completions(prompts, max_tokens, stop))

    def close(self) -> None:
        """Hang up."""
        self._line.wire.close()


class ServedModel:
    """A `ScoringModel` behind an API whose server rates given continuations by `way`, as a probe has shown."""

    def __init__(self, line: _Line, way: given.Way) -> None:
        self.name = line.address.model
        self.parallel = line.wire.concurrency
        self.scoring = way.name
        self._line = line
        self._way = way

    @property
    def spending(self) -> Spending:
        """What was used since the model was opened, the probe included."""
        return self._line.wire.meter.spending

    @property
    def price(self) -> Price:
        """What a token costs."""
        return self._line.wire.meter.price

    def describe(self) -> Identity:
        """What a run folder records of the model."""
        return self._line.identity(self.scoring)

    def completions(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        """Completions as they arrive, with the index of their prompt."""
        return self._line.completions(prompts, max_tokens, stop)

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """One completion a prompt, in order. Raises ServerError, RefusedError, SpendingLimitError."""
        return _in_order(self.completions(prompts, max_tokens, stop))

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """Scores as they arrive, with the index of their request."""
        return self._line.scores(requests, self._way)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """One score a request, in order. Raises as `generate`, and ModelError where a text cannot be aligned."""
        return _in_order(self.scores(requests))

    def close(self) -> None:
        """Hang up."""
        self._line.wire.close()


def _whole(text: str) -> str:
    """A text without halves of characters, which can neither be sent nor saved."""
    return text.encode("utf-8", "replace").decode()


def _in_order(arriving: Iterator[tuple[int, T]]) -> list[T]:
    return [item for _, item in sorted(arriving, key=lambda pair: pair[0])]
