"""A whole store as lines of text, and its edits as files of a folder, which people may change and keep in git."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from drike.errors import DataError
from drike.stores import log, moves, records
from drike.stores.approvals import APPROVALS, APPROVALS_SET
from drike.stores.log import EditStore, Row
from drike.stores.records import MADE, EditRecord, EditVersion, RecordError, Status, StoreError, damaged, effect
from drike.support.files import write_text
from drike.support.records import parse, read
from drike.words import words

_FORMAT = 1
_KEPT = (APPROVALS, APPROVALS_SET, "placement", "modes")  # settings that go along; not keys, counts, verifications
_SYNCED = "synced "  # settings: the last edit when a folder was written


@dataclass(frozen=True)
class WholeStore:
    """All that `drike edits export --all` writes: the log as it is kept, the gates and the settings."""

    drike_store: int
    settings: dict[str, str]
    gates: tuple[tuple[int, str, str], ...]
    changes: int
    rows: tuple[Row, ...] = ()

    def log(self, name: str) -> list[EditVersion]:
        """The changes. Raises StoreError for damaged ones; name: what they are in."""
        before = [None, *(row[5] for row in self.rows)]
        return log.read_rows(name, [(*row, checksum) for row, checksum in zip(self.rows, before, strict=False)])


def lines_of(store: EditStore) -> Iterator[str]:
    """A store as lines of JSON: what there is besides the log, then each change as it is kept. Raises StoreError."""
    with store.transaction():
        log.snapshot(store)  # it raises if the log is damaged
        query = "SELECT number, edit, version, created_at, entry, checksum FROM drike_changes ORDER BY number"
        rows, gates = (store._run(each).fetchall() for each in (query, "SELECT * FROM drike_gates ORDER BY number"))
        settings = {name: value for name in _KEPT if (value := store.setting(name)) is not None}
    head = {"drike_store": _FORMAT, "settings": settings, "gates": gates, "changes": len(rows)}
    yield from (json.dumps(line, ensure_ascii=False) for line in (head, *rows))


def whole_store(path: Path) -> WholeStore | None:
    """What `lines_of` wrote into a file; None for another file. Raises StoreError if it is damaged."""
    try:
        with path.open(encoding="utf-8") as file:
            if not file.readline().startswith('{"drike_store":'):
                return None
            file.seek(0)
            head, *rows = map(json.loads, file)
        whole = read(WholeStore, head | {"rows": rows})
    except (UnicodeDecodeError, OSError):
        return None  # whoever reads it as something else says what is wrong
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
        if log.snapshot(store).revision:
            raise StoreError(f"{store.name} has edits already: restore into an empty store")
        for row, change in zip(whole.rows, whole.log("the exported log"), strict=True):
            store._write(row, change.record)
        for gate in whole.gates:
            store._insert("drike_gates", [gate])
        for name, value in whole.settings.items():
            store.save_setting(name, value)


def edits_of(whole: WholeStore, name: str) -> list[tuple[str, EditRecord]]:
    """The edits of a store as an import takes them, each with its place, without retired ones. Raises StoreError."""
    edits = log.folded(whole.log(name)).edits
    return [(f"{name}, edit {e.id}", e.record) for e in edits.values() if e.record.status is not Status.RETIRED]


class Synced(NamedTuple):
    """What `sync` did: files written; changes made in the store; what it left alone, and why."""

    written: tuple[str, ...]
    changes: tuple[EditVersion, ...]
    left: tuple[str, ...]


class _Given(NamedTuple):
    path: Path
    id: int | None
    version: int
    record: EditRecord


def sync(store: EditStore, folder: Path, *, author: str | None = None, retire_missing: bool = False) -> Synced:
    """Make a folder of files and a store agree, each edit by the version that its file was written from.

    A file that changed becomes a change of its edit, one without an id a new edit; where approvals are required, these
    are proposals. What changed in the store is written. An edit that changed in both is left alone, as is one whose
    file is gone, unless `retire_missing`. Raises StoreError, DataError for a file that cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = [_given(path) for path in sorted(folder.glob("*.json"))]
    changes, files = list[EditVersion](), dict[int, _Given]()
    left, alone = list[str](), set[Path]()
    mark = f"{_SYNCED}{folder.absolute()}"
    with store.transaction():
        for file in given:
            made: Sequence[EditVersion] = ()
            try:
                if file.id in files:
                    raise StoreError(f"edit {file.id} is also in {files[file.id].path.name}: keep one of them")
                made = _merged(store, file, author)
            except StoreError as problem:
                left.append(f"{file.path.name}: {problem}")
                alone.add(file.path)
            changes += made
            if (id := made[-1].id if made else file.id) is not None:
                files[id] = file
        last = int(store.setting(mark) or 0) if given else 0
        for id, edit in sorted(log.snapshot(store).edits.items()):
            if id > last or id in files or edit.record.status is Status.RETIRED:
                continue
            if retire_missing:
                changes += log.retire(store, id, author=author, reason="its file was removed")
            else:
                left.append(f"edit {id} has no file any more: retire it (--retire-missing), or put the file back")
        now = log.snapshot(store)
        store.save_setting(mark, str(max(now.edits, default=0)))
    written = list[str]()
    for id, edit in now.edits.items():
        known = files.get(id)
        if known.path not in alone if known else id > last and edit.record.status is not Status.RETIRED:
            written += _write(folder, edit, known, waits=id in now.proposals)
    return Synced(tuple(written), tuple(changes), tuple(left))


def _merged(store: EditStore, one: _Given, author: str | None) -> Sequence[EditVersion]:
    """The changes that a file makes, of its edit the last. Raises StoreError."""
    why = f"from {one.path.name}"
    if one.id is None:
        return store.put(moves.entering(store, replace(one.record, author=author, reason=why), decides=True))
    known = log.versions(store, one.id)
    base = next((each.record for each in known if each.version == one.version), None)
    if base is None:
        raise StoreError(f"edit {one.id} has no version {one.version}: take id and version out, to add it anew")
    now, file = log.decided_version(known).record, _said(one.record)
    waiting = known[-1].record.status is Status.PROPOSED and effect(known[-1].record) == effect(one.record)
    if file in (_said(base), _said(now)) or waiting:
        return ()
    if _said(now) != _said(base):
        what = f"edit {one.id} has changed in the store, too, since version {one.version}"
        raise StoreError(f"{what}: put the file right, with the latest version (drike edits show {one.id})")
    fields = {name: value for name, value in vars(file).items() if name not in MADE}
    return moves.change(store, one.id, fields, author=author, reason=why)


def _given(path: Path) -> _Given:
    """What a file of the folder says. Raises DataError."""
    try:
        values: dict[str, Any] = dict(parse(path.read_text("utf-8")) or {})
        id, version = values.pop("id", None), values.pop("version", 0)
        if not isinstance(id, int | None) or type(version) is not int:
            raise ValueError("id and version are no numbers")
        return _Given(path, id, version, records.checked(records.record_of(values)))
    except (ValueError, RecordError, OSError) as problem:
        raise DataError(f"{path} is no edit ({problem}): correct it, or take it out of the folder") from None


def _write(folder: Path, edit: EditVersion, file: _Given | None, *, waits: bool) -> Iterator[str]:
    """Write the file of an edit, if it is not as it should be; a change in it that waits for approval stays."""
    if waits and file is not None and file.id is not None:
        return
    values: dict[str, object] = json.loads(records.to_json(_said(edit.record)))
    text = json.dumps(values | {"id": edit.id, "version": edit.version}, ensure_ascii=False, indent=2, sort_keys=True)
    slug = "-".join(words(edit.record.subject))[:60].strip("-") or "edit"
    path = folder / f"{edit.id:05}-{slug}.json" if file is None or file.id is None else file.path
    if not path.exists() or path.read_text("utf-8") != f"{text}\n":
        write_text(path, f"{text}\n")
        yield path.name
    if file is not None and file.path != path:
        file.path.unlink()


def _said(record: EditRecord) -> EditRecord:
    """What a record says, without who made the change and why."""
    return replace(record, author=None, reason=None, move=None)
