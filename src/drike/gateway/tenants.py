"""The tenants of a gateway: whose edits a key sees.

Each has a store of its own, which is followed as it changes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

from drike.edits.record import MissingStoreError, StoreError
from drike.errors import DrikeError
from drike.gateway.changed_files import ChangedFiles
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import KeyRole, Keys, Principal, require_tenant_name
from drike.gateway.http.threads import in_daemon_thread
from drike.stores.addresses import POSTGRES
from drike.stores.opening import TENANT, open_store

# Seconds between two looks at files of stores, and for new gates.
_FILES_INTERVAL = 0.05
_LOOKS_AT_FOLDERS = 4  # such looks, of which one is at the file though its folder is as it was
_KEYS_INTERVAL = 0.25  # between two looks at keys that are in a store
_GATES_INTERVAL = 0.5
_EDITS_INTERVAL = 1.0  # between two at which edits hold now, also where no file has changed
_SECONDS_UNCHANGED = 5  # after which a file is read that seems to be as it was
_JUDGING_INTERVAL = 0.5  # between two times at which answers are judged
_FLUSH_INTERVAL = 5.0  # between two times at which counts are stored
_SECONDS_OF_JUDGING = 0.25  # of a tenant's answers, before those of the next one
_PAUSE_OF_JUDGING = 0.05  # seconds between two such times while answers wait
_SECONDS_TO_JUDGE = 1.0  # the answers of all tenants that wait when the process ends
_SECONDS_TO_FLUSH = 3.0  # the counts of all tenants, at the end
_SECONDS_TO_END = 2.0  # for the threads, once no store makes them wait
_MAX_REFRESHED = 32  # stores at once; one that is locked holds up no other
_UNREADABLE = "the edits or the gate of {} cannot be read: a key of its own shows why"

_GONE = (
    "tenant {} has keys, and there is no store of edits at {}: restore it from a copy, or make an "
    "empty one (drike serve --create)"
)


def make_store(address: str, tenant: str, keys: Keys) -> None:
    """Make the store of a new tenant, before it gets its first key.

    That of a tenant which has a key already is never made again. Raises KeysError, StoreError.
    """
    require_tenant_name(tenant)
    if tenant != TENANT:
        _require_store(address, tenant, create=tenant not in keys.tenants)


def require_stores(address: str, keys: Keys | None, *, create: bool = False) -> None:
    """Refuse to serve where the store of a tenant with keys is missing; or make an empty one.

    Raises StoreError.
    """
    for tenant in sorted(keys.tenants if keys else ()):
        if tenant != TENANT:
            _require_store(address, tenant, create=create)


def _require_store(address: str, tenant: str, *, create: bool) -> None:
    try:
        open_store(address, tenant=tenant, create=create).close()
    except MissingStoreError as problem:
        raise StoreError(_GONE.format(tenant, problem.address)) from None


class Tenants:
    """Tenants by name, whose edits `open_feed` opens when each first asks.

    keys: None for the default one only. unopened: the tenants whose edits could not be opened.
    """

    def __init__(self, open_feed: Callable[[str], EditFeed], keys: Keys | None = None) -> None:
        self.problem: str | None = None  # with the keys
        self.unopened: set[str] = set()
        self._open = open_feed
        self._keys = keys
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._threads_of_databases: dict[str, threading.Thread] = {}  # by tenant
        following = [self._follow_files, self._follow_gates, self._follow_answers]
        if keys and not keys.in_file:
            following.append(self._follow_stored_keys)
        self._threads = [threading.Thread(target=follow, daemon=True) for follow in following]
        self._is_following = False
        self._changed = set[str]()  # files of stores whose gate may be another now
        self._stopped = threading.Event()
        self.feeds = {TENANT: open_feed(TENANT)}

    async def feed(self, tenant: str) -> EditFeed:
        """The edits of a tenant; other tenants do not wait while they are indexed.

        Raises StoreError.
        """
        if tenant not in self.feeds:
            async with self._opening[tenant]:
                if tenant not in self.feeds:
                    self.unopened.add(tenant)
                    self.feeds[tenant] = await in_daemon_thread(self._open, tenant)
                    self.unopened.discard(tenant)
                    if self._is_following:
                        self._follow_new_databases()
        return self.feeds[tenant]

    async def follow(self) -> None:
        """Keep edits, gates and keys up to date until cancelled.

        One thread looks at all files, and one for each database waits for changes.
        """
        self._is_following = True
        for thread in self._threads:
            thread.start()
        self._follow_new_databases()
        try:
            await asyncio.Event().wait()
        finally:
            self._stopped.set()

    def _follow_new_databases(self) -> None:
        """Start a thread for each database of a tenant that has none yet."""
        for tenant, feed in self.feeds.items():
            is_new = tenant not in self._threads_of_databases
            if is_new and feed.store.name.startswith(POSTGRES):
                thread = threading.Thread(target=self._follow_database, args=(feed,), daemon=True)
                self._threads_of_databases[tenant] = thread
                thread.start()

    def _follow_stored_keys(self) -> None:
        """Read the keys in a store again and again, as others may change them."""
        while not self._stopped.wait(_KEYS_INTERVAL):
            self._refresh_keys()

    def _refresh_keys(self) -> None:
        """Read the keys if they have changed; else, and where that fails, they stay as they are."""
        try:
            if self._keys:
                self._keys.refresh()
            self.problem = None
        except DrikeError as problem:
            self.problem = str(problem)

    def _follow_database(self, feed: EditFeed) -> None:
        while not self._stopped.is_set():
            try:
                feed.store.wait(feed.snapshot.revision, _EDITS_INTERVAL)
            except StoreError as problem:
                feed.problem = str(problem)  # until `refresh` knows better
                self._stopped.wait(_EDITS_INTERVAL)
            feed.refresh()

    def _follow_files(self) -> None:
        """Refresh keys and feeds whose files have changed, and from time to time all of them."""
        files = ChangedFiles(_LOOKS_AT_FOLDERS)
        refresh_by_name: dict[str, Callable[[], None]] = {}
        if self._keys and self._keys.in_file:
            refresh_by_name[str(self._keys.path)] = self._refresh_keys
            files.add(str(self._keys.path))
        feed_by_name: dict[str, EditFeed] = {}
        to_refresh = set[str]()
        refreshing: dict[str, Future[None]] = {}
        with ThreadPoolExecutor(_MAX_REFRESHED, "drike-edits") as threads:
            for look in count():
                if self._stopped.wait(_FILES_INTERVAL):
                    # Nobody waits for a refresh that waits for a lock.
                    threads.shutdown(wait=False, cancel_futures=True)
                    break
                for name, feed in self._new_files(feed_by_name):
                    feed_by_name[name] = feed
                    refresh_by_name[name] = feed.refresh
                    files.add(name)
                changed = files.look()
                self._changed.update(changed)
                to_refresh.update(changed, _due(feed_by_name, look))
                for name in tuple(to_refresh):
                    if name not in refreshing or refreshing[name].done():
                        to_refresh.remove(name)
                        refreshing[name] = threads.submit(refresh_by_name[name])

    def _new_files(self, known: Mapping[str, EditFeed]) -> list[tuple[str, EditFeed]]:
        """The files of tenants that were opened lately, with their edits."""
        if len(known) == len(self.feeds):
            return []
        named = [(feed.store.name, feed) for feed in tuple(self.feeds.values())]
        return [
            (name, feed)
            for name, feed in named
            if name not in known and not name.startswith(POSTGRES)
        ]

    def _follow_gates(self) -> None:
        """Follow the gates of all tenants.

        This is done apart from their edits, as encoding all of these for a new gate takes time.
        """
        while not self._stopped.wait(_GATES_INTERVAL):
            changed = set[str]()
            while self._changed:  # to which the other thread adds meanwhile
                changed.add(self._changed.pop())
            for feed in tuple(self.feeds.values()):
                name = feed.store.name
                if name in changed or name.startswith(POSTGRES) or feed.gate_problem:
                    feed.follow_gate()

    def _follow_answers(self) -> None:
        """Judge the answers of all tenants, and from time to time store their counts."""
        flushed = time.monotonic()
        pause = _JUDGING_INTERVAL
        while not self._stopped.wait(pause):
            feeds = tuple(self.feeds.values())
            is_due = time.monotonic() - flushed >= _FLUSH_INTERVAL
            for feed in feeds:
                if is_due:
                    feed.watch.flush(feed.store, _SECONDS_OF_JUDGING)
                elif feed.watch.waiting:
                    feed.watch.judge(_SECONDS_OF_JUDGING)
            if is_due:
                flushed = time.monotonic()
            are_late = any(feed.watch.waiting for feed in feeds)
            pause = _PAUSE_OF_JUDGING if are_late else _JUDGING_INTERVAL

    @property
    def public_problems(self) -> list[str]:
        """Why requests of the default tenant would fail; where keys are in use, without a path."""
        problems = self.feeds[TENANT].problems
        if problems and self._keys is not None:
            problems = [_UNREADABLE.format("the default tenant")]
        if self.problem:
            problems = [*problems, "the keys cannot be read: a key for admin shows why"]
        return problems

    def problems_shown_to(self, principal: Principal) -> list[str]:
        """What is wrong with a tenant's edits.

        An administrator is also told of other tenants', and of the keys.
        """
        problems = self.feeds[principal.tenant].problems
        if not principal.role.includes(KeyRole.ADMIN):
            return problems
        for tenant in sorted((self.feeds.keys() | self.unopened) - {principal.tenant}):
            if tenant not in self.feeds or self.feeds[tenant].problems:
                problems.append(_UNREADABLE.format(f"tenant {tenant}"))
        if self.problem:
            problems.append(self.problem)
        return problems

    def close(self) -> None:
        """Let go of the stores."""
        self._stopped.set()
        for feed in self.feeds.values():
            feed.watch.end(_SECONDS_TO_JUDGE)
        self._store_counts()
        # Stores that are closed let go of the threads that wait for them.
        for feed in self.feeds.values():
            feed.close()
        if self._keys:
            self._keys.close()
        threads = (*self._threads_of_databases.values(), *self._threads)
        _join([thread for thread in threads if thread.is_alive()], _SECONDS_TO_END)

    def _store_counts(self) -> None:
        """Judge what waits and store what was counted, where a store takes it in time."""
        flushing = [
            threading.Thread(target=feed.watch.flush, args=(feed.store,), daemon=True)
            for feed in self.feeds.values()
        ]
        for thread in flushing:
            thread.start()
        _join(flushing, _SECONDS_TO_FLUSH)


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait until threads end, for so long at most."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _due(feed_by_name: Mapping[str, EditFeed], look: int) -> list[str]:
    """The stores to read at a look, though their files seem to be as they were.

    A second is little to wait for an edit that begins, and for a store that could not be read; all
    else shows in the file, so that reading it is a precaution. Stores are read several at once,
    which takes less time than a look at each, but not all at once, as requests would wait.
    """
    seconds, rest = divmod(look, round(_EDITS_INTERVAL / _FILES_INTERVAL))
    if rest:
        return []
    return [
        name
        for i, (name, feed) in enumerate(feed_by_name.items())
        if (seconds + i) % _SECONDS_UNCHANGED == 0 or feed.must_refresh
    ]
