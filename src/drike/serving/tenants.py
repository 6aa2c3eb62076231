"""The edits of every tenant, each in a store of its own, kept up to date while a gateway runs."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

from drike.errors import DrikeError
from drike.serving.feed import EditFeed
from drike.serving.keys import KeyRole, Keys, Principal
from drike.serving.threads import WorkThread, in_daemon_thread
from drike.stores.opening import TENANT
from drike.stores.records import POSTGRES, StoreError

# Seconds between two looks at the file of keys, at files of stores, and for new gates.
_KEYS_INTERVAL, _FILES_INTERVAL, _GATES_INTERVAL = 0.05, 0.05, 0.5
_JUDGING_INTERVAL, _FLUSHES = 0.5, 10  # seconds between judging answers; every so many times, counts are stored
_EDITS_INTERVAL = 1.0  # between two at which edits hold now, also where no file has changed
_SETTLED = 2 * 10**9  # nanoseconds; a file that changed later may change again without another time
_SECONDS_TO_END = 15.0
_MAX_REFRESHED = 32  # stores at once; one that is locked holds up no other
_UNREADABLE = "the edits or the gate of {} cannot be read: a key of its own shows why"


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
                        self._followers[tenant] = threading.Thread(target=self._follow, args=(feed,), daemon=True)
                        self._followers[tenant].start()
                try:
                    if self._keys:
                        await self._reading.do(self._keys.refresh, None)  # a database may take its time
                    self.problem = None
                except DrikeError as problem:  # the keys stay as they were
                    self.problem = str(problem)
                await asyncio.sleep(self._keys.interval if self._keys else _KEYS_INTERVAL)
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
                    threads.shutdown(wait=False, cancel_futures=True)  # none waits for those that wait for a lock
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
        problems += [_UNREADABLE.format(f"tenant {name}") for name in others if self.feeds[name].problems]
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
