"""Work in threads: in turn, dropped when it is too late, and never waited for at the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from drike.gateway.http import threads
from drike.gateway.http.threads import WorkThread, in_daemon_thread
from tests.fakes.waiting import HANG


def soon() -> float:
    return time.perf_counter() + 0.02


def test_work_that_has_not_begun_by_its_deadline_is_never_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free, done = threading.Event(), []
    monkeypatch.setattr(threads, "_MAX_WAITING", 3)

    def waiting() -> None:
        assert free.wait(HANG)

    async def use(thread: WorkThread) -> None:
        first = asyncio.create_task(thread.do(waiting, None))
        late = [
            asyncio.create_task(thread.do(lambda n=n: done.append(n), soon())) for n in range(3)
        ]
        assert {type(result) for result in await asyncio.gather(*late, return_exceptions=True)} == {
            TimeoutError
        }
        assert "3 of 3" in str(thread.lateness())
        free.set()
        await first
        assert await thread.do(lambda: 7, None) == 7 and not done

    asyncio.run(use(WorkThread("test")))


def test_stuck_work_is_late_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_GRACE", 0.0)
    monkeypatch.setattr(threads, "_SECONDS_LATE", 0.0)
    begun, free = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        assert free.wait(HANG)

    async def use(thread: WorkThread) -> None:
        working = asyncio.create_task(thread.do(stuck, time.perf_counter() + HANG))
        assert await asyncio.to_thread(begun.wait, HANG)
        assert thread.lateness() is None
        after_the_deadline = SimpleNamespace(perf_counter=lambda: time.perf_counter() + 2 * HANG)
        monkeypatch.setattr(threads, "time", after_the_deadline)
        assert "has been late" in str(thread.lateness())
        free.set()
        await working
        assert thread.lateness() is None

    asyncio.run(use(WorkThread("test")))


@pytest.mark.parametrize("run", [in_daemon_thread, WorkThread("test").do])
def test_results_and_errors_come_back(run: Callable[..., object]) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    more = () if run is in_daemon_thread else (None,)
    assert asyncio.run(run(lambda: 7, *more)) == 7
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run(fail, *more))
