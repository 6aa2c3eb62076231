"""JSON with something wrong in it: another type, a place that is missing, a deep nest."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator

VALUES: list[object] = [
    None, True, False, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "\t\n", "x", "{}", "{} {}", "{", "_X_",
    "\ud800", "a\udc80b", "\x00", "\ufeff", "\u202e\u2066", "\U0001f600", "e\u0301", "a\u2028b\u0085c",
    "x" * 20_000, ". " * 5_000, "\n" * 3_000, [], [[]], [None], {}, {"": ""}, {"\ud800": 1}, [[["a"]]], ["a", 1],
    "../../etc", "<b>[red]", "None",
]  # fmt: skip


# Nests by the text that stands for them until the JSON is written: `json.dumps` would refuse them.
DEEP = {f"@deep {depth}@": "[" * depth + "]" * depth for depth in (3, 90, 2_000)}


def places(value: object) -> Iterator[tuple[object, object]]:
    """Yield every (container, key) inside a JSON value."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else []
    )
    for key in keys:
        yield value, key
        yield from places(value[key])  # type: ignore[index]


def mutate(rows: list[object], rng: random.Random) -> None:
    """Change one place in some rows."""
    container, key = rng.choice(list(places(rows)))
    match rng.randrange(8):
        case 0:
            del container[key]  # type: ignore[attr-defined]
        case 1 | 2:
            container[key] = copy.deepcopy(rng.choice(VALUES))  # type: ignore[index]
        case 3:
            container[key] = rng.choice(list(DEEP))  # type: ignore[index]
        case 4:
            container[key] = [container[key]]  # type: ignore[index]
        case 5:
            other, place = rng.choice(list(places(rows)))
            container[key] = json.loads(json.dumps(other[place]))  # type: ignore[index]
        case 6 if isinstance(container, dict):
            container[rng.choice([*map(str, container), "case_id", "\ud83d", "x" * 300])] = (
                container.pop(key)
            )
        case _:
            rows.append(json.loads(json.dumps(rng.choice(rows))))


def replaced(text: str) -> str:
    """Put the nests into JSON, in the place of the texts that stand for them."""
    for marker, nested in DEEP.items():
        text = text.replace(f'"{marker}"', nested)
    return text
