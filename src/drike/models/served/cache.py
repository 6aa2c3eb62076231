"""A cache of answers on disk, so that no prompt is ever paid for twice, in one run or the next.

Answers are keyed by a hash of model, settings and prompt; prompts themselves are not in the file. A
thread of its own writes them as they arrive, so that a failure or Ctrl-C loses none. If the file
cannot be written, the run goes on with a warning. Where one thread is waiting for an answer, others
wait for the same one, and ask themselves if it fails.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from drike.answers.thoughts import without_thoughts
from drike.models.protocols import ANSWER_TOKENS, Completion, Prompts, Request, Score, Turns, Usage
from drike.models.served.rated_texts import is_logprob
from drike.support.files import cache_folder
from drike.support.key_value_file import KeyValueFile
from drike.support.parallel import POLL_SECONDS, StoppedError, current_group
from drike.support.records import parse, read

if TYPE_CHECKING:
    from drike.models.served.openai import ServedModel

Question = TypeVar("Question", str | Turns, Request)
Answer = TypeVar("Answer", Completion, Score)

# Asks the model, and yields its answers as they arrive, with the index of their question.
Ask = Callable[[Sequence[Question]], Iterable[tuple[int, Answer]]]

_RETRY_SECONDS = 30.0  # until a file that could not be written is tried again


class CachedModel:
    """A served model whose completions and scores are kept in `store`.

    identity: what keeps the answers of other models and settings apart.
    """

    def __init__(self, inner: ServedModel, identity: str, store: AnswerCache) -> None:
        self.inner = inner
        self.store = store
        self.info = inner.info
        self.count_tokens = inner.count_tokens
        self.forget = inner.forget
        self._identity = identity
        self._cached = 0  # prompts answered from the cache
        self._counting = threading.Lock()

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
        """Complete each prompt; the inner model completes only new ones, and each of them once."""

        def complete(new: Sequence[str | Turns]) -> Iterable[tuple[int, Completion]]:
            return self.inner.completions(new, max_tokens, stop)

        keys = [key_of(self._identity, "generate", max_tokens, stop, prompt) for prompt in prompts]
        return self._recall(Completion, prompts, keys, complete)

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        keys = [
            key_of(self._identity, "score", request.prompt, request.continuation, *request.earlier)
            for request in requests
        ]
        return self._recall(Score, requests, keys, self.inner.scores)

    def _recall(
        self,
        kind: type[Answer],
        questions: Sequence[Question],
        keys: Sequence[str],
        ask: Ask[Question, Answer],
    ) -> list[Answer]:
        """The answer for every key; new ones are asked for, and kept.

        Those that other threads are asking for come last: if each of two threads waited for the
        other's before it asked for its own, neither would ever go on.
        """
        answer_by_key: dict[str, Answer] = {}
        cached = len(keys)
        while missing := [key for key in dict.fromkeys(keys) if key not in answer_by_key]:
            with self.store.asking(missing) as ours:
                answer_by_key |= _read_all(kind, self.store.get(ours))
                new = [key for key in ours if key not in answer_by_key]
                cached -= len(new)
                if new:
                    new_questions = [questions[keys.index(key)] for key in new]
                    for i, answer in ask(new_questions):
                        answer_by_key[new[i]] = answer
                        self.store.put(new[i], json.dumps(asdict(answer)).encode())
            self.store.wait_for([key for key in missing if key not in answer_by_key])
        with self._counting:
            self._cached += cached
        return [answer_by_key[key] for key in keys]


def _read_all(kind: type[Answer], row_by_key: Mapping[str, bytes]) -> dict[str, Answer]:
    """The answers in rows, without damaged ones and ones that another version of drike wrote."""
    answer_by_key = {}
    for key, row in row_by_key.items():
        with suppress(ValueError):
            answer = read(kind, parse(row))
            if isinstance(answer, Completion):
                is_usable = _is_answer(answer.text.strip())
            else:
                is_usable = _has_logprobs(answer)
            if is_usable:
                answer_by_key[key] = answer
    return answer_by_key


def _is_answer(text: str) -> bool:
    """Whether a text is not only the beginning of thoughts, such as older versions kept."""
    return not text or bool(without_thoughts(text).strip())


def _has_logprobs(score: Score) -> bool:
    return bool(score.logprobs) and all(is_logprob(logprob) for logprob in score.logprobs)


def key_of(*parts: object) -> str:
    """SHA-256 of the parts, delimited by JSON's quotes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class AnswerCache:
    """Answers by key, in memory and in a file, and the keys that threads are asking for.

    Threads may share it.
    """

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
        """Keep an answer, which is written soon (see `asking`)."""
        with self._changed:
            self._memory[key] = answer
            self._unsaved[key] = answer
            self._asking.discard(key)
            self._changed.notify_all()
        self._writer.submit(self._write)

    @contextmanager
    def asking(self, keys: Collection[str]) -> Iterator[list[str]]:
        """Claim those of `keys` that no other thread has, and yield them.

        Others wait for them until they are put or the block is left. This then waits until their
        answers are written, or cannot be. Raises as `wait_for`.
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
        """Wait until nobody asks for any of `keys`.

        Raises StoppedError if the caller's group is abandoned before.
        """
        self._wait_until(lambda: self._asking.isdisjoint(keys))

    def close(self) -> None:
        """Try once more to write what could not be written, and close the file."""
        self._failed = 0.0
        self._writer.submit(self._write).result()
        self._file.close()

    def _wait_until(self, done: Callable[[], bool]) -> None:
        group = current_group()
        with self._changed:
            while not self._changed.wait_for(done, POLL_SECONDS):
                if group.abandoned:
                    raise StoppedError

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
                if written:
                    self._mark_saved(unsaved)
                self._changed.notify_all()

    def _mark_saved(self, written: dict[str, bytes]) -> None:
        """Forget what has been written, but not an answer that was replaced in the meantime."""
        for key, answer in written.items():
            if self._unsaved[key] is answer:
                del self._unsaved[key]
