"""How long an answer may be judged, so that hostile ones hold up neither others nor an end."""

import time
from collections.abc import Callable


class OverTimeError(Exception):
    """Judging an answer took too long, or the process ends."""


class TimeLimit:
    """A time that a thread may take to judge an answer, and whether all judging is over.

    It counts what the thread computes, so that a busy machine leaves no answer unjudged.
    """

    def __init__(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        self._until = time.thread_time() + seconds
        self._is_over = is_over

    def check(self) -> None:
        """Raise OverTimeError if the time is up."""
        if self._is_over() or time.thread_time() > self._until:
            raise OverTimeError
