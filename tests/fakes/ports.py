"""Ports for tests that run beside others.

A port that was free a moment ago may be another test's by now: systems give the ports of one range
to whoever asks for any. So a port where nothing may listen stays taken, and one for a server that
is still to start lies outside of that range.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST, _END = 15_000, 32_000  # systems give ports from 32,768 on


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """Neighbouring free ports for servers of this test. Other processes begin to look elsewhere."""
    start = os.getpid() * 7 % (_END - _FIRST)
    for step in range(0, _END - _FIRST, count):
        first = _FIRST + (start + step) % (_END - _FIRST - count)
        ports = list(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports
    raise AssertionError("no free ports")


def free_port() -> int:
    """A free port for a server of this test."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
