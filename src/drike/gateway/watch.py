"""What is counted of requests and answers, gathered here and kept in the store.

A request only leaves a note. A thread judges the answer, forgets its text unless it is to be a
sample, and adds the numbers to the store from time to time; a kill loses those since then.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from drike.answers.time_limit import OverTimeError, TimeLimit
from drike.edits.record import EditVersion, Status
from drike.gateway.answers import PassingAnswer
from drike.gateway.edited import EditedRequest
from drike.gateway.metrics import Metrics
from drike.gateway.options import Mode
from drike.gateway.redaction import redacted
from drike.stores.edit_store import EditStore
from drike.stores.inbox import LONGEST, Inbox, Report, ReportState
from drike.stores.traffic import OTHER, Counted, Counts, TrafficCounts
from drike.support.records import encodable

_LOG = logging.getLogger(__name__)
_MODEL = re.compile(r"[\w./:@+,=-]+")  # names of models; other texts may be a user's
_LONGEST_MODEL = 100  # characters of a name
_MOST_NUMBERS = 100_000  # after which models are not told apart, until a store takes them
_SCOPES_WITHOUT_EDITS = ("degraded", "unread")  # of requests whose edits are not known
_MOST_HELD = 8 << 20  # bytes of answers that wait to be judged
_MOST_NOTED = 20_000  # requests that wait
_AT_A_TIME = 0.0005  # seconds of judging before the event loop may go on
_SECONDS_OF_ANSWER = 0.5  # that judging an answer may take, after which it counts as unread


@dataclass(frozen=True)
class Sampling:
    """Answers to keep: the newest `most` of an edit's version, mode and outcome.

    redact: hide what may be private.
    """

    most: int = 0
    redact: bool = True

    def sample(
        self, question: str, answer: str, edit: EditVersion, *, mode: str, outcome: str, model: str
    ) -> Report:
        """An answer to a question that concerns an edit."""
        return Report(
            self._kept(question),
            self._kept(answer),
            comment=f"edit {edit.id}@{edit.version}, {mode}: {outcome}",
            model=model,
            state=ReportState.SAMPLE,
            edit=edit.id,
        )

    def _kept(self, text: str) -> str:
        """What is kept of a text; the limit may have cut a sign in two."""
        shown = redacted(text, LONGEST) if self.redact else text
        return encodable(shown[:LONGEST])


NO_SAMPLES = Sampling()


@dataclass(frozen=True)
class _Note:
    """A request whose answer has passed, or failed; None where it passes elsewhere."""

    edited: EditedRequest
    answer: PassingAnswer | None
    metrics: Metrics

    @property
    def held(self) -> int:
        """About how many bytes of an answer and its question wait to be judged."""
        if self.answer is None or not self.is_read:
            return 0
        return self.answer.held + len(self.edited.question)

    @property
    def is_read(self) -> bool:
        """Whether the answer is read: to be judged, or for a trace."""
        return bool(self.edited.asked or (self.answer and self.answer.trace))


@dataclass(frozen=True)
class _Judged:
    """What an answer states of each edit that it is about; text: None where it was not read."""

    text: str | None
    outcomes: Sequence[str]


class Watch:
    """Counts what passes for one store. problem: why it did not take the numbers the last time."""

    def __init__(self, clock: Callable[[], datetime], sampling: Sampling = NO_SAMPLES) -> None:
        self.problem: str | None = None
        self.sampling = sampling
        self._samples: dict[str | None, deque[Report]] = {}  # by edit, mode and outcome
        self._clock = clock
        self._noted: deque[_Note] = deque()
        self._held = 0  # about how many bytes of answers
        self._counts: Counts = Counter()
        self._until = math.inf  # by `time.monotonic`, the end of all judging
        self._judging = threading.RLock()  # one thread at a time takes what is noted, and stores it
        self._counting = threading.Lock()

    def note(self, edited: EditedRequest, answer: PassingAnswer | None, metrics: Metrics) -> None:
        """Take a request whose answer has passed, or failed; None where it passes elsewhere."""
        note = _Note(edited, answer, metrics)
        if len(self._noted) >= _MOST_NOTED:  # judging is far behind: it is counted now, unread
            if answer:
                answer.drop()
            self._count(note)
            return
        if answer and note.is_read:
            if not answer.complete or self._held + note.held > _MOST_HELD:
                answer.drop()
                note = replace(note, edited=replace(edited, question=""))
            self._held += note.held
        self._noted.append(note)

    @property
    def waiting(self) -> int:
        """How many requests have not been counted yet."""
        return len(self._noted)

    def judge(self, seconds: float = math.inf) -> None:
        """Count what has passed up to now, for about so long at most."""
        with self._judging:
            until = min(time.monotonic() + seconds, self._until)
            paused = time.monotonic()
            for _ in range(len(self._noted)):  # more may be noted meanwhile
                if time.monotonic() >= until:
                    break
                self._count(self._noted.popleft())
                if time.monotonic() - paused > _AT_A_TIME:
                    time.sleep(0)  # the event loop goes first
                    paused = time.monotonic()
            self._held = sum(note.held for note in list(self._noted))

    def end(self, seconds: float) -> None:
        """Let judging end so soon, if not sooner; what waits then is counted as unread."""
        self._until = min(self._until, time.monotonic() + seconds)

    def flush(self, store: EditStore, seconds: float = math.inf) -> None:
        """Judge for so long, and add what was counted to a store.

        What the store does not take now is kept for the next time.
        """
        with self._judging:
            self.judge(seconds)
            if time.monotonic() >= self._until:
                self._count_unread()
            with self._counting:
                numbers = self._counts
                self._counts = Counter()
            if not numbers:
                return
            try:
                TrafficCounts(store.database).add(numbers)
                numbers = Counter()
                self._store_samples(store)
                self.problem = None
            except Exception as problem:  # of any kind, as nothing may end the counting
                with self._counting:
                    self._counts.update(numbers)
                if self.problem is None:
                    _LOG.warning("counts cannot be kept: %s", problem)
                self.problem = str(problem)

    def _store_samples(self, store: EditStore) -> None:
        samples = [sample for alike in self._samples.values() for sample in alike]
        if samples:
            Inbox(store.database).keep_samples(samples, self.sampling.most)
            self._samples = {}

    def _count_unread(self) -> None:
        """Count all that waits, without judging it."""
        while self._noted:
            note = self._noted.popleft()
            if note.answer:
                note.answer.drop()
            self._count(note)
        self._held = 0

    def _count(self, note: _Note) -> None:
        judged = _Judged(None, ())
        try:
            judged = self._judged(note)  # takes a while, during which others count
            with self._counting:
                self._add(note, judged)
        except Exception as error:  # whatever an answer holds, the others are counted
            _LOG.error("an answer was not counted: %s", type(error).__name__)
        finally:
            if note.answer and note.answer.trace:
                note.answer.trace.judged(judged.text, judged.outcomes)

    def _judged(self, note: _Note) -> _Judged:
        """What the answer states of the edits that it is about."""
        answer = note.answer
        asked = note.edited.asked
        text = answer.text() if answer and note.is_read else None
        if text is not None:
            limit = TimeLimit(_SECONDS_OF_ANSWER, lambda: time.monotonic() >= self._until)
            with suppress(OverTimeError):
                question = note.edited.question
                outcomes = [edit.record.states(text, question, limit) for edit in asked]
                return _Judged(text, outcomes)
        outcome = "unread" if answer is None or answer.ok else "failed"
        return _Judged(None, [outcome] * len(asked))

    def _add(self, note: _Note, judged: _Judged) -> None:
        """Add a request to the counts."""
        edited = note.edited
        day = self._clock().date().isoformat()
        model = self._model(note)

        def count(what: str, edit: EditVersion | None = None, number: int = 1) -> None:
            if edit is None:
                counted = Counted(day, 0, 0, model, edited.mode, what)
            else:
                mode = mode_of(edit, edited.mode)
                counted = Counted(day, edit.id, edit.version, model, mode, what)
            self._counts[counted] += number

        count("requests")
        if edited.asked:
            count("matched")
        if edited.doubted:
            count("doubted")
        if edited.scope in _SCOPES_WITHOUT_EDITS:
            count(edited.scope)

        for edit in edited.doubted:
            count("doubted", edit)
        for i, edit in enumerate(edited.edits):
            share, rest = divmod(edited.tokens, len(edited.edits))
            count("tokens", edit, share + (i < rest))
        self._add_answer(note, judged, model, count)

    def _add_answer(
        self, note: _Note, judged: _Judged, model: str, count: Callable[[str, EditVersion], None]
    ) -> None:
        """Count what the answer says of the edits that it is about."""
        answer = note.answer
        edited = note.edited
        for edit, outcome in zip(edited.asked, judged.outcomes, strict=True):
            count("matched", edit)
            count(outcome, edit)
            if answer and edit.id in answer.slipped:
                count("slips", edit)

            mode = mode_of(edit, edited.mode)
            note.metrics.answers.labels(outcome, mode).inc()
            if self.sampling.most and edited.question and judged.text is not None:
                sample = self.sampling.sample(
                    edited.question, judged.text, edit, mode=mode, outcome=outcome, model=model
                )
                alike = self._samples.setdefault(sample.comment, deque(maxlen=self.sampling.most))
                alike.append(sample)

    def _model(self, note: _Note) -> str:
        """The name of the model, if an upstream knows it; any other text may be a user's."""
        model = note.edited.model
        if not isinstance(model, str) or not note.answer or not note.answer.ok:
            return OTHER
        if len(self._counts) >= _MOST_NUMBERS or not _MODEL.fullmatch(model):
            return OTHER
        return model[:_LONGEST_MODEL]


def mode_of(edit: EditVersion, mode: Mode) -> Mode:
    """How an edit takes effect in a request of this mode: one in shadow changes none."""
    return Mode.SHADOW if edit.record.status is Status.SHADOW and mode is Mode.ON else mode
