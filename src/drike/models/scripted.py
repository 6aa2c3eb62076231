"""Models that answer by a rule: for tests, and for dry runs of everything that asks a model.

A rule is a function from the prompt's text to the text the model would write, without the space before it. The two
models here differ in one thing: `ScriptedWriter` only writes, as a chat service does; `ScriptedModel` also scores, in
agreement with what it writes. Both are instant and deterministic, and remember the prompts they were given.

Their tokens are words. A word of the answer is as probable as `LIKELY`, any other as `UNLIKELY`, and the best
alternative to a word of the answer as `RUNNER_UP`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Lock

from drike.errors import ModelError
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, Request, Score

Rule = Callable[[str], str]

LIKELY, RUNNER_UP, UNLIKELY = 0.9, 0.05, 0.001


class ScriptedWriter:
    """A `LanguageModel` that answers by `rule`. prompts: all it was asked, in order; calls: in how many calls.

    parallel: how many threads may ask it at once; they also call the rule at once.
    """

    def __init__(self, rule: Rule, name: str = "scripted", *, parallel: int = 1) -> None:
        self.name = name
        self.rule = rule
        self.parallel = parallel
        self.prompts: list[str] = []
        self.calls = 0
        self._counting = Lock()

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """The rule's answers, at most `max_tokens` words of each, cut before `stop`."""
        with self._counting:
            self.calls += 1
            self.prompts += prompts
        return [_completion(prompt, self.rule(prompt), max_tokens, stop) for prompt in prompts]


class ScriptedModel:
    """A `ScoringModel` that answers by `rule`. prompts: all it was asked, in order; calls: in how many calls.

    parallel: how many threads may ask it at once; they also call the rule at once.
    """

    def __init__(self, rule: Rule, name: str = "scripted", *, parallel: int = 1) -> None:
        self.name = name
        self.rule = rule
        self.parallel = parallel
        self.prompts: list[str] = []
        self.calls = 0
        self._counting = Lock()

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """The rule's answers, at most `max_tokens` words of each, cut before `stop`."""
        with self._counting:
            self.calls += 1
            self.prompts += prompts
        return [_completion(prompt, self.rule(prompt), max_tokens, stop) for prompt in prompts]

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Scores in agreement with `generate`: greedy where the continuation begins what the rule writes.

        Raises ModelError for an empty continuation.
        """
        with self._counting:
            self.calls += 1
            self.prompts += [request.prompt for request in requests]
        return [_score(request, self.rule(request.prompt)) for request in requests]


def _completion(prompt: str, answer: str, max_tokens: int, stop: str | None) -> Completion:
    words = answer.split(" ")[:max_tokens]
    text = " ".join(words).lstrip()
    return Completion(" " + (text if stop is None else text.partition(stop)[0]), len(prompt.split()), len(words))


def _score(request: Request, answer: str) -> Score:
    wanted, answer = request.continuation.strip(), answer.strip()
    if not wanted:
        raise ModelError(f"the continuation {request.continuation!r} is empty: give the words to be scored")
    size = len(request.prompt.split())
    words, written = wanted.split(), answer.split()
    agree = [i < len(written) and words[: i + 1] == written[: i + 1] for i in range(len(words))]
    if answer.startswith(wanted):  # the last word may go on: "New" begins "Newton", and what follows says so
        agree[-1] = True
        margin = math.log(LIKELY / RUNNER_UP)
        following: str | None = answer[len(wanted) :]
    else:
        margin, following = math.log(UNLIKELY / LIKELY), None
    logprobs = tuple(math.log(LIKELY if same else UNLIKELY) for same in agree)
    return Score(logprobs, margin > 0, margin, following, size)
