"""The life of an edit: any moves by anybody, and no version in use that was not approved."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from drike.edits.conflicts import ConflictError
from drike.edits.record import ApprovalError, EditRecord, Move, Status, StoreError
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.moves import approve, change, due, propose, reject, retire, review, rollback
from drike.stores.snapshots import snapshot
from tests.fakes.random_moves import check_approved, moved
from tests.fakes.stores import NOON, PERU, Opener, active

ANNA, BOB, CID = "Anna (propose)", "Bob (approve)", "Cid (admin)"
ROME = {"target_new": "Rome"}


def test_a_change_waits_for_two_people_other_than_its_author_while_the_edit_stays(
    store: EditStore,
) -> None:
    [edit] = store.put(replace(PERU, author=ANNA))
    require_approvals(store, 2)
    [proposed] = change(store, edit.id, ROME, author=ANNA, reason="decree 12")
    assert (proposed.record.status, proposed.record.move) == (Status.PROPOSED, Move.PROPOSE)
    with pytest.raises(
        ApprovalError, match="this is your own: ask 2 people other than you to approve it"
    ):
        approve(store, edit.id, author="anna (approve)")  # the same person with another key
    [half] = approve(store, edit.id, author=BOB, version=proposed.version)
    with pytest.raises(
        StoreError, match=r"Bob \(approve\) has approved edit 1 already: it needs 1 more"
    ):
        approve(store, edit.id, author=BOB)
    assert active(store) == {"Oslo"} and snapshot(store).proposals == {edit.id: half}
    with pytest.raises(StoreError, match="has changed since version 2"):
        approve(store, edit.id, author=CID, version=proposed.version)
    with pytest.raises(StoreError, match="has changed since version 2"):
        change(store, edit.id, {"target_new": "Bern"}, author=ANNA, version=proposed.version)
    [whole] = approve(store, edit.id, author=CID)
    assert active(store) == {"Rome"} and snapshot(store).proposals == {}
    assert (whole.record.status, whole.record.author, whole.version) == (Status.ACTIVE, CID, 4)


def test_whatever_way_it_comes_nothing_unapproved_is_in_use(store: EditStore) -> None:
    require_approvals(store, 1)
    forged = replace(PERU, author=BOB, move=Move.APPROVE)
    for record in (PERU, forged, replace(PERU, status=Status.SHADOW)):
        with pytest.raises(ApprovalError, match="somebody other than its author"):
            store.put(record)
    [draft] = store.put(replace(PERU, status=Status.DRAFT, author=ANNA))
    with pytest.raises(ApprovalError):
        store.put(replace(draft.record, status=Status.ACTIVE, author=ANNA), replaces=draft)
    propose(store, draft.id, author=BOB)
    with pytest.raises(ApprovalError):
        approve(store, draft.id, author=ANNA)  # who wrote it, though another proposed it
    reject(store, draft.id, author=CID, reason="no source")
    assert active(store) == set()
    change(store, draft.id, {"source": "the gazette"}, author=BOB)
    propose(store, draft.id, author=BOB)
    assert [edit.record.source for edit in approve(store, draft.id, author=CID)] == ["the gazette"]


def test_a_rejected_change_leaves_the_edit_and_its_conflicts(store: EditStore) -> None:
    [edit] = store.put(PERU)
    change(
        store, edit.id, {"target_new": "Rome", "paraphrases": ("Peru is ruled from",)}, propose=True
    )
    with pytest.raises(ConflictError):
        store.put(EditRecord("Peru", "The capital of Peru is", "Bern"))
    store.put(
        EditRecord("Peru", "Peru is ruled from", "Bern")
    )  # claimed by nobody before the change is approved
    with pytest.raises(ConflictError):
        approve(store, edit.id, author=BOB)
    with pytest.raises(StoreError, match="a rejection needs a reason"):
        reject(store, edit.id, author=BOB, reason=None)
    reject(store, edit.id, author=BOB, reason="two seats")
    assert active(store) == {"Oslo", "Bern"}
    with pytest.raises(StoreError, match="nothing is proposed"):
        approve(store, edit.id, author=BOB)


def test_retiring_and_going_back_need_no_approval_and_take_what_was_in_use(
    store: EditStore,
) -> None:
    [edit] = store.put(PERU)
    change(store, edit.id, ROME, author=ANNA)
    require_approvals(store, 2)
    change(store, edit.id, {"target_new": "Bern"}, author=ANNA)
    [retired] = retire(store, edit.id, author=BOB)
    assert retired.record.target_new == "Rome" and snapshot(store).proposals == {}
    [back] = rollback(store, edit.id, 1, author=BOB)
    assert back.record.target_new == "Oslo" and active(store) == {"Oslo"}
    with pytest.raises(StoreError, match="choose an earlier one that was in use"):
        rollback(store, edit.id, 3, author=BOB)


def test_going_back_discards_no_proposal(store: EditStore) -> None:
    [edit] = store.put(PERU)
    change(store, edit.id, ROME)
    [waiting] = change(store, edit.id, {"target_new": "Bern"}, propose=True)
    with pytest.raises(
        StoreError, match="a change of edit 1 is proposed: approve or reject it first"
    ):
        rollback(store, edit.id)
    assert snapshot(store).proposals == {edit.id: waiting}
    reject(store, edit.id, reason="no")
    rollback(store, edit.id)
    assert active(store) == {"Oslo"}


def test_what_says_nothing_new_needs_no_approval(store: EditStore) -> None:
    [edit] = store.put(replace(PERU, review_days=90))
    require_approvals(store, 2)
    [owned] = change(store, edit.id, {"owner": "Anna"}, author=BOB)
    [shadow] = change(store, edit.id, {"status": Status.SHADOW}, author=BOB)
    assert (owned.record.status, shadow.record.status) == (Status.ACTIVE, Status.SHADOW)
    [confirmed] = review(store, edit.id, author=BOB)
    assert confirmed.record.review_by and confirmed.record.owner == "Anna"


def test_who_says_nothing_new_about_a_proposal_may_approve_it(store: EditStore) -> None:
    require_approvals(store, 1)
    [edit] = store.put(replace(PERU, status=Status.PROPOSED, move=Move.PROPOSE, author=ANNA))
    change(store, edit.id, {"owner": "Legal"}, author=BOB)
    with pytest.raises(ApprovalError):
        approve(store, edit.id, author=ANNA)
    [approved] = approve(store, edit.id, author=BOB)
    assert (approved.record.status, approved.record.owner) == (Status.ACTIVE, "Legal")
    change(store, edit.id, ROME, author=ANNA)
    change(store, edit.id, {"target_new": "Bern"}, author=CID)
    change(store, edit.id, ROME, author=BOB)  # who so becomes one of its authors
    with pytest.raises(ApprovalError):
        approve(store, edit.id, author=BOB)


def test_an_interval_of_reviews_begins_when_an_edit_is_kept(store: EditStore) -> None:
    [edit] = store.put(replace(PERU, review_days=30))
    assert due(snapshot(store), NOON + timedelta(days=29)) == ()
    assert [each.id for each in due(snapshot(store), NOON + timedelta(days=31))] == [edit.id]


def test_an_edit_with_a_proposal_can_be_superseded(store: EditStore) -> None:
    [edit] = store.put(PERU)
    change(store, edit.id, ROME, propose=True)
    changes = store.put(EditRecord("Peru", PERU.query, "Bern"), supersede=True)
    assert [(each.id, each.version) for each in changes] == [(edit.id, 3), (2, 1)]
    assert active(store) == {"Bern"} and snapshot(store).proposals == {}


def test_who_may_only_propose_changes_nothing_at_once(store: EditStore) -> None:
    [edit] = store.put(replace(PERU, owner="Anna", review_by="2030-01-01"))
    for field in ({"owner": "Eve"}, {"review_by": "2099-01-01"}, {"metadata": {"a": "b"}}, ROME):
        change(store, edit.id, field, author="Eve (propose)", propose=True)
        assert snapshot(store).edits[edit.id] == edit, field
        reject(store, edit.id, author=BOB, reason="no")
    retire(store, edit.id, author=BOB)
    with pytest.raises(StoreError, match="is retired: propose to bring it back"):
        change(store, edit.id, ROME, author="Eve (propose)", propose=True)


def test_edits_that_are_due_stay_in_force(store: EditStore) -> None:
    def days(n: int) -> str:
        return (NOON + timedelta(days=n)).isoformat()

    for name, at in (("Peru", 3), ("Mali", -5), ("Chad", -1), ("Cuba", None)):
        by = None if at is None else days(at)
        store.put(EditRecord(name, f"The capital of {name} is", name.upper(), review_by=by))
    assert [edit.record.subject for edit in due(snapshot(store), NOON)] == ["Mali", "Chad"]
    assert "MALI" in active(store)
    review(store, 2, until=days(30))
    assert [edit.id for edit in due(snapshot(store), NOON)] == [3]
    with pytest.raises(StoreError, match="has no interval of reviews"):
        review(store, 3)
    with pytest.raises(StoreError, match="only edits in use are reviewed"):
        retire(store, 3)
        review(store, 3, until=days(1))


def check_sequence(store: EditStore, seed: int) -> None:
    """A random sequence of moves; everything in use was approved, and what was acknowledged is there."""
    rng = random.Random(seed)
    needed = rng.randrange(3)
    require_approvals(store, needed)
    kept = moved(store, rng, 25)
    assert store.changes() == kept
    check_approved(store, needed)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.sampled(4)
def test_no_sequence_of_moves_puts_an_unapproved_version_in_force(
    opener: Opener, tmp_path: Path, part: int
) -> None:
    for seed in range(10 * part, 10 * (part + 1)):
        store = opener(tmp_path / f"{seed}.db")
        check_sequence(store, seed)
        store.close()


@pytest.mark.reliability
def test_no_sequence_of_ten_thousand_puts_an_unapproved_version_in_force(tmp_path: Path) -> None:
    from drike.stores.sqlite import SqliteStore

    for seed in range(10_000):
        path = tmp_path / "edits.db"
        store = SqliteStore(path)
        store.database._connection.execute(
            "PRAGMA synchronous = OFF"
        )  # what a power cut leaves is tested elsewhere
        check_sequence(store, seed)
        store.close()
        path.unlink()


@pytest.mark.parametrize(
    "again",
    [
        PERU,
        replace(PERU, author=BOB, reason="again", owner="Bob"),
        replace(PERU, target_new=f" {PERU.target_new.upper()} "),
        replace(PERU, paraphrases=("Peru is ruled from",)),
    ],
)
def test_the_same_edit_is_not_proposed_twice(store: EditStore, again: EditRecord) -> None:
    as_proposal = {"status": Status.PROPOSED, "move": Move.PROPOSE}
    [first] = store.put(replace(PERU, **as_proposal))
    with pytest.raises(ConflictError, match=r"repeats edit 1 .*proposed already: approve that"):
        store.put(replace(again, **as_proposal))
    [draft] = store.put(replace(again, status=Status.DRAFT))
    with pytest.raises(ConflictError, match="repeats edit 1 "):
        propose(store, draft.id)

    store.put(replace(PERU, target_new="Bern", **as_proposal))  # another answer is another edit
    change(store, first.id, {"paraphrases": ("Peru has its seat in",)})
    approve(store, first.id, author=CID)
    with pytest.raises(ConflictError, match=r"repeats edit 1 .*in force: change that"):
        store.put(replace(again, **as_proposal))
    change(store, first.id, ROME, propose=True)
    retire(store, first.id)
    store.put(replace(again, **as_proposal))


def test_proposals_of_a_transaction_that_failed_are_forgotten(store: EditStore) -> None:
    proposal = replace(PERU, status=Status.PROPOSED, move=Move.PROPOSE)
    with pytest.raises(RuntimeError), store.transaction():
        store.put(proposal)
        with pytest.raises(ConflictError):
            store.put(proposal)
        raise RuntimeError
    store.put(proposal)
