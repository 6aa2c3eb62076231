"""`LiveEdits`: the edits of a store as they are now, with their gate and its index.

The gateway, `Corrections`, an edited model and the replay of a log all read a store through this
one view.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from drike.edits.record import EditVersion, Status
from drike.edits.times import stamp
from drike.encoders.base import TextEncoder
from drike.errors import DrikeError
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.live.store_gate import encoder_of, stored_gate, usual_gate
from drike.stores.edit_store import EditStore
from drike.stores.snapshots import Snapshot, snapshot

_LOG = logging.getLogger(__name__)
_NEVER_READ = ""  # sorts before every time
# Seconds until a store that could not be read is looked at again: so many times as long as the look
# took, so that requests seldom wait for it.
_LOOKS_IN_PAUSE = 5.0
_SHORTEST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, eq=False)
class StoreView:
    """What was read of a store at one moment.

    index: the edits in force. new: those of them that the view before did not have. until: the time
    when an edit next begins or ceases to hold; None for never. since: the time of this view; a
    clock that is set back to before it may bring other edits into force.
    """

    snapshot: Snapshot = field(default_factory=Snapshot)
    index: EditIndex = field(default_factory=EditIndex)
    new: Sequence[EditVersion] = ()
    until: str | None = _NEVER_READ
    since: str = _NEVER_READ

    def at(
        self, now: datetime, store: EditStore, encoder: TextEncoder | None, *, shadow: bool = False
    ) -> StoreView:
        """The view of what is in force now: this one, if nothing has changed.

        encoder: makes the index's vectors. shadow: whether the index has shadow edits, too. Raises
        StoreError.
        """
        latest = snapshot(store, self.snapshot)
        everything = self._must_read_everything(stamp(now), latest)
        if latest is self.snapshot and not everything:
            return self

        changed = latest if everything else latest.since(self.snapshot)
        edits = list(changed.in_force(now))
        if shadow:
            edits += changed.in_force(now, Status.SHADOW)
        if everything:
            index = EditIndex.of(edits, encoder, self.index)
        else:
            index = self.index.changed(changed.edits, edits)
        if encoder is not None:
            _ = index.wordings  # computed here, so that no question waits for it

        times = [changed.next_change(now), None if everything else self.until]
        return StoreView(
            snapshot=latest,
            index=index,
            new=[edit for edit in edits if self.index.edits.get(edit.id) is not edit],
            until=min((time for time in times if time), default=None),
            since=stamp(now),
        )

    def _must_read_everything(self, now: str, latest: Snapshot) -> bool:
        """Whether edits may have come into or gone out of force without a change in the log."""
        another_history = latest.histories != self.snapshot.histories
        return another_history or self.is_over(now)

    def is_over(self, now: str) -> bool:
        """Whether edits begin or end at a time, as `stamp` writes it, or its clock was set back."""
        clock_set_back = now < self.since
        edit_begins_or_ends = self.until is not None and now >= self.until
        return clock_set_back or edit_begins_or_ends


@dataclass(frozen=True, eq=False)
class LiveState:
    """A gate with the edits that it decides on, replaced as a whole: nobody sees half a change.

    gate_number: the gate's in the store, 0 for a gate that is not the store's, None where the store
    has another history than when the gate was read.
    """

    gate: Gate
    encoder: TextEncoder | None
    view: StoreView
    gate_number: int | None


class LiveEdits:
    """A store's edits in force, its gate and their index, each as it is at the last refresh.

    Threads may share it.

    gate: None for the store's own, whichever was calibrated last, or the default one.
    encoder_of_gate: opens a gate's encoder. shadow: read shadow edits, too. prepare: called with
    edits that are new in force, before they are. problem: why `latest` could not read the store.
    Nothing is read before the first `refresh`. Raises StoreError for a gate that cannot be read.
    """

    def __init__(
        self,
        store: EditStore,
        gate: Gate | None = None,
        *,
        encoder_of_gate: Callable[[Gate], TextEncoder | None] = encoder_of,
        shadow: bool = False,
        prepare: Callable[[Sequence[EditVersion]], None] = lambda edits: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self._follows_store = gate is None
        self.encoder_of_gate = encoder_of_gate
        self._shadow = shadow
        self._prepare = prepare
        self._clock = clock
        self._replacing = threading.Lock()
        self.problem: str | None = None
        self._next_look = 0.0  # by `time.monotonic`

        number = 0
        if gate is None:
            number, gate = stored_gate(store) or (0, usual_gate())
        self.state = LiveState(gate, encoder_of_gate(gate), StoreView(), number)

    @property
    def gate_is_stale(self) -> bool:
        """Whether the store has another history than when its gate was read."""
        return self.state.gate_number is None

    def latest(self) -> LiveState:
        """The edits and the gate of this moment, or those last read while the store cannot be.

        `problem` says why it cannot, and it is looked at again after a pause. Raises DrikeError
        where nothing was ever read.
        """
        began = time.monotonic()
        if began < self._next_look:
            return self.state
        try:
            self.refresh_gate()
            self.refresh()
            if self.gate_is_stale:
                self.refresh_gate()
            self.problem = None
        except DrikeError as problem:
            if self.state.view.since == _NEVER_READ:
                raise
            now = time.monotonic()
            pause = max(_SHORTEST_PAUSE, _LOOKS_IN_PAUSE * (now - began))
            self._next_look = now + min(pause, _LONGEST_PAUSE)
            if self.problem is None:
                _LOG.warning("%s; the edits that were read last stay in force", problem)
            self.problem = str(problem)
        return self.state

    def refresh(self) -> LiveState:
        """Read what has changed in the store, but not its gate.

        Raises StoreError, and leaves all as it was.
        """
        with self._replacing:
            before = self.state
            view = before.view.at(self._clock(), self.store, before.encoder, shadow=self._shadow)
            if view is before.view:
                return before
            self._prepare(view.new)
            number = before.gate_number
            if view.snapshot.histories != before.view.snapshot.histories:
                number = None
                self._warn_of_another_history(before.view.snapshot, view.snapshot)
            self.state = replace(before, view=view, gate_number=number)
            return self.state

    def refresh_gate(self) -> LiveState:
        """Decide by a newer gate of the store, once all edits are encoded for it.

        Raises StoreError for a gate that cannot be read, EncoderError for one whose encoder cannot
        be opened.
        """
        if not self._follows_store:
            return self.state
        newer = stored_gate(self.store, self.state.gate_number or 0)
        if newer is None and not self.gate_is_stale:
            return self.state
        number, gate = newer or (0, usual_gate())
        encoder = self.encoder_of_gate(gate)

        # All edits are encoded before the lock is taken: that may take minutes, in which others
        # refresh the edits. Under the lock, only what has changed since is encoded.
        index_before = self.state.view.index
        encoded = _index_for(encoder, index_before, previous=index_before)
        with self._replacing:
            view = self.state.view
            index = _index_for(encoder, view.index, previous=encoded)
            if encoder is not None:
                _ = index.wordings  # computed here, so that no question waits for it
            self.state = LiveState(gate, encoder, replace(view, index=index), number)
            return self.state

    def with_index(self, index: EditIndex) -> LiveEdits:
        """A copy in which other edits are in force; it must not be refreshed."""
        copied = copy(self)
        copied.state = replace(self.state, view=replace(self.state.view, index=index))
        return copied

    def _warn_of_another_history(self, before: Snapshot, after: Snapshot) -> None:
        _LOG.warning(
            "%s holds another history: %d changes, of which none is change %d as it was known here",
            self.store.name,
            after.revision,
            before.revision,
        )


def _index_for(encoder: TextEncoder | None, index: EditIndex, previous: EditIndex) -> EditIndex:
    """The edits of an index with vectors of an encoder. previous: may have some of these."""
    return EditIndex.of(index.edits.values(), encoder, previous)
