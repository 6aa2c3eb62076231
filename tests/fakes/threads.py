"""The threads of a test: those of drike, and Ctrl-C for the first one."""

from __future__ import annotations

import signal
import threading


def threads_of_drike() -> list[str]:
    """The names of the threads that drike has started and not ended."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("drike_")]


def press_ctrl_c() -> None:
    """Interrupt the main thread, as a terminal does."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
