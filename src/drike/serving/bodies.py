"""Bodies of requests as bytes, which may be large and hostile: unpacked and read as JSON within bounds.

JSON is never written again: an edit replaces bytes of single texts (`text_spans`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from drike.conversations.turns import JsonPath, UnreadError

SMALL = 16 << 10  # bytes of a body that is read at once; larger ones are read in a thread
MAX_DEPTH = 64
MAX_VALUES = 100_000  # of a body; so many take at most some 15 MB and 90 ms
MAX_UNPACKED, _MAX_MEMBERS = 10 << 20, 16  # bytes of a compressed body, and pieces that it is made of
_WINDOWS = {b"gzip": (31,), b"x-gzip": (31,), b"deflate": (15, -15)}  # zlib's; some deflate without zlib's header
_JSON, _BETWEEN = json.JSONDecoder(), re.compile(r"[ \t\r\n,:]*")
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep: flatten it"


def unpacked(body: bytes, encoding: bytes) -> bytes:
    """A body without its compression. Raises UnreadError for one that is unknown, damaged, or grows too large."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    for window in _WINDOWS.get(name, ()):
        parts, left, rest = [], MAX_UNPACKED, body
        for _ in range(_MAX_MEMBERS if window == 31 else 1):
            unpacker = zlib.decompressobj(window)
            try:
                parts.append(unpacker.decompress(rest, left + 1))
            except zlib.error:
                break
            left, rest = left - len(parts[-1]), unpacker.unused_data
            if left < 0:
                raise UnreadError("size", f"the body has more than {MAX_UNPACKED >> 20} MB when it is unpacked")
            if unpacker.eof and not rest:
                return b"".join(parts)
    raise UnreadError("encoding", "the body is not in the gzip or deflate of its Content-Encoding")


def read_object(body: bytes) -> tuple[bytes, dict[str, Any]]:
    """A body in UTF-8 and its values. Raises UnreadError, and ValueError if it is nested too deeply."""
    try:
        encoding = json.detect_encoding(body)
        if not encoding.startswith("utf-8"):
            body = body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
        if _too_many_values(body):
            raise UnreadError("size", f"the body has more than {MAX_VALUES:,} values")
        values = read_json(body)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # also for bytes that are no text
        values = None
    if not isinstance(values, dict):
        raise UnreadError("json", "the body is not a JSON object in UTF-8")
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _too_deep(values):
        raise ValueError(_TOO_DEEP)
    return body, values


def read_json(text: bytes | str) -> object:
    """JSON without NaN and Infinity, in 4 times its bytes, 8 with rare characters. ValueError, RecursionError."""
    return json.loads(text, parse_constant=_refuse)


def text_spans(text: bytes, paths: Iterable[JsonPath]) -> dict[JsonPath, tuple[int, int]]:
    """Where the texts at these paths stand in JSON in UTF-8, with their quotes; of repeated keys the last counts."""
    wanted: dict[Any, Any] = {}
    for path in paths:
        level = wanted
        for key in path:
            level = level.setdefault(key, {})
    spans: dict[JsonPath, tuple[int, int]] = {}
    characters = text.decode("latin-1")  # one for each byte, so that places in both are the same
    _find(characters, characters.index("{"), wanted, (), spans)
    return spans


def _find(text: str, start: int, wanted: dict[Any, Any], path: JsonPath, spans: dict[JsonPath, tuple[int, int]]) -> int:
    """Where the value at `start` ends; the spans in it of the paths in `wanted`, a tree of keys, are added."""
    opening = text[start]
    if not wanted or opening not in "[{":
        _, end = _JSON.raw_decode(text, start)
        if not wanted:
            spans[path] = start, end
        return end
    place, i = _after(text, start + 1), 0
    while text[place] not in "]}":
        key: str | int = i
        if opening == "{":
            _, end = _JSON.raw_decode(text, place)
            key, place = json.loads(text[place:end].encode("latin-1")), _after(text, end)
        if key in wanted:
            place = _find(text, place, wanted[key], (*path, key), spans)
        else:
            _, place = _JSON.raw_decode(text, place)
        place, i = _after(text, place), i + 1
    return place + 1


def _after(text: str, place: int) -> int:
    """Where the next key or value begins, or the object or list ends."""
    return cast(re.Match[str], _BETWEEN.match(text, place)).end()


def _too_many_values(text: bytes) -> bool:
    """Whether JSON has more than `MAX_VALUES` values or texts; for text that is no JSON, up to where it is."""
    if _commas_and_brackets(text) <= MAX_VALUES:
        return False
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = bare.count(b'"') // 2
    return texts > MAX_VALUES or _commas_and_brackets(b"".join(bare.split(b'"')[::2])) > MAX_VALUES


def _commas_and_brackets(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def _too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (container.values() if isinstance(container, dict) else container for container in level)
        level = [item for item in chain.from_iterable(inner) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
