"""CPU times that can be compared on a slow and on a busy machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


def quickest(*works: Callable[[], object], rounds: int) -> list[float]:
    """The least CPU seconds of each, which take turns."""
    least = [math.inf] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            began = time.process_time()
            work()
            least[i] = min(least[i], time.process_time() - began)
    return least
