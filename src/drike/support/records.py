"""Read JSON back as strictly as it was written: into a frozen dataclass, by the annotations of its fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

ADDED = {"added": True}  # metadata of a field with a default that records of earlier versions lack

_MOST = {int: 2**63 - 1, float: 1e100}  # sums and squares of such numbers are finite


def parse(text: str | bytes) -> Any:
    """Parse JSON in UTF-8. Raises ValueError, also for NaN, lone surrogates and JSON that is nested too deeply."""
    text = text if isinstance(text, str) else text.decode("utf-8")
    try:
        found = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def read(kind: type[Record], value: object) -> Record:
    """Read parsed JSON as a dataclass with exactly its fields; only those that are ADDED may be missing.

    Raises ValueError.
    A field may be str, bool, int (a count), float, Literal, Enum, tuple[T, ...], tuple[T, T], Mapping[str, T], another
    dataclass, one of these or None, or `object` for any JSON whose numbers are finite.
    """
    try:
        found: Record = _reader(kind)(value)  # type: ignore[arg-type]  # a type is hashable
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f"{shortened(value)} is not {wanted}")


_DECODER = json.JSONDecoder(parse_constant=lambda name: _refuse(name, "a number of JSON"))


@cache
def _reader(hint: Any) -> Reader:
    """The function that reads values of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    found: Reader
    if hint in (int, float):
        found = _number_reader(hint)
    elif hint in (str, bool):
        wanted = "text" if hint is str else "true or false"
        found = lambda value: value if type(value) is hint else _refuse(value, wanted)  # noqa: E731
    elif hint is object:
        found = _read_any
    elif origin in (Union, UnionType):
        [inner] = [_reader(part) for part in parts if part is not NoneType]
        found = lambda value: None if value is None else inner(value)  # noqa: E731
    elif origin is Literal:
        found = lambda value: value if value in parts else _refuse(value, " or ".join(map(str, parts)))  # noqa: E731
    elif origin is tuple:
        found = _tuple_reader([_reader(part) for part in parts if part is not ...], any_length=parts[-1] is ...)
    elif origin is list:
        found = lambda value: list(_tuple_reader([_reader(parts[0])], any_length=True)(value))  # noqa: E731
    elif origin is Mapping:
        found = _mapping_reader(_reader(parts[1]))
    else:
        found = _record_reader(hint) if is_dataclass(hint) else hint  # an Enum
    return found


def _number_reader(kind: type) -> Reader:
    kinds, most = {int: (int,), float: (float, int)}[kind], _MOST[kind]
    least = 0 if kind is int else -most

    def read_number(value: Any) -> Any:
        if type(value) not in kinds or not least <= value <= most:  # nan is in no range
            _refuse(value, f"a {'whole ' if kind is int else ''}number from {least:g} to {most:g}")
        return value

    return read_number


def _read_any(value: Any) -> Any:
    if isinstance(value, dict):
        return _each(value, dict.fromkeys(value, (frozenset(), _read_any)))
    if isinstance(value, list):
        return [_read_any(one) for one in value]
    return value if isinstance(value, str | bool | None) else _reader(float)(value)


def _tuple_reader(readers: list[Reader], *, any_length: bool) -> Reader:
    def read_tuple(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or not (any_length or len(value) == len(readers)):
            _refuse(value, "a list" if any_length else f"a list of {len(readers)}")
        return tuple(map(readers[0], value)) if any_length else tuple(r(v) for r, v in zip(readers, value, strict=True))

    return read_tuple


def _mapping_reader(read_one: Reader) -> Reader:
    return lambda value: (
        _each(value, dict.fromkeys(value, (frozenset(), read_one)))
        if type(value) is dict
        else _refuse(value, "an object")
    )


def _record_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    required = {field.name for field in fields(kind) if not field.metadata.get("added")}
    readers = {field.name: (_as_they_are(hints[field.name]), _reader(hints[field.name])) for field in fields(kind)}

    def read_record(value: Any) -> Any:
        if type(value) is not dict:
            _refuse(value, "an object")
        missing, unknown = required - value.keys(), value.keys() - readers.keys()
        if missing or unknown:
            raise ValueError(f"it lacks {min(missing)}" if missing else f"it has an unknown field {min(unknown)!r:.40}")
        return kind(**_each(value, readers))

    return read_record


def _as_they_are(hint: Any) -> frozenset[type]:
    """The types of values that need no reader, which would take most of the time of reading outcomes."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return frozenset(part for part in parts if part in (str, bool, NoneType))


def _each(value: Mapping[str, Any], readers: Mapping[str, tuple[frozenset[type], Reader]]) -> dict[str, Any]:
    """Every value by the reader of its name, which is put before the reader's complaint."""
    found, name = {}, ""
    try:
        for name, given in value.items():
            as_they_are, read_one = readers[name]
            one = (
                sys.intern(given) if type(given) is str else given
            )  # outcomes of several editors repeat the same texts
            found[name] = one if type(one) in as_they_are else read_one(one)
    except ValueError as problem:
        raise ValueError(f"{name if name.isidentifier() else shortened(name)}: {problem}") from None
    return found
