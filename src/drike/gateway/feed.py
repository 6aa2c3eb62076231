"""The edits of a store as a gateway applies them, kept up to date whoever changes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from drike.conversations.following import Follower
from drike.conversations.memory import Earlier, Memory
from drike.conversations.rendering import Placement
from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditVersion, Status, StoreError
from drike.edits.times import stamp
from drike.encoders.base import TextEncoder
from drike.errors import DrikeError
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.gateway.http.threads import WorkThread
from drike.gateway.options import Switch, switches
from drike.gateway.unanswered import Unanswered
from drike.gateway.watch import NO_SAMPLES, Sampling, Watch
from drike.live.alike import AlikeEdits
from drike.live.live_edits import LiveEdits, LiveState
from drike.live.store_gate import encoder_of
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT
from drike.stores.snapshots import Snapshot

_MOST_RECORDED = 200  # decisions that are kept to be looked at


@dataclass(frozen=True)
class RecordedDecision:
    """A decision on a request: when, and the request's id."""

    at: str
    request: str
    decision: Decision


@dataclass(frozen=True)
class _Remembered:
    """The facts of turns under one state of the edits."""

    state: LiveState
    memory: Memory = field(default_factory=Memory)


class EditFeed:
    """Edits in force, and decisions about them; threads may share it.

    Raises StoreError if the store is unreadable.

    gate: None for the store's own, whichever was calibrated last. encoder: opens that of a gate.
    prepare: called with edits that are new in force, before they are.

    live: the edits, their gate and the index over them as they are now. matched, missed: the last
    decisions. unanswered: questions that named a subject and got nothing. switch: the mode that
    someone has switched to. earlier: what was decided on conversations that the upstream keeps.
    deciding, aside: threads for decisions on requests and for all else, so that tenants do not wait
    for others.
    """

    def __init__(
        self,
        store: EditStore,
        gate: Gate | None = None,
        *,
        tenant: str = TENANT,
        encoder: Callable[[Gate], TextEncoder | None] = encoder_of,
        prepare: Callable[[Sequence[EditVersion]], None] = lambda edits: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sampling: Sampling = NO_SAMPLES,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.matched: deque[RecordedDecision] = deque(maxlen=_MOST_RECORDED)
        self.missed: deque[RecordedDecision] = deque(maxlen=_MOST_RECORDED)
        self.unanswered = Unanswered()
        self.watch = Watch(clock, sampling)
        self.switch = Switch()
        self.earlier = Earlier(clock)
        self.problem: str | None = None
        self.gate_problem: str | None = None
        self.deciding = WorkThread("drike-gate")
        self.aside = WorkThread("drike-aside")
        self._prepare = prepare
        self._clock = clock
        self._enforced: set[int] = set()  # ids of edits that are enforced, or were
        self._refreshing = threading.Lock()
        self.live = LiveEdits(
            store,
            gate,
            encoder_of_gate=encoder,
            shadow=True,
            prepare=self._prepare_edits,
            clock=clock,
        )
        self._remembered = _Remembered(self.live.state)
        store.alike = AlikeEdits(lambda: self.live.state.encoder)
        self.refresh()
        if self.problem:
            raise StoreError(self.problem)

    @property
    def gate(self) -> Gate:
        """The gate."""
        return self.live.state.gate

    @property
    def snapshot(self) -> Snapshot:
        """All edits, as they were last read."""
        return self.live.state.view.snapshot

    @property
    def index(self) -> EditIndex:
        """The edits in force, and shadow edits, which are only counted."""
        return self.live.state.view.index

    def refresh(self) -> None:
        """Read what has changed in the store.

        If that fails, `problem` says why, and the edits stay as they were.
        """
        with self._refreshing:  # or what was read earlier may take the place of what was read later
            try:
                switch = next(reversed(switches(self.store)), Switch())
                self.live.refresh()
            except StoreError as problem:
                self.problem = str(problem)
                return
            self.problem = None
            self.switch = switch
        if self.live.gate_is_stale:
            self.follow_gate()

    @property
    def must_refresh(self) -> bool:
        """Whether to read the store though it is as it was: after a failure, or as edits begin."""
        return self.problem is not None or self.live.state.view.is_over(stamp(self._clock()))

    def follow_gate(self) -> None:
        """Decide by a newer gate of the store, once all edits are encoded for it.

        If that fails, `gate_problem` says why.
        """
        try:
            self.live.refresh_gate()
            self.gate_problem = None
        except DrikeError as problem:
            self.gate_problem = str(problem)

    def forget(self) -> None:
        """Forget the facts of turns."""
        self._remembered = _Remembered(self.live.state)

    def _prepare_edits(self, edits: Sequence[EditVersion]) -> None:
        """Make ready for edits that are about to be in force."""
        self._prepare(edits)
        self._enforced |= {edit.id for edit in edits if edit.record.enforce}

    def trying(self, edits: Sequence[EditVersion]) -> EditFeed:
        """A feed of this moment in which these edits replace what they contradict.

        It is never refreshed, and counts for itself.
        """
        index = self.index
        keys = frozenset[str]().union(*(conflict_keys(edit.record) for edit in edits))
        rivals = [
            edit_id for edit_id, edit in index.edits.items() if keys & conflict_keys(edit.record)
        ]
        active = [
            replace(edit, record=replace(edit.record, status=Status.ACTIVE)) for edit in edits
        ]

        tried = copy(self)
        tried.matched = deque(maxlen=_MOST_RECORDED)
        tried.missed = deque(maxlen=_MOST_RECORDED)
        tried.unanswered = Unanswered()
        tried.watch = Watch(self._clock)
        tried.switch = Switch()
        tried.live = self.live.with_index(index.changed(rivals, active))
        tried._remembered = _Remembered(tried.live.state)
        return tried

    def follower(
        self,
        placement: Placement,
        *,
        sources: bool = True,
        until: float | None = None,
        memory: Memory | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Follower:
        """What decides by the gate and edits of this moment.

        What is late raises TimeoutError. values: model and headers of a request, by which edits
        that are only for some requests apply; None for all edits. until: by `time.perf_counter`.
        memory: used in place of the feed's own.
        """
        state = self.live.state
        index = state.view.index if values is None else state.view.index.applying(values)

        def require_time() -> None:
            if until is not None and time.perf_counter() > until:
                raise TimeoutError

        def decide(query: str) -> Decision:
            require_time()
            return state.gate.decide(query, index)

        if memory is None:
            memory = self._memory_of(state)
        return Follower(decide, index, placement, self.tenant, sources, memory, require_time)

    def _memory_of(self, state: LiveState) -> Memory:
        """What is remembered under a state of the edits; what was under another one is dropped."""
        remembered = self._remembered
        if remembered.state is not state:
            remembered = _Remembered(state)
            self._remembered = remembered
        return remembered.memory

    def record(self, request_id: str, decision: Decision) -> None:
        """Keep a decision in `matched` or `missed`, if it has candidates."""
        if decision.candidates:
            recorded = RecordedDecision(stamp(self._clock()), request_id, decision.abridged)
            decisions = self.matched if decision.matched else self.missed
            decisions.append(recorded)
            self.unanswered.count(decision, recorded.at)

    @property
    def problems(self) -> list[str]:
        """What is wrong now with the store, the gate, or how fast it decides."""
        problems = [self.problem, self.gate_problem]
        late = self.deciding.lateness()
        if late:
            problems.append(
                f"decisions about edits are late ({late}): raise --deadline-ms, or look at "
                "what is asked"
            )
        return list(dict.fromkeys(filter(None, problems)))

    def close(self) -> None:
        """Let go of the store and the threads. What was counted and is not stored yet is lost."""
        self.deciding.close()
        self.aside.close()
        self.store.close()

    @property
    def enforces(self) -> bool:
        """Whether an edit that must not be left out is in force."""
        return bool(self._enforced_in(self.index))

    @property
    def enforced_conditions(self) -> set[str]:
        """On what the enforced edits depend that are in force: "model", and names of headers."""
        edits = self.index.edits
        return {
            condition.partition("=")[0]
            for edit_id in self._enforced_in(self.index)
            for condition in edits[edit_id].record.only
        }

    def enforces_for(self, values: Mapping[str, str]) -> bool:
        """Whether one is in force that applies to a request with such values."""
        return bool(self._enforced) and bool(self._enforced_in(self.index.applying(values)))

    def enforced(
        self, queries: Sequence[str], values: Mapping[str, str], earlier: Collection[int] = ()
    ) -> bool:
        """Whether a gate might match a query by its names to an edit that must not be left out.

        earlier: ids of edits about which earlier turns were, which are not among the queries.
        """
        index = self.index.applying(values)
        enforced = self._enforced_in(index)
        if not enforced.isdisjoint(earlier):
            return True
        return any(not enforced.isdisjoint(index.reached_by_name(query)) for query in queries)

    def enforced_in(self, text: str, index: EditIndex) -> set[int]:
        """The ids of the edits of an index whose subject a text names, and that are enforced."""
        enforced = self._enforced_in(index)
        return enforced & index.named(text) if enforced else enforced

    def _enforced_in(self, index: EditIndex) -> set[int]:
        """Ids of the edits of an index that must not be left out."""
        edits = [index.edits.get(edit_id) for edit_id in tuple(self._enforced)]
        return {edit.id for edit in edits if edit and edit.record.must_apply}
