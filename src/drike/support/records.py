"""Read JSON as strictly as it was written: into a frozen dataclass, by its annotations."""

import json
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

# The metadata of a field with a default that records of earlier versions lack.
ADDED = {"added": True}

_MAX_INT = 2**63 - 1
_MAX_FLOAT = 1e100  # so that sums and squares are finite


def parse(text: str | bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises ValueError, also for NaN, lone surrogates and JSON that is nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = _DECODER.decode(text)
        if "\\u" in text:  # only so can JSON spell a lone surrogate
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    except ValueError as problem:
        if "integer string" in str(problem):  # Python's own words name a setting of Python
            raise ValueError("it has a number of too many digits") from None
        raise
    return value


def encodable(text: str) -> str:
    """A text with a question mark for each lone surrogate, which JSON may hold and UTF-8 not."""
    return text.encode("utf-8", "replace").decode()


def read(kind: type[Record], value: object) -> Record:
    """Read parsed JSON as a dataclass.

    Only fields that are `ADDED` may be missing, or, in a class with an attribute `sparse`, those
    with defaults. A field may be str, bool, int (a count), float, Literal, Enum, tuple[T, ...],
    tuple[T, T], Mapping[str, T], another dataclass, one of these or None, or `object` for any JSON
    whose numbers are finite. Raises ValueError, which names the field.
    """
    try:
        record: Record = _reader(kind)(value)  # type: ignore[arg-type]  # a type is hashable
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return record


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f"{reprlib.repr(value)} is not {wanted}")


def _refuse_constant(name: str) -> NoReturn:
    _refuse(name, "a number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


@cache
def _reader(hint: Any) -> Reader:
    """What reads a value of a type, as an annotation names it."""
    if hint in _PLAIN_READERS:
        return _PLAIN_READERS[hint]
    origin = get_origin(hint)
    parts = get_args(hint)
    reader: Reader
    if origin in (Union, UnionType):
        [inner] = [_reader(part) for part in parts if part is not NoneType]
        reader = _optional_reader(inner)
    elif origin is Literal:
        reader = _literal_reader(parts)
    elif origin is tuple and parts[-1] is ...:
        reader = _tuple_reader(_reader(parts[0]))
    elif origin is tuple:
        reader = _fixed_tuple_reader([_reader(part) for part in parts])
    elif origin is list:
        reader = _list_reader(_reader(parts[0]))
    elif origin is Mapping:
        reader = _mapping_reader(_reader(parts[1]))
    elif is_dataclass(hint):
        reader = _record_reader(hint)
    else:
        reader = hint  # an Enum, which refuses other values itself
    return reader


def _exact_reader(kind: type, wanted: str) -> Reader:
    def read_exactly(value: Any) -> Any:
        return value if type(value) is kind else _refuse(value, wanted)

    return read_exactly


def _number_reader(kinds: tuple[type, ...], minimum: float, maximum: float, wanted: str) -> Reader:
    def read_number(value: Any) -> Any:
        if type(value) not in kinds or not minimum <= value <= maximum:  # nan is in no range
            _refuse(value, f"{wanted} from {minimum:g} to {maximum:g}")
        return value

    return read_number


def _optional_reader(inner: Reader) -> Reader:
    def read_optional(value: Any) -> Any:
        return None if value is None else inner(value)

    return read_optional


def _literal_reader(literals: tuple[Any, ...]) -> Reader:
    wanted = " or ".join(map(str, literals))

    def read_literal(value: Any) -> Any:
        return value if value in literals else _refuse(value, wanted)

    return read_literal


def _tuple_reader(item_reader: Reader) -> Reader:
    def read_tuple(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            _refuse(value, "a list")
        return tuple(map(item_reader, value))

    return read_tuple


def _fixed_tuple_reader(readers: list[Reader]) -> Reader:
    def read_tuple(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(readers):
            _refuse(value, f"a list of {len(readers)}")
        return tuple(reader(item) for reader, item in zip(readers, value, strict=True))

    return read_tuple


def _list_reader(item_reader: Reader) -> Reader:
    read_tuple = _tuple_reader(item_reader)

    def read_list(value: Any) -> list[Any]:
        return list(read_tuple(value))

    return read_list


def _mapping_reader(value_reader: Reader) -> Reader:
    def read_mapping(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            _refuse(value, "an object")
        return _read_each(value, dict.fromkeys(value, value_reader))

    return read_mapping


def _read_any(value: Any) -> Any:
    if isinstance(value, dict):
        return _read_each(value, dict.fromkeys(value, _read_any))
    if isinstance(value, list):
        return [_read_any(item) for item in value]
    return value if isinstance(value, str | bool | None) else _reader(float)(value)


_PLAIN_READERS: Mapping[object, Reader] = {
    int: _number_reader((int,), 0, _MAX_INT, "a whole number"),
    float: _number_reader((float, int), -_MAX_FLOAT, _MAX_FLOAT, "a number"),
    str: _exact_reader(str, "text"),
    bool: _exact_reader(bool, "true or false"),
    object: _read_any,
}


def _record_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    is_sparse = getattr(kind, "sparse", False)
    required = set()
    for field in fields(kind):
        may_be_left_out = is_sparse and field.default is not MISSING
        if not may_be_left_out and not field.metadata.get("added"):
            required.add(field.name)

    def read_record(value: Any) -> Any:
        if type(value) is not dict:
            _refuse(value, "an object")
        missing = required - value.keys()
        if missing:
            raise ValueError(f"it lacks {min(missing)}")
        unknown = value.keys() - readers.keys()
        if unknown:
            raise ValueError(f"it has an unknown field {min(unknown)!r:.40}")
        return kind(**_read_each(value, readers))

    return read_record


def _read_each(value: Mapping[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Every value read by the reader of its name, which goes in front of an error."""
    values = {}
    name = ""
    try:
        for name, raw in value.items():
            # Outcomes of several editors repeat the same texts, each of which is then kept once.
            values[name] = readers[name](sys.intern(raw) if type(raw) is str else raw)
    except ValueError as problem:
        field = name if name.isidentifier() else reprlib.repr(name)
        raise ValueError(f"{field}: {problem}") from None
    return values
