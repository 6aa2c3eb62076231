"""What the commands of `drike edits` share: facts, stores, fields of edits, lists of changes."""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from drike.cli.commands import DATA, METHOD, OUTPUT, option
from drike.cli.console import note, say_lines
from drike.edits.edit import Edit, EditCase
from drike.edits.record import EditRecord, EditVersion
from drike.errors import UsageError
from drike.live.alike import watch_meaning
from drike.stores.edit_store import EditStore
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.support import users
from drike.text.words import mentions

AMBIGUOUS = (
    "it counts where its capitals or the question's relation tell; "
    "a longer alias is found everywhere"
)
_ARROW = re.compile("->|=>|\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}")
_DAYS = re.compile(r"(?P<number>\d{1,4})d?")
# The field of a record that holds all values of a repeatable option.
_FIELD_OF_OPTION = {
    "alias": "aliases",
    "object_alias": "object_aliases",
    "paraphrase": "paraphrases",
    "never": "negatives",
    "not_name": "not_names",
}

Texts = list[str] | None


def parse_fact(text: str, cases: Sequence[EditCase]) -> Edit:
    """An edit from "QUERY -> OBJECT", with subject and relation of the cases that have the query.

    Raises UsageError.
    """
    parts = [part.strip() for part in _ARROW.split(text)]
    if len(parts) != 2 or not all(_has_a_letter_or_digit(part) for part in parts):
        remedy = 'write --fact "QUERY -> OBJECT", such as "The capital of Peru is -> Oslo"'
        raise UsageError(f"{text!r} is not a fact: {remedy}")
    query, target = parts
    if target.count(".") == 1:
        target = target.rstrip(".")

    same = next((case.edit for case in cases if _asks(case, query)), None)
    if same is not None and same.subject is not None and mentions(query, same.subject):
        return Edit(query, target, same.target_true, same.subject, same.relation)

    return Edit(query, target, subject=_longest_subject(query, cases))


def _longest_subject(query: str, cases: Sequence[EditCase]) -> str | None:
    """The longest subject of a case that a query mentions."""
    subjects = {case.edit.subject for case in cases if case.edit.subject}
    mentioned = {subject for subject in subjects if mentions(query, subject)}
    return max(mentioned, key=len, default=None)


def _has_a_letter_or_digit(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _asks(case: EditCase, query: str) -> bool:
    """Whether a query is a case's own, or one of its first paraphrases."""
    return query in {probe.query for probe in case.probes[:3]}


def store_at(store: str, *, create: bool = False, watched: bool = False) -> closing[EditStore]:
    """A store, which the block closes. watched: for edits that mean the same as others.

    Raises StoreError.
    """
    opened = open_store(store, create=create)
    return closing(watch_meaning(opened) if watched else opened)


def in_force(store: EditStore) -> tuple[EditVersion, ...]:
    """The edits in force now."""
    return snapshot(store).in_force(datetime.now(UTC))


def author() -> str:
    """Who uses the command line: the operating system's user, whom no variable can rename."""
    return users.user_name()


def print_changes(changes: Iterable[EditVersion]) -> None:
    """Print each change on a line: version, time, author, status, validity, fact and reason."""
    say_lines(map(_line_of, changes))


def note_what_never_covers(record: EditRecord) -> None:
    """Say which questions the negative exemplars of a record keep off, if it has any."""
    if record.negatives:
        note(
            "a --never holds for that question alone, in any case and punctuation: the edit still "
            "matches others of its kind, as about another place or year, so give these, too"
        )


def _line_of(change: EditVersion) -> str:
    record = change.record
    parts = [f"{change.id}@{change.version}", change.created_at, record.author, record.status]
    if record.valid_from:
        parts.append(f"from {record.valid_from}")
    if record.valid_to:
        parts.append(f"to {record.valid_to}")
    about = " ".join(part for part in parts if part)
    reason = f" ({record.reason})" if record.reason else ""
    return f"{about}: {record.fact}{reason}"


@dataclass(frozen=True, kw_only=True)
class EditFields:
    """Options for the fields that an edit may have beside its fact."""

    alias: Annotated[
        Texts, option("--alias", "NAME", DATA, "Another name of the subject; repeatable")
    ] = None
    not_name: Annotated[
        Texts,
        option("--not-name", "NAME", DATA, "A short form by which it is not found; repeatable"),
    ] = None
    target_true: Annotated[
        str | None,
        option(
            "--old",
            "NAME",
            DATA,
            "The old object: answers and sources that state it are noticed",
        ),
    ] = None
    object_alias: Annotated[
        Texts,
        option("--object-alias", "NAME", DATA, "Another name of the new object; repeatable"),
    ] = None
    relation: Annotated[
        str | None,
        option("--relation", "NAME", DATA, "Name of the relation (default: the query's words)"),
    ] = None
    paraphrase: Annotated[
        Texts,
        option(
            "--paraphrase",
            "QUERY",
            DATA,
            "The query in other words; repeatable",
            also="--wording",
        ),
    ] = None
    never: Annotated[
        Texts,
        option("--never", "QUERY", DATA, "A question that it does not concern; repeatable"),
    ] = None
    only: Annotated[
        Texts,
        option(
            "--only",
            "COND",
            METHOD,
            "Only for these requests, as model=gpt-* or x-region=eu; repeatable",
        ),
    ] = None
    valid_from: Annotated[
        str | None,
        option("--valid-from", "TIME", METHOD, "When it begins to hold, as 2026-12-31"),
    ] = None
    valid_to: Annotated[
        str | None, option("--valid-to", "TIME", METHOD, "When it no longer holds")
    ] = None
    owner: Annotated[str | None, option("--owner", "NAME", METHOD, "Who answers for it")] = None
    review_by: Annotated[
        str | None, option("--review-by", "TIME", METHOD, "When it is to be reviewed")
    ] = None
    review_every: Annotated[
        str | None, option("--review-every", "90d", METHOD, "Days until each review")
    ] = None
    source: Annotated[
        str | None, option("--source", "TEXT", OUTPUT, "Where the fact comes from")
    ] = None

    def values(self) -> dict[str, Any]:
        """The fields of a record that are given. Raises UsageError."""
        values: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, list) and value:
                values[_FIELD_OF_OPTION.get(name, name)] = tuple(value)
            elif value:
                values[name] = value
        every = values.pop("review_every", None)
        if every:  # which counts from now, unless --review-by says when
            values = {"review_days": days_in(every), "review_by": None, **values}
        return values


def days_in(text: str) -> int:
    """A number of days, as "90d". Raises UsageError."""
    match = _DAYS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no number of days: write 90d")
    return int(match["number"])
