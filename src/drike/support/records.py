"""Read JSON back as strictly as it was written: into a frozen dataclass, by the annotations of its fields."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

ADDED = {"added": True}  # metadata of a field with a default that records of earlier versions lack
_NUMBERS = {
    int: ((int,), 0, 2**63 - 1),
    float: ((float, int), -1e100, 1e100),
}  # sums and squares are finite


def parse(text: str | bytes) -> Any:
    """Parse JSON in UTF-8. Raises ValueError, also for NaN, lone surrogates and JSON that is nested too deeply."""
    text = text if isinstance(text, str) else text.decode("utf-8")
    try:
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    return value


def encodable(text: str) -> str:
    """A text with a question mark for each lone surrogate, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()


def read(kind: type[Record], value: object) -> Record:
    """Read parsed JSON as a dataclass; only ADDED fields may be missing, or where it is `sparse` those with defaults.

    A field may be str, bool, int (a count), float, Literal, Enum, tuple[T, ...], tuple[T, T], Mapping[str, T], another
    dataclass, one of these or None, or `object` for any JSON whose numbers are finite. Raises ValueError.
    """
    try:
        record: Record = _reader(kind)(value)  # type: ignore[arg-type]  # a type is hashable
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return record


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f"{shortened(value)} is not {wanted}")


_DECODER = json.JSONDecoder(parse_constant=lambda name: _refuse(name, "a number of JSON"))


@cache
def _reader(hint: Any) -> Reader:
    origin, parts = get_origin(hint), get_args(hint)
    reader: Reader
    if hint in (int, float):
        reader = _number_reader(hint)
    elif hint in (str, bool):
        wanted = "text" if hint is str else "true or false"
        reader = lambda value: value if type(value) is hint else _refuse(value, wanted)  # noqa: E731
    elif hint is object:
        reader = _read_any
    elif origin in (Union, UnionType):
        [inner] = [_reader(part) for part in parts if part is not NoneType]
        reader = lambda value: None if value is None else inner(value)  # noqa: E731
    elif origin is Literal:
        reader = lambda value: (  # noqa: E731
            value if value in parts else _refuse(value, " or ".join(map(str, parts)))
        )
    elif origin is tuple:
        reader = _tuple_reader(
            [_reader(part) for part in parts if part is not ...], any_length=parts[-1] is ...
        )
    elif origin is list:
        reader = lambda value: list(_tuple_reader([_reader(parts[0])], any_length=True)(value))  # noqa: E731
    elif origin is Mapping:
        of = _reader(parts[1])
        reader = lambda value: (  # noqa: E731
            _each(value, dict.fromkeys(value, of))
            if type(value) is dict
            else _refuse(value, "an object")
        )
    else:
        reader = _record_reader(hint) if is_dataclass(hint) else hint  # an Enum
    return reader


def _number_reader(kind: type[int | float]) -> Reader:
    kinds, minimum, maximum = _NUMBERS[kind]

    def read_number(value: Any) -> Any:
        if type(value) not in kinds or not minimum <= value <= maximum:  # nan is in no range
            _refuse(
                value, f"a {'whole ' if kind is int else ''}number from {minimum:g} to {maximum:g}"
            )
        return value

    return read_number


def _read_any(value: Any) -> Any:
    if isinstance(value, dict):
        return _each(value, dict.fromkeys(value, _read_any))
    if isinstance(value, list):
        return [_read_any(item) for item in value]
    return value if isinstance(value, str | bool | None) else _reader(float)(value)


def _tuple_reader(readers: list[Reader], *, any_length: bool) -> Reader:
    def read_tuple(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or not (any_length or len(value) == len(readers)):
            _refuse(value, "a list" if any_length else f"a list of {len(readers)}")
        return (
            tuple(map(readers[0], value))
            if any_length
            else tuple(r(v) for r, v in zip(readers, value, strict=True))
        )

    return read_tuple


def _record_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    needed = (field for field in fields(kind) if not field.metadata.get("added"))
    required = {
        field.name
        for field in needed
        if field.default is MISSING or not getattr(kind, "sparse", False)
    }

    def read_record(value: Any) -> Any:
        if type(value) is not dict:
            _refuse(value, "an object")
        missing, unknown = required - value.keys(), value.keys() - readers.keys()
        if missing or unknown:
            raise ValueError(
                f"it lacks {min(missing)}"
                if missing
                else f"it has an unknown field {min(unknown)!r:.40}"
            )
        return kind(**_each(value, readers))

    return read_record


def _each(value: Mapping[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Every value read by the reader of its name, which goes in front of an error."""
    values, name = {}, ""
    try:
        for name, raw in value.items():
            # Outcomes of several editors repeat the same texts.
            values[name] = readers[name](sys.intern(raw) if type(raw) is str else raw)
    except ValueError as problem:
        raise ValueError(f"{name if name.isidentifier() else shortened(name)}: {problem}") from None
    return values
