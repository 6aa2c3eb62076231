"""Language models for tests: one that answers by a rule, and one in the place of a served one."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock

from drike.errors import ModelError
from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    LanguageModel,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Usage,
    cut,
)
from drike.models.served.cache import AnswerCache, CachedModel

Rule = Callable[[str], str]


LIKELY, RUNNER_UP, UNLIKELY = 0.9, 0.05, 0.001


class ScriptedModel:
    """A model that answers by `rule`, and records its `prompts` and the number of its `calls`.

    rule: maps the prompt to the text that the model writes, without the space before it.
    scores: whether it also scores, consistently with its texts, or only writes, as a chat service does. Tokens are
        words: a word of the answer has probability `LIKELY`, any other `UNLIKELY`, and the best alternative to a word
        of the answer `RUNNER_UP`.
    calls_at_once: how many threads may call it, and its rule, at the same time.
    """

    def __init__(
        self, rule: Rule, name: str = "scripted", *, scores: bool = True, calls_at_once: int = 1
    ) -> None:
        self.info = ModelInfo(name, calls_at_once)
        self.rule = rule
        self.prompts: list[str] = []
        self.calls = 0
        self.score = self._score if scores else None
        self.count_tokens = None
        self._counting = Lock()

    @property
    def usage(self) -> Usage:
        """Calls and prompts so far."""
        return Usage(calls=self.calls, prompts=len(self.prompts))

    def generate(
        self, prompts: Sequence[str], max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Answer by the rule: at most `max_tokens` words each, cut before `stop`."""
        self._record(prompts)
        return [_completion(prompt, self.rule(prompt), max_tokens, stop) for prompt in prompts]

    def forget(self) -> None:
        """Do nothing: this model keeps no cache."""

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        """Score consistently with `generate`: greedy if the rule's answer starts with the continuation."""
        self._record([request.prompt for request in requests])
        return [_score(request, self.rule(request.prompt)) for request in requests]

    def _record(self, prompts: Sequence[str]) -> None:
        with self._counting:
            self.calls += 1
            self.prompts += prompts


def _completion(prompt: str, answer: str, max_tokens: int, stop: str | None) -> Completion:
    words = answer.split(" ")[:max_tokens]
    text = " ".join(words).lstrip()
    return Completion(" " + cut(text, stop), len(prompt.split()), len(words))


def _score(request: Request, answer: str) -> Score:
    wanted, answer = request.continuation.strip(), answer.strip()
    if not wanted:
        raise ModelError(
            f"the continuation {request.continuation!r} is empty: give the words to be scored"
        )
    size = len(request.prompt.split())
    words, written = wanted.split(), answer.split()
    agree = [i < len(written) and words[: i + 1] == written[: i + 1] for i in range(len(words))]
    if answer.startswith(
        wanted
    ):  # the last word may go on: "New" begins "Newton", and what follows says so
        agree[-1] = True
        gap = math.log(LIKELY / RUNNER_UP)
        following: str | None = answer[len(wanted) :]
    else:
        gap, following = math.log(UNLIKELY / LIKELY), None
    logprobs = tuple(math.log(LIKELY if same else UNLIKELY) for same in agree)
    return Score(logprobs, gap > 0, gap, following, size)


class Streamed:
    """A model that gives its answers one after the other, as a served one does."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)

    def completions(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        """All completions, with the index of each."""
        yield from enumerate(self.model.generate(prompts, max_tokens, stop))

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """All scores, with the index of each."""
        assert self.model.score is not None
        yield from enumerate(self.model.score(requests))


def cached(model: LanguageModel, path: Path, identity: str = "m") -> CachedModel:
    """Any model whose answers are kept in a file."""
    return CachedModel(Streamed(model), identity, AnswerCache(path))  # type: ignore[arg-type]


def kept_answers(path: Path) -> int:
    """How many answers a file keeps; 0 if there is none."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as file:
        [[count]] = file.execute("SELECT count(*) FROM entries")
    return int(count)
