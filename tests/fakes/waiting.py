"""Waiting for what other threads and processes do, for as long as a busy machine may need."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG = 60.0  # seconds that nothing takes which is not stuck


def wait_until(holds: Callable[[], object], seconds: float = HANG) -> None:
    """Return as soon as a condition holds, which fails the test if it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come true within {seconds:.0f} s"
        time.sleep(0.005)
