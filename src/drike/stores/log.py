"""The log of a store: every version of every edit, in a table that only grows.

The checksum of a change covers that of the one before it, and a setting names the last one, so
that a log that was cut, rewritten or added to by another program is noticed.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from drike.edits.record import EditRecord, EditVersion
from drike.edits.record_json import from_json, to_json
from drike.stores.authorship import StatedFact
from drike.stores.claims import Claims
from drike.stores.database import Database, insert
from drike.stores.failures import damaged
from drike.stores.settings import StoreSettings
from drike.stores.snapshots import folded

# Settings: the number and checksum of the last change, and the sum of the marks of all claims. The
# name of the latter says what claims are compared by: a new name lets old stores make them again.
HEAD = "head"
CLAIMS = "claims by initials"

# number, edit, version, created_at, the record as JSON, checksum
LogRow = tuple[int, int, int, str, str, str]

_END = """SELECT (SELECT value FROM drike_settings WHERE name = 'head'),
    (SELECT number || ' ' || checksum FROM drike_changes ORDER BY number DESC LIMIT 1),
    (SELECT max(edit) FROM drike_changes)"""
_CHANGES = """SELECT c.number, c.edit, c.version, c.created_at, c.entry, c.checksum, b.checksum
    FROM drike_changes c LEFT JOIN drike_changes b ON b.number = c.number - 1 WHERE c.number > %s"""
_EDITS_WITH = "SELECT DISTINCT edit FROM drike_changes WHERE lower(entry) LIKE %s"
_ENCODE = json.JSONEncoder(default=str).encode
_CHAINED_LENGTH = 32  # characters of a checksum that covers the one before it
_UNCHAINED_LENGTH = 16  # characters of checksums that earlier versions wrote, which do not


class LogEnd(NamedTuple):
    """Where a log ends: the highest numbers of a change and of an edit, and the last checksum.

    sum_of_marks: of all claims.
    """

    number: int = 0
    edit_id: int = 0
    checksum: str = ""
    sum_of_marks: int = 0


class EditLog:
    """The log of edits in a database, and the claims that follow from it.

    Every method raises StoreError, also for a log that is damaged.
    """

    def __init__(self, database: Database) -> None:
        self.claims = Claims(database)
        self._database = database
        self._settings = StoreSettings(database)
        self._in_transaction = False
        self._began = LogEnd()  # where the log ended when the transaction began
        self._end = LogEnd()  # where it ends in the transaction
        self._claims_verified = False  # whether the table of claims is known to be right
        self._checked_generation = -1  # of the database, whose end was checked

    @property
    def next_edit_id(self) -> int:
        """The id of the next new edit, inside a transaction."""
        return self._end.edit_id + 1

    @contextmanager
    def use(self) -> Iterator[None]:
        """`Database.use`, after a look at the log if another one has taken its place."""
        with self._database.use():
            if self._checked_generation != self._database.generation:
                self._read_end()
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """`Database.transaction`, at the beginning of which the end of the log is checked."""
        with self._database.transaction():
            if self._in_transaction:
                yield
                return
            self._begin()
            self._in_transaction = True
            try:
                yield
                self._save_end()
            finally:
                self._in_transaction = False

    def append(self, edit_id: int, version: int, at: str, record: EditRecord) -> EditVersion:
        """Add a version of an edit, inside a transaction."""
        content = (self._end.number + 1, edit_id, version, at, to_json(record))
        checksum = _checksum(content, self._end.checksum)
        self.append_row((*content, checksum), record)
        return EditVersion(*content[:4], record, checksum)

    def append_row(self, row: LogRow, record: EditRecord) -> None:
        """Add a row as a log has it, inside a transaction. record: the one that the row holds.

        The edit's claims become those of the record, if it decides.
        """
        number, edit_id, version, _, _, checksum = row
        insert(self._database, "drike_changes", [row])
        sum_of_marks = self._end.sum_of_marks
        if record.status.decides:
            if version > 1:
                sum_of_marks -= self.claims.remove(edit_id)
            sum_of_marks += self.claims.add(edit_id, record)
        self._end = LogEnd(number, max(self._end.edit_id, edit_id), checksum, sum_of_marks)

    def rows(self) -> list[LogRow]:
        """All changes as they are kept, inside a transaction. Their checksums are not verified."""
        columns = "number, edit, version, created_at, entry, checksum"
        query = f"SELECT {columns} FROM drike_changes ORDER BY number"  # noqa: S608 - no values
        return list(self._database.execute(query))

    def changes(self, after: int = 0, edit_id: int | None = None) -> list[EditVersion]:
        """The changes after the first `after` ones, of all edits or of one."""
        query = f"{_CHANGES} ORDER BY c.number"
        values = [after]
        if edit_id is not None:
            query = f"{_CHANGES} AND c.edit = %s ORDER BY c.number"
            values = [after, edit_id]
        is_whole_log = after == 0 and edit_id is None

        with self.use():
            # A log whose last changes were removed is not noticed by the checksums of the others.
            fewest = 0
            if is_whole_log and not self._database.in_transaction:
                fewest = self._read_end().number
            rows = self._database.execute(query, values).fetchall()

        if len(rows) < fewest:
            raise damaged(self._database.name, "changes are missing")
        return read_rows(self._database.name, rows, after, edit_id)

    def edits_with(self, facts: Iterable[StatedFact]) -> list[int]:
        """The edits of which some version may state one of these facts, and few others."""
        wordings_by_target = dict[str, list[str]]()
        for fact in facts:
            wordings = wordings_by_target.setdefault(_pattern(fact.target), [])
            wordings.append(_pattern(fact.wording))

        found = set[int]()
        with self.use():
            for target, wordings in wordings_by_target.items():
                any_wording = " OR ".join(["lower(entry) LIKE %s"] * len(wordings))
                query = f"{_EDITS_WITH} AND ({any_wording})"
                rows = self._database.execute(query, [target, *wordings])
                found.update(edit_id for [edit_id] in rows)
        return sorted(found)

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until there are more than `after` changes, for at most `timeout` seconds."""
        query = "SELECT 1 FROM drike_changes WHERE number > %s LIMIT 1"
        return self._database.wait(query, [after], timeout)

    def _begin(self) -> None:
        """Find out where the log ends, and make the claims again if they do not belong to it."""
        end = self._read_end()
        saved = self._settings.get(CLAIMS) or ""
        if not (self._claims_verified and saved):
            # Claims that are made again in this transaction are verified in the next one, as this
            # one may fail.
            self._claims_verified = saved == str(self.claims.sum_of_marks())
            if not self._claims_verified:
                saved = str(self._remake_claims())
                self._settings.save(CLAIMS, saved)
        self._end = end._replace(sum_of_marks=int(saved))
        self._began = self._end

    def _remake_claims(self) -> int:
        """Make all claims from the log; return the sum of their marks."""
        self.claims.clear()
        edits = folded(self.changes()).edits.values()
        return sum(self.claims.add(edit.id, edit.record) for edit in edits)

    def _save_end(self) -> None:
        if self._end != self._began:
            self._settings.save(HEAD, f"{self._end.number} {self._end.checksum}")
            self._settings.save(CLAIMS, str(self._end.sum_of_marks))

    def _read_end(self) -> LogEnd:
        """Where the log ends, but for its claims.

        Raises StoreError unless the last change is the one that the setting `HEAD` names.
        """
        head, last, edit_id = self._database.execute(_END).fetchone()
        if head is None or head != (last or ""):
            what = "changes at the end of its log are missing, or are not drike's"
            raise damaged(self._database.name, what)
        if self._checked_generation != self._database.generation:
            self._checked_generation = self._database.generation
            self._claims_verified = False
        number, _, checksum = head.partition(" ")
        return LogEnd(int(number or 0), edit_id or 0, checksum)


def read_rows(
    name: str, rows: Sequence[Any], after: int = 0, edit_id: int | None = None
) -> list[EditVersion]:
    """The changes of rows, each with the checksum of the change before it in a last column.

    name: of what they are in, for messages. after, edit_id: as in `EditLog.changes`. Raises
    StoreError for damaged rows.
    """
    for expected_number, row in enumerate(rows, after + 1):
        *content, checksum, previous = row
        # A damaged checksum may be of any type.
        is_chained = len(str(checksum)) == _CHAINED_LENGTH
        is_right = checksum == _checksum(content, (previous or "") if is_chained else None)
        if edit_id is not None and not is_right:
            raise damaged(name, f"edit {edit_id}")
        if edit_id is None and not (is_right and content[0] == expected_number):
            raise damaged(name, f"change {expected_number}")
    try:
        return [_version_of(row) for row in rows]
    except ValueError as problem:
        raise damaged(name, str(problem)) from None


def _version_of(row: Sequence[Any]) -> EditVersion:
    number, edit_id, version, created_at, entry, checksum, _ = row
    return EditVersion(number, edit_id, version, created_at, from_json(entry), checksum)


def _pattern(text: str) -> str:
    """A pattern of SQL for entries that hold the words of a text, however they are written.

    Letters that databases and Python put into small ones in other ways stand for any.
    """
    letters = ("%" if not (c.isascii() and c.isalnum()) else c.lower() for c in text)
    return re.sub("%+", "%", f"%{''.join(letters)}%")


def _checksum(content: Sequence[object], previous: str | None) -> str:
    """The checksum of a change and of the checksum before it; None for one that covers no other."""
    if previous is None:
        return hashlib.sha256(_ENCODE(content).encode()).hexdigest()[:_UNCHAINED_LENGTH]
    chained = _ENCODE((*content, previous))
    return hashlib.sha256(chained.encode()).hexdigest()[:_CHAINED_LENGTH]
