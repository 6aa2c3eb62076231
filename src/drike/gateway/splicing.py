"""Replaces single texts in JSON, of which all other bytes stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import getitem
from typing import Any

from drike.conversations.turns import JsonPath

# A text in JSON: the place of its first quote, and the place behind its last one, in bytes.
Span = tuple[int, int]

_JSON = json.JSONDecoder()
_BETWEEN_VALUES = re.compile(r"[ \t\r\n,:]*")


def spliced(text: bytes, values: Mapping[str, Any], new_texts: Mapping[JsonPath, str]) -> bytes:
    """JSON in UTF-8 with other texts at some paths. values: what is in it."""
    parts = []
    copied_to = 0
    spans = text_spans(text, new_texts)
    for path, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        old: Any = reduce(getitem, path, values)  # type: ignore[arg-type]
        new = new_texts[path]
        after_quote = begin + 1
        before_quote = end - 1
        if new.endswith(old):  # a text that is only added to keeps its own bytes
            replaced_from = replaced_to = after_quote
            new = new[: len(new) - len(old)]
        elif new.startswith(old):
            replaced_from = replaced_to = before_quote
            new = new[len(old) :]
        else:
            replaced_from, replaced_to = after_quote, before_quote

        parts.append(text[copied_to:replaced_from])
        parts.append(json.dumps(new)[1:-1].encode())
        copied_to = replaced_to
    parts.append(text[copied_to:])
    return b"".join(parts)


def text_spans(text: bytes, paths: Iterable[JsonPath]) -> dict[JsonPath, Span]:
    """Where the texts at these paths stand in JSON in UTF-8, with their quotes.

    Of repeated keys the last counts.
    """
    wanted: dict[Any, Any] = {}  # a tree of keys, of which each leaf is {}
    for path in paths:
        level = wanted
        for key in path:
            level = level.setdefault(key, {})
    spans: dict[JsonPath, Span] = {}
    characters = text.decode("latin-1")  # one for each byte, so that places in both are the same
    _find(characters, characters.index("{"), wanted, (), spans)
    return spans


def _find(
    text: str,
    start: int,
    wanted: Mapping[Any, Any],
    path: JsonPath,
    spans: dict[JsonPath, Span],
) -> int:
    """Where the value at `start` ends.

    The spans in it of the paths in `wanted`, a tree of keys, are added.
    """
    opening = text[start]
    if not wanted or opening not in "[{":
        end = _end_of_value(text, start)
        if not wanted:
            spans[path] = start, end
        return end

    place = _next_place(text, start + 1)
    i = 0
    while text[place] not in "]}":
        key: str | int = i
        if opening == "{":
            end = _end_of_value(text, place)
            key = json.loads(text[place:end].encode("latin-1"))
            place = _next_place(text, end)
        if key in wanted:
            end = _find(text, place, wanted[key], (*path, key), spans)
        else:
            end = _end_of_value(text, place)
        place = _next_place(text, end)
        i += 1
    return place + 1


def _end_of_value(text: str, start: int) -> int:
    _, end = _JSON.raw_decode(text, start)
    return end


def _next_place(text: str, place: int) -> int:
    """Where the next key or value begins, or the object or list ends."""
    return _BETWEEN_VALUES.match(text, place).end()  # type: ignore[union-attr]  # it matches nothing, too
