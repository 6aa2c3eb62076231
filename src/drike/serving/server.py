"""Runs the gateway and its admin application on sockets of their own, in one process."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from drike.errors import UsageError

_SECONDS_FOR_HEADERS = 10.0
_BYTES_OF_HEADERS = 64 << 10  # the application refuses more than 16 KB in a sentence; here the connection is closed
_SECONDS_TO_END = 10
_SECONDS_IDLE = 75  # longer than clients keep connections, so that none is closed as its next request arrives
_UPGRADE = re.compile(rb"(\r\nconnection:[^\r\n]*?)\bupgrade\b", re.IGNORECASE)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which also closes connections whose request's head is late, incomplete or endless.

    An offer to change to HTTP/2, which Java's client makes with every first request, is ignored: httptools would drop
    the request's body.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._timer: asyncio.TimerHandle | None = None
        self._head_size = 0  # bytes of a request whose head is not complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, and see whether a request has begun."""
        previous = self.cycle
        if previous is None or previous.response_complete:
            head, end, body = data.partition(b"\r\n\r\n")
            data = _UPGRADE.sub(rb"\1ignored", head) + end + body
        super().data_received(data)
        cycle = self.cycle
        if cycle is not previous or (cycle is not None and not cycle.response_complete):
            self._stop_waiting()
            return
        self._head_size += len(data)
        if self._timer is None:
            self._wait()
        if self._head_size > _BYTES_OF_HEADERS:
            self.transport.abort()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(_SECONDS_FOR_HEADERS, self.transport.close)

    def _stop_waiting(self) -> None:
        self._head_size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket that listens. shared: other processes may listen there, too (SO_REUSEPORT). Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as problem:
        listening.close()
        raise UsageError(
            f"cannot listen on {host} port {port} ({problem.strerror or problem}): choose another port or host"
        ) from problem
    return listening


def server(gateway: ASGIApp, admin: ASGIApp, admin_port: int) -> uvicorn.Server:
    """A server of both applications, told apart by the port; the lifespan is that of `admin`.

    `run(sockets=[...])` serves until SIGINT or SIGTERM, or until `should_exit` is set.
    """

    async def by_port(scope: Scope, receive: Receive, send: Send) -> None:
        to_admin = scope["type"] != "http" or scope["server"][1] == admin_port
        await (admin if to_admin else gateway)(scope, receive, send)

    return uvicorn.Server(
        uvicorn.Config(
            by_port, http=GuardedProtocol, ws="none", lifespan="on", proxy_headers=False, server_header=False,
            date_header=False, access_log=False, log_config=None, log_level="critical",
            timeout_graceful_shutdown=_SECONDS_TO_END, timeout_keep_alive=_SECONDS_IDLE,
        )
    )  # fmt: skip
