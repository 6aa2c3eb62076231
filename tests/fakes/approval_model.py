"""What approvals are to ensure, told from what people do and see, not from what a store notes.

The model believes neither the author nor the move that a version names: it is told which person did
what, and compares what an edit said before and afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drike.edits.record import EditRecord, EditVersion, Status

# Fields of a record that change no answer.
_SILENT = {
    "status", "approved_as", "owner", "review_by", "review_days", "metadata", "source",
    "author", "reason", "move",
}  # fmt: skip
IN_USE = (Status.ACTIVE, Status.SHADOW)

Text = tuple[str, object]
Said = frozenset[Text]
Fact = tuple[str, str]


def said_by(record: EditRecord) -> Said:
    """All that a record says that changes answers, text by text."""
    texts = set[Text]()
    for name, value in vars(record).items():
        if name not in _SILENT:
            texts |= {(name, text) for text in (value if isinstance(value, tuple) else (value,))}
    return frozenset(text for text in texts if text[1] not in (None, False, 0))


def facts_of(said: Said) -> set[Fact]:
    [new] = [str(value) for name, value in said if name == "target_new"]
    return {
        (" ".join(str(value).casefold().split()), new.casefold())
        for name, value in said
        if name in ("query", "paraphrases")
    }


@dataclass
class EditModel:
    """One edit. decided, waiting: what it says, and what is proposed. agreed: who agreed to that since.

    added, removed: who ever wrote a text into it, or took it out. asked: who proposed something as a whole.
    """

    decided: EditRecord | None = None
    waiting: EditRecord | None = None
    rejected: EditRecord | None = None
    agreed: set[str] = field(default_factory=set)
    added: dict[Text, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: dict[Text, set[str]] = field(default_factory=lambda: defaultdict(set))
    asked: dict[Said, set[str]] = field(default_factory=lambda: defaultdict(set))
    used: list[tuple[Said, Status]] = field(default_factory=list)

    def was_used(self, said: Said, status: Status) -> bool:
        return (said, Status.ACTIVE) in self.used or (said, status) in self.used

    def last_used(self, status: Status) -> Said:
        enough = {Status.ACTIVE, status}
        return next((said for said, used in reversed(self.used) if used in enough), frozenset())


class ApprovalModel:
    """The edits of a store as people see them, and whether each in use may be."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.edits = defaultdict[int, EditModel](EditModel)
        self.facts = defaultdict[Fact, set[str]](set)
        self.in_use = 0  # how often something came in use

    def happened(
        self, kind: str, people: Iterable[str], changes: Sequence[EditVersion]
    ) -> list[str]:
        """Take in what people did; return what came in use without the approvals that it needs.

        kind: "write", "propose", "approve", or "move" for what writes nothing.
        """
        problems = list[str]()
        for place, change in enumerate(changes):
            is_rival = kind != "move" and place < len(changes) - 1 and change.id != changes[-1].id
            is_retired = is_rival and change.record.status is Status.RETIRED
            problems += self._changed("move" if is_retired else kind, set(people), change)
        return problems

    def _changed(self, kind: str, people: set[str], change: EditVersion) -> list[str]:
        edit, record = self.edits[change.id], change.record
        said, status = said_by(record), record.status
        seen = edit.waiting or edit.decided or edit.rejected
        before = said_by(seen) if seen else frozenset()
        if status is Status.PROPOSED and not edit.waiting:
            before = frozenset()  # who proposes a text says all of it
        if kind in ("write", "propose"):
            self._wrote(edit, people, before, said)
            if kind == "propose" or (seen and said == before and goal_of(seen) != goal_of(record)):
                edit.asked[said] |= people

        asked_before = edit.waiting and (said_by(edit.waiting), goal_of(edit.waiting))
        is_the_same = asked_before == (said, goal_of(record))
        if kind == "approve" and is_the_same:
            edit.agreed |= people
        elif not is_the_same or status not in (Status.PROPOSED, *IN_USE):
            edit.agreed = set()

        problems = []
        if status in IN_USE:
            problems = self._problems(edit, change, said, status)
            edit.used.append((said, status))
            self.in_use += 1
        edit.waiting = record if status is Status.PROPOSED else None
        edit.rejected = record if status is Status.REJECTED else None
        if status not in (Status.PROPOSED, Status.REJECTED):
            edit.decided = record
        if status is not Status.PROPOSED:
            edit.agreed = set()
        return problems

    def _wrote(self, edit: EditModel, people: set[str], before: Said, said: Said) -> None:
        for text in said - before:
            edit.added[text] |= people
        for text in before - said:
            edit.removed[text] |= people
        for fact in facts_of(said) - (facts_of(before) if before else set()):
            self.facts[fact] |= people

    def _problems(
        self, edit: EditModel, change: EditVersion, said: Said, status: Status
    ) -> list[str]:
        if not self.needed or edit.was_used(said, status):
            return []
        others = edit.agreed - self.writers(edit, said, status)
        if len(others) >= self.needed:
            return []
        who = f"agreed: {sorted(edit.agreed)}, wrote: {sorted(self.writers(edit, said, status))}"
        return [f"{change.id}@{change.version} {status}: {change.record.fact} ({who})"]

    def writers(self, edit: EditModel, said: Said, status: Status) -> set[str]:
        """Who wrote, took out or proposed what was not in use before, and who wrote its facts elsewhere."""
        used = edit.last_used(status)
        people = set(edit.asked[said])
        for text in said - used:
            people |= edit.added[text]
        replaced = {name for name, _ in said if not _is_list(name)}
        for text in used - said:
            if text[0] not in replaced:
                people |= edit.removed[text]
        for fact in facts_of(said) - (facts_of(used) if used else set()):
            people |= self.facts[fact]
        return people


def _is_list(name: str) -> bool:
    return name in ("aliases", "paraphrases", "negatives", "object_aliases", "only")


def goal_of(record: EditRecord) -> Status:
    return record.status if record.status in IN_USE else record.approved_as


def as_values(record: EditRecord) -> Mapping[str, object]:
    """A record as people post it: its fields that say something."""
    return {
        name: value for name, value in vars(record).items() if value not in (None, (), 0, False)
    }
