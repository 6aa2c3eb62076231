"""Edits in a folder, a file each, which people keep in git and a store agrees with."""

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import sleep
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
from drike.stores.approvals import carried_author
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.imports import edit_ids_by_identity, identity_of
from drike.stores.snapshots import Snapshot, decided_version, snapshot
from drike.support.files import write_text
from drike.support.records import parse
from drike.support.rows import shown
from drike.text.words import words

_SYNCED = ".synced"  # with the checksum of a change to the last edit whose file was written
_MOST_BYTES = 4 << 20  # of a file; the longest record is shorter
_LARGEST_ID = 2**63 - 1  # that a database holds
# Seconds between two looks at a folder of which files seem to be missing, and how many looks.
_PAUSE = 2.0
_MOST_LOOKS = 10
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
    is one whose file is gone, unless `retire_missing`, for a folder synced before, which then must
    not change for some seconds. Raises StoreError, DataError (unreadable files).
    """
    folder.mkdir(parents=True, exist_ok=True)
    if retire_missing:
        _wait_until_settled(folder)
    paths = sorted(path for path in folder.iterdir() if path.suffix.casefold() == ".json")
    files = [_read_file(path) for path in paths]
    mark = folder / _SYNCED
    checksum = _read_mark(mark)

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


def _wait_until_settled(folder: Path) -> None:
    """Wait until a folder stays as it is: while git checks a branch out, files are missing.

    Raises StoreError if it does not.
    """
    before = _listing(folder)
    for _ in range(_MOST_LOOKS):
        sleep(_PAUSE)
        now = _listing(folder)
        if now == before:
            return
        before = now
    raise StoreError(f"{folder} keeps changing: wait until nobody writes there, and sync again")


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The files of a folder, each with what changes when it is written."""
    listing = dict[str, tuple[int, int, int]]()
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it went away meanwhile
                continue
            listing[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return listing


def _edit_changed_by(checksum: str | None, changes: Iterable[EditVersion]) -> int:
    """The id of the edit that was changed by the change with a checksum; 0 for an unknown one."""
    return next((change.id for change in changes if change.checksum == checksum), 0)


def _take(store: EditStore, files: Sequence[_EditFile], author: str | None) -> _Taken:
    """Make the changes that files make. Files of known edits come before those of new ones."""
    edit_ids = edit_ids_by_identity(snapshot(store))
    taken = _Taken({}, [], {})
    copies = _copies(store, files)
    for file in sorted(files, key=lambda file: file.edit_id is None):
        # An edit may be stored while its file has no id, as after a sync that was cut short.
        edit_id = file.edit_id
        if edit_id is None:
            edit_id = edit_ids.get(identity_of(file.record))
        is_stored_without_file = edit_id != file.edit_id

        changes: Sequence[EditVersion] = ()
        try:
            if file.path in copies:
                raise StoreError(
                    f"edit {edit_id} is also in {copies[file.path].name}: keep one of them, or "
                    "take id and version out of the copy, to add it anew"
                )
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
        if edit_id is not None and (file.path not in copies or edit_id not in taken.file_by_edit):
            taken.file_by_edit[edit_id] = file
    return taken


def _copies(store: EditStore, files: Sequence[_EditFile]) -> dict[Path, Path]:
    """The files that must not change the edit whose id they have, as others have it, too.

    Each comes with one of the others. The file that says what its version says is the edit's; where
    that is none or several, nobody knows which one is, and all are copies.
    """
    counts = Counter(file.edit_id for file in files)
    files_by_edit = dict[int, list[_EditFile]]()
    for file in files:
        if file.edit_id is not None and counts[file.edit_id] > 1:
            files_by_edit.setdefault(file.edit_id, []).append(file)

    copies = dict[Path, Path]()
    for edit_id, same in files_by_edit.items():
        unchanged = [file for file in same if _is_unchanged(store, edit_id, file)]
        own = unchanged[0] if len(unchanged) == 1 else None
        for place, file in enumerate(same):
            if file is not own:
                copies[file.path] = (own or same[place - 1]).path
    return copies


def _is_unchanged(store: EditStore, edit_id: int, file: _EditFile) -> bool:
    """Whether a file says what the version says that it was written from."""
    try:
        base = _base_of(file, versions_of(store, edit_id))
    except StoreError:
        return False
    return _content(file.record) == _content(base)


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
        written_by = carried_author(file.record.author, author)
        record = replace(file.record, author=written_by, reason=reason)
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
    written_by = carried_author(file.record.author, author)
    return moves.change(store, file.edit_id, fields, author=written_by, reason=reason)


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
        text = _text_of(_read_bytes(path))
        values = parse(text)
        json.loads(text, object_pairs_hook=_without_repeats)
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        edit_id = values.pop("id", None)
        version = values.pop("version", 0)
        if type(version) is not int or (edit_id is not None and type(edit_id) is not int):
            raise ValueError("id and version are no numbers")
        if edit_id is not None and not 1 <= edit_id <= _LARGEST_ID:
            raise ValueError("its id is none that a store gives")
        return _EditFile(path, edit_id, version, checked(record_of(values)))
    except (ValueError, RecordError, OSError) as problem:
        remedy = "correct it, or take it out of the folder"
        raise DataError(f"{path} is no edit ({problem}): {remedy}") from None


def _text_of(content: bytes) -> str:
    """A text in UTF-8. Raises ValueError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not in UTF-8") from None


def _without_repeats(pairs: Sequence[tuple[str, object]]) -> None:
    """Raises ValueError for an object of JSON that has a key twice, as a merge may leave it."""
    counts = Counter(key for key, _ in pairs)
    for key, count_of_key in counts.items():
        if count_of_key > 1:
            raise ValueError(f"it has the key {shown(key)!r} twice")


def _read_bytes(path: Path) -> bytes:
    """What a regular file holds. Raises OSError, ValueError for any other, and for a large one.

    A link may lead out of the folder, a device never ends, and a pipe waits.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("it is no regular file")
    # Another file may have taken its place meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MB")
    return content


def _read_mark(mark: Path) -> str | None:
    """The checksum in the file that says what was synced last; None if there is no such file."""
    try:
        return _read_bytes(mark).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as problem:
        raise DataError(f"{mark} cannot be read ({problem}): remove it, and sync again") from None


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

    is_written = not path.exists() or _read_bytes(path) != text.encode()
    if file is not None and file.path != path:
        # Written first and then renamed, so that at no moment two files have the edit.
        write_text(file.path, text)
        file.path.rename(path)
    elif is_written:
        write_text(path, text)
    return path.name if is_written else None


def _free_path(folder: Path, edit: EditVersion, file: _EditFile | None) -> Path:
    """A path for the file of an edit that no other file has; it may be that of `file`."""
    slug = "-".join(words(edit.record.subject))[:_LONGEST_SLUG].strip("-") or "edit"
    path = folder / f"{edit.id:05}-{slug}.json"
    numbers = count(2)
    while os.path.lexists(path) and not (file is not None and path == file.path):
        path = folder / f"{edit.id:05}-{slug}-{next(numbers)}.json"
    return path


def _content(record: EditRecord) -> EditRecord:
    """What a record says, without who made the change, why and how."""
    return replace(record, author=None, reason=None, move=None)
