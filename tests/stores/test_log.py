"""Laws of a store of edits, against its protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drike.edits.conflicts import ConflictError, conflict_keys, overlap
from drike.edits.record import EditRecord, Status, StoreError
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.moves import retire, rollback
from drike.stores.snapshots import Snapshot, snapshot
from tests.fakes.stores import NOON, PERU, Opener, active
from tests.fakes.waiting import HANG


def test_the_gate_kept_last_is_the_stores(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    assert store.gate() is None
    store.save_gate("first")
    store.save_gate("Zweites “Tor”")
    other = opener(tmp_path / "edits.db")
    assert other.gate() == other.gate(1) == (2, "Zweites “Tor”") and other.gate(2) is None
    assert other.changes() == []
    other.close()


@pytest.mark.parametrize(
    "other",
    [
        EditRecord("Peru", "The capital of Peru is", "Rome"),
        EditRecord("peru", "THE CAPITAL OF PERU IS", "Rome"),
        EditRecord(
            "Peru", "Peru is governed from", "Rome", paraphrases=("The capital of Peru is",)
        ),
        EditRecord("Andean state", "The capital of Andean state is", "Rome", aliases=("Peru",)),
    ],
    ids=["query", "case", "wording", "alias"],
)
def test_a_contradiction_is_refused_with_both_shown_and_changes_nothing(
    store: EditStore, other: EditRecord
) -> None:
    store.put(PERU)
    with pytest.raises(
        ConflictError, match=r'"Rome" contradicts edit 1 \("The capital of Peru is" -> "Oslo"\)'
    ) as error:
        store.put(other)
    assert not error.value.repeated
    assert len(store.changes()) == 1
    retired, added = store.put(other, supersede=True)
    assert (retired.id, retired.record.status, retired.record.reason) == (
        1,
        Status.RETIRED,
        "superseded by edit 2",
    )
    assert (added.id, active(store)) == (2, {"Rome"})


def test_a_contradiction_that_a_gate_could_not_tell_apart_is_refused_however_its_letters_are_written(
    store: EditStore,
) -> None:
    store.put(EditRecord("São Paulo", "The mayor of São Paulo is", "Ann"))
    for name in ("Sao Paulo", "SÃO  PAULO", "Sa\u0303o-Paulo"):
        with pytest.raises(ConflictError):
            store.put(EditRecord(name, f"The mayor of {name} is", "Bob"))
    store.put(EditRecord("京都", "京都の市長は", "Ann"))
    store.put(EditRecord("東京", "東京の市長は", "Bob"))
    assert len(store.changes()) == 3


def test_the_same_relation_conflicts_whatever_the_words(store: EditStore) -> None:
    store.put(replace(PERU, relation="capital"))
    with pytest.raises(ConflictError):
        store.put(EditRecord("Peru", "Peru is governed from", "Rome", relation="capital"))
    store.put(EditRecord("Peru", "Peru is governed by", "Rome", relation="governor"))


def test_a_repeated_edit_is_refused_and_superseded_only_if_it_differs(store: EditStore) -> None:
    store.put(PERU)
    for same in (PERU, replace(PERU, source="elsewhere", reason="again", author="me")):
        for supersede in (False, True):
            with pytest.raises(ConflictError, match="repeats edit 1") as error:
                store.put(same, supersede=supersede)
            assert error.value.repeated
    store.put(replace(PERU, aliases=("Republic of Peru",)), supersede=True)
    assert [one.record.names for one in snapshot(store).in_force(NOON)] == [
        ("Peru", "Republic of Peru")
    ]


def test_edits_that_never_hold_together_do_not_conflict(store: EditStore) -> None:
    store.put(replace(PERU, valid_to="2027-01-01"))
    store.put(replace(PERU, target_new="Rome", valid_from="2027-01-01"))
    with pytest.raises(ConflictError, match="and edit 2"):
        store.put(replace(PERU, target_new="Bonn"))
    for status in (Status.DRAFT, Status.SHADOW, Status.RETIRED):
        store.put(replace(PERU, target_new="Bonn", status=status))
    found = snapshot(store)
    assert [one.id for one in found.in_force(NOON)] == [1]
    assert [one.id for one in found.in_force(NOON + timedelta(days=60))] == [2]
    assert [one.id for one in found.in_force(NOON, Status.SHADOW)] == [4]
    assert [one.id for one in found.in_force(datetime(2027, 1, 1, tzinfo=UTC))] == [2]


def test_a_draft_that_contradicts_an_active_edit_cannot_become_active(store: EditStore) -> None:
    store.put(PERU)
    [draft] = store.put(replace(PERU, target_new="Rome", status=Status.DRAFT))
    with pytest.raises(ConflictError):
        store.put(replace(draft.record, status=Status.ACTIVE), replaces=draft)
    retire(store, 1)
    store.put(replace(draft.record, status=Status.ACTIVE), replaces=draft)
    assert active(store) == {"Rome"}


def test_a_rollback_is_a_new_version_and_meets_the_same_rules(store: EditStore) -> None:
    [first] = store.put(PERU)
    store.put(replace(PERU, target_new="Rome"), replaces=first)
    [third] = rollback(store, 1, author="me", reason="wrong")
    assert (third.version, third.record.target_new, third.record.reason) == (
        3,
        "Oslo",
        "back to version 1: wrong",
    )
    rollback(store, 1, 2)
    assert active(store) == {"Rome"}
    store.put(PERU, supersede=True)
    with pytest.raises(ConflictError, match="contradicts edit 2"):
        rollback(store, 1)
    assert [one.id for one in rollback(store, 1, supersede=True)] == [2, 1]
    assert active(store) == {"Rome"}
    assert [one.record.target_new for one in versions_of(store, 1)] == [
        "Oslo",
        "Rome",
        "Oslo",
        "Rome",
        "Rome",
        "Rome",
    ]


def test_a_change_made_from_an_old_version_is_refused(store: EditStore) -> None:
    [first] = store.put(PERU)
    store.put(replace(PERU, target_new="Rome"), replaces=first)
    with pytest.raises(StoreError, match="edit 1 has changed since version 1"):
        store.put(replace(PERU, target_new="Bonn"), replaces=first)
    assert active(store) == {"Rome"}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda store: retire(store, 9), "there is no edit 9"),
        (lambda store: rollback(store, 1), "only one version: retire it instead"),
        (lambda store: [retire(store, 1), retire(store, 1)], "edit 1 is retired already"),
        (
            lambda store: [retire(store, 1), rollback(store, 1, 2)],
            "edit 1 is at version 2: choose an earlier one",
        ),
    ],
)
def test_an_edit_or_version_that_is_not_there_is_named(
    store: EditStore, act: Callable[[EditStore], object], message: str
) -> None:
    store.put(PERU)
    with pytest.raises(StoreError, match=message):
        act(store)


def test_a_transaction_that_fails_leaves_nothing_behind(store: EditStore) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        store.put(PERU)
        raise RuntimeError
    assert store.changes() == []
    with store.transaction():
        store.put(PERU)
        with pytest.raises(ConflictError):
            store.put(replace(PERU, target_new="Rome"))
        store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))
    assert active(store) == {"Oslo", "Rome"}


def test_threads_share_a_store(store: EditStore) -> None:
    def add(name: int) -> None:
        for n in range(3):
            store.put(EditRecord(f"Town {name} {n}", f"The river of Town {name} {n} is", "Po"))

    threads = [threading.Thread(target=add, args=(name,)) for name in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(snapshot(store).edits) == list(range(1, 10))


def seconds_until_noticed(store: EditStore, other: EditStore) -> float:
    """How long another process waits for a change that is made while it waits."""
    began = time.monotonic()
    writer = threading.Timer(0.1, store.put, [PERU])
    writer.start()
    assert other.wait(0, HANG)
    waited = time.monotonic() - began
    writer.join()
    return waited


@pytest.mark.reliability
def test_a_change_is_noticed_within_a_second_by_another_process(
    store: EditStore, opener: Opener, tmp_path: Path
) -> None:
    with closing(opener(tmp_path / "edits.db")) as other:
        assert seconds_until_noticed(store, other) < 0.9


def test_a_change_is_noticed_by_another_process_that_waits_for_it(
    store: EditStore, opener: Opener, tmp_path: Path
) -> None:
    other = opener(tmp_path / "edits.db")
    assert not other.wait(0, 0.01)
    assert seconds_until_noticed(store, other) < HANG
    assert active(other) == {"Oslo"} and other.wait(0, 0) and not other.wait(1, 0)
    other.close()


def test_a_store_can_be_closed_while_threads_use_it(opener: Opener, tmp_path: Path) -> None:
    store, ended = opener(tmp_path / "edits.db"), []

    def use(act: Callable[[], object]) -> None:
        with pytest.raises(StoreError, match="was closed: open it again"):
            while True:
                act()
        ended.append(act)

    acts = (lambda: store.wait(0, 0.2), store.changes, lambda: snapshot(store))
    threads = [threading.Thread(target=use, args=(act,)) for act in acts]
    [thread.start() for thread in threads]
    time.sleep(0.05)
    store.close()
    [thread.join() for thread in threads]
    assert len(ended) == 3


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "supersede", "retire", "rollback", "change"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_is_done_the_log_only_grows_and_active_edits_agree(
    opener: Opener, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    store = opener(tmp_path_factory.mktemp("store") / "edits.db")
    log: list[Any] = []
    seen = Snapshot()
    for what, town, target in steps:
        entry = EditRecord(f"Town {town}", f"The river of Town {town} is", f"River {target}")
        known = seen.edits.get(target + 1)
        try:
            if what == "retire":
                retire(store, target + 1)
            elif what == "rollback":
                rollback(store, target + 1, town or None)
            else:
                store.put(
                    entry,
                    supersede=what == "supersede",
                    replaces=known if what == "change" else None,
                )
        except StoreError:
            assert store.changes() == log
        now = list(store.changes())
        assert now[: len(log)] == log
        assert [one.number for one in now] == list(range(1, len(now) + 1))
        log, seen = now, snapshot(store, seen)
        assert seen == snapshot(store)
        force = seen.in_force(NOON)
        assert not any(
            conflict_keys(one.record) & conflict_keys(other.record) and overlap(one.record, other.record)
            for one in force for other in force if one.id < other.id
        )  # fmt: skip
    for one in seen.edits.values():
        assert [v.version for v in versions_of(store, one.id)] == list(range(1, one.version + 1))
    store.close()
