"""Which active edits of a store may say in other words what a new one says.

`contradictions` compares them. It is loaded only where there are some: most new edits share no name
with another, and are stored without encoder and gate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING

from drike.answers.matching import normalise
from drike.edits.conflicts import conflict_keys, overlap, share_name, share_wording
from drike.edits.record import EditRecord, Status, StoreError
from drike.errors import EncoderError
from drike.stores.edit_store import EditStore
from drike.text.bare_names import bare_name

if TYPE_CHECKING:
    from drike.encoders.base import TextEncoder


class AlikeEdits:
    """The active edits that say in other words what a record says, for `EditStore.alike`.

    Only edits that share a name with it are compared; none that claim the same words, as the store
    knows of these, and none of which either has a wording of the other as a negative exemplar.
    encoder: None where words alone decide.
    """

    def __init__(self, encoder: Callable[[], TextEncoder | None]) -> None:
        self._encoder = encoder
        self._records: dict[int, EditRecord] = {}
        self._ids_by_name: dict[str, set[int]] = defaultdict(set)
        # Up to which change of the log these are known.
        self._last_number = 0
        self._last_checksum = ""

    def __call__(self, store: EditStore, record: EditRecord) -> Collection[int]:
        """Their ids, inside a transaction of the store. Raises StoreError."""
        self._read_changes(store)
        sharing_a_name: set[int] = set()
        for name in record.names:
            sharing_a_name |= self._ids_by_name.get(bare_name(name).key, set())
        others = {
            edit_id: self._records[edit_id]
            for edit_id in sorted(sharing_a_name)
            if _comparable(record, self._records[edit_id])
        }
        if not others:
            return ()
        # The same words under two names of the subject need no encoder.
        alike = [id for id, other in others.items() if share_wording(record, other)]
        encoder = self._encoder()
        if encoder is None:
            return alike
        from drike.live.contradictions import same_relation

        rule = same_relation(encoder)
        return alike if rule is None else {*alike, *rule.alike(record, others)}

    def _read_changes(self, store: EditStore) -> None:
        """Take in what the log has had since it was last read."""
        # The last known change is read again: where it is another now, all must be read anew.
        changes = store.changes(max(self._last_number - 1, 0))
        new = changes[1:] if self._last_number else changes
        is_another_history = not changes or changes[0].checksum != self._last_checksum
        if self._last_number and is_another_history:
            self._last_number = 0
            self._records = {}
            self._ids_by_name.clear()
            changes = new = store.changes()

        for change in new:
            before = self._records.get(change.id)
            if not change.record.replaces(before):
                continue
            if before is not None:
                for name in before.names:
                    self._ids_by_name[bare_name(name).key].discard(change.id)
            self._records[change.id] = change.record
            for name in change.record.names:
                self._ids_by_name[bare_name(name).key].add(change.id)
        if changes:
            self._last_number = changes[-1].number
            self._last_checksum = changes[-1].checksum


def watch_meaning(store: EditStore) -> EditStore:
    """Let a store refuse edits that contradict others in different words.

    Words alone decide if the encoder of the store's gate is not installed.
    """

    @cache
    def encoder() -> TextEncoder | None:
        from drike.live.store_gate import encoder_of, open_gate

        try:
            return encoder_of(open_gate(store))
        except (EncoderError, StoreError):  # whoever opens the gate is told why
            return None

    store.alike = AlikeEdits(encoder)
    return store


def _comparable(record: EditRecord, other: EditRecord) -> bool:
    """Whether another edit may say the same as a record in words that the store does not know."""
    if other.status is not Status.ACTIVE or not overlap(record, other):
        return False
    if conflict_keys(record) & conflict_keys(other) or not share_name(record, other):
        return False
    return not _excludes(record, other) and not _excludes(other, record)


def _excludes(record: EditRecord, other: EditRecord) -> bool:
    """Whether a record has a wording of another one as a negative exemplar."""
    negatives = {normalise(text) for text in record.negatives}
    return not negatives.isdisjoint(map(normalise, (other.query, *other.paraphrases)))
