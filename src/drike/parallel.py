"""Several pieces of work at once, their results in order.

Threads, since the work waits: for an endpoint, or for a model in another process. Which thread does what, and when, is
left to chance; what comes out, and in which order, is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WINDOW = 2  # pieces of work handed out per thread, so that a slow one does not leave the others idle


def in_order(work: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Generator[Result, None, None]:
    """`work` of every item, in their order, on `at_once` threads; with one, in the caller's own and only when asked.

    What `work` raises is raised where its result would have come; what came before has been yielded. However this ends
    (an error, Ctrl-C, `close()`), work that has not begun is dropped, work that has is waited for, and no thread stays.
    Raises ValueError for fewer than one thread.
    """
    if at_once < 1:
        raise ValueError(f"work is done by at least one thread, not by {at_once}")
    if at_once == 1:
        yield from map(work, items)
        return
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="drike")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(threads.submit(work, item))
            if len(waiting) == _WINDOW * at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
