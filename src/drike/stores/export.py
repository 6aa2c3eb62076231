"""Whole stores as lines of JSON, from which another store becomes the same, with its checksums."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drike.edits.record import EditVersion, Status, StoreError
from drike.stores.authorship import with_writers
from drike.stores.database import insert, select
from drike.stores.edit_store import APPROVALS, APPROVALS_SET, EditStore, required_approvals
from drike.stores.failures import damaged
from drike.stores.imports import PlacedRecord, ReadRow
from drike.stores.log import LogRow, read_rows
from drike.stores.snapshots import folded, snapshot
from drike.stores.tables import decoded
from drike.support.records import parse, read

_FORMAT = 1
# Settings that go along. Keys, counts of traffic, reports and verifications stay where they are.
_SETTINGS = (APPROVALS, APPROVALS_SET, "placement", "modes")


@dataclass(frozen=True)
class WholeStore:
    """A store as `drike edits export --all` writes it.

    drike_store: the version of the format. gates: number, time and text of each. changes: how many
    there are. rows: the log as it is kept.
    """

    drike_store: int
    settings: dict[str, str]
    gates: tuple[tuple[int, str, str], ...]
    changes: int
    rows: tuple[LogRow, ...] = ()

    def log(self, name: str) -> list[EditVersion]:
        """The changes. name: of what they are in. Raises StoreError for damaged ones."""
        rows = []
        checksum_before: str | None = None
        for row in self.rows:
            rows.append((*row, checksum_before))
            *_, checksum_before = row
        return read_rows(name, rows)

    def edits(self, name: str) -> list[ReadRow]:
        """The edits but retired ones, as an import takes them. Raises StoreError as `log`."""
        log = self.log(name)
        return [
            PlacedRecord(f"{name}, edit {edit.id}", edit.record)
            for edit in with_writers(folded(log).edits.values(), log)
            if edit.record.status is not Status.RETIRED
        ]


def lines_of(store: EditStore) -> Iterator[str]:
    """A store as lines of JSON. Raises StoreError.

    The first line holds what there is besides the log, each other one a change as it is kept.
    """
    with store.transaction():
        snapshot(store)  # which raises if the log is damaged
        rows = store.log.rows()
        gates = select(store.database, "SELECT * FROM drike_gates ORDER BY number")
        values = {name: store.settings.get(name) for name in _SETTINGS}
    settings = {name: value for name, value in values.items() if value is not None}
    head = {"drike_store": _FORMAT, "settings": settings, "gates": gates, "changes": len(rows)}
    for line in (head, *rows):
        yield json.dumps(line, ensure_ascii=False)


def whole_store(path: Path) -> WholeStore | None:
    """What `lines_of` wrote into a file; None for another file.

    A pipe is taken for another file, as reading it would empty it. Raises OSError, and StoreError
    if the file is damaged.
    """
    content = path.read_bytes() if path.is_file() else b""
    text, _ = decoded(content)
    if not text.startswith('{"drike_store":'):
        return None
    try:
        head, *rows = [parse(line) for line in text.split("\n") if line]
        whole = read(WholeStore, head | {"rows": rows})
    except ValueError as problem:
        raise damaged(str(path), str(problem)) from None
    if whole.drike_store != _FORMAT:
        raise StoreError(f"{path} was written by a newer drike: update drike to use it")
    if len(whole.rows) != whole.changes:
        raise damaged(str(path), f"it has {len(whole.rows):,} of {whole.changes:,} changes")
    return whole


def restore(store: EditStore, whole: WholeStore) -> None:
    """Make an empty store what another was, with the same checksums. Raises StoreError."""
    with store.transaction():
        if snapshot(store).revision or required_approvals(store):
            what = "has edits, or requires approvals, already"
            raise StoreError(f"{store.name} {what}: restore into a new store")
        changes = whole.log("the exported log")
        for row, change in zip(whole.rows, changes, strict=True):
            store.log.append_row(row, change.record)
        for gate in whole.gates:
            insert(store.database, "drike_gates", [gate])
        for name, value in whole.settings.items():
            store.settings.save(name, value)
