"""Edits from and to files: tables of many forms, whole stores as lines of text, and folders that people keep in git."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from drike.answers.matching import normalise
from drike.edits.conflicts import ConflictError
from drike.edits.edit import Edit
from drike.edits.record import (
    LISTS,
    MADE,
    REQUIRED,
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
from drike.stores.approvals import imported_author
from drike.stores.columns import COLUMNS, SEPARATOR, columns_by_name, name_of, similar_name
from drike.stores.database import insert, select
from drike.stores.edit_store import (
    APPROVALS,
    APPROVALS_SET,
    EditStore,
    required_approvals,
    versions_of,
)
from drike.stores.failures import damaged
from drike.stores.log import LogRow, read_rows
from drike.stores.snapshots import decided_version, folded, snapshot
from drike.support.files import write_text
from drike.support.records import encodable, parse, read
from drike.support.rows import Row, rows_in, shown
from drike.text.words import words

ReadRow = tuple[str, EditRecord] | str  # the place and record of a row, or why it is refused

_FIELDS = {
    "prompt": "query",
    "paraphrase": "paraphrases",
}  # of a record, by their names in own facts
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ZEROS = 0.25  # share of zero bytes at every other place that tells UTF-16 without a mark
_WHY = "refused because"  # a column of refused rows, which is not read again
_NOT_STORED = ("neighborhood", "neighborhood_prompt", "neighborhood_answer", "case_id", "move")
_FORMAT = 1
_KEPT = (
    APPROVALS,
    APPROVALS_SET,
    "placement",
    "modes",
)  # settings that go along; not keys, counts, verifications
_SYNCED = ".synced"  # in a folder: the checksum of a change to the last edit whose file was written


class PublishedEdits(Protocol):
    """Reads edits from files in forms that others publish, such as those of benchmarks."""

    def has(self, row: Row) -> bool:
        """Whether the row is of such a form."""

    def edit(self, row: Row) -> Edit:
        """The edit of such a row. Raises DataError for a missing or unusable field."""


@dataclass(frozen=True)
class Imported:
    """The added edits, the number of rows that repeat active ones, and why others were refused, with their places."""

    added: tuple[EditVersion, ...]
    repeated: int
    refused: tuple[str, ...]
    places: tuple[int, ...] = ()


def scan(path: Path) -> tuple[Sequence[Row | DataError], str]:
    """The rows of a file, or why one cannot be read, and its encoding. Raises DataError, OSError."""
    text, encoding = _decoded(path.read_bytes())
    return rows_in(text, str(path), may_repeat=lambda column: not name_of(column)), encoding


def edits_of(
    rows: Sequence[Row | DataError],
    columns: Mapping[str, str] | None = None,
    published: PublishedEdits | None = None,
) -> list[ReadRow]:
    """Place and record of each row, or why it is refused. columns: what some are called here. Raises DataError.

    published: what reads rows of published forms; by default all rows have the columns of own facts.
    """
    columns, first = columns or {}, next((row for row in rows if isinstance(row, Row)), None)
    if first and (unknown := columns.keys() - first.values.keys()):
        raise DataError(
            f"{first.file} has no column {min(unknown)!r}; it has {', '.join(map(shown, first.values))}"
        )
    names = [columns.get(name, name) for name in first.values] if first else []
    if first and (twice := {name for name in names if names.count(name) > 1}):
        raise DataError(
            f"{first.file} has two columns for {min(twice)!r}: rename one, or leave it out"
        )
    if first and not _is_published(first := _named(first, columns, published), published):
        fields = {_FIELDS.get(name, name) for name in columns_by_name(first)}
        if lacking := [name for name in REQUIRED if name not in fields]:
            raise DataError(f"{first.place} has no field {lacking[0]!r}; {COLUMNS}")
    return [
        str(row)
        if isinstance(row, DataError)
        else _edit_of(_named(row, columns, published), published)
        for row in rows
    ]


def _edit_of(row: Row, published: PublishedEdits | None) -> ReadRow:
    try:
        return row.place, checked(_record(row, published))
    except DataError as problem:
        return str(problem)
    except (RecordError, ValueError) as problem:
        return f"{row.place}: {problem}"


def import_edits(
    store: EditStore, rows: Iterable[ReadRow], *, supersede: bool = False, author: str | None = None
) -> Imported:
    """Add the edits of `edits_of`, all at once, as proposals where the store requires approvals. Raises StoreError.

    supersede: a row retires the active edits that it contradicts, those of earlier rows too; otherwise it is refused.
    """
    added, refused, repeated = list[EditVersion](), dict[int, str](), 0
    with store.transaction():
        approved, whole = (
            required_approvals(store) > 0,
            snapshot(store),
        )  # by others than who imports an edit
        known = {
            _stored(edit.record) for edit in (*whole.edits.values(), *whole.proposals.values())
        }
        for number, row in enumerate(rows):
            if isinstance(row, str):
                refused[number] = row
                continue
            place, record = row
            record = replace(
                record, author=author if approved else imported_author(record.author, author)
            )
            if _stored(record) in known:
                repeated += 1
                continue
            try:
                added.append(
                    store.put(moves.entering(store, record, decides=True), supersede=supersede)[-1]
                )
                known.add(_stored(record))
            except ConflictError as problem:
                rival = problem.rivals[0]
                lacking = {name for name, _ in _statements(record) - _statements(rival.record)}
                if not problem.repeated:
                    refused[number] = f"{place}: {problem}"
                elif lacking:
                    remedy = f"add that (drike edits change {rival.id}), or let the row supersede it (--supersede)"
                    refused[number] = (
                        f"{place}: edit {rival.id} lacks its {', '.join(sorted(lacking))}: {remedy}"
                    )
                else:
                    repeated += 1
    return Imported(tuple(added), repeated, tuple(refused.values()), tuple(refused))


def _statements(record: EditRecord) -> set[tuple[str, str]]:
    """What a record says in each field of a file; the subject is one of its names, the query one of its wordings."""
    values = json.loads(to_json(effect(record))).items()
    each = (
        (name, text)
        for name, value in values
        for text in (value if isinstance(value, list) else [value])
    )
    return {
        ({"subject": "aliases", "query": "wordings"}.get(name, name), normalise(str(text)))
        for name, text in each
    }


def _stored(record: EditRecord) -> tuple[Status, EditRecord]:
    """What rows have in common that say the same; a proposal says what the edit would."""
    return record.approved_as if record.status is Status.PROPOSED else record.status, effect(record)


def write_refused(path: Path, rows: Sequence[Row | DataError], imported: Imported) -> None:
    """Write refused rows as CSV as they were, each with why, so that they can be corrected and imported."""
    cells = list(map(_cells, rows))
    columns = dict.fromkeys(name for row in cells for name in row if name != _WHY)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*columns, _WHY], extrasaction="ignore")
    writer.writeheader()
    for place, reason in zip(imported.places, imported.refused, strict=True):
        if isinstance(rows[place], Row):  # of another nothing could be read
            writer.writerow(cells[place] | {_WHY: reason})
    write_text(path, encodable(text.getvalue()))


def _cells(row: Row | DataError) -> dict[str, object]:
    """A row as CSV has it: several texts in one cell, and metadata in columns of its own."""
    values = dict(row.values) if isinstance(row, Row) else {}
    if isinstance(more := values.get("metadata"), dict):
        values = {name: value for name, value in values.items() if name != "metadata"} | more
    return {
        name: SEPARATOR.join(map(str, v)) if isinstance(v, list) else v
        for name, v in values.items()
    }


def _decoded(content: bytes) -> tuple[str, str]:
    """The text of a file, and its encoding: by its mark, else the first in which it can be read."""
    marked = [encoding for mark, encoding in _MARKS if content.startswith(mark)]
    halves = (("utf-16-le", content[1::2]), ("utf-16-be", content[::2]))
    for encoding in marked or [
        encoding for encoding, zeros in halves if zeros.count(0) > _ZEROS * len(zeros)
    ]:
        return content.decode(encoding, "replace"), encoding
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding), encoding
    return content.decode("latin-1"), "latin-1"


def _is_published(row: Row, published: PublishedEdits | None) -> bool:
    return published is not None and published.has(row)


def _named(row: Row, columns: Mapping[str, str], published: PublishedEdits | None) -> Row:
    """The row with the names that its columns have here, and what is not known as metadata."""
    values = {columns.get(name, name): value for name, value in row.values.items() if name != _WHY}
    meant = {name_of(name) for name in values}
    if (
        _is_published(replace(row, values=values), published)
        or not {"prompt", "target_new", "subject"} <= meant
    ):
        return replace(row, values=values)
    extra = {name for name in values if name_of(name) is None and not similar_name(name)}
    more = {
        name: str(value)
        for name, value in values.items()
        if name in extra and value not in (None, "")
    }
    kept = {name: value for name, value in values.items() if name not in extra}
    known = kept.get("metadata")
    more |= known if isinstance(known, dict) else {}
    return replace(row, values=kept | ({"metadata": more} if more else {}))


def _record(row: Row, published: PublishedEdits | None) -> EditRecord:
    if published is not None and published.has(row):
        edit = published.edit(row)  # paraphrases and neighbours are left for tests
        true = edit.target_true or None
        return EditRecord(
            edit.subject or "", edit.query, edit.target_new, true, edit.relation, source=row.place
        )
    values: dict[str, Any] = {}
    for name, columns in columns_by_name(row).items():
        field = _FIELDS.get(name, name)
        cells = [
            value
            for column in columns
            if (value := row.values[column]) is not None and str(value).strip()
        ]
        if cells and name not in _NOT_STORED:
            texts = (
                c.split(SEPARATOR) if isinstance(c, str) else c if isinstance(c, list) else [c]
                for c in cells
            )
            values[field] = list(chain.from_iterable(texts)) if field in LISTS else cells[0]
    for name in ("priority", "review_days"):
        if str(values.get(name, "")).isdecimal():
            values[name] = int(values[name])
    if (word := str(values.get("enforce", "")).casefold()) in ("true", "false"):
        values["enforce"] = word == "true"
    return record_of(values)


@dataclass(frozen=True)
class WholeStore:
    """All that `drike edits export --all` writes: the log as it is kept, the gates and the settings."""

    drike_store: int
    settings: dict[str, str]
    gates: tuple[tuple[int, str, str], ...]
    changes: int
    rows: tuple[LogRow, ...] = ()

    def log(self, name: str) -> list[EditVersion]:
        """The changes. Raises StoreError for damaged ones; name: what they are in."""
        before = [None, *(row[5] for row in self.rows)]
        return read_rows(
            name, [(*row, checksum) for row, checksum in zip(self.rows, before, strict=False)]
        )

    def edits(self, name: str) -> list[ReadRow]:
        """The edits but retired ones, as an import takes them. Raises StoreError as `log`."""
        edits = folded(self.log(name)).edits.values()
        return [
            (f"{name}, edit {e.id}", e.record)
            for e in edits
            if e.record.status is not Status.RETIRED
        ]


def lines_of(store: EditStore) -> Iterator[str]:
    """A store as lines of JSON: what there is besides the log, then each change as it is kept. Raises StoreError."""
    with store.transaction():
        snapshot(store)  # it raises if the log is damaged
        rows = store.log.rows()
        gates = select(store.database, "SELECT * FROM drike_gates ORDER BY number")
        settings = {
            name: value for name in _KEPT if (value := store.settings.get(name)) is not None
        }
    head = {"drike_store": _FORMAT, "settings": settings, "gates": gates, "changes": len(rows)}
    yield from (json.dumps(line, ensure_ascii=False) for line in (head, *rows))


def whole_store(path: Path) -> WholeStore | None:
    """What `lines_of` wrote into a file; None for another file, or a pipe. Raises OSError, StoreError if damaged."""
    text, _ = _decoded(path.read_bytes() if path.is_file() else b"")  # what reads a pipe empties it
    if not text.startswith('{"drike_store":'):
        return None
    try:
        head, *rows = map(parse, filter(None, text.split("\n")))
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
            raise StoreError(
                f"{store.name} has edits, or requires approvals, already: restore into a new store"
            )
        for row, change in zip(whole.rows, whole.log("the exported log"), strict=True):
            store.log.append_row(row, change.record)
        for gate in whole.gates:
            insert(store.database, "drike_gates", [gate])
        for name, value in whole.settings.items():
            store.settings.save(name, value)


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


def sync(
    store: EditStore, folder: Path, *, author: str | None = None, retire_missing: bool = False
) -> Synced:
    """Make a folder of files and a store agree, each edit by the version that its file was written from.

    A file that changed becomes a change of its edit, one without an id a new edit; where approvals are required, these
    are proposals. What changed in the store is written. An edit that changed in both is left alone, as is one whose
    file is gone, unless `retire_missing`, for a folder synced before. Raises StoreError, DataError (unreadable files).
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = sorted(map(_given, sorted(folder.glob("*.json"))), key=lambda file: file.id is None)
    changes, files = list[EditVersion](), dict[int, _Given]()
    left, alone = list[str](), set[Path]()
    mark = folder / _SYNCED
    seen = mark.read_text("utf-8", "replace").strip() if mark.exists() else None
    with store.transaction():
        last, now = (
            next((each.id for each in store.changes() if each.checksum == seen), 0),
            snapshot(store),
        )
        stored = {
            _stored(edit.record): edit.id for edit in (*now.edits.values(), *now.proposals.values())
        }
        if retire_missing and not last:
            raise StoreError(
                f"{folder} has no {_SYNCED} of {store.name}: sync it without --retire-missing first"
            )
        for file in given:
            made, id = (
                list[EditVersion](),
                stored.get(_stored(file.record)) if file.id is None else file.id,
            )
            try:
                if id in files:
                    raise StoreError(
                        f"edit {id} is also in {files[id].path.name}: keep one of them"
                    )
                made += (
                    _merged(store, file, author) if file.id == id else ()
                )  # it may be stored, without its file
            except StoreError as problem:
                left.append(f"{file.path.name}: {problem}")
                alone.add(file.path)
            changes += made
            if (id := made[-1].id if made else id) is not None:
                files[id] = file
        for id, edit in sorted(snapshot(store).edits.items()):
            if id > last or id in files or edit.record.status is Status.RETIRED:
                continue
            if retire_missing:
                changes += moves.retire(store, id, author=author, reason="its file was removed")
            else:
                left.append(
                    f"edit {id} has no file any more: retire it (--retire-missing), or put the file back"
                )
        now = snapshot(store)
    written = list[str]()
    for id, edit in now.edits.items():
        known = files.get(id)
        if (
            known.path not in alone
            if known
            else id > last and edit.record.status is not Status.RETIRED
        ):
            written += _write(folder, edit, known, waits=id in now.proposals)
    if now.edits and not alone:  # all of them have files now
        write_text(mark, now.edits[max(now.edits)].checksum)
    return Synced(tuple(written), tuple(changes), tuple(left))


def _merged(store: EditStore, one: _Given, author: str | None) -> Sequence[EditVersion]:
    """The changes that a file makes, of its edit the last. Raises StoreError."""
    why = f"from {one.path.name}"
    if one.id is None:
        return store.put(
            moves.entering(store, replace(one.record, author=author, reason=why), decides=True)
        )
    known = versions_of(store, one.id)
    base = next((each.record for each in known if each.version == one.version), None)
    said = {one.record.subject, one.record.query, one.record.target_new}
    if base is None or said.isdisjoint(
        {base.subject, base.query, base.target_new}
    ):  # that of another store
        raise StoreError(
            f"edit {one.id} has no such version {one.version}: take id and version out, to add it anew"
        )
    now, file, last = decided_version(known).record, _said(one.record), known[-1].record
    waiting = last.status in (Status.PROPOSED, Status.REJECTED) and effect(last) == effect(
        one.record
    )
    if file in (_said(base), _said(now)) or waiting:
        return ()
    if _said(now) != _said(base):
        what = f"edit {one.id} has changed in the store, too, since version {one.version}"
        raise StoreError(
            f"{what}: put the file right, with the latest version (drike edits show {one.id})"
        )
    fields = {name: value for name, value in vars(file).items() if name not in MADE}
    return moves.change(store, one.id, fields, author=author, reason=why)


def _given(path: Path) -> _Given:
    """What a file of the folder says. Raises DataError."""
    try:
        if not isinstance(values := parse(path.read_text("utf-8-sig")), dict):
            raise ValueError("it is no JSON object")
        id, version = values.pop("id", None), values.pop("version", 0)
        if not isinstance(id, int | None) or type(version) is not int:
            raise ValueError("id and version are no numbers")
        return _Given(path, id, version, checked(record_of(values)))
    except (ValueError, RecordError, OSError) as problem:
        raise DataError(
            f"{path} is no edit ({problem}): correct it, or take it out of the folder"
        ) from None


def _write(folder: Path, edit: EditVersion, file: _Given | None, *, waits: bool) -> Iterator[str]:
    """Write the file of an edit, if it is not as it should be; a change in it that waits for approval stays."""
    if waits and file is not None and file.id is not None:
        return
    values: dict[str, object] = json.loads(to_json(_said(edit.record)))
    text = json.dumps(
        values | {"id": edit.id, "version": edit.version},
        ensure_ascii=False,
        indent=2,
        sort_keys=True,
    )
    slug = "-".join(words(edit.record.subject))[:60].strip("-") or "edit"
    names = (
        folder / f"{edit.id:05}-{slug}{more}.json"
        for more in chain([""], (f"-{i}" for i in count(2)))
    )
    free = next(path for path in names if not path.exists() or (file and path == file.path))
    path = free if file is None or file.id is None else file.path
    if not path.exists() or path.read_text("utf-8") != f"{text}\n":
        write_text(path, f"{text}\n")
        yield path.name
    if file is not None and file.path != path:
        file.path.unlink()


def _said(record: EditRecord) -> EditRecord:
    """What a record says, without who made the change and why."""
    return replace(record, author=None, reason=None, move=None)
