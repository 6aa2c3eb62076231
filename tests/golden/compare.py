"""Compare what drike does with golden files: what it did when they were written.

A golden is a JSON file in `data/`, with the name that a test gives it. Where behaviour changes on purpose, write
the files again, and look at what has changed in them before it is committed:

    UPDATE_GOLDENS=1 python -m pytest tests/golden && git diff tests/golden/data

The folders `checkpoints`, `runs` and `stores` there are different: version 0.1.0 wrote them, they are read as any
user's old files are, and they are never written again. A new format gets new files beside them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
UPDATE = "UPDATE_GOLDENS"
_NUMBER = re.compile(r"\d*\.\d+")


def matches_golden(name: str, found: object) -> None:
    """Fail unless a value is that of the golden `name`; with $UPDATE_GOLDENS write it instead."""
    path = DATA / f"{name}.json"
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get(UPDATE):
        path.write_text(text, "utf-8")
    assert json.loads(text) == golden(name), _told(name, json.loads(text), 0)


def near_golden(name: str, found: object, within: float) -> None:
    """The same for a value in whose texts numbers with a point may be off by so much, as another processor's are."""
    if os.environ.get(UPDATE):
        matches_golden(name, found)
    assert not [*_off(json.loads(json.dumps(found)), golden(name), within)], _told(
        name, found, within
    )


def _told(name: str, found: object, within: float) -> str:
    """Where a value is not that of a golden."""
    places = [f"{one:.600}" for one in _off(json.loads(json.dumps(found)), golden(name), within)]
    return "\n".join((f"{len(places)} differences from {name}.json", *places[:20]))


def _off(found: object, old: object, within: float, at: str = "") -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(found, Mapping) and old.keys() == found.keys():
        for key in old:
            yield from _off(found[key], old[key], within, f"{at}/{key}")
    elif isinstance(old, list) and isinstance(found, list) and len(old) == len(found):
        for i, (one, other) in enumerate(zip(found, old, strict=True)):
            yield from _off(one, other, within, f"{at}/{i}")
    elif (
        isinstance(old, str)
        and isinstance(found, str)
        and _NUMBER.sub("", found) == _NUMBER.sub("", old)
    ):
        numbers = zip(_NUMBER.findall(found), _NUMBER.findall(old), strict=True)
        if any(abs(float(a) - float(b)) > within for a, b in numbers):
            yield f"{at}: {found} was {old}"
    elif found != old:
        yield f"{at}: {found!r} was {old!r}"


def golden(name: str) -> Any:
    """What a golden file holds."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def digest(value: object) -> str:
    """SHA-256 of a text, or of a value as JSON."""
    text = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()


def rounded(value: object, digits: int = 6) -> object:
    """A JSON value whose numbers have at most so many digits behind the point."""
    if isinstance(value, float):
        return round(value, digits) + 0.0  # without the sign of -0.0
    if isinstance(value, Mapping):
        return {key: rounded(one, digits) for key, one in value.items()}
    return [rounded(one, digits) for one in value] if isinstance(value, list | tuple) else value


def differences(found: object, old: object, at: str = "") -> list[str]:
    """Where a JSON value lacks what an old one holds, or has another value; fields may have been added since.

    Numbers with a point may differ in the fifth digit behind it.
    """
    if isinstance(old, Mapping) and isinstance(found, Mapping):
        lost = [f"{at}/{key} is missing" for key in old if key not in found]
        return lost + [
            one
            for key in old
            if key in found
            for one in differences(found[key], old[key], f"{at}/{key}")
        ]
    if isinstance(old, list) and isinstance(found, list) and len(old) == len(found):
        pairs = zip(found, old, strict=True)
        return [one for i, (a, b) in enumerate(pairs) for one in differences(a, b, f"{at}/{i}")]
    if isinstance(old, float) and isinstance(found, float):
        return (
            []
            if math.isclose(found, old, rel_tol=1e-5, abs_tol=1e-5)
            else [f"{at}: {found} was {old}"]
        )
    return [] if found == old else [f"{at}: {found!r} was {old!r}"]


def schema(value: object) -> object:
    """The keys of a JSON value, with a type's name for each other value; of a list that of its first item."""
    if isinstance(value, Mapping):
        return {key: schema(one) for key, one in value.items()}
    if isinstance(value, list):
        return [schema(value[0])] if value else []
    return "number" if isinstance(value, float) else type(value).__name__


def without_chance(text: str) -> str:
    """A text without times, ports, and the random numbers of blocks and request ids."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d{4})", "TIME", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
    text = re.sub(r'(corrected-facts id=\\?")[0-9a-f]{8}', r"\1RANDOM", text)
    return re.sub(r"\b(?=[a-z]*\d)[0-9a-f]{16,32}\b", "RANDOM", text)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
