"""A model made of your own functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

from drike.models.protocols import ANSWER_TOKENS, Completion, ModelInfo, Prompts, Request, Score, Usage, cut

Answers = TypeVar("Answers")


class CustomModel:
    """A model made of your own functions.

    Args:
        name: shown in tables.
        generate: gets a list of prompts, the most tokens to write and where to stop (None: nowhere), and returns a
            text or a `Completion` for each prompt; texts are cut at `stop` here.
        score: gets a list of `Request`s and returns a `Score` for each; None if the model cannot.
        count_tokens: gets a list of prompts and returns their numbers of tokens; None if the model cannot.
        calls_at_once: how many threads may call the functions at the same time.
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

    def generate(self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n") -> list[Completion]:
        """Call your function, and cut its texts before `stop`."""
        answers = self._counted(self._generate, prompts, max_tokens, stop)
        return [Completion(cut(answer, stop)) if isinstance(answer, str) else answer for answer in answers]

    def forget(self) -> None:
        """Do nothing: this model keeps no cache."""

    def _counted(self, function: Callable[..., Answers], inputs: Sequence[object], *settings: object) -> Answers:
        began = time.perf_counter()
        answers = function(inputs, *settings)
        with self._counting:
            self.usage += Usage(calls=1, prompts=len(inputs), seconds=time.perf_counter() - began)
        return answers
