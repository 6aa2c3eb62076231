"""What a store of edits holds and guarantees; `sqlite` keeps it in a file, `postgres` in a database.

A store is a log of changes that only grows: each is a new version of an edit, with its author and reason. What the
edits are now follows from the log (`Snapshot`), so a gate can be a pure function of a snapshot. Of active edits, no two
answer the same question at the same time: a new one is refused, or supersedes the others, which are then retired.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from drike.answers import normalise
from drike.datasets.paraphrases import wording
from drike.datasets.rows import shown
from drike.edits import Edit, mentions
from drike.errors import DrikeError
from drike.records import parse, read

POSTGRES = ("postgresql://", "postgres://")  # how addresses of stores in PostgreSQL begin

_LONGEST = 10_000  # characters of a text, as in data sets
_ALWAYS = "~"  # sorts behind every time


class StoreError(DrikeError):
    """A store of edits, or an edit in it, cannot be used."""


class UnavailableError(StoreError):
    """A store cannot be used at the moment; a later attempt may succeed."""


class EntryError(StoreError):
    """An entry cannot be stored as it is; the message names the field."""


class ConflictError(EntryError):
    """Active edits answer the entry's question already. `rivals`: these; `repeated`: they have the same object."""

    def __init__(self, entry: Entry, rivals: Sequence[StoredEdit]) -> None:
        self.rivals = tuple(rivals)
        self.repeated = all(normalise(one.entry.target_new) == normalise(entry.target_new) for one in rivals)
        known = " and ".join(f"edit {one.id} ({one.entry.fact})" for one in rivals)
        super().__init__(
            f"{entry.fact} repeats {known}: there is nothing to do, unless the new one shall supersede it (--supersede)"
            if self.repeated
            else f"{entry.fact} contradicts {known}: retire that edit, or let the new one supersede it (--supersede)"
        )


class Status(StrEnum):
    """How far an edit takes effect."""

    DRAFT = "draft"  # not at all
    SHADOW = "shadow"  # where it would fire is counted; answers stay as they are
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True)
class Entry:
    """All that a person says about an edit.

    Attributes:
        subject, query, target_new, target_true, relation: as in `Edit`. Without a relation, it is the query around the
            subject. The subject is "" only in an entry of `as_stored`; no store keeps one.
        aliases: other names of the subject.
        wordings: the query in other words.
        negatives: questions on which the edit must never fire.
        status: a retired edit is kept for its history.
        valid_from, valid_to: when the edit holds, the end excluded; ISO 8601, UTC unless they name a zone.
        priority: of several edits that concern a question, those with the highest come first.
        enforce: a gateway that cannot decide refuses questions that name the subject, instead of answering unedited.
        source: where the fact comes from.
        author, reason: who made this change, and why.
    """

    subject: str
    query: str
    target_new: str
    target_true: str | None = None
    relation: str | None = None
    aliases: tuple[str, ...] = ()
    wordings: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    status: Status = Status.ACTIVE
    valid_from: str | None = None
    valid_to: str | None = None
    priority: int = 0
    enforce: bool = False
    source: str | None = None
    author: str | None = None
    reason: str | None = None

    @property
    def edit(self) -> Edit:
        """The edit as editors take it."""
        return Edit(self.query, self.target_new, self.target_true, self.subject or None, self.relation)

    def edit_in(self, query: str) -> Edit:
        """The edit, stated under an alias if the query names only that, as a model may not connect the two."""
        name = next((one for one in self.names if mentions(query, one)), self.subject)
        return self.edit if name == self.subject else replace(self.edit, query=self.query_with(name), subject=name)

    def query_with(self, name: str) -> str:
        """The query with another name for the subject, or for the alias by which the query names it."""
        named = max((one for one in self.names if mentions(self.query, one)), key=len, default=self.subject)
        return re.sub(rf"(?<!\w){re.escape(named)}(?!\w)", lambda _: name, self.query, flags=re.IGNORECASE)

    @property
    def names(self) -> tuple[str, ...]:
        """The subject and its aliases."""
        return self.subject, *self.aliases

    @property
    def fact(self) -> str:
        """The query and the new object, cut for messages."""
        return f'"{shown(self.query)}" -> "{shown(self.target_new)}"'

    def differs(self, other: Entry) -> bool:
        """Whether two entries differ in more than where they come from."""
        return replace(self, source=other.source, author=other.author, reason=other.reason) != other


NEEDED = tuple(one.name for one in fields(Entry) if one.default is MISSING)
LISTS: dict[str, list[str]] = {one.name: [] for one in fields(Entry) if one.default == ()}
DEFAULTS = {one.name: one.default for one in fields(Entry) if one.name not in NEEDED} | LISTS


@dataclass(frozen=True)
class StoredEdit:
    """One version of an edit.

    number: its place in the store's log, from 1. id, version: of the edit, from 1. created_at: UTC, of the version.
    """

    number: int
    id: int
    version: int
    created_at: str
    entry: Entry


def as_stored(edits: Sequence[Edit]) -> tuple[StoredEdit, ...]:
    """Edits as a store would hold them, with ids from 1, for a gate without a store."""
    entries = (Entry(e.subject or "", e.query, e.target_new, e.target_true, e.relation) for e in edits)
    return tuple(StoredEdit(i, i, 1, "", entry) for i, entry in enumerate(entries, 1))


@dataclass(frozen=True)
class Snapshot:
    """The latest version of every edit by id, after `revision` changes of the store."""

    revision: int = 0
    edits: Mapping[int, StoredEdit] = field(default_factory=dict)

    def since(self, earlier: Snapshot) -> Snapshot:
        """Of the edits, those that have changed after an earlier snapshot."""
        edits = {id: one for id, one in self.edits.items() if one.number > earlier.revision}
        return Snapshot(self.revision, edits)

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[StoredEdit, ...]:
        """The edits with this status that hold at a time."""
        now = stamp(at)
        edits = (one for one in self.edits.values() if one.entry.status is status)
        return tuple(one for one in edits if (one.entry.valid_from or "") <= now < (one.entry.valid_to or _ALWAYS))

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if the same ones hold forever."""
        now = stamp(at)
        times = (time for one in self.edits.values() for time in (one.entry.valid_from, one.entry.valid_to))
        return min((time for time in times if time and time > now), default=None)


class EditStore(Protocol):
    """Keeps edits. A change that returned is kept, whatever happens next; one that did not has left nothing behind.

    Threads and processes may share a store. Everything raises StoreError where the store cannot be used.
    """

    @property
    def name(self) -> str:
        """How messages name the store: a path, or an address without its password."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes of the block at once, or none if it raises. Others wait before they change anything."""
        ...

    def put(self, entry: Entry, *, replaces: StoredEdit | None = None, supersede: bool = False) -> Sequence[StoredEdit]:
        """Keep an entry as a new edit, or as the next version of `replaces`; return all changes, this one last.

        supersede: retire the active edits that the entry contradicts. Raises EntryError for an entry that `checked`
        refuses, ConflictError where it contradicts or repeats active edits, StoreError if `replaces` has changed.
        """
        ...

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[StoredEdit]:
        """The log after its first `after` changes, of all edits or of one."""
        ...

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was kept last, as text behind its number, from 1; None if its number is not above `after`."""
        ...

    def keep_gate(self, gate: str) -> None:
        """Keep a gate for these edits; earlier ones stay behind it."""
        ...

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes, for at most `timeout` seconds; return whether it has."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


Row = tuple[int, int, int, str, str, str]  # number, edit, version, created_at, the entry as JSON, checksum


class Log(Protocol):
    """What `append` asks of a backend, inside a transaction."""

    def last(self) -> tuple[int, int]:
        """The highest number of a change and of an edit; zeros if there is none."""
        ...

    def claimants(self, keys: Collection[str]) -> Sequence[int]:
        """The edits that claim one of the keys."""
        ...

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[StoredEdit]:
        """The log, as in `EditStore`."""
        ...

    def write(self, row: Row, keys: Collection[str]) -> None:
        """Add a change; its edit now claims these keys and no others."""
        ...


def append(log: Log, entry: Entry, replaces: StoredEdit | None, supersede: bool, at: datetime) -> list[StoredEdit]:
    """Do what `EditStore.put` promises, with the backend's log, inside a transaction. at: the time of new versions."""
    entry = checked(entry)
    number, last = log.last()
    edit = last + 1 if replaces is None else replaces.id
    latest = None if replaces is None else _latest(log, edit)
    if replaces is not None and (latest is None or latest.version != replaces.version):
        raise StoreError(f"edit {edit} has changed since version {replaces.version}: look at it, and try again")
    found: list[StoredEdit] = []
    if entry.status is Status.ACTIVE:
        others = (_latest(log, one) for one in sorted(log.claimants(claims(entry))) if one != edit)
        found = [one for one in others if one and overlap(one.entry, entry)]
    if found and not (supersede and all(one.entry.differs(entry) for one in found)):
        raise ConflictError(entry, found)
    why = f"superseded by edit {edit}"
    retired = (replace(one.entry, status=Status.RETIRED, author=entry.author, reason=why) for one in found)
    new = [(one.id, one.version + 1, rest) for one, rest in zip(found, retired, strict=True)]
    new.append((edit, latest.version + 1 if latest else 1, entry))
    changes = [StoredEdit(n, *one[:2], stamp(at), one[2]) for n, one in enumerate(new, number + 1)]
    for one in changes:
        content = (one.number, one.id, one.version, one.created_at, to_json(one.entry))
        active = one.entry.status is Status.ACTIVE
        log.write((*content, _checksum(content)), claims(one.entry) if active else ())
    return changes


def _latest(log: Log, edit: int) -> StoredEdit | None:
    return next(reversed(log.changes(edit=edit)), None)


def stored(name: str, rows: Sequence[Row], after: int, edit: int | None) -> list[StoredEdit]:
    """The changes in rows of a log. Raises StoreError if a row is damaged or missing; `name`: the store's."""
    for expected, (*content, checksum) in enumerate(rows, after + 1):
        if checksum != _checksum(content) or (edit is None and content[0] != expected):
            raise damaged(name, f"change {expected}" if edit is None else f"edit {edit}")
    try:
        return [StoredEdit(n, one, version, at, entry_of(parse(text))) for n, one, version, at, text, _ in rows]
    except ValueError as problem:
        raise damaged(name, str(problem)) from None


def damaged(name: str, what: str) -> StoreError:
    """The error for a store that holds what no store holds."""
    remedy = "restore it from a copy, or give another --store"
    return StoreError(f"{name} is damaged or no store of edits ({what}): {remedy}")


def _checksum(content: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]


def snapshot(store: EditStore, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Reads only what has changed since an earlier snapshot."""
    since = since or Snapshot()
    changes = store.changes(since.revision)
    return Snapshot(changes[-1].number, {**since.edits, **{one.id: one for one in changes}}) if changes else since


def versions(store: EditStore, edit: int) -> Sequence[StoredEdit]:
    """All versions of an edit, the latest last. Raises StoreError if there is no such edit."""
    found = store.changes(edit=edit)
    if not found:
        raise StoreError(f"there is no edit {edit}: choose one that is listed (drike edits list --all)")
    return found


def retire(
    store: EditStore, edit: int, *, author: str | None = None, reason: str | None = None
) -> Sequence[StoredEdit]:
    """Take an edit out of force; return the change. Raises StoreError if it does not exist or is retired already."""
    *_, latest = versions(store, edit)
    if latest.entry.status is Status.RETIRED:
        raise StoreError(f"edit {edit} is retired already: choose one that is listed (drike edits list)")
    return store.put(replace(latest.entry, status=Status.RETIRED, author=author, reason=reason), replaces=latest)


def rollback(
    store: EditStore,
    edit: int,
    version: int | None = None,
    *,
    author: str | None = None,
    reason: str | None = None,
    supersede: bool = False,
) -> Sequence[StoredEdit]:
    """Go back to a version of an edit, by default the one before the latest; return the changes, a new version last.

    Raises StoreError if there is no such edit or version, and what `EditStore.put` raises.
    """
    *before, latest = versions(store, edit)
    wanted = len(before) if version is None else version
    if not 1 <= wanted <= len(before):
        raise StoreError(
            f"edit {edit} is at version {latest.version}: choose an earlier one (drike edits show {edit})"
            if before
            else f"edit {edit} has only one version: retire it instead"
        )
    why = f"back to version {wanted}" + (f": {reason}" if reason else "")
    entry = replace(before[wanted - 1].entry, author=author, reason=why)
    return store.put(entry, replaces=latest, supersede=supersede)


def stamp(moment: datetime) -> str:
    """A time as 2026-11-22T03:44:32Z: such texts sort by time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_json(entry: Entry) -> str:
    """The fields of an entry that differ from their defaults, as a JSON object."""
    values = {one.name: value for one in fields(entry) if (value := getattr(entry, one.name)) != one.default}
    return json.dumps(values, ensure_ascii=False)


def entry_of(values: Mapping[str, object]) -> Entry:
    """The entry with the fields of a JSON object, and defaults for others. Raises ValueError."""
    return read(Entry, {**DEFAULTS, **values})


def checked(entry: Entry) -> Entry:
    """The entry with texts stripped, repeats removed and times in UTC. Raises EntryError, which names the field."""
    try:
        values = json.loads(to_json(entry))
        entry_of(values)
    except ValueError as problem:
        raise EntryError(f"{problem}: correct the field") from None
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = _text(name, value)
        elif isinstance(value, list):
            values[name] = list(dict.fromkeys(_text(name, text) for text in value))
    for name in values.keys() & {"valid_from", "valid_to"}:
        values[name] = _utc(name, values[name])
    found = entry_of(values)
    found = replace(found, aliases=tuple(name for name in found.aliases if name != found.subject))
    if found.valid_from and found.valid_to and found.valid_from >= found.valid_to:
        raise EntryError(f"valid_to ({found.valid_to}) must be later than valid_from ({found.valid_from})")
    if not any(mentions(found.query, name) for name in found.names):
        raise EntryError(f"subject {shown(found.subject)!r} is not in the query: copy it from there, or add an alias")
    if found.target_true and normalise(found.target_true) == normalise(found.target_new):
        raise EntryError(f"target_new is the old object already ({shown(found.target_true)!r}): give a new one")
    if both := {found.query, *found.wordings} & set(found.negatives):
        raise EntryError(f"negatives hold the edit's own query {shown(min(both))!r}: remove it from one of them")
    return found


def _text(name: str, text: str) -> str:
    text = text.strip()
    if not text:
        raise EntryError(f"{name} is blank: give it a text, or leave it out")
    if len(text) > _LONGEST:
        raise EntryError(f"{name} has {len(text):,} characters: shorten it to {_LONGEST:,} at most")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise EntryError(f"{name} holds half a character (a lone surrogate): remove it") from None
    return text


def _utc(name: str, text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise EntryError(f"{name} {shown(text)!r} is no time: write 2026-12-31, or 2026-12-31T08:00+01:00") from None


def claims(entry: Entry) -> frozenset[str]:
    """Keys of the questions an entry answers: its queries, and its relation under each name of the subject."""
    relation = entry.relation or next(filter(None, (wording(entry.query, one) for one in entry.names)), entry.query)
    asked = normalise(relation.replace("{}", " it "))
    return frozenset(
        [f"query\n{normalise(text)}" for text in (entry.query, *entry.wordings)]
        + [f"relation\n{asked}\n{normalise(name)}" for name in entry.names]
    )


def overlap(one: Entry, other: Entry) -> bool:
    """Whether two entries hold at the same time."""
    begin = max(one.valid_from or "", other.valid_from or "")
    return begin < min(one.valid_to or _ALWAYS, other.valid_to or _ALWAYS)
