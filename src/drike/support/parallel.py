"""Run tasks at once in threads, as they wait for a server, with their results in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from itertools import islice
from threading import Lock, Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

GRACE = 2.0  # seconds for work in flight to end after Ctrl-C: its requests are paid for
POLL_SECONDS = 0.2  # after which a waiting thread checks whether its group is abandoned
_SUBMITTED_PER_THREAD = 2  # tasks, so that a slow one does not leave other threads idle


class StoppedError(Exception):
    """A task was stopped: another one has failed, or nobody wants the results any more."""


def run_with_timeout(seconds: float, work: Callable[[], Result]) -> Result:
    """The result of `work()`, which runs in a thread.

    Raises TimeoutError after `seconds`; the thread may then hang, and ends with the process.
    """
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    if not wait([done], seconds).done:
        raise TimeoutError(f"not done after {seconds:g} s")
    return done.result()


class TaskGroup:
    """Tasks that stop together.

    over: nothing more is sent. abandoned: what is in flight is not awaited, either. failure: the
    error because of which they stop.
    """

    def __init__(self) -> None:
        self.over = False
        self.abandoned = False
        self.failure: BaseException | None = None
        self._stopping = Lock()

    def stop(self, error: BaseException | None = None, *, abandon: bool = False) -> None:
        """Send nothing more; with `abandon`, do not await requests in flight, either."""
        with self._stopping:
            self.failure = self.failure or error
            self.over = True
            self.abandoned |= abandon


_group: ContextVar[TaskGroup | None] = ContextVar("group", default=None)


def current_group() -> TaskGroup:
    """The calling thread's group; a new one if it has none."""
    return _group.get() or TaskGroup()


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Generator[Result]:
    """Yield `work(item)` for every item, in order, computed on `at_once` threads.

    With one, work is done lazily in the caller's thread. An error of `work` is raised in place of
    its result, once what runs has ended; no more tasks are started. If the generator is ended from
    outside (Ctrl-C, `close()`), running tasks get `GRACE` seconds until their `TaskGroup` is
    abandoned, and must then end, so that no thread is left. Raises ValueError for fewer than one
    thread.
    """
    if at_once < 1:
        raise ValueError(f"at least one thread is needed, not {at_once}")
    if at_once == 1:
        yield from map(work, items)
        return

    group = TaskGroup()
    waiting = deque[Future[Result]]()
    threads = ThreadPoolExecutor(at_once, "drike", initializer=_group.set, initargs=(group,))
    try:
        for item in items:
            waiting.append(threads.submit(_do, group, work, item))
            if len(waiting) == _SUBMITTED_PER_THREAD * at_once:
                yield _next(waiting, group)
        while waiting:
            yield _next(waiting, group)
    finally:
        group.stop()
        try:
            wait(_running(waiting), GRACE)
        finally:  # also at a second Ctrl-C
            group.stop(abandon=True)
            threads.shutdown()


def in_groups(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in groups of `size`, lazily; the last may be smaller."""
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group


def _do(group: TaskGroup, work: Callable[[Item], Result], item: Item) -> Result:
    if group.over:
        raise StoppedError
    try:
        return work(item)
    except BaseException as error:
        if not isinstance(error, StoppedError):
            group.stop(error)
        raise


def _next(waiting: deque[Future[Result]], group: TaskGroup) -> Result:
    """Return the next result, or raise its error when the other running tasks are done."""
    wait([waiting[0]])  # it stays in the queue, so that an interruption here also ends it
    first = waiting.popleft()
    error = first.exception()
    if error is None:
        return first.result()
    wait(_running(waiting))
    if isinstance(error, StoppedError) and group.failure is not None:
        raise group.failure
    raise error


def _running(tasks: Iterable[Future[Result]]) -> list[Future[Result]]:
    """Cancel the tasks that have not begun; return the others."""
    return [task for task in tasks if not task.cancel()]
