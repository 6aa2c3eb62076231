"""Ways of reaching a frozen language model, behind two small protocols.

A `LanguageModel` writes; a `ScoringModel` also says how probable a given continuation is. Callers hand over plain lists
and get lists of the same length and order back; sharing prefixes and batching is a backend's own business. A model that
cannot score has no `score`. `judge` is how training and evaluation ask: one definition of a right answer for both.

Siblings: `huggingface` (local weights), `openai` (any server that speaks that API), `cached` (what was answered once is
not asked again; `store` keeps it), `scripted` (answers by a rule, for tests and dry runs), `reader` (a closed-form
observer of TinyFacts prompts), `replicas` (several copies as one model), `ray` (such copies as Ray actors),
`token_trie` (shared prefixes, used by `huggingface`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol, runtime_checkable

MAX_ANSWER_TOKENS = 16
MAX_REASONING_TOKENS = 128


@dataclass(frozen=True)
class Usage:
    """What a model has done so far; a model that keeps count offers it as `usage`. Later minus earlier is a stretch.

    calls: of generate and score. prompts: texts asked about in them. remembered: those answered from memory.
    forwards: scoring forwards. tokens_read: of all prompts and answers, as if each were read by itself.
    tokens_remembered: of these, spared by memory. tokens_computed: really put through the model. seconds: wall clock.
    """

    calls: int = 0
    prompts: int = 0
    remembered: int = 0
    forwards: int = 0
    tokens_read: int = 0
    tokens_remembered: int = 0
    tokens_computed: int = 0
    seconds: float = 0.0

    @property
    def tokens_shared(self) -> int:
        """Tokens spared since texts begin alike; below 0 where padding and checks cost more than that."""
        return self.tokens_read - self.tokens_remembered - self.tokens_computed

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Completion:
    """What a model wrote after a prompt, and what it cost. Token counts are None where a backend cannot tell."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Request:
    """A continuation to be scored behind a prompt. `continuation` starts with its space: " Paris"."""

    prompt: str
    continuation: str


@dataclass(frozen=True)
class Score:
    """How a model rates a continuation, token by token.

    logprobs: natural-log probability of each token of the continuation.
    greedy: every token is the model's first choice: greedy decoding would write exactly this.
    margin: smallest lead of a token over the best other one, in nats; negative if not greedy, near 0 means unstable.
    following: text of the token greedy decoding would write next, "" at the end of the text; None if not known.
    """

    logprobs: tuple[float, ...]
    greedy: bool
    margin: float
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


@runtime_checkable
class LanguageModel(Protocol):
    """A frozen model that completes prompts, greedily."""

    name: str

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """One completion a prompt, cut before `stop` (which is not looked for in leading white space)."""
        ...


@runtime_checkable
class ScoringModel(LanguageModel, Protocol):
    """A model that also gives the probability of a given continuation."""

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """One score a request, in order."""
        ...


@runtime_checkable
class Arriving(Protocol):
    """A model whose completions can be taken as they arrive, so that none is lost if a later one fails."""

    def completions(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        """As `generate`, each completion with the index of its prompt, in any order."""
        ...


@runtime_checkable
class ArrivingScores(Protocol):
    """The same of scores."""

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """As `score`, each with the index of its request, in any order."""
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A model that remembers scores, and can be told to forget them."""

    def forget(self) -> None:
        """Compute everything anew from here on."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A model that keeps count of its work."""

    @property
    def usage(self) -> Usage:
        """What it has done so far."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A model that tells how many tokens a prompt has for it."""

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Tokens of each prompt, as the model reads it."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    """A model that several threads may ask at once; any other is asked by one.

    parallel: how many calls it takes at once, a call being an edit's prompts. More callers would only wait.
    """

    parallel: int


def calls_at_once(model: LanguageModel) -> int:
    """How many threads may ask a model at once: 1 unless it says `parallel`."""
    return model.parallel if isinstance(model, Concurrent) else 1


def cut(text: str, stop: str | None) -> str:
    """`text` up to `stop`, which is not looked for in the white space before the first word."""
    if stop is None:
        return text
    begun = len(text) - len(text.lstrip())
    found = text.find(stop, begun)
    return text if found < 0 else text[:found]
