"""An immutable dictionary of which a copy with a few changes is made in little time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_PART = 16  # changes are merged into a new base when they are more than this part of it


class OverlayDict(Mapping[Key, Value]):
    """A dictionary without None among its values.

    base: shared by copies until much has changed. changes: the values that differ from it; None for a key that is gone.
    """

    def __init__(self, base: Mapping[Key, Value] | None = None, changes: Mapping[Key, Value | None] | None = None):
        self.base: Mapping[Key, Value] = {} if base is None else base
        self.changes: Mapping[Key, Value | None] = {} if changes is None else changes

    def changed(self, changes: Mapping[Key, Value | None]) -> OverlayDict[Key, Value]:
        """A copy with these values; None removes a key."""
        changes = {**self.changes, **changes}
        if len(changes) * _PART <= len(self.base):
            return OverlayDict(self.base, changes)
        merged = {**self.base, **changes}
        for key in [key for key, value in changes.items() if value is None]:
            del merged[key]
        return OverlayDict(merged)  # type: ignore[arg-type]

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        value = self.changes[key] if key in self.changes else self.base.get(key)
        return default if value is None else value

    def values_of(self, keys: Iterable[Key]) -> Iterator[Value]:
        """The values of those of many keys that it has."""
        values = map(self.get if self.changes else self.base.get, keys)
        return (value for value in values if value is not None)

    def __getitem__(self, key: Key) -> Value:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Key]:
        yield from (key for key in self.base if key not in self.changes)
        yield from (key for key, value in self.changes.items() if value is not None)

    def __len__(self) -> int:
        return len(self.base) + sum((value is not None) - (key in self.base) for key, value in self.changes.items())


def regrouped(
    groups: OverlayDict[Key, tuple[Any, ...]],
    gone: Collection[tuple[Any, Iterable[Key]]],
    new: Collection[tuple[Any, Iterable[Key]]],
) -> OverlayDict[Key, tuple[Any, ...]]:
    """Groups by key, without some members and with others, each given with its keys; members are sorted."""
    if not groups and not gone:
        return OverlayDict(_grouped(new))
    leaving, joining = _grouped(gone), _grouped(new)
    changes: dict[Key, tuple[Any, ...] | None] = {}
    for key in {**leaving, **joining}:
        members = {*groups.get(key, ())}.difference(leaving.get(key, ())).union(joining.get(key, ()))
        changes[key] = tuple(sorted(members)) or None
    return groups.changed(changes)


def _grouped(members: Iterable[tuple[Any, Iterable[Key]]]) -> dict[Key, tuple[Any, ...]]:
    """The members of each key, sorted. Most keys have one member, and share its tuple: there are many of them."""
    groups: dict[Key, tuple[Any, ...]] = {}
    further: dict[Key, list[Any]] = defaultdict(list)
    for member, keys in members:
        alone = (member,)
        for key in keys:
            if groups.setdefault(key, alone) is not alone:
                further[key].append(member)
    for key, others in further.items():
        groups[key] = tuple(sorted((*groups[key], *others)))
    return groups
