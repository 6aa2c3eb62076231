"""Several gateway processes on one host. They share the port of the API (SO_REUSEPORT); each has its own admin port."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence

_SECONDS_TO_END = 15.0
_PAUSE = 0.1  # seconds between looks whether a process has ended


def run(commands: Sequence[Sequence[str]]) -> int:
    """Run commands at once until one ends, or until KeyboardInterrupt; then end the others. Return its exit code.

    Only the first one's standard output is shown: they all say the same.
    """
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL if running else None))  # noqa: S603
        while all(one.poll() is None for one in running):
            time.sleep(_PAUSE)
        return next(one.returncode for one in running if one.returncode is not None)
    finally:
        for one in running:
            one.send_signal(signal.SIGTERM)
        end = time.monotonic() + _SECONDS_TO_END
        for one in running:
            try:
                one.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
