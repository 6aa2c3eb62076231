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
from typing import Protocol, TypeVar, runtime_checkable

from drike.answers import ends_answer, ends_word, equals, matches
from drike.prompts import Prompt

Answer = TypeVar("Answer")

MAX_ANSWER_TOKENS = 16
MAX_REASONING_TOKENS = 128


class ModelError(Exception):
    """A model could not do what was asked; the message is one sentence with the remedy."""


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


@dataclass(frozen=True)
class Verdict:
    """A probe's answer, judged.

    correct: the definition used for reward and metrics. matched / exact: by the text, where one was written.
    score / distractor: of target and distractor, where the model gives scores.
    """

    correct: bool
    text: str | None
    matched: bool | None
    exact: bool | None
    score: Score | None
    distractor: Score | None
    prompt_tokens: int | None


@dataclass(frozen=True)
class Question:
    """A prompt with the answer that would be right and, for margins, the one that must lose."""

    prompt: Prompt
    target: str
    distractor: str | None = None


def judge(model: LanguageModel, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
    """Ask and judge, in order (design: a right answer).

    With a model that scores, an answer is right when greedy decoding would write the target and then leave the word;
    `write=True` also records the text. Without scores, or where the model reasons before it answers, the text decides.
    """
    if not isinstance(model, ScoringModel):
        return [
            _by_text(question, text, None, None, n)
            for question, (text, n) in zip(questions, complete(model, [q.prompt for q in questions]), strict=True)
        ]
    scores = _score(model, questions)
    written = [i for i, question in enumerate(questions) if write or question.prompt.cue is not None]
    texts = dict(zip(written, complete(model, [questions[i].prompt for i in written]), strict=True))
    verdicts = []
    for i, (question, (score, distractor)) in enumerate(zip(questions, scores, strict=True)):
        text, _ = texts.get(i, (None, None))
        if question.prompt.cue is not None:
            verdicts.append(_by_text(question, text, score, distractor, score.prompt_tokens))
        else:
            verdicts.append(_by_score(question, text, score, distractor))
    return verdicts


def _score(model: ScoringModel, questions: Sequence[Question]) -> list[tuple[Score, Score | None]]:
    """Target and distractor of every question in one call, so that a backend can share their prefixes."""
    requests: list[Request] = []
    for question in questions:
        # A model that reasons first is scored behind the cue alone: its free text is not part of the measure.
        text = question.prompt.text if question.prompt.cue is None else f"{question.prompt.text}\n{question.prompt.cue}"
        requests.append(Request(text, f" {question.target}"))
        if question.distractor is not None:
            requests.append(Request(text, f" {question.distractor}"))
    scores = iter(_given(model, "score", model.score(requests), Score, len(requests)))
    return [(next(scores), next(scores) if question.distractor is not None else None) for question in questions]


def complete(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = MAX_ANSWER_TOKENS
) -> list[tuple[str, int | None]]:
    """The answers a model writes, with the prompt tokens it read.

    An answer ends with its line. Where a prompt asks to reason first, the reply may run on (MAX_REASONING_TOKENS) and
    the answer is what follows its last cue.
    """
    texts: dict[int, tuple[str, int | None]] = {}
    for reasons in (False, True):
        which = [i for i, prompt in enumerate(prompts) if (prompt.cue is not None) == reasons]
        if not which:
            continue
        limit, stop = (MAX_REASONING_TOKENS, None) if reasons else (max_tokens, "\n")
        written = model.generate([prompts[i].text for i in which], limit, stop)
        for i, completion in zip(which, _given(model, "generate", written, Completion, len(which)), strict=True):
            texts[i] = (_after_cue(completion.text, prompts[i].cue), completion.prompt_tokens)
    return [texts[i] for i in range(len(prompts))]


def _given(model: LanguageModel, method: str, answers: list[Answer], kind: type[Answer], count: int) -> list[Answer]:
    """What a model returned, if it is what it should be. Raises ModelError."""
    wrong = next((answer for answer in answers if not isinstance(answer, kind)), None)
    if wrong is not None:
        raise ModelError(f"{model.name}.{method} returned a {type(wrong).__name__}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(
            f"{model.name}.{method} returned {len(answers)} answers to {count} prompts: return one for each"
        )
    return answers


def cut(text: str, stop: str | None) -> str:
    """`text` up to `stop`, which is not looked for in the white space before the first word."""
    if stop is None:
        return text
    begun = len(text) - len(text.lstrip())
    found = text.find(stop, begun)
    return text if found < 0 else text[:found]


def _after_cue(text: str, cue: str | None) -> str:
    """What follows the last cue; "" if the model never wrote it: no answer was given."""
    if cue is None:
        return text
    _, found, answer = text.rpartition(cue)
    return answer if found else ""


def _by_text(
    question: Question, text: str | None, score: Score | None, distractor: Score | None, tokens: int | None
) -> Verdict:
    matched = matches(text or "", question.target)
    return Verdict(matched, text, matched, equals(text or "", question.target), score, distractor, tokens)


def _by_score(question: Question, text: str | None, score: Score, distractor: Score | None) -> Verdict:
    correct = score.greedy and (score.following is None or ends_word(score.following))
    matched = None if text is None else matches(text, question.target)
    exact = equals(text, question.target) if text is not None else None
    if exact is None and score.following is not None:
        exact = score.greedy and ends_answer(score.following)
    return Verdict(correct, text, matched, exact, score, distractor, score.prompt_tokens)
