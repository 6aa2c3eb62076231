"""A model whose answers are kept on disk, so that no prompt is ever paid for twice: not in a call, a run, or the next.

Answers are keyed by the SHA-256 of model, settings and prompt (and continuation): prompts themselves are not in the
file (see `store`). Several threads may ask at once: where one is asking for an answer, the others wait for it, and ask
themselves if it fails. A row that cannot be read is a miss.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, LanguageModel, ModelInfo, Request, Score, Usage
from drike.models.served.store import Answers

T = TypeVar("T", Completion, Score)


class Stream(Protocol):
    """What gives answers as they arrive, each with the index of its prompt or request, in any order."""

    def completions(
        self, prompts: Sequence[str], max_tokens: int, stop: str | None
    ) -> Iterator[tuple[int, Completion]]:
        """Completions as they arrive."""
        ...

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """Scores as they arrive."""
        ...


class CachedModel:
    """A model whose completions and scores are kept in `store`; `inner` is asked for what is not there.

    identity: tells models and settings apart that must not share answers (address, template, room to think).
    stream: gives the inner model's answers as they arrive, so that each is kept at once.
    """

    def __init__(self, inner: LanguageModel, identity: str, store: Answers, stream: Stream | None = None) -> None:
        self.inner, self.store = inner, store
        self.score = None if inner.score is None else self._score
        self.count_tokens = inner.count_tokens
        self._identity = identity
        self._stream = stream
        self._cached = 0
        self._counting = threading.Lock()

    @property
    def info(self) -> ModelInfo:
        """The inner model's."""
        return self.inner.info

    @property
    def usage(self) -> Usage:
        """The inner model's work, and the prompts that were answered from the cache."""
        return self.inner.usage + Usage(prompts=self._cached, cached=self._cached)

    def forget(self) -> None:
        """Let the inner model forget; answers on disk stay."""
        self.inner.forget()

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt; the inner model is asked only for what was never answered, once for each prompt."""
        keys = [_key(self._identity, "generate", max_tokens, stop, prompt) for prompt in prompts]

        def ask(missing: Sequence[int]) -> Iterator[tuple[int, Completion]]:
            wanted = [prompts[i] for i in missing]
            if self._stream is not None:
                return self._stream.completions(wanted, max_tokens, stop)
            return iter(enumerate(self.inner.generate(wanted, max_tokens, stop)))

        return self._recall(keys, ask, _read_completion)

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        keys = [_key(self._identity, "score", request.prompt, request.continuation) for request in requests]

        def ask(missing: Sequence[int]) -> Iterator[tuple[int, Score]]:
            wanted = [requests[i] for i in missing]
            if self._stream is not None:
                return self._stream.scores(wanted)
            return iter(enumerate(self.inner.score(wanted)))  # type: ignore[misc]  # only called if it scores

        return self._recall(keys, ask, _read_score)

    def _recall(
        self,
        keys: Sequence[str],
        ask: Callable[[Sequence[int]], Iterator[tuple[int, T]]],
        read: Callable[[Mapping[str, Any]], T],
    ) -> list[T]:
        """The answer for every key; what has to be asked is kept as it arrives.

        Answers that another thread is asking for are awaited after our own, so that no two threads wait for each other.
        """
        known: dict[str, T] = {}
        spared = len(keys)
        while unknown := [key for key in dict.fromkeys(keys) if key not in known]:
            with self.store.asking(unknown) as ours:
                rows = self.store.get(ours)
                known |= {key: answer for key in rows if (answer := _parsed(rows[key], read)) is not None}
                missing = [keys.index(key) for key in ours if key not in known]
                spared -= len(missing)
                try:
                    for j, answer in ask(missing) if missing else ():
                        key = keys[missing[j]]
                        known[key] = answer
                        self.store.put(key, json.dumps(asdict(answer)).encode())
                finally:
                    self.store.settle(ours)
            self.store.wait_for([key for key in unknown if key not in known])
        with self._counting:
            self._cached += spared
        return [known[key] for key in keys]


def _parsed(row: bytes, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Read a row; None if it is of another version."""
    try:
        return read(json.loads(row))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_completion(row: Mapping[str, Any]) -> Completion:
    if not isinstance(row["text"], str):
        raise TypeError("text")
    return Completion(row["text"], _count(row["prompt_tokens"]), _count(row["completion_tokens"]))


def _read_score(row: Mapping[str, Any]) -> Score:
    logprobs = tuple(map(float, row["logprobs"]))
    following = row["following"]
    if not logprobs or type(row["greedy"]) is not bool or not isinstance(following, str | None):
        raise TypeError("score")
    return Score(logprobs, row["greedy"], float(row["logit_gap"]), following, _count(row["prompt_tokens"]))


def _count(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("count")
    return value


def _key(*parts: object) -> str:
    """SHA-256 of the parts, delimited by JSON's quotes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
