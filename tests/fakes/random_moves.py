"""Moves of edits drawn at random, by several people, and what must hold after any of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from drike.edits.record import EditRecord, EditVersion, Move, Status, StoreError, effect
from drike.stores import moves
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.moves import approve, change, propose, reject, retire, review, rollback
from drike.stores.snapshots import snapshot

Act = Callable[[EditStore, random.Random, str], object]


def _acts() -> Iterator[Act]:
    def subject(rng: random.Random) -> str:
        return f"Land{rng.randrange(3)}"

    def record(rng: random.Random, who: str) -> EditRecord:
        name, status = subject(rng), rng.choice([Status.ACTIVE, Status.SHADOW, Status.DRAFT])
        return EditRecord(
            name, f"The capital of {name} is", f"City{rng.randrange(4)}", status=status, author=who
        )

    def some(store: EditStore, rng: random.Random) -> int:
        return rng.randint(1, max(1, len(snapshot(store).edits)))

    yield lambda s, rng, who: s.put(record(rng, who), supersede=rng.random() < 0.3)
    yield lambda s, rng, who: s.put(moves.entering(s, record(rng, who), decides=True))
    yield lambda s, rng, who: s.put(replace(record(rng, who), move=Move.APPROVE))
    yield lambda s, rng, who: propose(s, some(s, rng), author=who)
    yield lambda s, rng, who: approve(s, some(s, rng), author=who, supersede=rng.random() < 0.5)
    yield lambda s, rng, who: approve(s, some(s, rng), author=who)
    yield lambda s, rng, who: reject(s, some(s, rng), author=who, reason="no")
    yield lambda s, rng, who: change(
        s, some(s, rng), {"target_new": f"City{rng.randrange(4)}"}, author=who
    )
    yield lambda s, rng, who: change(s, some(s, rng), {"status": rng.choice([*Status])}, author=who)
    yield lambda s, rng, who: review(s, some(s, rng), author=who, until="2030-01-01")
    yield lambda s, rng, who: retire(s, some(s, rng), author=who)
    yield lambda s, rng, who: rollback(s, some(s, rng), author=who)


ACTS = tuple(_acts())
PEOPLE = (
    "Anna (propose)",
    "Anna (approve)",
    "Bob (approve)",
    "Cid (admin)",
    "Dora (approve)",
    None,
)


def moved(store: EditStore, rng: random.Random, length: int) -> list[EditVersion]:
    """Make random moves; return the changes that the store acknowledged."""
    kept = list[EditVersion]()
    for _ in range(length):
        try:
            kept += rng.choice(ACTS)(store, rng, rng.choice(PEOPLE))  # type: ignore[arg-type]
        except StoreError as refused:
            assert "is damaged" not in str(refused), refused
    return kept


def check_approved(store: EditStore, needed: int) -> None:
    """Everything that was ever in use was approved by so many people, and no two edits contradict each other."""
    for id in snapshot(store).edits:
        used: set[tuple[EditRecord, Status]] = set()
        for end, version in enumerate(history := versions_of(store, id), 1):
            said, status = effect(version.record), version.record.status
            if status in (Status.ACTIVE, Status.SHADOW) and (said, status) not in used:
                used |= {(said, status), (said, Status.SHADOW)}
                assert approved_by(history[:end], said) >= needed, version
    held = [edit.record.subject for edit in snapshot(store).in_force(datetime.now(UTC))]
    assert len(held) == len(set(held))


def approved_by(history: Sequence[EditVersion], said: EditRecord) -> int:
    """How many others than its authors have approved what a record says, counted from the log in another way."""
    saying = [version.record for version in history if effect(version.record) == said]
    wrote, before = set[str | None](), None
    for version in history:
        now = effect(version.record)  # who only changes a status has written nothing
        written = (
            version.record.move in (None, Move.PROPOSE)
            and version.record.status is not Status.RETIRED
        )
        if written and now == said != before:
            wrote.add(name(version.record))
        before = now
    return len({name(record) for record in saying if record.move is Move.APPROVE} - wrote - {None})


def name(record: EditRecord) -> str | None:
    return record.author and record.author.split()[0]
