"""What answers requests behind the gateway: a server with an OpenAI-compatible API (`HttpUpstream`), or a local model.

Bodies pass byte for byte in both directions, also compressed ones, and streams chunk by chunk as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp.client_exceptions import ClientError
from yarl import URL

from drike.errors import UsageError
from drike.models.served.address import is_loopback

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade host content-length expect".split()
)
_CREDENTIALS = frozenset(  # and who pays
    b"authorization api-key x-api-key x-goog-api-key cookie openai-organization openai-project".split()
)
_REDIRECTS = {*range(300, 400)} - {304}  # that is "not modified"
_MAX_HEADERS = 32 << 10
# Below the time after which common servers close idle connections (5 s), so that no request meets a closed one.
_IDLE_SECONDS = 3.0


class UpstreamError(Exception):
    """The upstream did not answer. status: what the client gets."""

    def __init__(self, sentence: str, status: int = 502) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class UpstreamCall:
    """A request to pass on. path: below the address of the API, with its slash and its query, percent-encoded."""

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Reply:
    """An answer that has begun. `chunks` raises UpstreamError if it ends too early."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]


class Upstream(Protocol):
    """Answers calls, many at once. name: what it is, for messages."""

    name: str

    async def open(self) -> None:
        """Get ready for calls."""

    async def close(self) -> None:
        """Close all connections."""

    def exchange(self, call: UpstreamCall) -> AbstractAsyncContextManager[Reply]:
        """The answer to a call, which is dropped when the block is left. Raises UpstreamError."""

    async def problem(self) -> str | None:
        """Why calls would fail now; None if they would not."""


class HttpUpstream:
    """A server with an OpenAI-compatible API.

    Args:
        address: where the API begins, as https://host/v1.
        key: sent as bearer token in place of the client's credentials.
        keep_credentials: pass the client's on where there is no key. False where they are the gateway's own.
        timeout: seconds without a byte after which an answer is given up.

    Raises UsageError for an address that is neither https nor on this machine, or that has more than a path.
    """

    def __init__(
        self, address: str, key: str | None = None, *, keep_credentials: bool = True, timeout: float = 600.0
    ) -> None:
        self.name = checked_address(address)
        self._authorization = [(b"authorization", b"Bearer " + key.encode())] if key else []
        self._removed = _HOP_BY_HOP if keep_credentials and not key else _HOP_BY_HOP | _CREDENTIALS
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),  # one client's cookies are not another's
            auto_decompress=False,
            timeout=self._timeout,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=_MAX_HEADERS,
            max_field_size=_MAX_HEADERS,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """Pass a call on, and the answer back."""
        assert self._session, "open() comes first"  # noqa: S101
        kept = _without(call.headers, self._removed) + self._authorization
        try:
            response = await self._session.request(
                call.method,
                URL(self.name + call.path, encoded=True),
                headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in kept],
                data=call.body or None,
                allow_redirects=False,
            )
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise _as_upstream_error(self.name, error) from error
        try:
            status = response.status
            if status in _REDIRECTS:
                raise UpstreamError(f"{self.name} redirects ({status}): give the final address as --upstream")
            if status == 401 and self._authorization:  # its answer may quote the key, which is not the client's
                raise UpstreamError(f"{self.name} refuses the gateway's key: tell its operator")
            if not 200 <= status < 600:
                raise UpstreamError(f"{self.name} answered with status {status}: try again")
            yield Reply(status, _without(response.raw_headers, _HOP_BY_HOP, length=True), self._chunks(response))
        finally:
            response.close() if not response.content.at_eof() else response.release()

    async def problem(self) -> str | None:
        """Whether a connection can be made; the server's keys and models are not asked for."""
        url = urlsplit(self.name)
        try:
            async with asyncio.timeout(2.0):
                _, writer = await asyncio.open_connection(url.hostname, url.port or {"http": 80}.get(url.scheme, 443))
            writer.close()
        except (OSError, TimeoutError) as error:
            return f"{self.name} cannot be reached ({_reason(error)}): start it, or correct --upstream"
        return None

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (ClientError, TimeoutError, OSError) as error:
            raise _as_upstream_error(self.name, error) from error


def checked_address(address: str) -> str:
    """The address without a slash at its end, and with /v1 where it has no path. Raises UsageError."""
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise UsageError(f"--upstream {address} is not an address ({error}): give it as https://host/v1") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise UsageError(f"--upstream {address} is not an address: give it as https://host/v1")
    if url.username or url.password or url.query or url.fragment or port == 0:
        raise UsageError(f"--upstream {url.hostname} has more than a path: put the key into $DRIKE_API_KEY")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise UsageError(f"--upstream http://{url.hostname} is not encrypted: use https")
    return address.rstrip("/") + ("" if url.path.strip("/") else "/v1")


def _without(headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes], *, length: bool = False) -> Headers:
    """Headers without those of these names, and those that `Connection` names. length: keep Content-Length."""
    pairs = [(name.lower(), value) for name, value in headers]
    values = [value for name, value in pairs if name == b"connection"]
    listed = {name.strip().lower() for value in values for name in value.split(b",")}
    removed = names | listed
    return [pair for pair in pairs if pair[0] not in removed or (length and pair[0] == b"content-length")]


def _as_upstream_error(name: str, error: BaseException) -> UpstreamError:
    if isinstance(error, TimeoutError):
        return UpstreamError(f"{name} did not answer in time: try again, or raise --timeout", 504)
    return UpstreamError(f"{name} failed ({_reason(error)}): try again", 502)


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(text.split())[:200] or type(error).__name__
