"""Records of edits: what a person says about an edit, and its versions, as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from drike.edits.edit import Edit
from drike.errors import DrikeError
from drike.support.rows import shown
from drike.text.words import Words, mentions, words

if TYPE_CHECKING:
    from drike.answers.statements import Stated
    from drike.answers.time_limit import TimeLimit


class StoreError(DrikeError):
    """A store of edits, or an edit in it, cannot be used."""


class UnavailableError(StoreError):
    """A store cannot be used at the moment; a later attempt may succeed."""


class MissingStoreError(StoreError):
    """There is no store at an address."""

    def __init__(self, address: object) -> None:
        self.address = address
        remedy = "add an edit first, or give another --store"
        super().__init__(f"there is no store of edits at {address}: {remedy}")


class RecordError(StoreError):
    """A record cannot be stored as it is; the message names the field."""


class ApprovalError(StoreError):
    """A version would be in use without the approvals that its store requires.

    own: its author is approving it.
    """

    def __init__(self, needed: int, *, own: bool = False) -> None:
        people = "somebody" if needed == 1 else f"{needed} people"
        approvers = f"{people} other than {'you' if own else 'its author'}"
        if own:
            super().__init__(f"this is your own: ask {approvers} to approve it")
        else:
            super().__init__(
                f"this store requires that {approvers} approve it first: "
                "propose it (drike edits propose)"
            )


class Status(StrEnum):
    """How far an edit takes effect.

    A proposed or rejected version leaves an earlier one of the edit as it was.
    """

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

    subject, query, target_new, target_true, relation: as in `Edit`; without a relation, it is the
    query around the subject, which is "" only in a record of `as_stored`. negatives: questions that
    the edit must never match. valid_to: the end, excluded; times are ISO 8601, UTC unless they name
    a zone. priority: of several edits that concern a question, those with the highest come first.
    enforce: a gateway that cannot decide refuses questions that name the subject, instead of
    answering unedited. only: to whom it applies (`drike.edits.conditions`). approved_as: the status
    of a proposed version once it is approved. review_days: how many days after a review it is due
    again. metadata: what else a file says of it. written_by: who wrote a paraphrase or a negative,
    by its text, where that was no person: "model NAME" or "templates". author, reason, move: who
    made this change, why, and what it was.
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
    not_names: tuple[str, ...] = ()
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
    written_by: Mapping[str, str] | None = field(default=None, hash=False)
    source: str | None = None
    author: str | None = None
    reason: str | None = None
    move: Move | None = None

    def replaces(self, known: EditRecord | None) -> bool:
        """Whether, as a later version, it takes the place of what was known of its edit.

        It does if it decides, or if nothing did.
        """
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
        """The edit as it is best stated beside a query: with the name that the query has.

        If that is an alias, the edit is stated under it, as a model may not connect the two names.
        """
        query_words = Words.of(query)
        names_in_query = (name for name in self.names if any(query_words.spans(Words.of(name))))
        name = next(names_in_query, self.subject)
        if name == self.subject:
            return self.edit
        return replace(self.edit, query=self.query_with(name), subject=name)

    def query_with(self, name: str) -> str:
        """The query with another name for the subject, or for the alias by which it names it."""
        query_words = Words.of(self.query)
        for known_name in sorted(self.names, key=len, reverse=True):
            spans = list(query_words.spans(Words.of(known_name)))
            if spans:
                return query_words.replaced(dict.fromkeys(spans, name))
        return self.query

    def states(self, answer: str, question: str = "", limit: TimeLimit | None = None) -> Stated:
        """Which of its objects an answer states.

        question: what was asked, by which "yes" and "no" are read as well. limit: how long reading
        may take, after which it raises OverTimeError.
        """
        from drike.answers.statements import stated  # its patterns take a while to compile

        old_names = () if self.target_true is None else (self.target_true,)
        new_names = (self.target_new, *self.object_aliases)
        return stated(
            answer, new_names, old_names, about=self.names, question=question, limit=limit
        )

    @property
    def own_paraphrases(self) -> tuple[str, ...]:
        """The paraphrases that people wrote."""
        if not self.written_by:
            return self.paraphrases
        return tuple(text for text in self.paraphrases if text not in self.written_by)

    @property
    def naming_paraphrases(self) -> tuple[str, ...]:
        """The paraphrases that people wrote, and those of others that name the subject.

        Of the others a question must hold more than the text: a system text, say, with the subject.
        """
        if not self.written_by:
            return self.paraphrases
        return tuple(
            text
            for text in self.paraphrases
            if text not in self.written_by or any(mentions(text, name) for name in self.names)
        )

    @property
    def written_negatives(self) -> tuple[str, ...]:
        """The negatives that no person wrote."""
        return tuple(text for text in self.negatives if text in (self.written_by or ()))

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
MADE = ("author", "reason", "move")  # of a change, not of the edit

_WITHOUT_EFFECT = ("owner", "review_by", "review_days", "metadata", "source", *MADE)


def effect(record: EditRecord) -> EditRecord:
    """What a record does to answers once it is in use: without its status, who wrote it and why."""
    cleared: Mapping[str, Any] = dict.fromkeys(_WITHOUT_EFFECT)
    return replace(record, status=Status.ACTIVE, approved_as=Status.ACTIVE, **cleared)


@dataclass(frozen=True)
class EditVersion:
    """One version of an edit.

    number: of its change in the store's log, from 1. checksum: of that change.
    """

    number: int
    id: int
    version: int
    created_at: str
    record: EditRecord
    checksum: str = field(default="", compare=False, repr=False)

    @cached_property
    def searched(self) -> str:
        """The words by which people look for it, in small letters: names, query, object and id."""
        record = self.record
        text = "\n".join((*record.names, record.query, record.target_new, str(self.id)))
        return text.casefold() if text.isascii() else " ".join(words(text))


def as_stored(edits: Sequence[Edit]) -> tuple[EditVersion, ...]:
    """Edits as a store would hold them, with ids from 1, for a gate without a store."""
    return tuple(
        EditVersion(number, number, 1, "", _record_of_edit(edit))
        for number, edit in enumerate(edits, 1)
    )


def _record_of_edit(edit: Edit) -> EditRecord:
    return EditRecord(
        edit.subject or "", edit.query, edit.target_new, edit.target_true, edit.relation
    )
