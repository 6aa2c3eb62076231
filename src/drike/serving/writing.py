"""Changes of a store that an admin request makes: in time, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.types import Receive

from drike.serving.feed import EditFeed
from drike.serving.relay import ClientDisconnectError, while_connected
from drike.serving.threads import in_daemon_thread
from drike.stores.records import EditVersion, UnavailableError

Result = TypeVar("Result")

_SECONDS = 5.0  # for a store that others may hold


async def read(feed: EditFeed, get: Callable[[], Result]) -> Result:
    """What a store holds. Raises StoreError, UnavailableError where that takes too long."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await in_daemon_thread(get)
    except TimeoutError:
        raise UnavailableError(f"{feed.store.name} did not answer within {_SECONDS:g} s: try again") from None


async def change(
    feed: EditFeed, make: Callable[[EditFeed], Sequence[EditVersion]], receive: Receive
) -> Sequence[EditVersion]:
    """Make changes, all or none, and return them when they are in force here.

    Nothing is kept of changes that take too long, or whose client has hung up. Raises StoreError, and UnavailableError
    for those. receive: of the request, whose body has been read.
    """
    settled = threading.Lock()  # of the changes and what gives them up, the first to take it decides

    def work() -> Sequence[EditVersion]:
        with feed.store.transaction():
            changes = make(feed)
            if not settled.acquire(blocking=False):
                raise UnavailableError("the change was given up")
        feed.refresh()
        return changes

    working = asyncio.ensure_future(in_daemon_thread(work))
    try:
        async with asyncio.timeout(_SECONDS), while_connected(receive):
            return await asyncio.shield(working)
    except (TimeoutError, ClientDisconnectError):
        working.add_done_callback(lambda done: done.exception())  # nobody else may ask for it
        if settled.acquire(blocking=False):
            late = f"{feed.store.name} did not answer within {_SECONDS:g} s: nothing was changed, try again"
            raise UnavailableError(late) from None
        return await working  # it is being committed
