"""Dictionaries that never change, and of which a copy with a few changes is made in little time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Member = TypeVar("Member", bound=Any)  # sortable

_MERGED_FROM = 16  # changes are merged into a new base when they are more than this part of it


class OverlayDict(Mapping[Key, Value]):
    """A dictionary without None among its values.

    base: shared by copies until much has changed. changes: the values that differ from it; None for
    a key that is gone.

    Decisions look up far more often than edits change: a look-up takes two plain dictionaries at
    most, and a change copies only the changes before it.
    """

    def __init__(
        self,
        base: Mapping[Key, Value] | None = None,
        changes: Mapping[Key, Value | None] | None = None,
    ) -> None:
        self.base: Mapping[Key, Value] = {} if base is None else base
        self.changes: Mapping[Key, Value | None] = {} if changes is None else changes

    def changed(self, changes: Mapping[Key, Value | None]) -> Self:
        """A copy with these values; None removes a key."""
        changes = {**self.changes, **changes}
        if len(changes) * _MERGED_FROM <= len(self.base):
            return type(self)(self.base, changes)

        merged = {**self.base, **changes}
        return type(self)({key: value for key, value in merged.items() if value is not None})

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        value = self.changes[key] if key in self.changes else self.base.get(key)
        return default if value is None else value

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
        more_keys = sum(
            (value is not None) - (key in self.base) for key, value in self.changes.items()
        )
        return len(self.base) + more_keys


class InvertedIndex(OverlayDict[Key, tuple[Member, ...]]):
    """The members that have a key, sorted, by the key."""

    def replace(
        self, *, gone: Mapping[Member, Iterable[Key]], new: Mapping[Member, Iterable[Key]]
    ) -> Self:
        """A copy without some members and with others, each given with its keys."""
        leaving = _members_by_key(gone)
        joining = _members_by_key(new)
        if not self and not gone:
            return type(self)(joining)

        changes: dict[Key, tuple[Member, ...] | None] = {}
        for key in {**leaving, **joining}:
            members = set(self.get(key, ()))
            members.difference_update(leaving.get(key, ()))
            members.update(joining.get(key, ()))
            changes[key] = tuple(sorted(members)) if members else None
        return self.changed(changes)


def _members_by_key(
    keys_by_member: Mapping[Member, Iterable[Key]],
) -> dict[Key, tuple[Member, ...]]:
    """The members that have a key, sorted, by the key.

    Most keys have one member. As there are many of these, they share the tuple of that member.
    """
    members_by_key: dict[Key, tuple[Member, ...]] = {}
    further_members: dict[Key, list[Member]] = defaultdict(list)
    for member, keys in keys_by_member.items():
        alone = (member,)
        for key in keys:
            if members_by_key.setdefault(key, alone) is not alone:
                further_members[key].append(member)

    for key, members in further_members.items():
        members_by_key[key] = tuple(sorted((*members_by_key[key], *members)))
    return members_by_key
