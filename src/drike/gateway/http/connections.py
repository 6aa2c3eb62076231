"""Connections to an upstream, of which none is used again that may hold a stray answer.

HTTP/1.1 does not say to which request an answer belongs: an unasked one that waits on a connection
would go to the client whose request is sent next. So a connection is closed when bytes come on it
while nothing is asked, and when more came than the answer that was asked for.
"""

from __future__ import annotations

import asyncio
import errno
import select
import struct
from contextlib import suppress
from functools import partial
from typing import Any

import aiohttp
from aiohttp import client_proto
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_exceptions import ClientError, ClientOSError, ServerDisconnectedError
from aiohttp.connector import Connection

try:
    import fcntl
    import termios
except ImportError:  # another system
    fcntl = None  # type: ignore[assignment]

# A parser reads this as one answer only where nothing is left over of what it read before.
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_REFUSALS = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)
# What resets a connection later may have read the request, and been at work on it.
_SECONDS_TO_REFUSE = 1.0
_LOST = (ClientOSError, ServerDisconnectedError)


class UnreadRequestError(ClientError):
    """A request on a kept connection that the server has not read, so that it may be sent again."""


def client(*, idle_seconds: float | None, **options: Any) -> aiohttp.ClientSession:
    """A client that keeps connections idle for so long; None: a new one for each request."""
    keeps_none = idle_seconds is None
    connector = _Connector(limit=0, force_close=keeps_none, keepalive_timeout=idle_seconds)
    return aiohttp.ClientSession(
        connector=connector, request_class=_Request, response_class=_Response, **options
    )


class _Channel(client_proto.ResponseHandler):
    """The protocol of a connection, which notes what comes when.

    is_kept: whether it has served a request before.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_kept = False
        self._is_idle = False  # not even asked for
        self._has_asked = False
        self._asked_at = 0.0
        self._has_heard = False  # anything since it was taken for a request
        self._was_cut_off = False  # before the server had all of the request

    def take(self) -> None:
        """Begin to serve a request."""
        self._is_idle = False
        self._has_asked = False
        self._has_heard = False

    def rest(self) -> None:
        """Serve no request."""
        self._is_idle = True
        self.is_kept = True

    def ask(self) -> None:
        """Note that a request is sent now; close a connection on which something came before."""
        is_stray = self.is_kept and (self._has_heard or self._is_readable())
        if is_stray:
            self.abort()
        self._has_asked = not is_stray
        self._asked_at = self._loop.time()

    def is_clean(self) -> bool:
        """Whether it is open, and nothing came behind the last answer."""
        if not self.is_connected() or self.should_close or self._is_readable():
            return False
        parser = getattr(self, "_parser", None)
        try:
            answers, _, _ = parser.feed_data(_ANSWER)  # type: ignore[union-attr]
        except Exception:  # there was the beginning of an answer before
            return False
        return len(answers) == 1

    def has_unread(self, failure: BaseException) -> bool:
        """Whether the server had not read the request that failed, though the connection was kept.

        It was not sent; or not all of it had come when the server closed the connection; or the
        server refused it at once, as it does with what comes to a closed connection.
        """
        if not self.is_kept or self._has_heard:
            return False
        if not self._has_asked or self._was_cut_off:
            return True
        is_refusal = (
            isinstance(failure, ConnectionResetError)
            or getattr(failure, "errno", None) in _REFUSALS
        )
        return is_refusal and self._loop.time() - self._asked_at < _SECONDS_TO_REFUSE

    def data_received(self, data: bytes) -> None:
        if data and self._is_idle:
            self.abort()
            return
        if data:  # aiohttp itself calls this without any, to go on
            self._has_heard = True
        super().data_received(data)

    def eof_received(self) -> None:
        self._was_cut_off = self._has_asked and self._has_unacknowledged()
        super().eof_received()

    def _is_readable(self) -> bool:
        """Whether there are bytes, or an end, that the event loop has not read yet."""
        place = self._socket()
        if place is None:
            return True  # nothing is known of it
        if not hasattr(select, "poll"):
            return bool(select.select([place], [], [], 0)[0])
        looking = select.poll()
        looking.register(place, select.POLLIN)
        return bool(looking.poll(0))

    def _has_unacknowledged(self) -> bool:
        """Whether the server's system has not confirmed all that was sent."""
        place = self._socket()
        if self.transport is None or place is None:
            return False
        if self.transport.get_write_buffer_size():
            return True
        left = 0
        if fcntl is not None:
            with suppress(OSError):
                [left] = struct.unpack("i", fcntl.ioctl(place, termios.TIOCOUTQ, bytes(4)))
        return left > 0

    def _socket(self) -> int | None:
        """The number of the open socket."""
        opened = self.transport and self.transport.get_extra_info("socket")
        number = opened.fileno() if opened else -1
        return number if number >= 0 else None


class _Connector(aiohttp.TCPConnector):
    """Hands out connections that are new or clean."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_Channel, loop=self._loop)  # type: ignore[assignment]

    async def connect(self, *request: Any, **options: Any) -> Connection:
        """A connection for a request."""
        while True:
            connection = await super().connect(*request, **options)
            channel = connection.protocol
            if not isinstance(channel, _Channel):  # of which nothing is known
                if channel:
                    channel.force_close()
                return connection
            if not channel.is_kept or channel.is_clean():
                channel.take()
                connection.add_callback(channel.rest)
                return connection
            connection.close()


class _Request(aiohttp.ClientRequest):
    """Tells the connection when it is sent: one with a body later than it is prepared."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        channel = _asked(conn)
        try:
            return await super().send(conn)
        except _LOST as failure:
            if channel and channel.has_unread(failure):
                raise UnreadRequestError from failure
            raise

    async def write_bytes(self, writer: AbstractStreamWriter, conn: Connection, *more: Any) -> None:
        _asked(conn)
        await super().write_bytes(writer, conn, *more)


class _Response(aiohttp.ClientResponse):
    """Tells a request that was not read from one that failed."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        channel = connection.protocol
        try:
            return await super().start(connection)
        except _LOST as failure:
            if isinstance(channel, _Channel) and channel.has_unread(failure):
                raise UnreadRequestError from failure
            raise


def _asked(connection: Connection) -> _Channel | None:
    """The connection's channel, which notes that a request is sent; None for one that is closed."""
    channel = connection.protocol
    if not isinstance(channel, _Channel):
        return None
    channel.ask()
    return channel
