"""The interface of a frozen language model: it completes prompts and may score.

And a model of your own functions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from threading import Lock
from typing import Any, Literal, Protocol, TypeVar

from drike.answers.thoughts import without_thoughts
from drike.prompts import Against

Answers = TypeVar("Answers")

ANSWER_TOKENS = 16  # at most
MAX_REASONING_TOKENS = 128

Template = Literal["plain", "chat"]
# A conversation, from the user's first turn to the last: user, model, user, ...
Turns = tuple[str, ...]

Prompts = Sequence[str | Turns]


@dataclass(frozen=True)
class ModelInfo:
    """The properties of a model.

    calls_at_once: how many threads may call it at the same time. scoring: how it scores
    continuations, or why not. identity: what tells it and its settings from others; no secrets.
    turns: whether it takes `Turns` for a prompt, and `Request.earlier`; a model that does not gets
    conversations as text. contrasts: whether it takes `Request.against`, and has the methods of
    `ContrastiveModel`. edits_per_call: how many edits' questions it answers fastest in one call.
    """

    name: str
    calls_at_once: int = 1
    scoring: str = ""
    identity: Mapping[str, object] = field(default_factory=dict)
    turns: bool = False
    contrasts: bool = False
    edits_per_call: int = 1

    @property
    def served(self) -> bool:
        """Whether it is behind an API."""
        return "server" in self.identity


@dataclass(frozen=True)
class Usage:
    """The work a model has done so far; later minus earlier is the work in between.

    calls: of generate and score; of a served model, answers paid for. prompts: completed or scored.
    cached: prompts answered from memory or disk. requests: sent over the network, retries included.
    forwards: passes that score. prompt_tokens, completion_tokens: of prompts, and of answers or
    scored continuations, if read one by one. tokens_cached: of cached answers. tokens_computed: by
    the model. estimated: calls whose tokens no server reported.
    """

    calls: int = 0
    prompts: int = 0
    cached: int = 0
    requests: int = 0
    forwards: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens_cached: int = 0
    tokens_computed: int = 0
    estimated: int = 0
    seconds: float = 0.0
    money: float | None = None  # without a price

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers, if read one by one."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens_shared(self) -> int:
        """Tokens saved by shared prefixes.

        Below 0 where padding and self-checks cost more than that.
        """
        return self.tokens - self.tokens_cached - self.tokens_computed

    def __add__(self, other: Usage) -> Usage:
        return self._combined(other, 1)

    def __sub__(self, other: Usage) -> Usage:
        return self._combined(other, -1)

    def _combined(self, other: Usage, sign: int) -> Usage:
        combined: dict[str, Any] = {
            field.name: getattr(self, field.name) + sign * getattr(other, field.name)
            for field in fields(self)
            if field.name != "money"
        }
        money = None
        if self.money is not None or other.money is not None:
            money = (self.money or 0.0) + sign * (other.money or 0.0)
        return Usage(**combined, money=money)


@dataclass(frozen=True)
class Completion:
    """A text that a model wrote after a prompt.

    Token counts are None if the backend does not report them.
    """

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Request:
    """A continuation to score after a prompt, with its space: " Paris".

    own: characters at the end of the prompt that the model wrote itself; they begin its reply in a
    chat. earlier: the turns before the prompt. against: with what the continuation is contrasted,
    for models with `info.contrasts`; such a prompt has no characters of its own.
    """

    prompt: str
    continuation: str
    own: int = 0
    earlier: Turns = ()
    against: Against | None = None


@dataclass(frozen=True)
class Score:
    """A model's natural-log probabilities of a continuation, token by token.

    greedy: whether every token is the model's first choice, so that greedy decoding would write
    exactly this. logit_gap: smallest lead of a token over the best other one; negative if not
    greedy, and unstable near 0. following: text of the token written next, "" at the end of the
    text; None if it is not known.
    """

    logprobs: tuple[float, ...]
    greedy: bool
    logit_gap: float
    following: str | None = None
    prompt_tokens: int | None = None

    @property
    def logprob(self) -> float:
        """Log-probability of the whole continuation."""
        return math.fsum(self.logprobs)

    @property
    def mean_probability(self) -> float:
        """Geometric mean of the token probabilities: 1 / perplexity, IKE's measure."""
        return math.exp(self.logprob / len(self.logprobs))


class LanguageModel(Protocol):
    """A frozen model that completes prompts greedily, in order.

    `CustomModel` makes one of two functions.
    """

    @property
    def info(self) -> ModelInfo:
        """The model's properties."""

    @property
    def usage(self) -> Usage:
        """The work it has done since it was opened."""

    @property
    def score(self) -> Callable[[Sequence[Request]], list[Score]] | None:
        """Score requests, one score each, in order; None if the model cannot."""

    @property
    def count_tokens(self) -> Callable[[Sequence[str]], list[int]] | None:
        """Count the tokens of each prompt as the model reads it; None if the model cannot."""

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt, cut before `stop` (ignored in leading white space).

        `Turns` only if `info.turns`.
        """

    def forget(self) -> None:
        """Clear caches in memory, so that earlier calls are computed again."""


class ContrastiveModel(LanguageModel, Protocol):
    """A model that gives the probabilities of all tokens (`info.contrasts`)."""

    def generate_contrasted(
        self,
        prompts: Prompts,
        against: Sequence[Against],
        max_tokens: int = ANSWER_TOKENS,
        stop: str | None = "\n",
    ) -> list[Completion]:
        """Complete each prompt as `generate` does, by contrast with the same without edits."""


def cut(text: str, stop: str | None) -> str:
    """Cut `text` before `stop`, ignored in the white space before the first word.

    Where it is cut, thoughts are taken out first: what stops an answer also stands in these.
    """
    if stop is None:
        return text
    text = without_thoughts(text)
    from_first_word = text.lstrip()
    indent = len(text) - len(from_first_word)
    return text[:indent] + from_first_word.partition(stop)[0]


class CustomModel:
    """A model made of your own functions, which `calls_at_once` threads may call at the same time.

    generate: gets prompts, the most tokens to write and where to stop (None: nowhere), and returns
    a text or a `Completion` for each; texts are cut at `stop` here. score: gets `Request`s and
    returns a `Score` for each. count_tokens: gets prompts and returns their numbers of tokens. Both
    are None if the model cannot.
    """

    def __init__(
        self,
        name: str,
        generate: Callable[[Sequence[str], int, str | None], Sequence[str | Completion]],
        score: Callable[[Sequence[Request]], list[Score]] | None = None,
        *,
        count_tokens: Callable[[Sequence[str]], list[int]] | None = None,
        calls_at_once: int = 1,
    ) -> None:
        self.info = ModelInfo(name, calls_at_once)
        self.usage = Usage()
        self.count_tokens = count_tokens
        self.score = None if score is None else partial(self._counted, score)
        self._generate = generate
        self._counting = Lock()

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Call your function, and cut its texts before `stop`."""
        answers = self._counted(self._generate, prompts, max_tokens, stop)
        return [
            Completion(cut(answer, stop)) if isinstance(answer, str) else answer
            for answer in answers
        ]

    def forget(self) -> None:
        """Do nothing: this model keeps no cache."""

    def _counted(
        self, function: Callable[..., Answers], inputs: Sequence[object], *settings: object
    ) -> Answers:
        began = time.perf_counter()
        answers = function(inputs, *settings)
        with self._counting:
            self.usage += Usage(calls=1, prompts=len(inputs), seconds=time.perf_counter() - began)
        return answers
