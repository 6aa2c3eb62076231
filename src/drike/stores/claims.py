"""Claims: which questions the active edits answer, by which contradictions are found.

They follow from the log and are kept in a table of their own, since nobody wants to read a log of
100,000 edits to add one more. A checksum of all claims tells whether that table was changed by
others: the sum of a number for each claim (its mark), which is kept up to date claim by claim.
"""

import hashlib

from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditRecord, Status
from drike.stores.database import Database, insert


def mark_of(key: str | bytes, edit_id: int) -> int:
    """A number of 40 bits for the claim of an edit to a question, whose key may be hashed."""
    digest = hashlib.sha256(key.encode()).digest() if isinstance(key, str) else key
    return int.from_bytes(digest[:5]) ^ edit_id


class Claims:
    """The claims in a database. All methods are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sum_of_marks(self) -> int:
        """The sum of the marks of all claims, computed from the table."""
        if self._database.sum_of_marks_query:
            [[total]] = self._database.execute(self._database.sum_of_marks_query)
            return int(total)
        claims = self._database.execute("SELECT key, edit FROM drike_claims")
        return sum(mark_of(key, edit_id) for key, edit_id in claims)

    def add(self, edit_id: int, record: EditRecord) -> int:
        """Claim the questions of a record, if it is active, for an edit that claims none.

        Returns the sum of the marks of these claims.
        """
        if record.status is not Status.ACTIVE:
            return 0
        keys = self._keys_of(record)
        insert(self._database, "drike_claims", [(key, edit_id) for key in keys])
        return sum(mark_of(key, edit_id) for key in keys)

    def remove(self, edit_id: int) -> int:
        """Give up all claims of an edit; return the sum of their marks."""
        removed = self._database.execute(
            "DELETE FROM drike_claims WHERE edit = %s RETURNING key", [edit_id]
        )
        return sum(mark_of(key, edit_id) for [key] in removed)

    def clear(self) -> None:
        """Remove the claims of all edits."""
        self._database.execute("DELETE FROM drike_claims")

    def claimants(self, record: EditRecord) -> set[int]:
        """The ids of the edits that claim a question which the record answers."""
        keys = self._keys_of(record)
        placeholders = ", ".join(["%s"] * len(keys))
        found = self._database.execute(
            f"SELECT DISTINCT edit FROM drike_claims WHERE key IN ({placeholders})",  # noqa: S608
            keys,
        )
        return {edit_id for [edit_id] in found}

    def _keys_of(self, record: EditRecord) -> list[str | bytes]:
        return [self._database.key_of(key) for key in conflict_keys(record)]
