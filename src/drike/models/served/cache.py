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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from drike.files import checksum_ok, with_checksum
from drike.models.protocols import (
    MAX_ANSWER_TOKENS,
    Arriving,
    ArrivingScores,
    Completion,
    LanguageModel,
    Request,
    Score,
    ScoringModel,
    calls_at_once,
)
from drike.models.served.spending import Paid, Price, Spending
from drike.models.served.store import Answers, answers_path

T = TypeVar("T", Completion, Score)


def cached(model: LanguageModel, *, identity: str, path: Path | None = None) -> CachedWriter | CachedModel:
    """`model` with its answers kept; it scores if the model does.

    identity: tells models and settings apart that must not share answers (address, template, room to think).
    """
    store = Answers(path or answers_path())
    return (
        CachedModel(model, identity, store) if isinstance(model, ScoringModel) else CachedWriter(model, identity, store)
    )


class CachedWriter:
    """A `LanguageModel` whose completions are kept. `store` holds them; `inner` is asked for the others."""

    def __init__(self, inner: LanguageModel, identity: str, store: Answers) -> None:
        self.name, self.parallel = inner.name, calls_at_once(inner)
        self.inner = inner
        self.store = store
        self._kept = _Kept(inner, identity, store)

    @property
    def remembered(self) -> int:
        """Prompts for which the inner model did not have to be asked."""
        return self._kept.remembered

    @property
    def spending(self) -> Spending:
        """What the inner model was paid, and how many prompts it was spared."""
        return self._kept.spending

    @property
    def price(self) -> Price:
        """The inner model's."""
        return self.inner.price if isinstance(self.inner, Paid) else Price()

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """As the inner model, which is asked only for what was never answered, and once for each prompt."""
        return self._kept.completions(prompts, max_tokens, stop)


class CachedModel:
    """A `ScoringModel` whose completions and scores are kept."""

    def __init__(self, inner: ScoringModel, identity: str, store: Answers) -> None:
        self.name, self.parallel = inner.name, calls_at_once(inner)
        self.inner = inner
        self.store = store
        self._kept = _Kept(inner, identity, store)
        self._identity = identity

    @property
    def remembered(self) -> int:
        """Prompts and requests for which the inner model did not have to be asked."""
        return self._kept.remembered

    @property
    def spending(self) -> Spending:
        """What the inner model was paid, and how many prompts it was spared."""
        return self._kept.spending

    @property
    def price(self) -> Price:
        """The inner model's."""
        return self.inner.price if isinstance(self.inner, Paid) else Price()

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """As the inner model, which is asked only for what was never answered, and once for each prompt."""
        return self._kept.completions(prompts, max_tokens, stop)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """The same for scores."""
        keys = [_key(self._identity, "score", request.prompt, request.continuation) for request in requests]

        def ask(missing: Sequence[int]) -> Iterator[tuple[int, Score]]:
            wanted = [requests[i] for i in missing]
            if isinstance(self.inner, ArrivingScores):
                return self.inner.scores(wanted)
            return iter(enumerate(self.inner.score(wanted)))

        return self._kept.recall(keys, ask, _read_score)


class _Kept:
    """What both kinds of cached model are made of: a model, and what it has answered."""

    def __init__(self, inner: LanguageModel, identity: str, store: Answers) -> None:
        self.remembered = 0
        self._counting = threading.Lock()
        self._inner, self._identity, self._store = inner, identity, store

    @property
    def spending(self) -> Spending:
        spending = self._inner.spending if isinstance(self._inner, Paid) else Spending()
        return replace(spending, remembered=self.remembered)

    def completions(self, prompts: Sequence[str], max_tokens: int, stop: str | None) -> list[Completion]:
        keys = [_key(self._identity, "generate", max_tokens, stop, prompt) for prompt in prompts]

        def ask(missing: Sequence[int]) -> Iterator[tuple[int, Completion]]:
            wanted = [prompts[i] for i in missing]
            if isinstance(self._inner, Arriving):
                return self._inner.completions(wanted, max_tokens, stop)
            return iter(enumerate(self._inner.generate(wanted, max_tokens, stop)))

        return self.recall(keys, ask, _read_completion)

    def recall(
        self,
        keys: Sequence[str],
        ask: Callable[[Sequence[int]], Iterator[tuple[int, T]]],
        read: Callable[[Mapping[str, Any]], T],
    ) -> list[T]:
        """What every key stands for; what has to be asked is kept as it arrives.

        What another thread is asking for is waited for after one's own questions, so that no two wait for each other.
        """
        known: dict[str, T] = {}
        spared = len(keys)
        while unknown := [key for key in dict.fromkeys(keys) if key not in known]:
            with self._store.asking(unknown) as ours:
                rows = self._store.get(ours)
                known |= {key: answer for key in rows if (answer := _parsed(rows[key], read)) is not None}
                missing = [keys.index(key) for key in ours if key not in known]
                spared -= len(missing)
                try:
                    for j, answer in ask(missing) if missing else ():
                        key = keys[missing[j]]
                        known[key] = answer
                        self._store.put(key, json.dumps(with_checksum(asdict(answer))))
                finally:
                    self._store.settle(ours)
            self._store.wait_for([key for key in unknown if key not in known])
        with self._counting:
            self.remembered += spared
        return [known[key] for key in keys]


def _parsed(row: str, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    """What a row says; None where it is damaged, be it by a single digit."""
    try:
        told = json.loads(row)
        return read(told) if isinstance(told, dict) and checksum_ok(told, needed=True) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_completion(told: Mapping[str, Any]) -> Completion:
    if not isinstance(told["text"], str):
        raise TypeError("text")
    return Completion(told["text"], _count(told["prompt_tokens"]), _count(told["completion_tokens"]))


def _read_score(told: Mapping[str, Any]) -> Score:
    logprobs = tuple(map(float, told["logprobs"]))
    following = told["following"]
    if not logprobs or type(told["greedy"]) is not bool or not isinstance(following, str | None):
        raise TypeError("score")
    return Score(logprobs, told["greedy"], float(told["margin"]), following, _count(told["prompt_tokens"]))


def _count(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("count")
    return value


def _key(*parts: object) -> str:
    """SHA-256 of the parts, told apart by JSON's quotes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
