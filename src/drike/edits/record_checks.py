"""What a store refuses to keep of an edit, each fault with its field and the remedy."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from drike.answers.matching import normalise
from drike.edits.conditions import condition
from drike.edits.record import LISTS, EditRecord, RecordError, Status
from drike.edits.record_json import json_name, record_of, to_json
from drike.edits.times import moment, stamp
from drike.support.rows import shown
from drike.text.words import MAX_NAME, MAX_NAME_WORDS, Words, mentions

MAX_FACT = 512  # characters of a query with its new object, which prompts state whole
_MAX_LENGTH = 10_000  # characters of a text, as in data sets
_MAX_DAYS = 3660  # between reviews
# Texts of a record, and characters of all of them: each version holds them all.
_MAX_TEXTS = 200
_MAX_TOTAL = 65_536

_TIMES = ("valid_from", "valid_to", "review_by")


def checked(record: EditRecord) -> EditRecord:
    """The record with texts stripped, repeats removed and times in UTC.

    Raises RecordError, which names the field.
    """
    record = _of_right_types(record)
    changes: dict[str, Any] = {}
    for name, value in vars(record).items():
        if name in _TIMES and value is not None:
            changes[name] = stamp(moment(value.strip(), name))
        elif type(value) is str:
            changes[name] = _stripped(json_name(name), value)
        elif type(value) is tuple:
            texts = (_stripped(json_name(name), text) for text in value)
            changes[name] = tuple(dict.fromkeys(texts))

    subject = changes["subject"]
    changes["aliases"] = tuple(alias for alias in changes["aliases"] if alias != subject)
    try:
        changes["only"] = tuple(condition(text) for text in changes["only"])
    except ValueError as problem:
        raise RecordError(f"only {problem}") from None

    held = {*changes["paraphrases"], *changes["negatives"]}
    written_by = {text: by for text, by in (record.written_by or {}).items() if text in held}
    changes["written_by"] = written_by or None
    record = replace(record, **changes)
    fault = next(_faults(record), None)
    if fault is not None:
        raise RecordError(fault)
    return record


def _of_right_types(record: EditRecord) -> EditRecord:
    """The record as it is read back from JSON.

    Raises RecordError for values that JSON cannot hold.
    """
    try:
        # Not by `parse`, which would not name the field that holds half a character.
        return record_of(json.loads(to_json(record)))
    except ValueError as problem:
        raise RecordError(f"{problem}: correct the field") from None


def _stripped(name: str, text: str) -> str:
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


def _faults(record: EditRecord) -> Iterator[str]:
    """What is wrong with a record whose texts and times are in order."""
    yield from _faults_of_reviews(record)
    yield from _faults_of_sizes_and_times(record)
    if record.status is not Status.RETIRED:
        # Edits of older stores can be retired whatever they hold.
        yield from _faults_of_texts(record)
        yield from _faults_of_names(record)
        yield from _faults_of_query(record)

    if record.target_true and normalise(record.target_true) == normalise(record.target_new):
        old_object = shown(record.target_true)
        yield f"target_new is the old object already ({old_object!r}): give a new one"
    asked_and_excluded = {record.query, *record.paraphrases} & set(record.negatives)
    if asked_and_excluded:
        query = shown(min(asked_and_excluded))
        yield f"negatives hold the edit's own query {query!r}: remove it from one of them"


def _faults_of_reviews(record: EditRecord) -> Iterator[str]:
    if not record.approved_as.in_use:
        yield f"approved_as is {record.approved_as}: an edit is approved as active or as shadow"
    days = record.review_days
    if days is not None and not 1 <= days <= _MAX_DAYS:
        yield f"review_days is {days}: give a number of days from 1 to {_MAX_DAYS:,}"


def _faults_of_sizes_and_times(record: EditRecord) -> Iterator[str]:
    metadata = record.metadata or {}
    if sum(len(name) + len(value) for name, value in metadata.items()) > _MAX_LENGTH:
        yield f"metadata has more than {_MAX_LENGTH:,} characters: leave out what is not needed"
    written_by = record.written_by or {}
    if sum(map(len, written_by.values())) > _MAX_LENGTH:
        yield f"written_by has more than {_MAX_LENGTH:,} characters: shorten the authors' names"
    begin = record.valid_from
    end = record.valid_to
    if begin and end and begin >= end:
        yield f"valid_to ({end}) must be later than valid_from ({begin})"


def _faults_of_texts(record: EditRecord) -> Iterator[str]:
    texts = [text for name in LISTS for text in getattr(record, name)]
    size = sum(len(text) for text in texts)
    for name in ("paraphrases", "negatives"):
        wordless = next((text for text in getattr(record, name) if not _has_word(text)), None)
        if wordless is not None:
            yield (
                f"{json_name(name)} hold {shown(wordless)!r}, in which there is no word, so that "
                "no question is like it: write a question, or leave it out"
            )
    if len(texts) > _MAX_TEXTS or size > _MAX_TOTAL:
        yield (
            "aliases, wordings, negatives and object_aliases are "
            f"{len(texts):,} texts of {size:,} characters: "
            f"leave {_MAX_TEXTS} texts of {_MAX_TOTAL:,} characters at most"
        )


def _faults_of_names(record: EditRecord) -> Iterator[str]:
    for name in record.names:
        field = "subject" if name == record.subject else "aliases"
        if not _has_word(name):
            yield (
                f"{field} {shown(name)!r} has no word, so that no question names it: "
                "give a name with a letter or a digit"
            )
        excess = _excess_of_name(name)
        if excess is not None:
            yield (
                f"{field} {shown(name)!r} has {excess}: "
                f"shorten it to {MAX_NAME_WORDS} words and {MAX_NAME} characters at most"
            )


def _has_word(text: str) -> bool:
    """Whether a gate reads a word in a text: not in "!!!", nor in marks of letters alone."""
    if not any(map(str.isalnum, text)):
        return False
    return text.isascii() or len(Words.of(text)) > 0


def _excess_of_name(name: str) -> str | None:
    """How many characters or words a name has, if these are too many."""
    if len(name) > MAX_NAME:
        return f"{len(name):,} characters"
    # Words need not be counted where too few characters stand between them for there to be many.
    if name.isascii() and sum(map(str.isalnum, name)) > len(name) - MAX_NAME_WORDS:
        return None
    count = Words.of(name).weight
    return f"{count:,} words" if count > MAX_NAME_WORDS else None


def _faults_of_query(record: EditRecord) -> Iterator[str]:
    length = len(record.edit.fact)
    if length > MAX_FACT:
        yield (
            f"query and target_new have {length:,} characters: shorten them to {MAX_FACT:,} at most"
        )
    if not any(mentions(record.query, name) for name in record.names):
        subject = shown(record.subject)
        yield f"subject {subject!r} is not in the query: copy it from there, or add an alias"
