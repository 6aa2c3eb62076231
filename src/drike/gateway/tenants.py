"""The edits of each tenant's store as a gateway applies them, kept up to date whoever changes them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count

from drike.conversations.following import Earlier, Follower, Memory
from drike.conversations.rendering import Placement
from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditVersion, Status, StoreError
from drike.edits.times import stamp
from drike.encoders.base import TextEncoder
from drike.errors import DrikeError
from drike.gates.decision import Decision, Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.http.threads import WorkThread, in_daemon_thread
from drike.gateway.options import Switch, switches
from drike.gateway.traffic import NO_SAMPLES, Sampling, Watch
from drike.live.alike import AlikeEdits
from drike.live.live_edits import StoreView
from drike.live.store_gate import encoder_of, stored_gate, usual_gate
from drike.stores.edit_store import EditStore
from drike.stores.failures import POSTGRES
from drike.stores.opening import TENANT
from drike.stores.snapshots import Snapshot

_LOG = logging.getLogger(__name__)
_RECORDED = 200  # decisions that are kept to be looked at
_ANSWERED = 10_000  # answers of a model
# Seconds between two looks at files of stores, and for new gates.
_FILES_INTERVAL, _GATES_INTERVAL = 0.05, 0.5
_JUDGING_INTERVAL, _FLUSHES = (
    0.5,
    10,
)  # seconds between judging answers; every so many times, counts are stored
_EDITS_INTERVAL = 1.0  # between two at which edits hold now, also where no file has changed
_SETTLED = 2 * 10**9  # nanoseconds; a file that changed later may change again without another time
_SECONDS_TO_END = 15.0
_MAX_REFRESHED = 32  # stores at once; one that is locked holds up no other
_UNREADABLE = "the edits or the gate of {} cannot be read: a key of its own shows why"


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
    memory_of_asked: Memory = field(
        default_factory=Memory
    )  # where a model is asked about uncertain edits


Answers = dict[
    tuple[str, str, int, int], YesOrNo
]  # of a model, to questions about a query and a version of an edit


class UnansweredError(Exception):
    """A model has not been asked yet about a decision. Its arguments: this, and the keys of the answers."""


class EditFeed:
    """Edits in force, and decisions about them; threads may share it. Raises StoreError if the store is unreadable.

    gate: None for the store's own, whichever was calibrated last. encoder: opens that of a gate. prepare: called with
    edits that are new in force, before they are. matched, missed: the last decisions. switch: the mode that someone has
    switched to. answered: what models said about edits. earlier: what was decided on conversations that the upstream
    keeps. deciding, aside: threads for decisions on requests and for all else, so that tenants do not wait for others.
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
                _LOG.warning(
                    text, self.store.name, view.snapshot.revision, state.view.snapshot.revision
                )
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
                    view = replace(
                        view, index=EditIndex.of(view.index.edits.values(), encoder, index)
                    )
                    _ = encoder and view.index.wordings
                    self._state = _State(number, gate, encoder, view)
            self.gate_problem = None
        except DrikeError as problem:
            self.gate_problem = str(problem)

    def trying(self, edits: Sequence[EditVersion]) -> EditFeed:
        """A feed of this moment, never refreshed, that counts for itself: these edits replace what they contradict."""
        state, keys = (
            self._state,
            frozenset[str]().union(*(conflict_keys(edit.record) for edit in edits)),
        )
        rivals = [id for id, edit in self.index.edits.items() if keys & conflict_keys(edit.record)]
        tried = copy(self)
        tried.matched, tried.missed = deque(maxlen=_RECORDED), deque(maxlen=_RECORDED)
        tried.watch, tried.switch, tried.answered = Watch(self._clock), Switch(), {}
        active = [
            replace(edit, record=replace(edit.record, status=Status.ACTIVE)) for edit in edits
        ]
        view = replace(state.view, index=self.index.changed(rivals, active))
        tried._state = replace(state, view=view, memory=Memory(), memory_of_asked=Memory())
        return tried

    def follower(
        self, placement: Placement, *, sources: bool = True, answers: Answers | None = None,
        until: float | None = None, memory: Memory | None = None, values: Mapping[str, str] | None = None,
    ) -> Follower:  # fmt: skip
        """What decides by the gate and edits of this moment. Raises TimeoutError; UnansweredError for a missing answer.

        values: model and headers of a request, for edits that only apply to some; None for all edits. answers: of a
        model about uncertain edits; None where none is asked. until: by `time.perf_counter`. memory: not the feed's.
        """
        state = self._state
        index = state.view.index if values is None else state.view.index.applying(values)
        model = (
            values.get("model", "") if values and answers is not None else ""
        )  # whose answers these are

        def decide(query: str) -> Decision:
            if until is not None and time.perf_counter() > until:
                raise TimeoutError
            decision = state.gate.decide(query, index)
            if answers is None or not decision.uncertain:
                return decision
            keys = [(model, decision.query, c.edit.id, c.edit.version) for c in decision.uncertain]
            if not answers.keys() >= set(keys):
                raise UnansweredError(decision, keys)
            return decision.resolved([answers[key] for key in keys])

        if (
            answers is not None and YesOrNo.FAILED in answers.values()
        ):  # it may be answered the next time
            memory = Memory()
        memory = memory or (state.memory if answers is None else state.memory_of_asked)
        return Follower(decide, index, placement, self.tenant, sources, memory, model)

    def record(self, request_id: str, decision: Decision) -> None:
        """Keep a decision in `matched` or `missed`, if it has candidates."""
        if decision.candidates:
            recorded = RecordedDecision(stamp(self._clock()), request_id, decision.abridged)
            (self.matched if decision.matched else self.missed).append(recorded)

    def remember(self, answers: Answers) -> None:
        """Keep what a model said about edits, but that it failed."""
        self.answered |= {
            key: answer for key, answer in answers.items() if answer is not YesOrNo.FAILED
        }
        while len(self.answered) > _ANSWERED:
            del self.answered[next(iter(self.answered))]

    @property
    def problems(self) -> list[str]:
        """What is wrong now with the store, the gate, or how fast it decides."""
        late = self.deciding.lateness()
        slow = (
            late
            and f"decisions about edits are late ({late}): raise --deadline-ms, or look at what is asked"
        )
        return list(dict.fromkeys(filter(None, (self.problem, self.gate_problem, slow))))

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
        return {
            id
            for id in tuple(self._enforced)
            if (edit := index.edits.get(id)) and edit.record.must_apply
        }


class Tenants:
    """Tenants by name, whose edits `open_feed` opens when each first asks. keys: None for the default one only."""

    def __init__(self, open_feed: Callable[[str], EditFeed], keys: Keys | None = None) -> None:
        self.problem: str | None = None  # with the keys
        self._open, self._keys = open_feed, keys
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._followers: dict[str, threading.Thread] = {}
        following = (self._follow_files, self._follow_gates, self._follow_answers)
        self._watching = [threading.Thread(target=follow, daemon=True) for follow in following]
        self._reading = WorkThread("drike-keys")
        self._stopped = threading.Event()
        self.feeds = {TENANT: open_feed(TENANT)}

    async def feed(self, tenant: str) -> EditFeed:
        """The edits of a tenant; other tenants do not wait while they are indexed. Raises StoreError."""
        if tenant not in self.feeds:
            async with self._opening[tenant]:
                if tenant not in self.feeds:
                    self.feeds[tenant] = await in_daemon_thread(self._open, tenant)
        return self.feeds[tenant]

    async def follow(self) -> None:
        """Keep edits, gates and keys up to date until cancelled: a thread for all files, one for each database."""
        for watching in self._watching:
            watching.start()
        try:
            while True:
                for tenant, feed in self.feeds.items():
                    if tenant not in self._followers and feed.store.name.startswith(POSTGRES):
                        self._followers[tenant] = threading.Thread(
                            target=self._follow, args=(feed,), daemon=True
                        )
                        self._followers[tenant].start()
                try:
                    if self._keys:
                        await self._reading.do(
                            self._keys.refresh, None
                        )  # a database may take its time
                    self.problem = None
                except DrikeError as problem:  # the keys stay as they were
                    self.problem = str(problem)
                await asyncio.sleep(self._keys.interval if self._keys else _FILES_INTERVAL)
        finally:
            self._stopped.set()

    def _follow(self, feed: EditFeed) -> None:
        while not self._stopped.is_set():
            try:
                feed.store.wait(feed.snapshot.revision, _EDITS_INTERVAL)
            except StoreError:  # `refresh` says so
                self._stopped.wait(_EDITS_INTERVAL)
            feed.refresh()

    def _follow_files(self) -> None:
        """Refresh feeds whose files have changed, and from time to time all of them, a share at each look."""
        seen: dict[str, tuple[int, int, int]] = {}
        refreshing, shares = dict[str, Future[None]](), round(_EDITS_INTERVAL / _FILES_INTERVAL)
        with ThreadPoolExecutor(_MAX_REFRESHED, "drike-edits") as threads:
            for look in count():
                if self._stopped.wait(_FILES_INTERVAL):
                    threads.shutdown(
                        wait=False, cancel_futures=True
                    )  # none waits for those that wait for a lock
                    break
                for i, (tenant, feed) in enumerate(tuple(self.feeds.items())):
                    before, name = refreshing.get(tenant), feed.store.name
                    if name.startswith(POSTGRES) or (before and not before.done()):
                        continue
                    if _may_have_changed(name, seen) or (look + i) % shares == 0:
                        refreshing[tenant] = threads.submit(feed.refresh)

    def _follow_gates(self) -> None:
        """For all tenants, apart from their edits: encoding all of these for a new gate takes time."""
        seen: dict[str, tuple[int, int, int]] = {}
        while not self._stopped.wait(_GATES_INTERVAL):
            for feed in tuple(self.feeds.values()):
                if _may_have_changed(feed.store.name, seen) or feed.gate_problem:
                    feed.follow_gate()

    def _follow_answers(self) -> None:
        for look in count(1):
            if self._stopped.wait(_JUDGING_INTERVAL):
                break
            for feed in tuple(self.feeds.values()):
                feed.watch.flush(feed.store) if look % _FLUSHES == 0 else feed.watch.judge()

    @property
    def public_problems(self) -> list[str]:
        """Why requests of the default tenant would fail; where keys are in use, without a path."""
        own = self.feeds[TENANT].problems
        if own and self._keys is not None:
            own = [_UNREADABLE.format("the default tenant")]
        return [*own, "the keys cannot be read: a key for admin shows why"] if self.problem else own

    def problems_shown_to(self, principal: Principal) -> list[str]:
        """What is wrong with a tenant's edits; for an administrator also with other tenants', and with the keys."""
        problems = self.feeds[principal.tenant].problems
        if not principal.role.includes(KeyRole.ADMIN):
            return problems
        others = sorted(self.feeds.keys() - {principal.tenant})
        problems += [
            _UNREADABLE.format(f"tenant {name}") for name in others if self.feeds[name].problems
        ]
        return [*problems, self.problem] if self.problem else problems

    def close(self) -> None:
        """Let go of the stores."""
        self._stopped.set()
        until = time.monotonic() + _SECONDS_TO_END
        for thread in (*self._followers.values(), *self._watching):
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        for feed in self.feeds.values():
            feed.close()
        self._reading.close()
        if self._keys:
            self._keys.close()


def _may_have_changed(name: str, seen: dict[str, tuple[int, int, int]]) -> bool:
    """Whether the file of a store may have changed since it was `seen`; a store that is none always may."""
    try:
        status = os.stat(name)  # noqa: PTH116 - ten times as quick as a Path, and for each tenant twenty times a second
    except OSError:
        return True
    before, seen[name] = seen.get(name), (status.st_mtime_ns, status.st_ino, status.st_size)
    return before != seen[name] or abs(time.time_ns() - status.st_mtime_ns) < _SETTLED
