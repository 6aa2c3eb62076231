"""Read a server's response, of which nothing is trusted: its bytes, JSON, token counts and error message."""

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import httpx2

from drike.errors import RefusedError, ServerError
from drike.models.served import TokenCounts
from drike.support.records import encodable

BODY_LIMIT = 16 * 1024 * 1024  # bytes, decoded; log-probabilities of a long prompt take about a quarter of it
NOT_JSON, EMPTY = "answers with something that is not JSON", "gives an empty answer"
SECOND_ANSWER = "answers a request twice on one connection"
_SHORTEST_KEY = 8  # characters; a shorter one is a placeholder, and may stand in any text
_MOST_TOKENS = 10**9
_LONGEST_INTEGER = 18  # digits; a longer one is read as a float, which no count accepts


def hiding(key: str | None) -> Callable[[str], str]:
    """Return a function that replaces `key` in a text."""
    return (lambda text: text.replace(key, "[key]")) if key and len(key) >= _SHORTEST_KEY else str


async def read_body(response: httpx2.Response) -> None:
    """Read and decode a response, and keep its JSON as its extension "json"; for use as an event hook.

    One that should be JSON and is not becomes a failed connection, so that it is retried. Raises RefusedError if the
    body is too large, in memory or decoded, or oddly compressed, or if the account has no money left.
    """
    stream = response.extensions["network_stream"]
    _count_reads(stream)
    if stream.reads == stream.reads_before:
        # Nothing was read since the last response, so this one came with it, before the request was sent.
        await stream.aclose()
        raise httpx2.RemoteProtocolError(SECOND_ANSWER, request=response.request)
    response.stream = httpx2.ByteStream(await _decoded(response))
    response.headers.pop("content-encoding", None)
    response.encoding = "utf-8"  # whatever its headers say
    await response.aread()
    stream.reads_before = stream.reads
    status = response.status_code
    if response.is_success:
        try:
            number = lambda digits: (int if len(digits) <= _LONGEST_INTEGER else float)(digits)  # noqa: E731
            response.extensions["json"] = json.loads(response.content.decode(), parse_int=number)
        except (ValueError, RecursionError):
            kind = NOT_JSON if response.content.strip() else EMPTY
            raise httpx2.RemoteProtocolError(kind, request=response.request) from None
    elif status == 402 or (status == 429 and b"insufficient_quota" in response.content):
        raise RefusedError(f"the account has no money left ({status}): top it up, or use another key", status)


async def _decoded(response: httpx2.Response) -> bytes:
    """The body without its compression; b"", as an empty answer, for a damaged one."""
    where, encoding = response.request.url.copy_with(query=None), response.headers.get("content-encoding", "identity")

    def check_size(body: bytes | bytearray) -> None:
        if len(body) > BODY_LIMIT:
            raise RefusedError(f"{where} answers with more than {BODY_LIMIT >> 20} MB: is it the right address?")

    body = bytearray()
    raw: Any = response.stream
    async with aclosing(raw) as stream:
        async for chunk in stream:
            body += chunk
            check_size(body)
    if not body or encoding.strip().casefold() == "identity":
        return bytes(body)
    if encoding.strip().casefold() not in ("gzip", "deflate"):
        what = f"{where} compresses its answers ({encoding[:40]!r}) although asked not to"
        raise RefusedError(f"{what}: correct the address, or the proxy before it")
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, BODY_LIMIT + 1)
    except zlib.error:
        return b""
    check_size(plain)
    return plain


def _count_reads(stream: Any) -> None:
    """Count in `stream.reads` how often a connection is read from, beginning with its first response."""
    if hasattr(stream, "reads"):
        return
    read = stream.read

    async def counted(*args: Any, **kwargs: Any) -> bytes:
        stream.reads += 1
        data: bytes = await read(*args, **kwargs)
        return data

    stream.read, stream.reads, stream.reads_before = counted, 0, -1


def json_object(body: object, url: str, hide: Callable[[str], str]) -> dict[str, Any]:
    """The JSON object of an answer. Raises ServerError for another value, and for an error sent with status 200."""
    if not isinstance(body, dict):
        raise ServerError(f"{url} answered with something that is no JSON object: is it the address of an API?")
    if isinstance(body.get("error"), dict) and not body.get("choices"):
        raise ServerError(f"{url} failed ({error_message(body, hide)}): try again later")
    return body


def token_counts(body: Mapping[str, Any], url: str) -> TokenCounts:
    """The token counts of an answer. Raises ServerError for one that cannot be right."""
    usage = next((part for part in (body.get("usage"), body.get("meta_info")) if isinstance(part, dict)), {})
    details = usage.get("prompt_tokens_details")
    cached = (details if isinstance(details, dict) else usage).get("cached_tokens")  # the latter is SGLang's own form
    counts = TokenCounts(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    for name, value in zip(("prompt", "completion", "cached"), counts, strict=True):
        if value is not None and not (type(value) is int and 0 <= value <= _MOST_TOKENS):
            shown = value if isinstance(value, int | float) else type(value).__name__
            raise ServerError(f"{url} reports {shown} {name} tokens: is it the address of an API?")
    return counts


def error_message(body: object, hide: Callable[[str], str]) -> str:
    """The server's own error message, without the key, then shortened; "" if it sends none in the API's form."""
    if isinstance(body, list) and len(body) == 1:  # Gemini's form
        [body] = body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else None
    if not isinstance(text, str):
        return ""
    line = encodable(" ".join(hide(text).split()))
    return line if len(line) <= 200 else f"{line[:200]}..."
