"""The edits of every tenant, each in a store of its own, kept up to date while a gateway runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from drike.errors import DrikeError
from drike.serving.feed import EditFeed
from drike.serving.keys import Keys
from drike.serving.threads import in_daemon_thread
from drike.stores.opening import TENANT
from drike.stores.records import StoreError

# Seconds between two looks at the file of keys, at which edits hold now, and for new gates.
_KEYS_INTERVAL, _EDITS_INTERVAL, _GATES_INTERVAL = 0.05, 0.25, 0.5
_SECONDS_TO_END = 15.0


class Tenants:
    """Tenants by name; a store is opened when its tenant first asks.

    Args:
        open_feed: opens the edits of a tenant; raises StoreError.
        keys: that are read again when their file changes; None where everyone is the default tenant.
    """

    def __init__(self, open_feed: Callable[[str], EditFeed], keys: Keys | None = None) -> None:
        self.problem: str | None = None  # with the keys
        self._keys = keys
        self._open = open_feed
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._followers: dict[str, threading.Thread] = {}
        self._gates = threading.Thread(target=self._follow_gates, daemon=True)
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
        """Keep edits, gates and keys up to date until cancelled, with a thread for each tenant and one for gates."""
        self._gates.start()
        try:
            while True:
                for tenant in self.feeds.keys() - self._followers.keys():
                    thread = threading.Thread(target=self._follow, args=(self.feeds[tenant],), daemon=True)
                    self._followers[tenant] = thread
                    thread.start()
                try:
                    if self._keys:
                        self._keys.refresh()
                    self.problem = None
                except DrikeError as problem:  # the keys stay as they were
                    self.problem = str(problem)
                await asyncio.sleep(_KEYS_INTERVAL)
        finally:
            self._stopped.set()

    def _follow(self, feed: EditFeed) -> None:
        while not self._stopped.is_set():
            try:
                feed.store.wait(feed.snapshot.revision, _EDITS_INTERVAL)
            except StoreError:  # `refresh` says so
                time.sleep(_EDITS_INTERVAL)
            feed.refresh()

    def _follow_gates(self) -> None:
        """For all tenants, apart from their edits: encoding all of these for a new gate takes time."""
        while not self._stopped.wait(_GATES_INTERVAL):
            for feed in tuple(self.feeds.values()):
                feed.follow_gate()

    def problems(self) -> list[str]:
        """What is wrong with stores, gates and keys now."""
        of_feeds = [problem for feed in self.feeds.values() for problem in feed.problems]
        return [*of_feeds, self.problem] if self.problem else of_feeds

    def close(self) -> None:
        """Let go of the stores."""
        self._stopped.set()
        until = time.monotonic() + _SECONDS_TO_END
        for thread in (*self._followers.values(), self._gates):
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        for feed in self.feeds.values():
            feed.close()
