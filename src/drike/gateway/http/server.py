"""Runs the gateway and its admin application on sockets of their own, in one process or in several.

Several on one host share the API's port (SO_REUSEPORT). Each has one end of a socket of their
parent's: it writes there when it serves, and ends when the other end is gone, also where the parent
was killed.
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
from dataclasses import dataclass
from functools import partial
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
# The application refuses more than 16 KB in a sentence; here the connection is closed.
_BYTES_OF_HEADERS = 64 << 10
# How long, in seconds, a connection may serve requests without a valid key.
_SECONDS_UNKNOWN = 60.0
_SECONDS_TO_END = 10
# Longer than clients keep connections, so that none is closed as its next request arrives.
_SECONDS_IDLE = 75
_FIRST_PROBE = 0.05  # seconds until a client that stopped sending is probed
_SECONDS_BETWEEN_PROBES = 1.0  # at most; each next one comes after twice as long
_MAX_CONNECTIONS = 10_000
_MAX_FILES = 1 << 16
_RESERVED_FILES = 64  # for what is neither a client's connection nor one to the upstream
_BACKLOG = 2048  # connections that wait to be accepted
_SECONDS_TO_KILL = 15.0  # that a process may take to end
_FIRST_DELAY = 0.5  # seconds before an ended process is started again
_LAST_DELAY = 30.0  # each delay is twice the last, up to this one
_SECONDS_STEADY = 60.0  # after which a process that ends counts as one that never has
_LIFELINE = "DRIKE_LIFELINE"  # the variable with the number of a worker's end
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


KNOWN = "drike.known"  # an extension of ASGI, with what is to be called once a client is known


def tell_known(scope: Scope) -> None:
    """Tell the connection of a request that its client is known."""
    tell = scope.get("extensions", {}).get(KNOWN, {}).get("tell")
    if tell:
        tell()


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, for clients that are slow, gone or too many.

    unknown: connections on which no valid key has come, those idle longest first. They have half of
    all places, and are closed sooner than others.

    Closed are connections whose request's head is late or endless, and where there are too many,
    those idle longest. A client that only stopped sending gets its answers; one that is gone is
    noticed. An offer to change to HTTP/2, as of Java's client, is ignored: httptools would drop the
    request's body.
    """

    def __init__(self, *, unknown: dict[Any, None], **options: Any) -> None:
        super().__init__(**options)
        self._unknown = unknown
        self.timeout_keep_alive = _SECONDS_FOR_HEADERS  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None
        self._head_size = 0  # bytes since the last complete head or piece of a body
        self._has_read = False  # a head or a piece of a body, in the data at hand
        self._made_at = time.monotonic()
        self.idle_since = self._made_at  # finer than the loop's, which may count milliseconds

    @property
    def idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._call_later(_SECONDS_FOR_HEADERS, self.transport.close)
        most = max_connections()
        is_full = len(self.connections) > most
        if is_full or len(self._unknown) >= max(1, most // 2):
            self._make_room(must=is_full)
        self._unknown[self] = None

    def _make_room(self, *, must: bool) -> None:
        """Close the connection that has been idle for longest, of an unknown client if one is.

        must: close another one otherwise; where none is idle, this one.
        """
        for connection in self._unknown:
            if connection.may_be_closed:
                connection.close_idle()
                return
        if not must:
            return
        others: Any = self.connections
        idle = [other for other in others - {self} if other.may_be_closed]
        if idle:
            min(idle, key=lambda connection: connection.idle_since).close_idle()
        else:
            self.transport.write(_FULL)
            self.transport.close()

    @property
    def may_be_closed(self) -> bool:
        """Whether it is idle, and not being closed already."""
        return self.idle and not self.transport.is_closing()

    def close_idle(self) -> None:
        """Close this connection for another one's sake."""
        self._unknown.pop(self, None)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._unknown.pop(self, None)
        super().connection_lost(exc)

    def _become_known(self) -> None:
        self._unknown.pop(self, None)
        self.timeout_keep_alive = self.config.timeout_keep_alive

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {KNOWN: {"tell": self._become_known}}

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._has_read = False
        unparsed = data
        while unparsed:
            unparsed = self._parse(unparsed)
        if self._has_read:
            self._head_size = 0
            self._cancel_timer()
            return
        self._head_size += len(data)
        if self._timer is None and self.idle:
            self._call_later(_SECONDS_FOR_HEADERS, self.transport.close)
        if self._head_size > _BYTES_OF_HEADERS:
            self.transport.abort()

    def _parse(self, data: bytes) -> bytes:
        """Parse data, and return what is to be parsed next.

        After an offer to upgrade, this is the request without the offer.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self.parser.get_method() != b"CONNECT":
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)
                [end_of_head] = offer.args
                return head + data[end_of_head:]
            self.send_400_response("There is no proxy here.")
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        return b""

    def _head_without_offer(self) -> bytes:
        """The head of the request at hand, which does not offer to upgrade any more."""
        method = self.parser.get_method()
        version = self.parser.get_http_version().encode()
        headers = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(headers))

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
        if self in self._unknown:
            del self._unknown[self]
            self._unknown[self] = None
            if self.idle_since - self._made_at > _SECONDS_UNKNOWN:
                self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to keep the connection of a client that stopped sending.

        It is kept while its complete requests are answered.
        """
        if self.idle or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._probe(_FIRST_PROBE)
        return True

    def _probe(self, pause: float) -> None:
        """Send what a client that listens ignores.

        It fails at the second time if the client is gone.
        """
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
            is_main_thread = threading.current_thread() is threading.main_thread()
            further_signals = ending_signals()[1:] if is_main_thread else ()
            handlers_before = {
                number: signal.signal(number, self.handle_exit) for number in further_signals
            }
            try:
                yield
            finally:
                for number, handler in handlers_before.items():
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
        open_files = len(os.listdir("/dev/fd"))  # noqa: PTH208 - not worth a Path for each
    except OSError:
        open_files = _file_limit()
    if _file_limit() - open_files >= _RESERVED_FILES // 4:
        return None
    return "almost all files that this process may open are open: raise its limit (ulimit -n)"


def _file_limit() -> int:
    if resource is None:
        return _MAX_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_FILES if soft == resource.RLIM_INFINITY else soft


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that listens; parameters as of `bind`. Raises UsageError."""
    bound = bind(host, port, shared)
    open_port(bound)
    return bound


def bind(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket at an address, which refuses clients until it listens.

    shared: other processes may listen there, too (SO_REUSEPORT). Raises UsageError.
    """
    is_ipv6 = ":" in host
    bound = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    try:
        with _explained(host, port):
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if is_ipv6 and socket.has_dualstack_ipv6():
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def open_port(bound: socket.socket) -> None:
    """Let a bound socket listen. Raises UsageError where another process has taken its address."""
    host, port = bound.getsockname()[:2]
    with _explained(host, port):
        bound.listen(_BACKLOG)


@contextmanager
def _explained(host: str, port: int) -> Iterator[None]:
    """Raise an error of the system about an address as UsageError."""
    try:
        yield
    except OSError as problem:
        # Python repeats the address behind the reason.
        reason = str(problem.strerror or problem).partition(" (while")[0]
        raise UsageError(
            f"cannot listen on {host} port {port} ({reason}): choose another port or host"
        ) from problem


def server(gateway: ASGIApp, admin: ASGIApp, admin_port: int) -> uvicorn.Server:
    """A server of both applications, told apart by the port; `admin` also has the lifespan."""

    async def by_port(scope: Scope, receive: Receive, send: Send) -> None:
        to_admin = scope["type"] != "http" or scope["server"][1] == admin_port
        await (admin if to_admin else gateway)(scope, receive, send)

    config = uvicorn.Config(
        by_port,
        http=partial(_GuardedProtocol, unknown={}),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        access_log=False,
        log_config=None,
        log_level="critical",
        timeout_graceful_shutdown=_SECONDS_TO_END,
        timeout_keep_alive=_SECONDS_IDLE,
        backlog=min(_BACKLOG, max_connections()),
    )
    return _GracefulServer(config)


def run_workers(commands: Sequence[Sequence[str]], tell: Callable[[str], None] = print) -> int:
    """Run commands at once until one ends that has never served; return its exit code.

    Or until KeyboardInterrupt.

    One that ends later is started again, which `tell` is told. Only the first one's standard output
    is shown.
    """

    async def keep_all() -> int:
        workers = [
            asyncio.create_task(_keep_running(command, is_shown=i == 0, tell=tell))
            for i, command in enumerate(commands)
        ]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for worker in workers:
                # After a signal asyncio has cancelled them; a second time would end their waiting.
                if not worker.cancelling():
                    worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    return asyncio.run(keep_all())


@dataclass(frozen=True)
class _Run:
    """A run of a worker's command that has ended. has_served: whether it said so."""

    exit_code: int
    has_served: bool
    seconds: float


async def _keep_running(
    command: Sequence[str], *, is_shown: bool, tell: Callable[[str], None]
) -> int:
    """Run a command again and again; return its exit code if it has never served."""
    has_served = False
    delay = _FIRST_DELAY
    while True:
        run = await _run(command, is_shown=is_shown)
        has_served = has_served or run.has_served
        if not has_served:
            return run.exit_code
        is_steady = run.seconds > _SECONDS_STEADY
        delay = _FIRST_DELAY if is_steady else min(2 * delay, _LAST_DELAY)
        tell(f"a worker ended with exit code {run.exit_code}: it is started again in {delay:g} s")
        await asyncio.sleep(delay)


async def _run(command: Sequence[str], *, is_shown: bool) -> _Run:
    """Run a command until it ends; cancelled, end it. is_shown: whether its standard output is."""
    began = time.monotonic()
    lifeline, workers_end = socket.socketpair()
    with lifeline:
        with workers_end:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=None if is_shown else subprocess.DEVNULL,
                pass_fds=[workers_end.fileno()],
                env={**os.environ, _LIFELINE: str(workers_end.fileno())},
            )
        try:
            exit_code = await process.wait()
        finally:
            await _end(process)
        has_served = False
        with suppress(BlockingIOError):
            has_served = bool(lifeline.recv(1, socket.MSG_DONTWAIT))
    return _Run(exit_code, has_served, time.monotonic() - began)


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
