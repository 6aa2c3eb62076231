"""Runs the gateway and its admin application on sockets of their own, in one process or in several.

Several on one host share the API's port (SO_REUSEPORT). Each has one end of a socket of their parent's: it writes there
when it serves, and ends when the other end is gone, also where the parent was killed.
"""

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from drike.errors import UsageError
from drike.support.extras import ending_signals

try:
    import resource
except ImportError:  # another system
    resource = None  # type: ignore[assignment]

_SECONDS_FOR_HEADERS = 10.0
_BYTES_OF_HEADERS = (
    64 << 10
)  # the application refuses more than 16 KB in a sentence; here the connection is closed
_SECONDS_TO_END = 10
_SECONDS_IDLE = (
    75  # longer than clients keep connections, so that none is closed as its next request arrives
)
_FIRST_PROBE, _SECONDS_BETWEEN_PROBES = (
    0.05,
    1.0,
)  # seconds; each next one comes after twice as long
_MAX_CONNECTIONS, _MAX_FILES = 10_000, 1 << 16
_RESERVED_FILES = 64  # for what is neither a client's connection nor one to the upstream
_SECONDS_TO_KILL = 15.0  # that a process may take to end
_FIRST_DELAY, _LAST_DELAY = (
    0.5,
    30.0,
)  # seconds before an ended process is started again; each is twice the last
_SECONDS_STEADY = 60.0  # after which a process that ends counts as one that never has
_LIFELINE = "DRIKE_LIFELINE"  # the variable with the number of a worker's end
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol for clients that are slow, gone, too many, or offer what is not spoken here.

    Closed are connections whose request's head is late or endless, and where there are too many, those idle longest. A
    client that only stopped sending gets its answers; one that is gone is noticed. An offer to change to HTTP/2, as of
    Java's client, is ignored: httptools would drop the request's body.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._timer: asyncio.TimerHandle | None = None
        self._head_size = 0  # bytes since the last complete head or piece of a body
        self._has_read = False  # a head or a piece of a body, in the data at hand
        self.idle_since = time.monotonic()  # finer than the loop's, which may count milliseconds

    @property
    def idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._call_later(_SECONDS_FOR_HEADERS, self.transport.close)
        others: Any = self.server_state.connections - {self}
        if len(others) >= max_connections():
            idle = min(
                (other for other in others if other.idle),
                key=lambda other: other.idle_since,
                default=None,
            )
            if idle is None:
                transport.write(_FULL)
            (idle or self).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._has_read, rest = False, data
        while rest:
            rest = self._parse(rest)
        if self._has_read:
            self._head_size = 0
            return self._cancel_timer()
        self._head_size += len(data)
        if self._timer is None and self.idle:
            self._call_later(_SECONDS_FOR_HEADERS, self.transport.close)
        if self._head_size > _BYTES_OF_HEADERS:
            self.transport.abort()

    def _parse(self, data: bytes) -> bytes:
        """Parse data; return what is to be parsed next: after an offer to upgrade, the request without the offer."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            if method != b"CONNECT":
                headers = (
                    b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"
                )
                head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(headers))
                self.parser = httptools.HttpRequestParser(self)
                return head + data[offer.args[0] :]
            self.send_400_response("There is no proxy here.")
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        return b""

    def on_headers_complete(self) -> None:
        self._has_read = True
        if not self.parser.should_upgrade():  # else httptools takes the request for complete
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_read = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_read = True
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to keep the connection: while complete requests are answered, whose client may only have stopped."""
        if self.idle or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._probe(_FIRST_PROBE)
        return True

    def _probe(self, pause: float) -> None:
        """Send what a client that listens ignores, and what fails at the second time if it does not."""
        if self.cycle.response_started or self.transport.is_closing():
            return
        if not self.pipeline and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._call_later(pause, self._probe, min(2 * pause, _SECONDS_BETWEEN_PROBES))

    def _call_later(self, seconds: float, call: Any, *arguments: Any) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, call, *arguments)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _GracefulServer(uvicorn.Server):
    """uvicorn's server, which also ends as with SIGTERM when its terminal is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            own = (
                ending_signals()[1:]
                if threading.current_thread() is threading.main_thread()
                else ()
            )
            before = [(number, signal.signal(number, self.handle_exit)) for number in own]
            try:
                yield
            finally:
                for number, handler in before:
                    signal.signal(number, handler)


def raise_file_limit() -> None:
    """Let this process open as many files as it may."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            with suppress(OSError, ValueError):  # more than the system has
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def max_connections() -> int:
    """How many clients may be connected; each may need a connection to the upstream."""
    return max(1, min(_MAX_CONNECTIONS, (_file_limit() - _RESERVED_FILES) // 2))


def file_shortage() -> str | None:
    """Why requests would fail for lack of files; None if they would not."""
    try:
        left = _file_limit() - len(os.listdir("/dev/fd"))  # noqa: PTH208 - not worth a Path for each
    except OSError:
        left = 0
    enough = left >= _RESERVED_FILES // 4
    return (
        None
        if enough
        else "almost all files that this process may open are open: raise its limit (ulimit -n)"
    )


def _file_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else _MAX_FILES
    return _MAX_FILES if resource and soft == resource.RLIM_INFINITY else soft


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that listens. shared: other processes may listen there, too (SO_REUSEPORT). Raises UsageError."""
    family, dual = (
        (socket.AF_INET6, socket.has_dualstack_ipv6()) if ":" in host else (socket.AF_INET, False)
    )
    try:
        return socket.create_server(
            (host, port), family=family, backlog=2048, reuse_port=shared, dualstack_ipv6=dual
        )
    except OSError as problem:
        reason, *_ = str(problem.strerror or problem).split(
            " (while"
        )  # where Python repeats the address
        raise UsageError(
            f"cannot listen on {host} port {port} ({reason}): choose another port or host"
        ) from problem


def server(gateway: ASGIApp, admin: ASGIApp, admin_port: int) -> uvicorn.Server:
    """A server of both applications, told apart by the port; the lifespan is that of `admin`."""

    async def by_port(scope: Scope, receive: Receive, send: Send) -> None:
        to_admin = scope["type"] != "http" or scope["server"][1] == admin_port
        await (admin if to_admin else gateway)(scope, receive, send)

    return _GracefulServer(
        uvicorn.Config(
            by_port, http=_GuardedProtocol, ws="none", lifespan="on", proxy_headers=False, server_header=False,
            date_header=False, access_log=False, log_config=None, log_level="critical",
            timeout_graceful_shutdown=_SECONDS_TO_END, timeout_keep_alive=_SECONDS_IDLE,
            backlog=min(2048, max_connections()),
        )
    )  # fmt: skip


def run_workers(commands: Sequence[Sequence[str]], tell: Callable[[str], None] = print) -> int:
    """Run commands at once until KeyboardInterrupt, or one ends that has never served; return its exit code.

    One that ends later is started again, which `tell` is told. Only the first one's standard output is shown.
    """

    async def keep_all() -> int:
        workers = [
            asyncio.create_task(_keep(command, i == 0, tell)) for i, command in enumerate(commands)
        ]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for worker in workers:
                if (
                    not worker.cancelling()
                ):  # as asyncio has done after a signal; a second time would end its waiting
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
        delay = (
            _FIRST_DELAY
            if time.monotonic() - began > _SECONDS_STEADY
            else min(2 * delay, _LAST_DELAY)
        )
        tell(f"a worker ended with exit code {code}: it is started again in {delay:g} s")
        await asyncio.sleep(delay)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _SECONDS_TO_KILL)
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
        time.sleep(_SECONDS_TO_KILL)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def say_serving() -> None:
    """Tell the process that started this one, if it is a worker, that it serves."""
    if _LIFELINE in os.environ:
        with suppress(OSError):  # that one has ended, and this one will
            os.write(int(os.environ[_LIFELINE]), b"1")
