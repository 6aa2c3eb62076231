"""Several gateway processes on one host, which share the API's port (SO_REUSEPORT), but not that of admin requests.

Their parent keeps one end of a socket for each. A worker writes to the other end when it serves, and ends when the
first end is gone, also where the parent was killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_SECONDS_TO_END = 15.0
_FIRST_DELAY, _LAST_DELAY = 0.5, 30.0  # seconds before an ended process is started again; each is twice the last
_SECONDS_STEADY = 60.0  # after which a process that ends counts as one that never has
_LIFELINE = "DRIKE_LIFELINE"  # the variable with the number of a worker's end


def run(commands: Sequence[Sequence[str]], tell: Callable[[str], None] = print) -> int:
    """Run commands at once until KeyboardInterrupt, or one ends that has never served; return its exit code.

    One that ends later is started again, which `tell` is told. Only the first one's standard output is shown.
    """

    async def keep_all() -> int:
        workers = [asyncio.create_task(_keep(command, i == 0, tell)) for i, command in enumerate(commands)]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for worker in workers:
                if not worker.cancelling():  # as asyncio has done after a signal; a second time would end its waiting
                    worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    return asyncio.run(keep_all())


async def _keep(command: Sequence[str], shown: bool, tell: Callable[[str], None]) -> int:
    """Run a command again and again; return its exit code if it has never served."""
    served, delay = False, _FIRST_DELAY
    while True:
        began = time.monotonic()
        lifeline, theirs = socket.socketpair()
        with lifeline:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *command, stdout=None if shown else subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                    env={**os.environ, _LIFELINE: str(theirs.fileno())},
                )  # fmt: skip
            try:
                code = await process.wait()
            finally:
                await _end(process)
            with suppress(BlockingIOError):
                served = bool(lifeline.recv(1, socket.MSG_DONTWAIT)) or served
        if not served:
            return code
        delay = _FIRST_DELAY if time.monotonic() - began > _SECONDS_STEADY else min(2 * delay, _LAST_DELAY)
        tell(f"a worker ended with exit code {code}: it is started again in {delay:g} s")
        await asyncio.sleep(delay)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _SECONDS_TO_END)
        except TimeoutError:
            process.kill()
            await process.wait()


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
