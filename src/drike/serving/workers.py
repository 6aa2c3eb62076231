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
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL if processes else None))  # noqa: S603
        while all(process.poll() is None for process in processes):
            time.sleep(_PAUSE)
        return next(process.returncode for process in processes if process.returncode is not None)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _SECONDS_TO_END
        for process in processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
