"""Several pieces of work at once, their results in order.

Threads, since the work waits: for an endpoint, or for a model in another process. Which thread does what, and when, is
left to chance; what comes out, and in which order, is not.

The pieces are a `TaskGroup`, which their threads can ask for (`current_group`): whoever sends something that costs
money sees there that another piece has failed, and whoever waits that nobody wants the answer any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

GRACE = 2.0  # seconds that work on its way gets to end after Ctrl-C: what was asked is paid for
ATTENTION = 0.2  # seconds after which whoever waits looks whether it still should
_WINDOW = 2  # pieces of work handed out per thread, so that a slow one does not leave the others idle


class StoppedError(Exception):
    """A piece of work was ended half done: another one has failed, or nobody wants the results any more."""


class TaskGroup:
    """What pieces of work that go on together know of each other.

    failure: what the first of them to fail raised. over: nothing more shall be sent; what is on its way is waited for.
    abandoned: that is not waited for any longer either.
    """

    def __init__(self) -> None:
        self.abandoned = False
        self._stopped = False
        self._failures: list[BaseException] = []

    @property
    def failure(self) -> BaseException | None:
        """The first failure, if any."""
        return self._failures[0] if self._failures else None

    @property
    def over(self) -> bool:
        """Whether nothing more shall be sent."""
        return self._stopped or bool(self._failures)

    def fail(self, error: BaseException) -> None:
        """Note a failure: the others send nothing more. Of several the first counts."""
        self._failures.append(error)

    def stop(self) -> None:
        """Let nothing more be sent."""
        self._stopped = True

    def abandon(self) -> None:
        """Let nobody wait any longer for what was sent."""
        self._stopped = self.abandoned = True


_lot: ContextVar[TaskGroup | None] = ContextVar("lot", default=None)


def current_group() -> TaskGroup:
    """The lot that the calling thread works for; one of its own if it works for none."""
    return _lot.get() or TaskGroup()


def in_order(work: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Generator[Result, None, None]:
    """`work` of every item, in their order, on `at_once` threads; with one, in the caller's own and only when asked.

    What `work` raises is raised where its result would have come; what came before has been yielded. Then nothing more
    is begun, and what has begun is waited for. Where this ends from outside (Ctrl-C, `close()`), that is given `GRACE`
    seconds, and then only waited for as long as it does not heed its `TaskGroup`. No thread stays. Work that another's
    failure cut short raises that one's error. Raises ValueError for fewer than one thread.
    """
    if at_once < 1:
        raise ValueError(f"work is done by at least one thread, not by {at_once}")
    if at_once == 1:
        yield from map(work, items)
        return
    lot, waiting = TaskGroup(), deque[Future[Result]]()
    threads = ThreadPoolExecutor(at_once, "drike", initializer=_lot.set, initargs=(lot,))
    try:
        for item in items:
            waiting.append(threads.submit(_begin, lot, work, item))
            if len(waiting) == _WINDOW * at_once:
                yield _next(waiting, lot)
        while waiting:
            yield _next(waiting, lot)
    finally:
        lot.stop()
        try:
            wait([one for one in waiting if not one.cancel()], GRACE)
        finally:  # also at a second Ctrl-C
            lot.abandon()
            threads.shutdown()


def _begin(lot: TaskGroup, work: Callable[[Item], Result], item: Item) -> Result:
    """Do a piece of work, and let the others know if it fails."""
    if lot.over:
        raise StoppedError
    try:
        return work(item)
    except BaseException as error:
        if not isinstance(error, StoppedError):
            lot.fail(error)
        raise


def _next(waiting: deque[Future[Result]], lot: TaskGroup) -> Result:
    """The next result, or the error that stands for it, once the others that have begun are done."""
    wait([waiting[0]])  # it stays in the queue meanwhile: whoever is interrupted here has to end it, too
    first = waiting.popleft()
    error = first.exception()
    if error is None:
        return first.result()
    wait([one for one in waiting if not one.cancel()])
    raise lot.failure or error if isinstance(error, StoppedError) else error
