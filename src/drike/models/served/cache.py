"""A cache of answers on disk, so that no prompt is ever paid for twice, in one run or the next.

Answers are keyed by a hash of model, settings and prompt; prompts themselves are not in the file. A thread of its own
writes them as they arrive, so that a failure or Ctrl-C loses none. If the file cannot be written, the run goes on with
a warning. Where one thread is waiting for an answer, others wait for the same one, and ask themselves if it fails.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from drike.models.protocols import ANSWER_TOKENS, Completion, Prompts, Request, Score, Turns, Usage
from drike.models.served import is_logprob
from drike.support.files import KeyValueFile, cache_folder
from drike.support.parallel import POLL_SECONDS, StoppedError, current_group
from drike.support.records import parse, read

if TYPE_CHECKING:
    from drike.models.served.openai import ServedModel

Asked = TypeVar("Asked", str | Turns, Request)
Answer = TypeVar("Answer", Completion, Score)

Ask = Callable[
    [Sequence[Asked]], Iterable[tuple[int, Answer]]
]  # answers as they arrive, with the index of each

_RETRY_SECONDS = 30.0  # until a file that could not be written is tried again


class CachedModel:
    """A served model whose completions and scores are kept in `store`; identity: keeps models and settings apart."""

    def __init__(self, inner: ServedModel, identity: str, store: AnswerCache) -> None:
        self.inner, self.store, self._identity = inner, store, identity
        self.info, self.count_tokens, self.forget = inner.info, inner.count_tokens, inner.forget
        self._cached, self._counting = 0, threading.Lock()

    @property
    def score(self) -> Callable[[Sequence[Request]], list[Score]] | None:
        """Score requests, each new one once; None if the inner model does not score."""
        return None if self.inner.score is None else self._score

    @property
    def usage(self) -> Usage:
        """The inner model's work, and the prompts that were answered from the cache."""
        return self.inner.usage + Usage(prompts=self._cached, cached=self._cached)

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt; the inner model completes new prompts only, and each of them once."""
        keys = [key_of(self._identity, "generate", max_tokens, stop, prompt) for prompt in prompts]
        return self._recall(
            Completion, prompts, keys, lambda new: self.inner.completions(new, max_tokens, stop)
        )

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        keys = [
            key_of(self._identity, "score", r.prompt, r.continuation, *r.earlier) for r in requests
        ]
        return self._recall(Score, requests, keys, self.inner.scores)

    def _recall(
        self,
        kind: type[Answer],
        asked: Sequence[Asked],
        keys: Sequence[str],
        ask: Ask[Asked, Answer],
    ) -> list[Answer]:
        """Return the answer for every key, keep new ones; those that others ask for come last, against deadlock."""
        known: dict[str, Answer] = {}
        cached = len(keys)
        while unknown := [key for key in dict.fromkeys(keys) if key not in known]:
            with self.store.asking(unknown) as ours:
                rows = self.store.get(ours)
                known |= {
                    key: answer
                    for key, row in rows.items()
                    if (answer := _read(kind, row)) is not None
                }
                missing = [keys.index(key) for key in ours if key not in known]
                cached -= len(missing)
                for i, answer in ask([asked[i] for i in missing]) if missing else ():
                    key = keys[missing[i]]
                    known[key] = answer
                    self.store.put(key, json.dumps(asdict(answer)).encode())
            self.store.wait_for([key for key in unknown if key not in known])
        with self._counting:
            self._cached += cached
        return [known[key] for key in keys]


def _read(kind: type[Answer], row: bytes) -> Answer | None:
    """Read a row; None if it is damaged, or another version of drike wrote it."""
    with suppress(ValueError):
        answer = read(kind, parse(row))
        if isinstance(answer, Completion) or (
            answer.logprobs and all(map(is_logprob, answer.logprobs))
        ):
            return answer
    return None


def key_of(*parts: object) -> str:
    """SHA-256 of the parts, delimited by JSON's quotes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class AnswerCache:
    """Answers by key, in memory and in a file, and the keys that threads are asking for; threads may share it."""

    def __init__(self, path: Path | None = None) -> None:
        remedy = "they stay in memory for this run; make room, or set XDG_CACHE_HOME"
        self._file = KeyValueFile(path or cache_folder() / "answers.sqlite", "answers", remedy)
        self._writer = ThreadPoolExecutor(1, "drike-answers")  # Python waits for it before it ends
        self._memory: dict[str, bytes] = {}
        self._unsaved: dict[str, bytes] = {}
        self._asking: set[str] = set()
        self._failed = 0.0  # when the file could not be written
        self._changed = threading.Condition()  # guards all of these, and signals when they change

    def get(self, keys: Collection[str]) -> dict[str, bytes]:
        """Return the answers there are."""
        remembered = {key: self._memory[key] for key in keys if key in self._memory}
        return remembered | self._file.get([key for key in keys if key not in remembered])

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer; it is written soon (see `asking`), with those that could not be written before."""
        with self._changed:
            self._memory[key] = self._unsaved[key] = answer
            self._asking.discard(key)
            self._changed.notify_all()
        self._writer.submit(self._write)

    @contextmanager
    def asking(self, keys: Collection[str]) -> Iterator[list[str]]:
        """Claim those of `keys` that no other thread has; others wait for them until they are put or the block is left.

        This then waits until their answers are written, or cannot be. Raises as `wait_for`.
        """
        ours: list[str] = []
        try:
            with self._changed:
                ours += [key for key in keys if key not in self._asking]
                self._asking.update(ours)
            yield ours
        finally:
            with self._changed:
                self._asking.difference_update(ours)
                self._changed.notify_all()
            self._wait_until(lambda: self._failed > 0 or self._unsaved.keys().isdisjoint(ours))

    def wait_for(self, keys: Collection[str]) -> None:
        """Wait until nobody asks for any of `keys`. Raises StoppedError if the caller's group is abandoned before."""
        self._wait_until(lambda: self._asking.isdisjoint(keys))

    def _wait_until(self, done: Callable[[], bool]) -> None:
        group = current_group()
        with self._changed:
            while not self._changed.wait_for(done, POLL_SECONDS):
                if group.abandoned:
                    raise StoppedError

    def close(self) -> None:
        """Try once more to write what could not be written, and close the file."""
        self._failed = 0.0
        self._writer.submit(self._write).result()
        self._file.close()

    def _write(self) -> None:
        """Write the unsaved answers, unless that failed a moment ago."""
        if self._failed and time.monotonic() - self._failed < _RETRY_SECONDS:
            return
        with self._changed:
            unsaved = dict(self._unsaved)
        if not unsaved:
            return
        written = False
        try:
            written = self._file.put(unsaved)
        finally:
            with self._changed:
                self._failed = 0.0 if written else time.monotonic()
                for key, answer in unsaved.items() if written else ():
                    if self._unsaved[key] is answer:
                        del self._unsaved[key]
                self._changed.notify_all()
