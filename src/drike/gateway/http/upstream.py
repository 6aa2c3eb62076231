"""What answers requests behind the gateway: a server with an OpenAI-compatible API (`HttpUpstream`), or a local model.

Bodies pass byte for byte, and streams chunk by chunk. The gateway's own key is hidden wherever an answer quotes it.
"""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_exceptions import ClientError
from yarl import URL

from drike.gateway.http.keys import KEY
from drike.models.served import checked_address, is_loopback

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade host content-length expect".split()
)
_CREDENTIALS = frozenset(  # and who pays
    b"authorization api-key x-api-key x-goog-api-key cookie openai-organization openai-project".split()
)
_ENCODINGS = frozenset((b"gzip", b"deflate", b"br", b"zstd"))  # that aiohttp may decode
_UNUSABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # in a header
_KEY = re.compile(KEY.pattern.encode())  # of a gateway
_REDIRECTS = {*range(300, 400)} - {304}  # that is "not modified"
_MAX_HEADERS, _MAX_ANSWER = 32 << 10, 16 << 20
# Below the time after which common servers close idle connections (5 s), so that no request meets a closed one.
_IDLE_SECONDS = 3.0


class UpstreamError(Exception):
    """The upstream did not answer. status: what the client gets."""

    code = "upstream_error"

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

    def exchange(self, call: UpstreamCall) -> AbstractAsyncContextManager[Reply]:
        """The answer to a call, which is dropped when the block is left. Raises UpstreamError."""

    async def open(self) -> None:
        """Get ready for calls."""
        return

    async def close(self) -> None:
        """Close all connections."""
        return

    async def problem(self) -> str | None:
        """Why calls would fail now; None if they would not."""
        return None


def header_text(value: bytes) -> str:
    """A header's value, in UTF-8 or else in Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def whole(reply: Reply) -> bytes:
    """All of an answer that does not come as a stream. Raises UpstreamError for more than 16 MB."""
    raw = bytearray()
    async for chunk in reply.chunks:
        raw += chunk
        if len(raw) > _MAX_ANSWER:
            raise UpstreamError(f"the upstream's answer has more than {_MAX_ANSWER >> 20} MB")
    return bytes(raw)


async def in_one(raw: bytes) -> AsyncIterator[bytes]:
    """An answer that is there already, as the only chunk of a reply."""
    yield raw


class HttpUpstream:
    """A server with an OpenAI-compatible API. address: as for `checked_address`, which raises UsageError.

    key: sent in place of the client's credentials, in the header that it used. keep_credentials: pass the client's on
    where there is no key; False where they are the gateway's own. timeout: in seconds without a byte. allow_http: a
    host to which requests may go unencrypted, besides this machine.
    """

    hidden_headers: tuple[bytes, ...] = (
        b"x-drike-",
    )  # beginnings of those that only the gateway sends

    def __init__(
        self, address: str, key: str | None = None, *, keep_credentials: bool = True, timeout: float = 600.0,
        allow_http: str | None = None,
    ) -> None:  # fmt: skip
        self.name = checked_address(address, allow_http)
        url, proxy = (
            urlsplit(self.name),
            getproxies().get("https", ""),
        )  # which sees no key, unlike one for http
        direct = url.scheme == "http" or is_loopback(url.hostname or "") or proxy_bypass(url.netloc)
        self._proxy = (
            None if direct or not proxy else proxy if "://" in proxy else f"http://{proxy}"
        )
        self._key = key.encode() if key else b""
        self._removed = _HOP_BY_HOP if keep_credentials and not key else _HOP_BY_HOP | _CREDENTIALS
        self._secret = Secret(key) if key else None
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS), timeout=self._timeout,
            proxy=self._proxy, cookie_jar=aiohttp.DummyCookieJar(),  # one client's cookies are not another's
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            auto_decompress=self._secret is not None, max_line_size=_MAX_HEADERS, max_field_size=_MAX_HEADERS,
        )  # fmt: skip

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """Pass a call on, and the answer back."""
        assert self._session, "open() comes first"  # noqa: S101
        removed, added, names = self._removed, Headers(), {name for name, _ in call.headers}
        if self._key:  # in the header in which the client sent its own; uncompressed, so that it does not come back
            plain = (
                b"x-api-key" in names and b"authorization" not in names
            )  # as Anthropic's clients send it
            header = (
                (b"x-api-key", self._key) if plain else (b"authorization", b"Bearer " + self._key)
            )
            removed, added = (
                removed | {b"accept-encoding"},
                [header, (b"accept-encoding", b"identity")],
            )
        sent = (header for header in _without(call.headers, removed) if not _KEY.search(header[1]))
        kept = [
            *sent,
            *added,
        ]  # no key of a gateway, though this one may have been started before it had keys
        try:
            address = URL(self.name + call.path, encoded=True)
            headers = [(name.decode("latin-1"), header_text(value)) for name, value in kept]
            response = await self._session.request(
                call.method, address, headers=headers, data=call.body or None, allow_redirects=False
            )
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise _as_upstream_error(error) from error
        try:
            yield Reply(response.status, self._headers(response), self._chunks(response))
        finally:
            response.close() if not response.content.at_eof() else response.release()

    def _headers(self, response: aiohttp.ClientResponse) -> Headers:
        """The headers to pass on. Raises UpstreamError for an answer that must not be."""
        status = response.status
        if status in _REDIRECTS:
            raise UpstreamError(
                f"the upstream redirects ({status}): give its final address as --upstream"
            )
        if status == 401 and self._secret:  # its answer is about a key that is not the client's
            raise UpstreamError(
                "the upstream refuses the gateway's key: tell the gateway's operator"
            )
        if not 200 <= status < 600:
            raise UpstreamError(f"the upstream answered with status {status}: try again")
        headers = _without(response.raw_headers, _HOP_BY_HOP - {b"content-length"})
        if any(_UNUSABLE.search(name + value) for name, value in headers):
            raise UpstreamError(
                "the upstream's answer has control characters in a header: tell its operator"
            )
        headers = [header for header in headers if not header[0].startswith(self.hidden_headers)]
        if self._secret is None:
            return headers
        encoding = (
            b",".join(value for name, value in headers if name == b"content-encoding")
            .strip()
            .lower()
        )
        if encoding in _ENCODINGS:  # nobody asked for it, and it has been decoded
            headers = [
                header
                for header in headers
                if header[0] not in (b"content-encoding", b"content-length")
            ]
        elif encoding not in (b"", b"identity"):
            raise UpstreamError(
                "the upstream compresses in a way that nobody asked for: tell its operator"
            )
        return [(name, self._secret.hidden_in(value)) for name, value in headers]

    async def problem(self) -> str | None:
        """Whether a connection can be made, if to a proxy; the server's keys and models are not asked for."""
        url = urlsplit(self._proxy or self.name)
        try:
            async with asyncio.timeout(2.0):
                _, writer = await asyncio.open_connection(
                    url.hostname, url.port or {"http": 80}.get(url.scheme, 443)
                )
            writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            return f"the upstream cannot be reached ({_reason(error)}): start it, or correct --upstream or https_proxy"
        return None

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        held = b""  # may be the beginning of the key
        try:
            async for chunk in response.content.iter_any():
                shown, held = self._secret.split(held + chunk) if self._secret else (chunk, b"")
                if shown:
                    yield shown
        except (ClientError, TimeoutError, OSError) as error:
            raise _as_upstream_error(error) from error
        if held:
            yield held


class Secret:
    """A key, and how it may be written in an answer: as it is, in a URL, or with escapes of JSON."""

    def __init__(self, key: str) -> None:
        escaped = ["".join(c if c.isalnum() else rf"\u{ord(c):04{x}}" for c in key) for x in "xX"]
        self._forms = [
            form.encode() for form in {key, key.replace("/", r"\/"), quote(key, safe=""), *escaped}
        ]
        self._pattern = re.compile(
            b"|".join(map(re.escape, sorted(self._forms, key=len, reverse=True)))
        )
        self._first = re.compile(b"|".join({re.escape(form[:1]) for form in self._forms}))
        self._longest = max(map(len, self._forms))

    def hidden_in(self, text: bytes) -> bytes:
        """The text with asterisks for the key, as many as it has bytes."""
        return self._pattern.sub(lambda found: b"*" * len(found[0]), text)

    def split(self, text: bytes) -> tuple[bytes, bytes]:
        """The text without the key, and its end if that may be the beginning of the key."""
        text = self.hidden_in(text)
        for first in self._first.finditer(text, max(0, len(text) - self._longest + 1)):
            end = text[first.start() :]
            if any(form.startswith(end) for form in self._forms):
                return text[: first.start()], end
        return text, b""


def _without(headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]) -> Headers:
    """Headers without those of these names, and those that `Connection` names."""
    pairs = [(name.lower(), value) for name, value in headers]
    values = [value for name, value in pairs if name == b"connection"]
    removed = names | {name.strip().lower() for value in values for name in value.split(b",")}
    return [pair for pair in pairs if pair[0] not in removed]


def _as_upstream_error(error: BaseException) -> UpstreamError:
    if isinstance(error, TimeoutError):
        return UpstreamError(
            "the upstream did not answer in time: try again, or raise --timeout", 504
        )
    return UpstreamError(f"the upstream failed ({_reason(error)}): try again")


def _reason(error: BaseException) -> str:
    """What went wrong, without an address: clients need not know where the upstream is."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return str(cause.strerror)
    number = getattr(cause, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
