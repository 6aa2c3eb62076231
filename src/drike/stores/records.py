"""What a store keeps of an edit, and which of that it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum

from drike.datasets.paraphrases import query_template
from drike.datasets.rows import shown
from drike.edits import Edit, mentions
from drike.errors import DrikeError
from drike.matching import normalise
from drike.support.records import read

POSTGRES = ("postgresql://", "postgres://")  # how addresses of stores in PostgreSQL begin

_LONGEST = 10_000  # characters of a text, as in data sets
ALWAYS = "~"  # sorts behind every time


class StoreError(DrikeError):
    """A store of edits, or an edit in it, cannot be used."""


class UnavailableError(StoreError):
    """A store cannot be used at the moment; a later attempt may succeed."""


class RecordError(StoreError):
    """An entry cannot be stored as it is; the message names the field."""


class ConflictError(RecordError):
    """Active edits answer the entry's question already. `rivals`: these; `repeated`: they have the same object."""

    def __init__(self, entry: EditRecord, rivals: Sequence[EditVersion]) -> None:
        self.rivals = tuple(rivals)
        self.repeated = all(normalise(one.record.target_new) == normalise(entry.target_new) for one in rivals)
        known = " and ".join(f"edit {one.id} ({one.record.fact})" for one in rivals)
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
class EditRecord:
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

    def differs(self, other: EditRecord) -> bool:
        """Whether two entries differ in more than where they come from."""
        return replace(self, source=other.source, author=other.author, reason=other.reason) != other


NEEDED = tuple(one.name for one in fields(EditRecord) if one.default is MISSING)
LISTS: dict[str, list[str]] = {one.name: [] for one in fields(EditRecord) if one.default == ()}
DEFAULTS = {one.name: one.default for one in fields(EditRecord) if one.name not in NEEDED} | LISTS


@dataclass(frozen=True)
class EditVersion:
    """One version of an edit.

    number: its place in the store's log, from 1. id, version: of the edit, from 1. created_at: UTC, of the version.
    """

    number: int
    id: int
    version: int
    created_at: str
    record: EditRecord


def as_stored(edits: Sequence[Edit]) -> tuple[EditVersion, ...]:
    """Edits as a store would hold them, with ids from 1, for a gate without a store."""
    entries = (EditRecord(e.subject or "", e.query, e.target_new, e.target_true, e.relation) for e in edits)
    return tuple(EditVersion(i, i, 1, "", entry) for i, entry in enumerate(entries, 1))


def stamp(moment: datetime) -> str:
    """A time as 2026-11-22T03:44:32Z: such texts sort by time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_json(entry: EditRecord) -> str:
    """The fields of an entry that differ from their defaults, as a JSON object."""
    values = {one.name: value for one in fields(entry) if (value := getattr(entry, one.name)) != one.default}
    return json.dumps(values, ensure_ascii=False)


def entry_of(values: Mapping[str, object]) -> EditRecord:
    """The entry with the fields of a JSON object, and defaults for others. Raises ValueError."""
    return read(EditRecord, {**DEFAULTS, **values})


def checked(entry: EditRecord) -> EditRecord:
    """The entry with texts stripped, repeats removed and times in UTC. Raises RecordError, which names the field."""
    try:
        values = json.loads(to_json(entry))
        entry_of(values)
    except ValueError as problem:
        raise RecordError(f"{problem}: correct the field") from None
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
        raise RecordError(f"valid_to ({found.valid_to}) must be later than valid_from ({found.valid_from})")
    if not any(mentions(found.query, name) for name in found.names):
        raise RecordError(f"subject {shown(found.subject)!r} is not in the query: copy it from there, or add an alias")
    if found.target_true and normalise(found.target_true) == normalise(found.target_new):
        raise RecordError(f"target_new is the old object already ({shown(found.target_true)!r}): give a new one")
    if both := {found.query, *found.wordings} & set(found.negatives):
        raise RecordError(f"negatives hold the edit's own query {shown(min(both))!r}: remove it from one of them")
    return found


def _text(name: str, text: str) -> str:
    text = text.strip()
    if not text:
        raise RecordError(f"{name} is blank: give it a text, or leave it out")
    if len(text) > _LONGEST:
        raise RecordError(f"{name} has {len(text):,} characters: shorten it to {_LONGEST:,} at most")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RecordError(f"{name} holds half a character (a lone surrogate): remove it") from None
    return text


def _utc(name: str, text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise RecordError(f"{name} {shown(text)!r} is no time: write 2026-12-31, or 2026-12-31T08:00+01:00") from None


def conflict_keys(entry: EditRecord) -> frozenset[str]:
    """Keys of the questions an entry answers: its queries, and its relation under each name of the subject."""
    relation = entry.relation or next(
        filter(None, (query_template(entry.query, one) for one in entry.names)), entry.query
    )
    asked = normalise(relation.replace("{}", " it "))
    return frozenset(
        [f"query\n{normalise(text)}" for text in (entry.query, *entry.wordings)]
        + [f"relation\n{asked}\n{normalise(name)}" for name in entry.names]
    )


def overlap(one: EditRecord, other: EditRecord) -> bool:
    """Whether two entries hold at the same time."""
    begin = max(one.valid_from or "", other.valid_from or "")
    return begin < min(one.valid_to or ALWAYS, other.valid_to or ALWAYS)
