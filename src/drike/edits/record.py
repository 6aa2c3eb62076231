"""Records of edits: what a store keeps of an edit, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from drike.answers.matching import normalise
from drike.edits.conditions import apart, condition
from drike.edits.edit import Edit
from drike.errors import DrikeError
from drike.support.records import parse, read
from drike.support.rows import shown
from drike.text.templates import query_template
from drike.text.words import MAX_NAME, MAX_NAME_WORDS, Words, mentions, words

if TYPE_CHECKING:
    from drike.answers.statements import Stated

POSTGRES = ("postgresql://", "postgres://")  # how addresses of stores in PostgreSQL begin
MAX_FACT = 512  # characters of a query with its new object, which prompts state whole
_MAX_LENGTH = 10_000  # characters of a text, as in data sets
_MAX_DAYS = 3660  # between reviews
_MAX_TEXTS, _MAX_TOTAL = (
    200,
    65_536,
)  # texts of a record, and characters of all: each version holds all of them
_FOREVER = "~"  # sorts behind every time
_OLD_NAMES = {
    "paraphrases": "wordings"
}  # of fields, which files, databases and the gateway's JSON keep
_NEW_NAMES = {old: new for new, old in _OLD_NAMES.items()}


class StoreError(DrikeError):
    """A store of edits, or an edit in it, cannot be used."""


class UnavailableError(StoreError):
    """A store cannot be used at the moment; a later attempt may succeed."""


class MissingStoreError(StoreError):
    """There is no store at an address."""

    def __init__(self, address: object) -> None:
        super().__init__(
            f"there is no store of edits at {address}: add an edit first, or give another --store"
        )


class RecordError(StoreError):
    """A record cannot be stored as it is; the message names the field."""


Remedies = Sequence[
    tuple[str | tuple[str, ...], type[StoreError], str]
]  # by how codes of a database's errors begin
BUSY = "is in use by another process: wait for it to end, and try again"
DAMAGED = "is damaged or no store of edits ({}): restore it from a copy, or give another --store"
FULL = "cannot be written ({}): make room, or check the {}; what was acknowledged stays"


def damaged(name: str, what: str) -> StoreError:
    """The error for a store whose content cannot be that of a store."""
    return StoreError(f"{name} {DAMAGED.format(what)}")


def explained(name: str, code: str, why: str, remedies: Remedies) -> StoreError:
    """The error for one that a database raised with a code."""
    error, remedy = next(
        (error, remedy) for begins, error, remedy in remedies if code.startswith(begins)
    )
    return error(f"{name} {remedy.format(why)}")


class ConflictError(RecordError):
    """Active edits answer the record's question already. `rivals`: these; `repeated`: they have the same object."""

    def __init__(self, record: EditRecord, rivals: Sequence[EditVersion]) -> None:
        self.rivals = tuple(rivals)
        self.repeated = all(
            normalise(rival.record.target_new) == normalise(record.target_new) for rival in rivals
        )
        known = " and ".join(f"edit {rival.id} ({rival.record.fact})" for rival in rivals)
        keys, id = conflict_keys(record), self.rivals[0].id
        shared = any(keys & conflict_keys(rival.record) for rival in rivals)
        if self.repeated and shared:
            end = f"repeats {known}: there is nothing to do, unless the new one shall supersede it (--supersede)"
        elif self.repeated:
            end = f"says in other words what {known} says: add it there (drike edits change {id} --paraphrase QUERY)"
        elif shared:
            end = f"contradicts {known}: retire that edit, or let the new one supersede it (--supersede)"
        else:
            remedy = "let the new one supersede it (--supersede) or, if both hold, give it the other's query as --never"
            end = f"contradicts {known} in other words: {remedy}"
        super().__init__(f"{record.fact} {end}")


class ApprovalError(StoreError):
    """A version would be in use without the approvals that its store requires. own: its author is approving it."""

    def __init__(self, needed: int, *, own: bool = False) -> None:
        who = f"{'somebody' if needed == 1 else f'{needed} people'} other than {'you' if own else 'its author'}"
        rule = f"this store requires that {who} approve it first: propose it (drike edits propose)"
        super().__init__(f"this is your own: ask {who} to approve it" if own else rule)


class Status(StrEnum):
    """How far an edit takes effect. A proposed or rejected version leaves an earlier one of the edit as it was."""

    DRAFT = "draft"  # not at all
    PROPOSED = "proposed"
    REJECTED = "rejected"
    SHADOW = "shadow"  # matches are counted; answers stay as they are
    ACTIVE = "active"
    RETIRED = "retired"

    @property
    def decides(self) -> bool:
        """Whether a version with this status replaces those before it."""
        return self not in (Status.PROPOSED, Status.REJECTED)

    @property
    def in_use(self) -> bool:
        """Whether a gate looks for such edits."""
        return self in (Status.SHADOW, Status.ACTIVE)


class Move(StrEnum):
    """What a person did to an edit, beyond writing a version of it."""

    PROPOSE = "propose"
    APPROVE = "approve"
    REJECT = "reject"
    REVIEW = "review"


@dataclass(frozen=True)
class EditRecord:
    """All that a person says about an edit.

    subject, query, target_new, target_true, relation: as in `Edit`; without a relation, it is the query around the
    subject, which is "" only in a record of `as_stored`. negatives: questions that the edit must never match. valid_to:
    the end, excluded; times are ISO 8601, UTC unless they name a zone. priority: of several edits that concern a
    question, those with the highest come first. enforce: a gateway that cannot decide refuses questions that name the
    subject, instead of answering unedited. only: to whom it applies (`audience`). approved_as: the status of a proposed
    version once it is approved. review_days: how many days after a review it is due again. metadata: what else a file
    says of it. author, reason, move: who made this change, why, and what.
    """

    sparse: ClassVar[bool] = True  # fields with their default are left out of JSON

    subject: str
    query: str
    target_new: str
    target_true: str | None = None
    relation: str | None = None
    aliases: tuple[str, ...] = ()
    paraphrases: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    object_aliases: tuple[str, ...] = ()
    status: Status = Status.ACTIVE
    valid_from: str | None = None
    valid_to: str | None = None
    priority: int = 0
    enforce: bool = False
    only: tuple[str, ...] = ()
    approved_as: Status = Status.ACTIVE
    owner: str | None = None
    review_by: str | None = None
    review_days: int | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)
    source: str | None = None
    author: str | None = None
    reason: str | None = None
    move: Move | None = None

    def replaces(self, known: EditRecord | None) -> bool:
        """Whether, as a later version, it takes the place of what was known of its edit: it decides, or nothing did."""
        return known is None or self.status.decides or not known.status.decides

    @property
    def must_apply(self) -> bool:
        """Whether it takes effect and must not be left out."""
        return self.enforce and self.status is Status.ACTIVE

    @property
    def edit(self) -> Edit:
        """The edit as editors take it."""
        return Edit(
            self.query, self.target_new, self.target_true, self.subject or None, self.relation
        )

    def edit_in(self, query: str) -> Edit:
        """The edit, stated under an alias if the query does not name the subject: a model may not connect the two."""
        words = Words.of(query)
        name = next((name for name in self.names if any(words.spans(Words.of(name)))), self.subject)
        return (
            self.edit
            if name == self.subject
            else replace(self.edit, query=self.query_with(name), subject=name)
        )

    def query_with(self, name: str) -> str:
        """The query with another name for the subject, or for the alias by which the query names it."""
        words = Words.of(self.query)
        spans = [
            list(words.spans(Words.of(known)))
            for known in sorted(self.names, key=len, reverse=True)
        ]
        return words.replaced(dict.fromkeys(next(filter(None, spans), ()), name))

    def states(self, answer: str, question: str = "") -> Stated:
        """Which of its objects an answer states; by the question, "yes" and "no" are read as well."""
        from drike.answers.statements import stated  # its patterns take a while to compile

        old = () if self.target_true is None else (self.target_true,)
        return stated(
            answer,
            (self.target_new, *self.object_aliases),
            old,
            about=self.names,
            question=question,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The subject and its aliases."""
        return self.subject, *self.aliases

    @property
    def fact(self) -> str:
        """The query and the new object, cut for messages."""
        return f'"{shown(self.query)}" -> "{shown(self.target_new)}"'


REQUIRED = tuple(field.name for field in fields(EditRecord) if field.default is MISSING)
LISTS = tuple(field.name for field in fields(EditRecord) if field.default == ())
_TIMES = ("valid_from", "valid_to", "review_by")
MADE = ("author", "reason", "move")  # of a change, not of the edit
_NO_EFFECT: Mapping[str, Any] = dict.fromkeys(
    ("owner", "review_by", "review_days", "metadata", "source", *MADE)
)
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class EditVersion:
    """One version of an edit. number: of its change in the store's log, from 1. checksum: of that change."""

    number: int
    id: int
    version: int
    created_at: str
    record: EditRecord
    checksum: str = field(default="", compare=False, repr=False)

    @cached_property
    def searched(self) -> str:
        """The words by which people look for it, in small letters: its names, query, new object and id."""
        text = "\n".join(
            (*self.record.names, self.record.query, self.record.target_new, str(self.id))
        )
        return text.casefold() if text.isascii() else " ".join(words(text))


def as_stored(edits: Sequence[Edit]) -> tuple[EditVersion, ...]:
    """Edits as a store would hold them, with ids from 1, for a gate without a store."""
    records = (
        EditRecord(e.subject or "", e.query, e.target_new, e.target_true, e.relation) for e in edits
    )
    return tuple(EditVersion(i, i, 1, "", record) for i, record in enumerate(records, 1))


def stamp(moment: datetime) -> str:
    """A time as 2026-11-22T03:44:32Z: such texts sort by time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_values(record: EditRecord) -> dict[str, object]:
    """The fields of a record, as JSON names them."""
    return {_OLD_NAMES.get(name, name): value for name, value in vars(record).items()}


def to_json(record: EditRecord) -> str:
    """The fields of a record that differ from their defaults, as a JSON object."""
    new = {
        name: value
        for name, value in vars(record).items()
        if value != getattr(EditRecord, name, MISSING)
    }
    return _ENCODE({_OLD_NAMES.get(name, name): value for name, value in new.items()})


def record_of(values: Mapping[str, object]) -> EditRecord:
    """The record with the fields of a JSON object, and defaults for others. Raises ValueError."""
    return read(EditRecord, {_NEW_NAMES.get(name, name): value for name, value in values.items()})


@lru_cache(maxsize=1 << 6)  # what was just stored is read again by those who follow the log
def from_json(text: str) -> EditRecord:
    """The record that `to_json` wrote. Raises ValueError."""
    return record_of(parse(text))


def fields_of(values: object) -> dict[str, Any]:
    """Some fields of a record, as a JSON object has them, for `replace`. Raises ValueError for no or unknown fields."""
    if not isinstance(values, dict) or not values:
        raise ValueError("changes are missing: give the fields with their new values")
    if fixed := values.keys() & {"status", "approved_as", *MADE}:
        raise ValueError(f"{min(fixed)} is no field that can be changed so")
    record = record_of({**dict.fromkeys(REQUIRED, "x"), **values})
    return {
        name: getattr(record, name)
        for name in (_NEW_NAMES.get(said, said) for said in map(str, values))
    }


def checked(record: EditRecord) -> EditRecord:
    """The record with texts stripped, repeats removed and times in UTC. Raises RecordError, which names the field."""
    try:
        record = record_of(
            json.loads(to_json(record))
        )  # `_text` names the field that `parse` could not
    except ValueError as problem:
        raise RecordError(f"{problem}: correct the field") from None
    changes: dict[str, Any] = {}
    for name, value in vars(record).items():
        said = _OLD_NAMES.get(name, name)
        if type(value) is str:
            changes[name] = (
                stamp(moment(value.strip(), name)) if name in _TIMES else _text(said, value)
            )
        elif value and type(value) is tuple:
            changes[name] = tuple(dict.fromkeys(_text(said, text) for text in value))
    changes["aliases"] = tuple(
        name for name in changes.get("aliases", ()) if name != changes["subject"]
    )
    try:
        changes["only"] = tuple(map(condition, changes.get("only", ())))
    except ValueError as problem:
        raise RecordError(f"only {problem}") from None
    record = replace(record, **changes)
    if fault := next(_faults(record), None):
        raise RecordError(fault)
    return record


def _faults(record: EditRecord) -> Iterator[str]:
    if not record.approved_as.in_use:
        yield f"approved_as is {record.approved_as}: an edit is approved as active or as shadow"
    if record.review_days is not None and not 1 <= record.review_days <= _MAX_DAYS:
        yield f"review_days is {record.review_days}: give a number of days from 1 to {_MAX_DAYS:,}"
    if sum(len(name) + len(value) for name, value in (record.metadata or {}).items()) > _MAX_LENGTH:
        yield f"metadata has more than {_MAX_LENGTH:,} characters: leave out what is not needed"
    if record.valid_from and record.valid_to and record.valid_from >= record.valid_to:
        yield f"valid_to ({record.valid_to}) must be later than valid_from ({record.valid_from})"
    if (
        record.status is not Status.RETIRED
    ):  # edits of older stores can be retired whatever they hold
        yield from _faults_of_texts(record)
    if record.target_true and normalise(record.target_true) == normalise(record.target_new):
        yield f"target_new is the old object already ({shown(record.target_true)!r}): give a new one"
    if both := {record.query, *record.paraphrases} & set(record.negatives):
        yield f"negatives hold the edit's own query {shown(min(both))!r}: remove it from one of them"


def _faults_of_texts(record: EditRecord) -> Iterator[str]:
    texts = [text for name in LISTS for text in getattr(record, name)]
    size = sum(map(len, texts))
    if len(texts) > _MAX_TEXTS or size > _MAX_TOTAL:
        has = f"aliases, wordings, negatives and object_aliases are {len(texts):,} texts of {size:,} characters"
        yield f"{has}: leave {_MAX_TEXTS} texts of {_MAX_TOTAL:,} characters at most"
    for name in record.names:
        if (
            len(name) <= MAX_NAME
            and name.isascii()
            and sum(map(str.isalnum, name)) > len(name) - MAX_NAME_WORDS
        ):
            continue  # too few characters stand between words for there to be too many
        if len(name) > MAX_NAME or (count := Words.of(name).weight) > MAX_NAME_WORDS:
            field = "subject" if name == record.subject else "aliases"
            long = f"{len(name):,} characters" if len(name) > MAX_NAME else f"{count:,} words"
            remedy = f"shorten it to {MAX_NAME_WORDS} words and {MAX_NAME} characters at most"
            yield f"{field} {shown(name)!r} has {long}: {remedy}"
    if (length := len(record.edit.fact)) > MAX_FACT:
        yield f"query and target_new have {length:,} characters: shorten them to {MAX_FACT:,} at most"
    if not any(mentions(record.query, name) for name in record.names):
        yield f"subject {shown(record.subject)!r} is not in the query: copy it from there, or add an alias"


def _text(name: str, text: str) -> str:
    text = text.strip()
    if not text:
        raise RecordError(f"{name} is blank: give it a text, or leave it out")
    if len(text) > _MAX_LENGTH:
        raise RecordError(
            f"{name} has {len(text):,} characters: shorten it to {_MAX_LENGTH:,} at most"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RecordError(f"{name} holds half a character (a lone surrogate): remove it") from None
    return text


def moment(text: str, what: str = "the time") -> datetime:
    """A time that a person gives, in UTC unless it names a zone. what: it is, for the message. Raises RecordError."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise RecordError(
            f"{what} {shown(text)!r} is no time: write 2026-12-31, or 2026-12-31T08:00+01:00"
        ) from None


def effect(record: EditRecord) -> EditRecord:
    """What a record does to answers once it is in use: without its status, who wrote it and why."""
    return replace(record, status=Status.ACTIVE, approved_as=Status.ACTIVE, **_NO_EFFECT)


@lru_cache(maxsize=1 << 8)  # of a record that is stored it is asked three times
def conflict_keys(record: EditRecord) -> frozenset[str]:
    """Keys of the questions a record answers: its queries, and its relation under each name of the subject."""
    templates = filter(None, (query_template(record.query, name) for name in record.names))
    asked = _compared((record.relation or next(templates, record.query)).replace("{}", " it "))
    return frozenset(
        [f"query\n{_compared(text)}" for text in (record.query, *record.paraphrases)]
        + [f"relation\n{asked}\n{_compared(name)}" for name in record.names]
    )


def _compared(text: str) -> str:
    """A text as others are compared with it: a gate cannot tell "São Paulo" from "Sao Paulo" either."""
    return normalise(text if text.isascii() else " ".join(words(text)) or text)


def holds_at(record: EditRecord, time: str) -> bool:
    """Whether a record holds at a time, as `stamp` writes it."""
    return (record.valid_from or "") <= time < (record.valid_to or _FOREVER)


def overlap(first: EditRecord, second: EditRecord) -> bool:
    """Whether two records may hold at the same time for the same request."""
    begin = max(first.valid_from or "", second.valid_from or "")
    return begin < min(first.valid_to or _FOREVER, second.valid_to or _FOREVER) and not apart(
        first.only, second.only
    )
