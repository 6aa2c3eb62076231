"""The edits of every tenant, each in a store of its own, kept up to date while a gateway runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from drike.errors import DrikeError
from drike.serving.keys import TENANT, Keys
from drike.serving.live import LiveEdits

_SECONDS = 0.03  # between two looks at the stores and the file of keys


class Tenants:
    """Tenants by name; a store is opened when its tenant first asks.

    Args:
        open_live: opens the edits of a tenant; raises StoreError.
        keys: that are read again when their file changes; None where everyone is the default tenant.
    """

    def __init__(self, open_live: Callable[[str], LiveEdits], keys: Keys | None = None) -> None:
        self.keys = keys
        self.problem: str | None = None  # with the keys
        self._open = open_live
        self._opening = threading.Lock()
        self.lives = {TENANT: open_live(TENANT)}

    def live(self, tenant: str) -> LiveEdits:
        """The edits of a tenant. Raises StoreError."""
        if tenant not in self.lives:
            with self._opening:
                if tenant not in self.lives:
                    self.lives[tenant] = self._open(tenant)
        return self.lives[tenant]

    def refresh(self) -> None:
        """Find what has changed in all stores, and in the keys."""
        for live in list(self.lives.values()):
            live.refresh()
        try:
            if self.keys:
                self.keys.refresh()
            self.problem = None
        except DrikeError as problem:  # the keys stay as they were
            self.problem = str(problem)

    async def follow(self) -> None:
        """Refresh again and again, in a thread, until cancelled."""
        while True:
            await asyncio.to_thread(self.refresh)
            await asyncio.sleep(_SECONDS)

    def problems(self) -> list[str]:
        """What is wrong with stores and keys now."""
        return [one for one in (*(live.problem for live in self.lives.values()), self.problem) if one]

    def close(self) -> None:
        """Let go of the stores."""
        for live in self.lives.values():
            live.store.close()
