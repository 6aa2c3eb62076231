"""Threads for work that must not hold up the event loop, other tenants, or the end of the process."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

_MAX_WAITING = 256  # pieces of work; more than that would be late anyway
_SECONDS_LATE = 10.0  # for which late work is remembered
_GRACE = 1.0  # seconds; work that goes on for longer than its deadline and these is stuck


class WorkThread:
    """A thread that does one piece of work after another, for one event loop. No end of a process waits for it."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._jobs = SimpleQueue[tuple[Callable[[], Any], float | None, Future[Any]] | None]()
        self._waiting = 0
        self._ended: deque[tuple[float, bool]] = deque(maxlen=1_000)  # when, and whether too late
        self._until: float | None = None  # of what is being done

    async def do(self, work: Callable[[], Result], until: float | None) -> Result:
        """What the work returns. Raises TimeoutError after `until`, by `time.perf_counter`; then none begins."""
        if self._waiting >= _MAX_WAITING:
            self._ended.append((time.perf_counter(), True))
            raise TimeoutError
        if not self._thread.ident:
            self._thread.start()
        self._waiting += 1
        future: Future[Result] = Future()
        self._jobs.put((work, until, future))
        late = False
        try:
            seconds = None if until is None else until - time.perf_counter()
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:  # a loop's timer may end a moment before `until`
            late = True
            raise
        finally:
            self._waiting -= 1
            now = time.perf_counter()
            self._ended.append((now, late or (until is not None and now > until)))

    def lateness(self) -> str | None:
        """How much work was late during the last seconds, if it was most of it, or if some is stuck; else None."""
        now, until = time.perf_counter(), self._until
        recent = [late for when, late in self._ended if now - when < _SECONDS_LATE]
        if until is not None and now > until + _GRACE:
            return f"one has been late for {now - until:.0f} s"
        return (
            f"{sum(recent)} of {len(recent)} were too late"
            if 2 * sum(recent) > len(recent)
            else None
        )

    def close(self) -> None:
        """Let the thread end once it has done what waits, which nobody waits for."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, self._until, future = job
            if (
                self._until is None or time.perf_counter() < self._until
            ) and future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            self._until = None
            del work, future, job  # not kept until the next one comes


async def in_daemon_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns, as `asyncio.to_thread`; but the end of the process does not wait for its thread."""
    with closing(WorkThread(f"drike-{getattr(function, '__name__', 'work')}")) as thread:
        return await thread.do(partial(function, *arguments), None)
