"""Which active edits of a store may say in other words what a new one says, for `conflicts` to compare.

That is loaded once there are some: most new edits share no name with another, and are stored
without encoder and gate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING

from drike.answers.matching import normalise
from drike.edits.conflicts import conflict_keys, overlap
from drike.edits.record import EditRecord, Status, StoreError
from drike.errors import EncoderError
from drike.stores.edit_store import EditStore
from drike.text.words import words

if TYPE_CHECKING:
    from drike.encoders.base import TextEncoder


class AlikeEdits:
    """The active edits of a store that say in other words what a record says, for `EditStore.alike`.

    Only edits that share a name with it are compared; none that claim the same words, as the store
    knows of these, and none of which either has a wording of the other as a negative exemplar.
    encoder: None where words alone decide.
    """

    def __init__(self, encoder: Callable[[], TextEncoder | None]) -> None:
        self._encoder, self._number, self._head = encoder, 0, ""
        self._records: dict[int, EditRecord] = {}
        self._named: dict[str, set[int]] = defaultdict(set)

    def __call__(self, store: EditStore, record: EditRecord) -> Collection[int]:
        """Their ids, inside a transaction of the store. Raises StoreError."""
        self._read(store)
        ids = sorted({id for name in record.names for id in self._named.get(_key(name), ())})
        others = {id: self._records[id] for id in ids if _comparable(record, self._records[id])}
        if not others or (encoder := self._encoder()) is None:
            return ()
        from drike.live.contradictions import same_relation

        rule = same_relation(encoder)
        return () if rule is None else rule.alike(record, others)

    def _read(self, store: EditStore) -> None:
        changes = store.changes(max(self._number - 1, 0))
        if self._number and (
            not changes or changes[0].checksum != self._head
        ):  # another history, or a rolled back one
            self._number, self._records = 0, {}
            self._named.clear()
            changes = store.changes()
        for change in changes[1 if self._number else 0 :]:
            if change.record.replaces(known := self._records.get(change.id)):
                for name in known.names if known else ():
                    self._named[_key(name)].discard(change.id)
                self._records[change.id] = change.record
                for name in change.record.names:
                    self._named[_key(name)].add(change.id)
        if changes:
            self._number, self._head = changes[-1].number, changes[-1].checksum


def watch_meaning(store: EditStore) -> EditStore:
    """Let a store refuse edits that contradict others in different words, if its gate's encoder is installed."""

    @cache
    def encoder() -> TextEncoder | None:
        from drike.live.store_gate import encoder_of, open_gate

        try:
            return encoder_of(open_gate(store))
        except (EncoderError, StoreError):  # of a gate that is told about elsewhere
            return None

    store.alike = AlikeEdits(encoder)
    return store


def _comparable(record: EditRecord, other: EditRecord) -> bool:
    if other.status is not Status.ACTIVE or not overlap(record, other):
        return False
    return conflict_keys(record).isdisjoint(conflict_keys(other)) and all(
        {*map(normalise, of.negatives)}.isdisjoint(map(normalise, (one.query, *one.paraphrases)))
        for of, one in ((record, other), (other, record))
    )


def _key(name: str) -> str:
    return " ".join(words(name)) or name
