"""A call to what answers behind the gateway, and its reply.

Bodies pass byte for byte, and streams chunk by chunk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from drike.gateway.errors import UpstreamError

RawHeaders = list[
    tuple[bytes, bytes]
]  # names in lower case; `starlette.datastructures.Headers` reads them

_MAX_ANSWER = 16 << 20  # bytes of one that is read as a whole


@dataclass(frozen=True)
class UpstreamCall:
    """A request to pass on.

    path: below the address of the API, with its slash and its query, percent-encoded. tenant: on
    whose connections it goes; "" for none's. unedited: the body before facts were put into it,
    uncompressed, for an upstream that contrasts its answer with the one to that; None where none
    were.
    """

    method: str
    path: str
    headers: RawHeaders
    body: bytes
    tenant: str = ""
    unedited: bytes | None = None

    @property
    def endpoint(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]


@dataclass(frozen=True)
class Reply:
    """An answer that has begun. `chunks` raises UpstreamError if it ends too early."""

    status: int
    headers: RawHeaders
    chunks: AsyncIterator[bytes]


class Upstream(Protocol):
    """Answers calls, many at once.

    name: what it is, for messages. passes_credentials: whether it may know clients by their own.
    """

    name: str
    passes_credentials: bool = True

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
