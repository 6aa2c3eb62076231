"""Records of edits as JSON, in files, databases and the gateway's answers."""

import json
from collections.abc import Mapping
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from drike.edits.record import MADE, REQUIRED, EditRecord
from drike.support.records import parse, read

# What JSON calls fields that have another name in Python, as it was written before they had it.
_JSON_NAMES = {"paraphrases": "wordings"}
_FIELD_NAMES = {json_name: name for name, json_name in _JSON_NAMES.items()}
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def json_name(field: str) -> str:
    """What JSON calls a field of a record."""
    return _JSON_NAMES.get(field, field)


def to_values(record: EditRecord) -> dict[str, object]:
    """The fields of a record, as JSON names them."""
    return {json_name(name): value for name, value in vars(record).items()}


def to_json(record: EditRecord) -> str:
    """The fields of a record that differ from their defaults, as a JSON object."""
    changed = {
        json_name(name): value
        for name, value in vars(record).items()
        if value != getattr(EditRecord, name, MISSING)
    }
    return _ENCODE(changed)


def record_of(values: Mapping[str, object]) -> EditRecord:
    """The record with the fields of a JSON object, and defaults for others. Raises ValueError."""
    return read(EditRecord, {_FIELD_NAMES.get(name, name): value for name, value in values.items()})


@lru_cache(maxsize=1 << 6)  # what was just stored is read again by those who follow the log
def from_json(text: str) -> EditRecord:
    """The record that `to_json` wrote. Raises ValueError."""
    return record_of(parse(text))


def fields_of(values: object) -> dict[str, Any]:
    """Some fields of a record, as a JSON object has them, for `replace`.

    Raises ValueError for no fields, for unknown ones, and for those that cannot be changed so.
    """
    if not isinstance(values, dict) or not values:
        raise ValueError("changes are missing: give the fields with their new values")
    fixed = values.keys() & {"status", "approved_as", *MADE}
    if fixed:
        raise ValueError(f"{min(fixed)} is no field that can be changed so")

    required_fields = dict.fromkeys(REQUIRED, "x")
    record = record_of({**required_fields, **values})
    names = [_FIELD_NAMES.get(name, name) for name in map(str, values)]
    return {name: getattr(record, name) for name in names}
