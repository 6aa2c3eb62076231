"""Bodies of requests, which may be large and hostile: unpacked, and read as JSON, within limits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from drike.conversations.turns import UnreadError

SMALL = 16 << 10  # bytes of a body that is read at once; larger ones are read in a thread
MAX_DEPTH = 64
MAX_VALUES = 100_000  # of a body; so many take at most some 15 MB and 90 ms
MAX_UNPACKED = 10 << 20  # bytes of a compressed body
_MAX_MEMBERS = 16  # pieces that a gzip body is made of

# What zlib is told to expect by its parameter wbits.
_WITH_GZIP_HEADER = 31
_WITH_ZLIB_HEADER = 15
_WITHOUT_HEADER = -15

_SEPARATORS = (b",", b"[", b"{")
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep: flatten it"


class Decoder(Protocol):
    """Undoes a Content-Encoding."""

    def decode(self, body: bytes) -> bytes:
        """The body without its compression.

        Raises zlib.error if it is damaged, UnreadError if it grows too large.
        """


@dataclass(frozen=True)
class GzipDecoder:
    """gzip, of which a body may have several members, one after the other.

    budget: bytes that all may unpack to.
    """

    budget: int = MAX_UNPACKED

    def decode(self, body: bytes) -> bytes:
        """As `Decoder` says."""
        members = []
        budget = self.budget
        rest = body
        for _ in range(_MAX_MEMBERS):
            member, rest = _inflated(rest, _WITH_GZIP_HEADER, budget)
            members.append(member)
            budget -= len(member)
            if not rest:
                return b"".join(members)
        raise zlib.error("more members than are read")


@dataclass(frozen=True)
class DeflateDecoder:
    """deflate, as the standard has it or, as some clients send it, without zlib's header."""

    budget: int = MAX_UNPACKED

    def decode(self, body: bytes) -> bytes:
        """As `Decoder` says."""
        try:
            return self._decoded_as(_WITH_ZLIB_HEADER, body)
        except zlib.error:
            return self._decoded_as(_WITHOUT_HEADER, body)

    def _decoded_as(self, form: int, body: bytes) -> bytes:
        unpacked, rest = _inflated(body, form, self.budget)
        if rest:
            raise zlib.error("more than one piece")
        return unpacked


_DECODERS: Mapping[str, Decoder] = {
    "gzip": GzipDecoder(),
    "x-gzip": GzipDecoder(),
    "deflate": DeflateDecoder(),
}


def decoded(body: bytes, content_encoding: str) -> bytes:
    """A body without its compression.

    Raises UnreadError for one that is unknown, damaged, or grows too large.
    """
    name = content_encoding.strip().lower()
    if name in ("", "identity"):
        return body
    try:
        return _DECODERS[name].decode(body)
    except (KeyError, zlib.error):
        raise UnreadError(
            "encoding", "the body is not in the gzip or deflate of its Content-Encoding"
        ) from None


def _inflated(packed: bytes, form: int, budget: int) -> tuple[bytes, bytes]:
    """A compressed piece unpacked, and what follows it. Raises as `Decoder.decode`."""
    unpacker = zlib.decompressobj(form)
    unpacked = unpacker.decompress(packed, budget + 1)  # one byte more shows that it is too large
    if len(unpacked) > budget:
        raise UnreadError(
            "size", f"the body has more than {MAX_UNPACKED >> 20} MB when it is unpacked"
        )
    if not unpacker.eof:
        raise zlib.error("the piece has no end")
    return unpacked, unpacker.unused_data


@dataclass(frozen=True)
class JsonObject:
    """A JSON object. text: in UTF-8, as it was sent."""

    text: bytes
    values: dict[str, Any]


def parse(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request; None for all else, which is not ours to read.

    Raises ValueError if it is nested too deeply.
    """
    try:
        return read_object(body).values
    except UnreadError:
        return None


def read_object(body: bytes) -> JsonObject:
    """A body as a JSON object. Raises UnreadError, and ValueError if it is nested too deeply."""
    try:
        text = _in_utf8(body)
        if _has_too_many_values(text):
            raise UnreadError("size", f"the body has more than {MAX_VALUES:,} values")
        values = read_json(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # also for bytes that are no text
        raise _no_object() from None

    if not isinstance(values, dict):
        raise _no_object()
    brackets = text.count(b"{") + text.count(b"[")
    if brackets > MAX_DEPTH and _is_too_deep(values):
        raise ValueError(_TOO_DEEP)
    return JsonObject(text, values)


def read_json(text: bytes | str) -> object:
    """The value of a JSON text; NaN and Infinity are refused, as they are not JSON.

    It takes memory of 4 times the text's bytes, or 8 with rare characters. Raises ValueError,
    RecursionError.
    """
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _no_object() -> UnreadError:
    return UnreadError("json", "the body is not a JSON object in UTF-8")


def _in_utf8(body: bytes) -> bytes:
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body
    return body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")


def _has_too_many_values(text: bytes) -> bool:
    """Whether JSON has more than `MAX_VALUES` values or texts.

    It is told by the text alone, before any value takes memory.
    """
    if sum(map(text.count, _SEPARATORS)) <= MAX_VALUES:  # nearly always
        return False
    without_escapes = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if without_escapes.count(b'"') // 2 > MAX_VALUES:
        return True
    outside_texts = b"".join(without_escapes.split(b'"')[::2])
    return sum(map(outside_texts.count, _SEPARATORS)) > MAX_VALUES


def _is_too_deep(value: object) -> bool:
    """Whether containers are nested more than `MAX_DEPTH` levels deep."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        items_by_container = (
            container.values() if isinstance(container, dict) else container for container in level
        )
        items = chain.from_iterable(items_by_container)
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True
