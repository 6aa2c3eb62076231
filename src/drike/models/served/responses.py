"""The responses of servers, of which nothing is trusted: neither size nor compression nor form."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import httpx2

from drike.errors import RefusedError, ServerError
from drike.models.served.failures import require_success

_NOT_JSON = "answers with something that is not JSON"
_EMPTY = "gives an empty answer"
_SECOND_ANSWER = "answers a request twice on one connection"
RETRIED_ANSWERS = (_NOT_JSON, _EMPTY, _SECOND_ANSWER)  # as if the connection had failed

# Bytes, decoded; log-probabilities of a long prompt take about a quarter of it.
_BODY_LIMIT = 16 * 1024 * 1024
_LONGEST_INTEGER = 18  # digits; a longer one is read as a float, which no count accepts


async def read_response(response: httpx2.Response) -> None:
    """Read and decode a response, and keep its JSON as its extension "json".

    For use as an event hook. One that should be JSON and is not becomes a failed connection, so
    that it is retried. Raises RefusedError if the body is too large, in memory or decoded, or oddly
    compressed, or if the account has no money left.
    """
    stream = response.extensions["network_stream"]
    _count_reads(stream)
    if stream.reads == stream.reads_before:
        # Nothing was read since the last response, so this one came with it, before the request was
        # sent.
        await stream.aclose()
        raise httpx2.RemoteProtocolError(_SECOND_ANSWER, request=response.request)
    response.stream = httpx2.ByteStream(await _decoded(response))
    response.headers.pop("content-encoding", None)
    response.encoding = "utf-8"  # whatever its headers say
    await response.aread()
    stream.reads_before = stream.reads

    status = response.status_code
    if response.is_success:
        try:
            response.extensions["json"] = json.loads(response.content.decode(), parse_int=_number)
        except (ValueError, RecursionError):
            kind = _NOT_JSON if response.content.strip() else _EMPTY
            raise httpx2.RemoteProtocolError(kind, request=response.request) from None
    elif status == 402 or (status == 429 and b"insufficient_quota" in response.content):
        raise RefusedError(
            f"the account has no money left ({status}): top it up, or use another key", status
        )


def json_object(body: object, url: str, hide: Callable[[str], str]) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises ServerError for another value, and for an error sent with status 200. hide: takes the key
    out of a text.
    """
    if not isinstance(body, dict):
        require_success(body, url, hide)
        raise ServerError(
            f"{url} answered with something that is no JSON object: is it the address of an API?"
        )
    if not body.get("choices"):  # else it is paid for, and its tokens are counted first
        require_success(body, url, hide)
    return body


def _count_reads(stream: Any) -> None:
    """From a connection's first response on, count reads from it in its attribute `reads`."""
    if hasattr(stream, "reads"):
        return
    read = stream.read

    async def counted(*args: Any, **kwargs: Any) -> Any:
        stream.reads += 1
        return await read(*args, **kwargs)

    stream.read = counted
    stream.reads = 0
    stream.reads_before = -1


def _number(digits: str) -> int | float:
    """An integer of JSON, or the float nearest to one with too many digits."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


async def _decoded(response: httpx2.Response) -> bytes:
    """The body without its compression; b"", as an empty answer, for a damaged one.

    Raises RefusedError.
    """
    address = response.request.url.copy_with(query=None)
    raw = await _raw_body(response, address)
    written_encoding = response.headers.get("content-encoding", "identity")
    encoding = written_encoding.strip().casefold()
    if not raw or encoding == "identity":
        return raw
    if encoding not in ("gzip", "deflate"):
        what = f"{address} compresses its answers ({written_encoding[:40]!r}) although asked not to"
        raise RefusedError(f"{what}: correct the address, or the proxy before it")
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # reads the header of either
    try:
        plain = decompressor.decompress(raw, _BODY_LIMIT + 1)
    except zlib.error:
        return b""
    _check_size(plain, address)
    return plain


async def _raw_body(response: httpx2.Response, address: httpx2.URL) -> bytes:
    """The body as it arrives. Raises RefusedError as soon as it is too large."""
    body = bytearray()
    stream: Any = response.stream
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            body += chunk
            _check_size(body, address)
    return bytes(body)


def _check_size(body: bytes | bytearray, address: httpx2.URL) -> None:
    if len(body) > _BODY_LIMIT:
        raise RefusedError(
            f"{address} answers with more than {_BODY_LIMIT >> 20} MB: is it the right address?"
        )
