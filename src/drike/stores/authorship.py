"""Who wrote what an edit says: authorship follows a text through every status and into copies.

A person is an author of a record if they wrote, took away or proposed any of what it says beyond
what was in use before, in whatever version of the edit; or if they wrote the fact that it states
into another edit of the store.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import MISSING, replace
from typing import NamedTuple

from drike.edits.record import EditRecord, EditVersion, Move, Status, effect
from drike.stores.approvals import people_named, what_it_says
from drike.stores.snapshots import decided_version
from drike.text.words import words


class StatedFact(NamedTuple):
    """A wording of a query with the new object."""

    wording: str
    target: str

    @property
    def key(self) -> Hashable:
        """What it has in common with facts that differ in case or punctuation alone."""
        return tuple(words(self.wording)), tuple(words(self.target))


class Written(NamedTuple):
    """A version in which its author says something that `base` does not say.

    base: what it was made from; None for an edit's first version, and for a text that is newly
    proposed, which its proposer says as a whole.
    """

    version: EditVersion
    base: EditRecord | None


def written(versions: Sequence[EditVersion]) -> Iterator[Written]:
    """The versions of an edit in which their authors wrote something.

    Approving, rejecting and retiring write nothing, if no text was changed on the way; nor do
    versions that change only what has no effect.
    """
    for place, version in enumerate(versions):
        earlier = versions[:place]
        if not earlier:
            yield Written(version, None)
        elif not _says_nothing_new(version.record, earlier):
            proposed_before = earlier[-1].record.status is Status.PROPOSED
            is_proposed_now = version.record.status is Status.PROPOSED and not proposed_before
            yield Written(version, None if is_proposed_now else changeable(earlier))


def changeable(versions: Sequence[EditVersion]) -> EditRecord:
    """What a change of an edit starts from, of all its versions.

    It is what is proposed, else what was decided.
    """
    latest = versions[-1].record
    return latest if latest.status is Status.PROPOSED else decided_version(versions).record


def was_in_use(record: EditRecord, earlier: Sequence[EditVersion]) -> bool:
    """Whether an earlier version of an edit had the same effect as a record in use, and as much."""
    wanted = effect(record)
    statuses = {version.record.status for version in earlier if effect(version.record) == wanted}
    return not statuses.isdisjoint(_at_least(record.status))


def authors(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who wrote or proposed in these versions of an edit what a record in use says.

    What the edit said when it was last in use has been approved, and its authors are none of the
    record's. A person who changed only what has no effect is not its author.
    """
    wanted = effect(record)
    parts = _parts(record)
    approved = _parts_in_use(record.status, versions)
    unapproved = [
        part for part in parts | approved if parts.get(part) != approved.get(part)
    ]  # what is new, and what is gone

    people = set[str]()
    for version, base in written(versions):
        parts_now = _parts(version.record)
        parts_before = _parts(base) if base else {}
        said_it_all = effect(version.record) == wanted
        wrote_some = any(
            parts_now.get(part) == parts.get(part) != parts_before.get(part) for part in unapproved
        )
        if said_it_all or wrote_some:
            people |= people_named(version.record.author)
    return people


def new_facts(record: EditRecord, versions: Sequence[EditVersion]) -> list[StatedFact]:
    """The facts that a record in use states, but not its edit when it was last in use."""
    in_use = _last_in_use(record.status, versions)
    known = {fact.key for fact in facts(in_use)} if in_use else set()
    return [fact for fact in facts(record) if fact.key not in known]


def facts(record: EditRecord) -> list[StatedFact]:
    """The facts that a record states: each of its wordings with the new object."""
    wordings = (record.query, *record.paraphrases)
    return [StatedFact(wording, record.target_new) for wording in wordings]


def authors_of_facts(versions: Sequence[EditVersion], wanted: Iterable[StatedFact]) -> set[str]:
    """Who wrote any of these facts into an edit."""
    wanted_keys = {fact.key for fact in wanted}
    people = set[str]()
    for version, base in written(versions):
        keys_before = {fact.key for fact in facts(base)} if base else set()
        new_keys = {fact.key for fact in facts(version.record)} - keys_before
        if new_keys & wanted_keys:
            people |= people_named(version.record.author)
    return people


def with_writers(edits: Iterable[EditVersion], log: Iterable[EditVersion]) -> Iterator[EditVersion]:
    """Edits as others are to get them: each by who last wrote some of it, not by who approved it.

    log: all changes of their store.
    """
    versions_by_edit = defaultdict[int, list[EditVersion]](list)
    for version in log:
        versions_by_edit[version.id].append(version)
    for edit in edits:
        versions = [each for each in versions_by_edit[edit.id] if each.version <= edit.version]
        *_, last = written(versions)
        yield replace(edit, record=replace(edit.record, author=last.version.record.author))


def _says_nothing_new(record: EditRecord, earlier: Sequence[EditVersion]) -> bool:
    """Whether a version after these is a move, or changes only what has no effect."""
    before = earlier[-1].record
    said = what_it_says(record)
    if said in (what_it_says(before), what_it_says(changeable(earlier))):
        return True
    if record.status is Status.RETIRED:
        decided = replace(decided_version(earlier).record, status=Status.RETIRED)
        return said == what_it_says(decided)
    if before.status is not Status.PROPOSED or effect(record) != effect(before):
        return False
    if record.status is Status.REJECTED:
        return record.approved_as is before.approved_as
    return record.move is Move.APPROVE and record.status is before.approved_as


def _at_least(status: Status) -> set[Status]:
    """The statuses in use that give an edit as much effect as this one does."""
    return {Status.ACTIVE, status} & {Status.ACTIVE, Status.SHADOW}


def _last_in_use(status: Status, versions: Sequence[EditVersion]) -> EditRecord | None:
    """The latest version that was in use with as much effect as a status gives."""
    statuses = _at_least(status)
    records = (version.record for version in reversed(versions))
    return next((record for record in records if record.status in statuses), None)


def _parts_in_use(status: Status, versions: Sequence[EditVersion]) -> dict[Hashable, object]:
    record = _last_in_use(status, versions)
    return _parts(record) if record else {}


def _parts(record: EditRecord) -> dict[Hashable, object]:
    """What a record says, part by part: the value of each field, and each text of several.

    A field with its default is no part, as nobody has written it.
    """
    goal = record.status if record.status.in_use else record.approved_as
    parts: dict[Hashable, object] = {"status": goal} if goal is Status.SHADOW else {}
    for name, value in vars(effect(record)).items():
        if isinstance(value, tuple):
            parts |= {(name, text): True for text in value}
        elif value != getattr(EditRecord, name, MISSING):
            parts[name] = value
    return parts
