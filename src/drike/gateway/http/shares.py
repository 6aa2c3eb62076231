"""Shares of what a gateway can do at once, so that no tenant and no key can take all of it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drike.gateway.errors import RequestError

# A body that takes longer gives way to others of the same key.
_SECONDS_UNDISTURBED = 1.0


class Shares:
    """Places, of which half belong to the holders, in equal parts, and half to whoever comes first.

    most: of all places; there are more only where there are so many holders that one place for each
    is more than half. holders: how many there are now.
    """

    def __init__(self, most: int, holders: Callable[[], int]) -> None:
        self._most = most
        self._holders = holders
        self._taken = Counter[str]()

    def has_room(self, holder: str) -> bool:
        """Whether there is a place for a holder."""
        share = self._share
        if self._taken[holder] < share:
            return True
        return self._common > sum(max(0, taken - share) for taken in self._taken.values())

    @property
    def are_taken(self) -> bool:
        """Whether there is a place for nobody."""
        return self._taken.total() >= self._common + self._share * self._holders()

    def take(self, holder: str) -> None:
        """Take a place. Raises RequestError where there is none."""
        if not self.has_room(holder):
            raise RequestError(
                429,
                "busy",
                f"{self._taken[holder]:,} requests are in flight: try again in a second",
            )
        self._taken[holder] += 1

    def give_back(self, holder: str) -> None:
        """Give a place back."""
        self._taken[holder] -= 1
        if not self._taken[holder]:
            del self._taken[holder]

    @contextmanager
    def taken(self, holder: str) -> Iterator[None]:
        """Hold a place. Raises RequestError where there is none."""
        self.take(holder)
        try:
            yield
        finally:
            self.give_back(holder)

    @property
    def _share(self) -> int:
        """The places of each holder."""
        return max(1, self._most // (2 * max(1, self._holders())))

    @property
    def _common(self) -> int:
        """The places that belong to nobody."""
        return max(self._most - self._share * self._holders(), self._most // 2)


class Bodies:
    """Bodies that are being sent, each of which has a place of its key's.

    Where a key has no place left, the body that it has been sending for longest is given up.
    """

    def __init__(self, places: Shares) -> None:
        self._places = places
        # By key, and in the order of their beginnings; when each began, by the loop's time.
        self._begun: defaultdict[str, dict[asyncio.Timeout, float]] = defaultdict(dict)

    @contextmanager
    def place(self, key: str, deadline: asyncio.Timeout) -> Iterator[None]:
        """Hold a place until a deadline, which comes earlier for a body that is given up.

        Raises RequestError where there is none.
        """
        if not self._places.has_room(key):
            self._give_up_slowest(key)
        self._places.take(key)
        self._begun[key][deadline] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._remove(key, deadline)

    def _give_up_slowest(self, key: str) -> None:
        now = asyncio.get_running_loop().time()
        for deadline, began in self._begun[key].items():
            if now - began > _SECONDS_UNDISTURBED:
                deadline.reschedule(now)
                self._remove(key, deadline)
            break

    def _remove(self, key: str, deadline: asyncio.Timeout) -> None:
        begun = self._begun.get(key, {})
        if deadline not in begun:
            return
        del begun[deadline]
        self._places.give_back(key)
        if not begun:
            del self._begun[key]
