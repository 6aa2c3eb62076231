"""The edits of a store as a gateway applies them, whoever changes them, with the last decisions about requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from drike.conversations.following import Earlier, Follower, Memory
from drike.conversations.rendering import Placement
from drike.deployment.routing import route
from drike.encoders.base import TextEncoder
from drike.errors import DrikeError
from drike.gates.alike import AlikeEdits
from drike.gates.decision import Candidate, Decision, Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.gates.store_gate import StoreView, encoder_of, stored_gate, usual_gate
from drike.serving.options import Switch, switches
from drike.serving.threads import WorkThread
from drike.serving.watching import NO_SAMPLES, Sampling, Watch
from drike.stores.log import EditStore, Snapshot
from drike.stores.opening import TENANT
from drike.stores.records import EditVersion, Status, StoreError, conflict_keys, stamp

_LOG = logging.getLogger(__name__)
_RECORDED = 200  # decisions that are kept to be looked at
_ANSWERED = 10_000  # answers of a model


@dataclass(frozen=True)
class RecordedDecision:
    """A decision on a request: when, and the request's id."""

    at: str
    request: str
    decision: Decision


@dataclass(frozen=True)
class _State:
    """A gate and its edits, replaced as a whole. number: the gate's; None if the store has another history by now."""

    number: int | None
    gate: Gate
    encoder: TextEncoder | None
    view: StoreView = field(default_factory=StoreView)
    memory: Memory = field(default_factory=Memory)
    memory_of_asked: Memory = field(default_factory=Memory)  # where a model is asked about uncertain edits


Answers = dict[tuple[str, int, int], YesOrNo]  # to questions about a query and a version of an edit


class UnansweredError(Exception):
    """A model has not been asked yet about a decision, the argument."""


def question_about(decision: Decision, candidate: Candidate) -> tuple[str, int, int]:
    """The key of the answer whether a decision's query concerns an edit."""
    return decision.query, candidate.edit.id, candidate.edit.version


class EditFeed:
    """Edits in force, and decisions about them. Threads may share it. Raises StoreError if the store is unreadable.

    matched, missed: the last decisions. watch: counts requests and their answers. switch: the mode that someone has
    switched to. answered: what models said, while there is room. earlier: what was decided on
    conversations that the upstream keeps. deciding, aside: threads for decisions on requests, and for all other work,
    so that tenants do not wait for each other. gate: None for the store's own, whichever was calibrated last. encoder:
    opens that of a gate. prepare: called with edits that are new in force, before they are. sampling: of answers.
    """

    def __init__(
        self, store: EditStore, gate: Gate | None = None, *, tenant: str = TENANT,
        encoder: Callable[[Gate], TextEncoder | None] = encoder_of,
        prepare: Callable[[Sequence[EditVersion]], None] = lambda edits: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC), sampling: Sampling = NO_SAMPLES,
    ) -> None:  # fmt: skip
        self.store, self.tenant = store, tenant
        self.matched: deque[RecordedDecision] = deque(maxlen=_RECORDED)
        self.missed: deque[RecordedDecision] = deque(maxlen=_RECORDED)
        self.watch, self.switch = Watch(clock, sampling), Switch()
        self.answered: Answers = {}
        self.earlier = Earlier(clock)
        self.problem: str | None = None
        self.gate_problem: str | None = None
        self.deciding, self.aside = WorkThread("drike-gate"), WorkThread("drike-aside")
        self._encoder, self._prepare, self._clock = encoder, prepare, clock
        self._enforced: set[int] = set()  # ids of edits that are or were
        self._refreshing = threading.Lock()
        self._follows = gate is None
        number, first = (0, gate) if gate else stored_gate(store) or (0, usual_gate())
        self._state = _State(number, first, encoder(first))
        store.alike = AlikeEdits(lambda: self._state.encoder)
        self.refresh()
        if self.problem:
            raise StoreError(self.problem)

    @property
    def gate(self) -> Gate:
        """The gate."""
        return self._state.gate

    @property
    def snapshot(self) -> Snapshot:
        """All edits, as they were last read."""
        return self._state.view.snapshot

    @property
    def index(self) -> EditIndex:
        """The edits in force, and shadow edits, which are only counted."""
        return self._state.view.index

    def refresh(self) -> None:
        """Read what has changed in the store. If that fails, `problem` says why, and the edits stay as they were."""
        with self._refreshing:
            state = self._state
            try:
                view = state.view.at(self._clock(), self.store, state.encoder, shadow=True)
                self.switch = next(reversed(switches(self.store)), Switch())
            except StoreError as problem:
                self.problem = str(problem)
                return
            self.problem = None
            if view is state.view:
                return
            self._prepare(view.new)
            self._enforced |= {edit.id for edit in view.new if edit.record.enforce}
            number = state.number
            if view.snapshot.histories != state.view.snapshot.histories:
                number = None
                text = "%s holds another history: %d changes, of which none is change %d as it was known here"
                _LOG.warning(text, self.store.name, view.snapshot.revision, state.view.snapshot.revision)
            self._state = _State(number, state.gate, state.encoder, view)
        if number is None:
            self.follow_gate()

    def follow_gate(self) -> None:
        """Decide by a newer gate of the store, once all edits are encoded for it; `gate_problem` says why it failed."""
        try:
            known = self._state.number
            newer = stored_gate(self.store, known or 0) if self._follows else None
            if newer or (known is None and self._follows):
                number, gate = newer or (0, usual_gate())
                encoder, before = self._encoder(gate), self.index
                index = EditIndex.of(before.edits.values(), encoder, before)
                with self._refreshing:
                    view = self._state.view
                    view = replace(view, index=EditIndex.of(view.index.edits.values(), encoder, index))
                    self._state = _State(number, gate, encoder, view)
            self.gate_problem = None
        except DrikeError as problem:
            self.gate_problem = str(problem)

    def has(self, edit: EditVersion) -> bool:
        """Whether this version of an edit is in force, or a shadow edit that is counted."""
        known = self.index.edits.get(edit.id)
        return known is not None and known.version == edit.version

    def trying(self, edits: Sequence[EditVersion]) -> EditFeed:
        """A feed of this moment in which these edits are in force, too, instead of those that they contradict.

        It is not refreshed, and counts and records for itself.
        """
        state, keys = self._state, frozenset[str]().union(*(conflict_keys(edit.record) for edit in edits))
        rivals = [id for id, edit in self.index.edits.items() if keys & conflict_keys(edit.record)]
        tried = copy(self)
        tried.matched, tried.missed = deque(maxlen=_RECORDED), deque(maxlen=_RECORDED)
        tried.watch, tried.switch, tried.answered = Watch(self._clock), Switch(), {}
        active = [replace(edit, record=replace(edit.record, status=Status.ACTIVE)) for edit in edits]
        view = replace(state.view, index=self.index.changed(rivals, active))
        tried._state = replace(state, view=view, memory=Memory(), memory_of_asked=Memory())
        return tried

    def follower(
        self, placement: Placement, *, sources: bool = True, answers: Answers | None = None,
        until: float | None = None, memory: Memory | None = None, values: Mapping[str, str] | None = None,
    ) -> Follower:  # fmt: skip
        """What decides on conversations with the gate and the edits of this moment.

        values: model and headers of a request, for edits that only apply to some; None for all edits. answers: of a
        model about uncertain edits; None where none is asked. until: by `time.perf_counter`. memory: another one than
        that of earlier requests. It raises TimeoutError, and UnansweredError where an answer is missing.
        """
        state = self._state
        index = state.view.index if values is None else state.view.index.applying(values)

        def decide(queries: Sequence[str]) -> Decision:
            decision = route(state.gate, index, _in_time(queries, until), verifying=answers is not None)
            if answers is None or not decision.uncertain:
                return decision
            keys = [question_about(decision, candidate) for candidate in decision.uncertain]
            if not answers.keys() >= set(keys):
                raise UnansweredError(decision)
            return decision.resolved([answers[key] for key in keys])

        if answers is not None and YesOrNo.FAILED in answers.values():  # it may be answered the next time
            memory = Memory()
        memory = memory or (state.memory if answers is None else state.memory_of_asked)
        return Follower(decide, index, placement, self.tenant, sources, memory)

    def record(self, request_id: str, decision: Decision) -> None:
        """Keep a decision in `matched` or `missed`, if it has candidates."""
        if decision.candidates:
            recorded = RecordedDecision(stamp(self._clock()), request_id, decision.abridged)
            (self.matched if decision.matched else self.missed).append(recorded)

    def remember(self, answers: Answers) -> None:
        """Keep what a model said about edits, but that it failed."""
        self.answered |= {key: answer for key, answer in answers.items() if answer is not YesOrNo.FAILED}
        while len(self.answered) > _ANSWERED:
            del self.answered[next(iter(self.answered))]

    @property
    def problems(self) -> list[str]:
        """What is wrong now with the store, the gate, or how fast it decides."""
        late = self.deciding.lateness()
        slow = late and f"decisions about edits are late ({late}): raise --deadline-ms, or look at what is asked"
        return [problem for problem in (self.problem, self.gate_problem, slow) if problem]

    def close(self) -> None:
        """Let go of the store and the threads."""
        self.deciding.close()
        self.aside.close()
        self.watch.flush(self.store)
        self.store.close()

    @property
    def enforces(self) -> bool:
        """Whether an edit that must not be left out is in force."""
        return bool(self._enforced_in(self.index))

    def enforced(self, queries: Sequence[str], values: Mapping[str, str]) -> bool:
        """Whether a query names the subject of an edit that must not be left out when the gate fails."""
        index = self.index.applying(values)
        active = self._enforced_in(index)
        return any(not active.isdisjoint(index.named(query)) for query in queries)

    def _enforced_in(self, index: EditIndex) -> set[int]:
        known = tuple(self._enforced)
        return {id for id in known if (edit := index.edits.get(id)) and edit.record.must_apply}


def _in_time(queries: Sequence[str], until: float | None) -> Iterator[str]:
    for query in queries:
        if until is not None and time.perf_counter() > until:
            raise TimeoutError
        yield query
