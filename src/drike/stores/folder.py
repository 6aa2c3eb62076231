"""Edits in a folder, a file each, which people keep in git and a store agrees with."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from drike.edits.record import (
    MADE,
    EditRecord,
    EditVersion,
    RecordError,
    Status,
    StoreError,
    effect,
)
from drike.edits.record_checks import checked
from drike.edits.record_json import record_of, to_json
from drike.errors import DataError
from drike.stores import moves
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.imports import edit_ids_by_identity, identity_of
from drike.stores.snapshots import Snapshot, decided_version, snapshot
from drike.support.files import write_text
from drike.support.records import parse
from drike.text.words import words

_SYNCED = ".synced"  # with the checksum of a change to the last edit whose file was written
_LONGEST_SLUG = 60  # characters of a subject in the name of a file


class Synced(NamedTuple):
    """What `sync_folder` did.

    written: names of files. changes: made in the store. left: what it left alone, and why.
    """

    written: tuple[str, ...]
    changes: tuple[EditVersion, ...]
    left: tuple[str, ...]


class _EditFile(NamedTuple):
    """A file of the folder: the edit and version that it was written from, and what it says now.

    edit_id: None for a new edit.
    """

    path: Path
    edit_id: int | None
    version: int
    record: EditRecord


class _Taken(NamedTuple):
    """What came of the files: the file of each edit, the changes, and why files were left alone."""

    file_by_edit: dict[int, _EditFile]
    changes: list[EditVersion]
    problem_by_path: dict[Path, str]


def sync_folder(
    store: EditStore, folder: Path, *, author: str | None = None, retire_missing: bool = False
) -> Synced:
    """Make a folder of files and a store agree.

    Each edit is compared by the version that its file was written from. A file that changed becomes
    a change of its edit, one without an id a new edit; where approvals are required, these are
    proposals. What changed in the store is written. An edit that changed in both is left alone, as
    is one whose file is gone, unless `retire_missing`, for a folder synced before. Raises
    StoreError, DataError (unreadable files).
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [_read_file(path) for path in sorted(folder.glob("*.json"))]
    mark = folder / _SYNCED
    checksum = mark.read_text("utf-8", "replace").strip() if mark.exists() else None

    with store.transaction():
        last_synced = _edit_changed_by(checksum, store.changes())
        if retire_missing and not last_synced:
            remedy = "sync it without --retire-missing first"
            raise StoreError(f"{folder} has no {_SYNCED} of {store.name}: {remedy}")
        taken = _take(store, files, author)
        changes = taken.changes
        left = [f"{path.name}: {problem}" for path, problem in taken.problem_by_path.items()]
        for edit_id in _without_file(snapshot(store), last_synced, taken.file_by_edit):
            if retire_missing:
                reason = "its file was removed"
                changes += moves.retire(store, edit_id, author=author, reason=reason)
            else:
                remedy = "retire it (--retire-missing), or put the file back"
                left.append(f"edit {edit_id} has no file any more: {remedy}")
        now = snapshot(store)

    written = []
    for edit_id, edit in now.edits.items():
        file = taken.file_by_edit.get(edit_id)
        if file is not None:
            is_wanted = file.path not in taken.problem_by_path
        else:
            is_wanted = edit_id > last_synced and edit.record.status is not Status.RETIRED
        if is_wanted:
            name = _write(folder, edit, file, is_waiting=edit_id in now.proposals)
            written += [name] if name else []
    if now.edits and not taken.problem_by_path:  # all of them have files now
        write_text(mark, now.edits[max(now.edits)].checksum)
    return Synced(tuple(written), tuple(changes), tuple(left))


def _edit_changed_by(checksum: str | None, changes: Iterable[EditVersion]) -> int:
    """The id of the edit that was changed by the change with a checksum; 0 for an unknown one."""
    return next((change.id for change in changes if change.checksum == checksum), 0)


def _take(store: EditStore, files: Sequence[_EditFile], author: str | None) -> _Taken:
    """Make the changes that files make. Files of known edits come before those of new ones."""
    edit_ids = edit_ids_by_identity(snapshot(store))
    taken = _Taken({}, [], {})
    for file in sorted(files, key=lambda file: file.edit_id is None):
        # An edit may be stored while its file has no id, as after a sync that was cut short.
        edit_id = file.edit_id
        if edit_id is None:
            edit_id = edit_ids.get(identity_of(file.record))
        is_stored_without_file = edit_id != file.edit_id

        changes: Sequence[EditVersion] = ()
        try:
            if edit_id in taken.file_by_edit:
                other = taken.file_by_edit[edit_id].path.name
                raise StoreError(f"edit {edit_id} is also in {other}: keep one of them")
            if not is_stored_without_file:
                changes = _merge(store, file, author)
        except StoreError as problem:
            taken.problem_by_path[file.path] = str(problem)
        taken.changes.extend(changes)
        if changes:
            edit_id = changes[-1].id
        if edit_id is not None:
            taken.file_by_edit[edit_id] = file
    return taken


def _without_file(
    edits: Snapshot, last_synced: int, file_by_edit: dict[int, _EditFile]
) -> list[int]:
    """The ids of the edits that had a file once, are not retired, and have none now."""
    return [
        edit_id
        for edit_id, edit in sorted(edits.edits.items())
        if edit_id <= last_synced
        and edit_id not in file_by_edit
        and edit.record.status is not Status.RETIRED
    ]


def _merge(store: EditStore, file: _EditFile, author: str | None) -> Sequence[EditVersion]:
    """The changes that a file makes, of its edit the last. Raises StoreError."""
    reason = f"from {file.path.name}"
    if file.edit_id is None:
        record = replace(file.record, author=author, reason=reason)
        return store.put(moves.entering(store, record, decides=True))

    versions = versions_of(store, file.edit_id)
    base = _base_of(file, versions)
    decided = decided_version(versions).record
    latest = versions[-1].record
    in_file = _content(file.record)
    is_waiting = latest.status in (Status.PROPOSED, Status.REJECTED)
    if is_waiting and effect(latest) == effect(file.record):
        return ()
    if in_file in (_content(base), _content(decided)):
        return ()
    if _content(decided) != _content(base):
        raise StoreError(
            f"edit {file.edit_id} has changed in the store, too, since version {file.version}: "
            f"put the file right, with the latest version (drike edits show {file.edit_id})"
        )
    fields = {name: value for name, value in vars(in_file).items() if name not in MADE}
    return moves.change(store, file.edit_id, fields, author=author, reason=reason)


def _base_of(file: _EditFile, versions: Sequence[EditVersion]) -> EditRecord:
    """The version that a file was written from.

    Raises StoreError if there is none, or it has nothing in common with the file, which then is of
    another store.
    """
    in_file = {file.record.subject, file.record.query, file.record.target_new}
    for version in versions:
        base = version.record
        is_base = version.version == file.version
        if is_base and not in_file.isdisjoint({base.subject, base.query, base.target_new}):
            return base
    raise StoreError(
        f"edit {file.edit_id} has no such version {file.version}: take id and version out, to add "
        "it anew"
    )


def _read_file(path: Path) -> _EditFile:
    """What a file of the folder says. Raises DataError."""
    try:
        values = parse(path.read_text("utf-8-sig"))
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        edit_id = values.pop("id", None)
        version = values.pop("version", 0)
        if not isinstance(edit_id, int | None) or type(version) is not int:
            raise ValueError("id and version are no numbers")
        return _EditFile(path, edit_id, version, checked(record_of(values)))
    except (ValueError, RecordError, OSError) as problem:
        remedy = "correct it, or take it out of the folder"
        raise DataError(f"{path} is no edit ({problem}): {remedy}") from None


def _write(
    folder: Path, edit: EditVersion, file: _EditFile | None, *, is_waiting: bool
) -> str | None:
    """Write the file of an edit, if it is not as it should be; return its name if it was written.

    is_waiting: whether a change of the edit waits for approval, which then stays in its file.
    """
    has_id = file is not None and file.edit_id is not None
    if is_waiting and has_id:
        return None
    path = file.path if file is not None and has_id else _free_path(folder, edit, file)
    values = json.loads(to_json(_content(edit.record)))
    values |= {"id": edit.id, "version": edit.version}
    text = json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True) + "\n"

    is_written = not path.exists() or path.read_text("utf-8") != text
    if is_written:
        write_text(path, text)
    if file is not None and file.path != path:
        file.path.unlink()
    return path.name if is_written else None


def _free_path(folder: Path, edit: EditVersion, file: _EditFile | None) -> Path:
    """A path for the file of an edit that no other file has; it may be that of `file`."""
    slug = "-".join(words(edit.record.subject))[:_LONGEST_SLUG].strip("-") or "edit"
    path = folder / f"{edit.id:05}-{slug}.json"
    numbers = count(2)
    while path.exists() and not (file is not None and path == file.path):
        path = folder / f"{edit.id:05}-{slug}-{next(numbers)}.json"
    return path


def _content(record: EditRecord) -> EditRecord:
    """What a record says, without who made the change, why and how."""
    return replace(record, author=None, reason=None, move=None)
