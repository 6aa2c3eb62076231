"""Several gateway processes on one host, which share the API's port (SO_REUSEPORT), but not that of admin requests.

Their parent keeps one end of a socket for each. A worker writes to the other end when it serves, and ends when the
first end is gone, also where the parent was killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_SECONDS_TO_END = 15.0
_PAUSE = 0.1  # seconds between looks whether a process has ended
_FIRST_DELAY, _LAST_DELAY = 0.5, 30.0  # seconds before an ended process is started again; each is twice the last
_SECONDS_STEADY = 60.0  # after which a process that ends counts as one that never has
_LIFELINE = "DRIKE_LIFELINE"  # the variable with the number of a worker's end


def run(commands: Sequence[Sequence[str]], tell: Callable[[str], None] = print) -> int:
    """Run commands at once until KeyboardInterrupt, or one ends that has never served; return its exit code.

    One that ends later is started again, which `tell` is told. Only the first one's standard output is shown.
    """
    workers: list[_Worker] = []
    try:
        for command in commands:
            workers.append(_Worker(command, stdout=subprocess.DEVNULL if workers else None))
        while True:
            for worker in workers:
                if (code := worker.look(tell)) is not None:
                    return code
            time.sleep(_PAUSE)
    finally:
        end = time.monotonic() + _SECONDS_TO_END
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.end(end)


class _Worker:
    def __init__(self, command: Sequence[str], stdout: int | None) -> None:
        self._command, self._stdout = command, stdout
        self._served, self._delay = False, _FIRST_DELAY
        self._due: float | None = None  # when to start again
        self._start()

    def look(self, tell: Callable[[str], None]) -> int | None:
        """Start the process again if it has ended and is due; return its exit code if it has never served."""
        code, now = self.process.poll(), time.monotonic()
        if not self._served:
            with suppress(BlockingIOError):
                self._served = bool(self._lifeline.recv(1))
        if code is None or not self._served:
            return code
        if self._due is None:
            self._delay = _FIRST_DELAY if now - self._began > _SECONDS_STEADY else min(2 * self._delay, _LAST_DELAY)
            self._due = now + self._delay
            tell(f"a worker ended with exit code {code}: it is started again in {self._delay:g} s")
        elif now >= self._due:
            self._lifeline.close()
            self._start()
        return None

    def end(self, end: float) -> None:
        """Wait for the process to end, and kill it if it has not by then, a time of `time.monotonic`."""
        try:
            self.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._lifeline.close()

    def _start(self) -> None:
        self._began, self._due = time.monotonic(), None
        self._lifeline, theirs = socket.socketpair()
        self._lifeline.setblocking(False)
        with theirs:
            number = theirs.fileno()
            environment = {**os.environ, _LIFELINE: str(number)}
            self.process = subprocess.Popen(self._command, stdout=self._stdout, env=environment, pass_fds=[number])  # noqa: S603


def follow_parent() -> None:
    """End this process, if it is a worker, when the one that started it has ended."""
    if _LIFELINE not in os.environ:
        return

    def wait() -> None:
        with suppress(OSError):  # the connection is reset if the other end had something to read
            os.read(int(os.environ[_LIFELINE]), 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SECONDS_TO_END)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def say_serving() -> None:
    """Tell the process that started this one, if it is a worker, that it serves."""
    if _LIFELINE in os.environ:
        with suppress(OSError):  # that one has ended, and this one will
            os.write(int(os.environ[_LIFELINE]), b"1")
