"""Threads for work that must hold up neither the event loop nor the end of the process."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")

_MAX_WAITING = 256  # pieces of work; more than that would be late anyway
_SECONDS_LATE = 10.0  # for which late work is remembered
_GRACE = 1.0  # seconds; work that goes on for longer than its deadline and these is stuck


@dataclass(frozen=True)
class _Job:
    """A piece of work. until: by `time.perf_counter`; None for no deadline."""

    work: Callable[[], Any]
    until: float | None
    future: Future[Any]


@dataclass(frozen=True)
class _Ended:
    """When a piece of work ended, and whether that was too late."""

    at: float
    was_late: bool


class WorkThread:
    """A thread that does one piece of work after another, for one event loop.

    No end of a process waits for it.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._jobs = SimpleQueue[_Job | None]()  # None ends the thread
        self._waiting = 0
        self._ended: deque[_Ended] = deque(maxlen=1_000)
        self._until: float | None = None  # of what is being done

    async def do(self, work: Callable[[], Result], until: float | None) -> Result:
        """What the work returns.

        Raises TimeoutError after `until`, by `time.perf_counter`; then none begins.
        """
        if self._waiting >= _MAX_WAITING:
            self._ended.append(_Ended(time.perf_counter(), was_late=True))
            raise TimeoutError
        if not self._thread.ident:
            self._thread.start()

        future: Future[Result] = Future()
        self._waiting += 1
        self._jobs.put(_Job(work, until, future))
        timed_out = False
        try:
            seconds = None if until is None else until - time.perf_counter()
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:  # a loop's timer may end a moment before `until`
            timed_out = True
            raise
        finally:
            self._waiting -= 1
            now = time.perf_counter()
            was_late = timed_out or (until is not None and now > until)
            self._ended.append(_Ended(now, was_late))

    def lateness(self) -> str | None:
        """How much work was late during the last seconds; None if it was less than half of it.

        If some is stuck, for how long.
        """
        now = time.perf_counter()
        until = self._until
        if until is not None and now > until + _GRACE:
            return f"one has been late for {now - until:.0f} s"

        recent = [ended for ended in self._ended if now - ended.at < _SECONDS_LATE]
        late = sum(ended.was_late for ended in recent)
        return f"{late} of {len(recent)} were too late" if 2 * late > len(recent) else None

    def close(self) -> None:
        """Let the thread end once it has done what waits, which nobody waits for."""
        self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._until = job.until
            is_in_time = job.until is None or time.perf_counter() < job.until
            if is_in_time and job.future.set_running_or_notify_cancel():
                self._do(job)
            self._until = None
            del job  # not kept until the next one comes

    def _do(self, job: _Job) -> None:
        """Do a job, which is late no more once anybody can know that it has ended."""
        try:
            result = job.work()
        except BaseException as error:
            self._until = None
            job.future.set_exception(error)
        else:
            self._until = None
            job.future.set_result(result)


async def in_daemon_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns that runs in a thread, as `asyncio.to_thread` does it.

    But the end of the process does not wait for this thread.
    """
    name = getattr(function, "__name__", "work")
    with closing(WorkThread(f"drike-{name}")) as thread:
        return await thread.do(partial(function, *arguments), None)
