"""JSON is read back as strictly as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

import pytest

from drike.support.records import parse, read


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Outer:
    count: int
    number: float
    wanted: bool
    text: str | None
    colour: Colour
    form: Literal["dot", "cross"]
    several: tuple[float, ...]
    pair: tuple[str, int]
    inner: Inner | None
    by_name: Mapping[str, Inner]
    anything: object


RIGHT = Outer(
    3,
    0.5,
    True,
    None,
    Colour.RED,
    "dot",
    (1.0, 2),
    ("a", 1),
    Inner("x"),
    {"y": Inner("z")},
    {"a": [1, None]},
)
WRONG: dict[str, tuple[Any, ...]] = {
    "count": (None, True, -1, 0.5, 1.0, "3", 2**63, 10**400, []),
    "number": (None, True, "x", float("nan"), float("inf"), -float("inf"), 10**400, 1e101),
    "wanted": (None, 1, 0, "true"),
    "text": (1, True, [], {}),
    "colour": (None, "blue", 1, []),
    "form": (None, "maze", 1, [], {}),
    "several": (None, "12", {}, [True], [None], [float("nan")], 1),
    "pair": (None, ["a"], ["a", 1, 1], ["a", "b"], "ab"),
    "inner": ({}, [], "x", {"name": 1}, {"name": "x", "other": 1}),
    "by_name": (None, [], {"y": None}, {"y": {}}),
    "anything": (float("nan"), {"a": [float("inf")]}, [10**400]),
}


def test_a_record_is_read_as_it_was_written() -> None:
    written = {**asdict(RIGHT), "several": [1.0, 2], "pair": ["a", 1]}
    assert read(Outer, written) == RIGHT
    for name in written:
        with pytest.raises(ValueError, match=f"it lacks {name}"):
            read(Outer, {key: value for key, value in written.items() if key != name})
    with pytest.raises(ValueError, match="it has an unknown field 'more'"):
        read(Outer, {**written, "more": 1})
    for value in (None, [], "x", 1):
        with pytest.raises(ValueError, match="is not an object"):
            read(Outer, value)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_value_of_another_type_or_range_is_refused_by_its_name(name: str, value: object) -> None:
    written = {**asdict(RIGHT), "several": [1.0, 2], "pair": ["a", 1]}
    with pytest.raises(ValueError, match=f"^{name}: "):
        read(Outer, {**written, name: value})


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[Infinity]", "[" * 100_000, '"\\ud800"', b"\xff", '{"a": 1} x', "1" * 5_000],
)
def test_text_that_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_deeply_nested_values_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        read(object, deep)
