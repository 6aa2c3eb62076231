"""A server with an OpenAI-compatible API behind the gateway.

Bodies pass byte for byte, and streams chunk by chunk. The gateway's own key is hidden wherever an
answer quotes it.
"""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_exceptions import ClientError
from starlette.datastructures import Headers, MutableHeaders
from yarl import URL

from drike.gateway.calls import RawHeaders, Reply, UpstreamCall, header_text
from drike.gateway.errors import KeyInRequestError, UpstreamError
from drike.gateway.http.connections import UnreadRequestError, client
from drike.gateway.http.leaks import body_has_key, has_key, query_without_keys
from drike.gateway.http.threads import in_daemon_thread
from drike.models.served import checked_address, is_loopback

# Headers of one connection, which are not passed on in either direction.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"host",
        b"content-length",
        b"expect",
    }
)
# Headers by which some servers take a request for one to another path, or by another method, than
# those that were looked at.
_REROUTING = frozenset(
    {
        b"x-original-url",
        b"x-rewrite-url",
        b"x-http-method-override",
        b"x-http-method",
        b"x-method-override",
    }
)
# Headers that say who asks, and who pays.
_CREDENTIALS = frozenset(
    {
        b"authorization",
        b"api-key",
        b"x-api-key",
        b"x-goog-api-key",
        b"cookie",
        b"openai-organization",
        b"openai-project",
    }
)
_NOT_PASSED_BACK = _HOP_BY_HOP - {b"content-length"}
_DECODED_BY_AIOHTTP = frozenset({"gzip", "deflate", "br", "zstd"})
_CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_MODIFIED = 304
_SEARCHED_AT_ONCE = 256 << 10  # bytes of a body; larger ones are searched in a thread
_MAX_HEADERS = 32 << 10
_SECONDS_TO_CONNECT = 10.0
_SECONDS_TO_PROBE = 2.0
# Below the time after which common servers close idle connections (5 s), so that no request meets a
# closed one.
_IDLE_SECONDS = 3.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpUpstream:
    """A server with an OpenAI-compatible API.

    address: as for `checked_address`, which raises UsageError.

    key: sent in place of the client's credentials, in the header that it used. keep_credentials:
    pass the client's on where there is no key; False where they are the gateway's own. timeout: in
    seconds without a byte. allow_http: a host to which requests may go unencrypted, besides this
    machine.
    """

    # Beginnings of headers that only the gateway sends.
    hidden_headers: tuple[bytes, ...] = (b"x-drike-",)

    def __init__(
        self,
        address: str,
        key: str | None = None,
        *,
        keep_credentials: bool = True,
        timeout: float = 600.0,
        allow_http: str | None = None,
    ) -> None:
        self.name = checked_address(address, allow_http)
        self._proxy = _proxy_for(self.name)
        self._key = key
        self._secret = Secret(key) if key else None
        self.passes_credentials = keep_credentials and not key
        self._removed = _HOP_BY_HOP | _REROUTING
        if not self.passes_credentials:
            self._removed |= _CREDENTIALS
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_SECONDS_TO_CONNECT, sock_read=timeout
        )
        self._fresh: aiohttp.ClientSession | None = None  # a new connection for each request
        self._kept: dict[str, aiohttp.ClientSession] = {}  # by tenant

    async def open(self) -> None:
        """Get ready for calls; nothing is sent."""
        self._fresh = self._client(None)

    def _client(self, idle_seconds: float | None) -> aiohttp.ClientSession:
        return client(
            idle_seconds=idle_seconds,
            timeout=self._timeout,
            proxy=self._proxy,
            cookie_jar=aiohttp.DummyCookieJar(),  # one client's cookies are not another's
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            auto_decompress=self._secret is not None,
            max_line_size=_MAX_HEADERS,
            max_field_size=_MAX_HEADERS,
        )

    async def close(self) -> None:
        """Close all connections."""
        for opened in (self._fresh, *self._kept.values()):
            if opened:
                await opened.close()

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """Pass a call on, and the answer back. Raises KeyInRequestError."""
        await _refuse_key(call)
        try:
            response = await self._answer(call)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise _as_upstream_error(error) from error
        try:
            headers = self._passed_headers(response)
            yield Reply(response.status, headers, self._chunks(response))
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _answer(self, call: UpstreamCall) -> aiohttp.ClientResponse:
        """The answer to a call, which is sent again where a kept connection proves closed.

        No two tenants share a connection: to whom a server sends an answer that nobody asked for,
        and that comes when something else has been asked, cannot be told.
        """
        assert self._fresh, "open() comes first"  # noqa: S101
        if call.tenant not in self._kept:
            self._kept[call.tenant] = self._client(_IDLE_SECONDS)
        try:
            return await self._asked(call, self._kept[call.tenant])
        except UnreadRequestError:
            return await self._asked(call, self._fresh)

    async def _asked(
        self, call: UpstreamCall, connections: aiohttp.ClientSession
    ) -> aiohttp.ClientResponse:
        return await connections.request(
            call.method,
            URL(self.name + _path_without_keys(call), encoded=True),
            headers=self._sent_headers(call),
            data=call.body or None,
            allow_redirects=False,
        )

    async def problem(self) -> str | None:
        """Why no connection can be made, to the proxy if there is one; None if one can.

        The server's keys and models are not asked for.
        """
        url = urlsplit(self._proxy or self.name)
        port = url.port or _DEFAULT_PORTS.get(url.scheme, 443)
        try:
            async with asyncio.timeout(_SECONDS_TO_PROBE):
                _, writer = await asyncio.open_connection(url.hostname, port)
            writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            return (
                f"the upstream cannot be reached ({_reason(error)}): start it, or correct "
                "--upstream or https_proxy"
            )
        return None

    def _sent_headers(self, call: UpstreamCall) -> list[tuple[str, str]]:
        """The headers of a call as the server gets them, with the gateway's key if it has one.

        Without any key of a gateway, though this one may have been started before it had keys.
        """
        removed = self._removed
        if self._key:
            removed |= {b"accept-encoding"}
        sent = [
            (name.decode("latin-1"), header_text(value))
            for name, value in _without(call.headers, removed)
            if not has_key(name + b": " + value)
        ]
        if self._key:
            client_headers = Headers(raw=call.headers)
            # In the header in which the client sent its own: Anthropic's clients send x-api-key.
            if "x-api-key" in client_headers and "authorization" not in client_headers:
                sent.append(("x-api-key", self._key))
            else:
                sent.append(("authorization", f"Bearer {self._key}"))
            # Uncompressed, so that the key does not come back unseen.
            sent.append(("accept-encoding", "identity"))
        return sent

    def _passed_headers(self, response: aiohttp.ClientResponse) -> RawHeaders:
        """The headers to pass on. Raises UpstreamError for an answer that must not be."""
        self._check_status(response.status)
        raw = _without(response.raw_headers, _NOT_PASSED_BACK)
        if any(_CONTROL_CHARACTERS.search(name + value) for name, value in raw):
            raise UpstreamError(
                "the upstream's answer has control characters in a header: tell its operator"
            )
        raw = [(name, value) for name, value in raw if not name.startswith(self.hidden_headers)]
        if self._secret is None:
            return raw

        headers = MutableHeaders(raw=raw)
        encoding = ",".join(headers.getlist("content-encoding")).strip().lower()
        if encoding in _DECODED_BY_AIOHTTP:  # nobody asked for it
            del headers["content-encoding"]
            del headers["content-length"]
        elif encoding not in ("", "identity"):
            raise UpstreamError(
                "the upstream compresses in a way that nobody asked for: tell its operator"
            )
        return [(name, self._secret.hidden_in(value)) for name, value in headers.raw]

    def _check_status(self, status: int) -> None:
        if 300 <= status < 400 and status != _NOT_MODIFIED:
            raise UpstreamError(
                f"the upstream redirects ({status}): give its final address as --upstream"
            )
        if status == 401 and self._secret:  # its answer is about a key that is not the client's
            raise UpstreamError(
                "the upstream refuses the gateway's key: tell the gateway's operator"
            )
        if not 200 <= status < 600:
            raise UpstreamError(f"the upstream answered with status {status}: try again")

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The body as it comes, without the gateway's key."""
        held = b""  # may be the beginning of the key
        try:
            async for chunk in response.content.iter_any():
                shown = chunk
                if self._secret:
                    shown, held = self._secret.split(held + chunk)
                if shown:
                    yield shown
        except (ClientError, TimeoutError, OSError) as error:
            raise _as_upstream_error(error) from error
        if held:
            yield held


async def _refuse_key(call: UpstreamCall) -> None:
    """Refuse a call with a gateway's key where it cannot be left out.

    Raises KeyInRequestError.
    """
    encoding = Headers(raw=call.headers).get("content-encoding", "")
    if encoding or len(call.body) > _SEARCHED_AT_ONCE:
        is_in_body = await in_daemon_thread(body_has_key, call.body, encoding)
    else:
        is_in_body = body_has_key(call.body, encoding)
    if is_in_body:
        raise KeyInRequestError("body")
    if has_key(call.endpoint.encode("latin-1")):
        raise KeyInRequestError("path")


def _path_without_keys(call: UpstreamCall) -> str:
    """The path of a call, with its query but for the parameters that have a gateway's key."""
    endpoint, _, query = call.path.partition("?")
    query = query_without_keys(query)
    return f"{endpoint}?{query}" if query else endpoint


class Secret:
    """A key in all ways in which an answer may quote it: plain, in a URL, or escaped as in JSON."""

    def __init__(self, key: str) -> None:
        in_url = quote(key, safe="")
        with_escaped_slashes = key.replace("/", r"\/")
        with_small_hex = "".join(_json_escape(character, "x") for character in key)
        with_capital_hex = "".join(_json_escape(character, "X") for character in key)
        forms = {key, with_escaped_slashes, in_url, with_small_hex, with_capital_hex}

        self._forms = [form.encode() for form in forms]
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        first_bytes = {re.escape(form[:1]) for form in self._forms}
        self._first_byte = re.compile(b"|".join(first_bytes))
        self._longest = len(longest_first[0])

    def hidden_in(self, text: bytes) -> bytes:
        """The text with asterisks for the key, as many as it has bytes."""
        return self._pattern.sub(lambda found: b"*" * len(found[0]), text)

    def split(self, text: bytes) -> tuple[bytes, bytes]:
        """The text without the key, and its end if that may be the beginning of the key."""
        text = self.hidden_in(text)
        near_end = max(0, len(text) - self._longest + 1)
        for first_byte in self._first_byte.finditer(text, near_end):
            end = text[first_byte.start() :]
            if any(form.startswith(end) for form in self._forms):
                return text[: first_byte.start()], end
        return text, b""


def _json_escape(character: str, hex_digits: str) -> str:
    r"""A character as JSON may escape it: \u002d; letters and digits as they are."""
    return character if character.isalnum() else rf"\u{ord(character):04{hex_digits}}"


def _proxy_for(address: str) -> str | None:
    """The proxy for an address of https, which sees no key, unlike one for http."""
    proxy = getproxies().get("https", "")
    url = urlsplit(address)
    is_direct = url.scheme == "http" or is_loopback(url.hostname) or proxy_bypass(url.netloc)
    if is_direct or not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _without(headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]) -> RawHeaders:
    """Headers without those of these names, and those that `Connection` names."""
    lowered = [(name.lower(), value) for name, value in headers]
    removed = names
    for value in Headers(raw=lowered).getlist("connection"):
        named_by_it = value.lower().encode("latin-1").split(b",")
        removed = removed.union(map(bytes.strip, named_by_it))
    return [(name, value) for name, value in lowered if name not in removed]


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
