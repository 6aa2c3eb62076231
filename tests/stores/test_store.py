"""Laws of a store of edits, against its protocol; then those of the SQLite file that keeps it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drike.stores.importing import import_file
from drike.stores.log import EditStore, Snapshot, retire, rollback, snapshot, versions
from drike.stores.records import (
    ConflictError,
    EditRecord,
    RecordError,
    Status,
    StoreError,
    conflict_keys,
    overlap,
    record_of,
    to_json,
    to_values,
)
from drike.stores.sqlite import SqliteStore
from tests.worlds import databases

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo")
Opener = Callable[[Path], EditStore]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens a store of each backend."""
    if request.param == "sqlite":
        return lambda path: SqliteStore(path, clock=lambda: NOON)
    server = request.getfixturevalue("postgres")

    def open_postgres(path: Path) -> EditStore:
        from drike.stores.postgres import PostgresStore

        return PostgresStore(server.of(path), clock=lambda: NOON)

    return open_postgres


@pytest.fixture
def store(opener: Opener, tmp_path: Path) -> Iterator[EditStore]:
    opened = opener(tmp_path / "edits.db")
    yield opened
    opened.close()


def active(store: EditStore) -> set[str]:
    return {one.record.target_new for one in snapshot(store).in_force(NOON)}


def test_the_gate_kept_last_is_the_stores(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    assert store.gate() is None
    store.save_gate("first")
    store.save_gate("Zweites “Tor”")
    other = opener(tmp_path / "edits.db")
    assert other.gate() == other.gate(1) == (2, "Zweites “Tor”") and other.gate(2) is None
    assert other.changes() == []
    other.close()


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    store = SqliteStore(path)
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    store.close()
    with closing(sqlite3.connect(path)) as file:
        file.executescript("DROP TABLE gates; PRAGMA user_version = 1")
    store = SqliteStore(path, create=False)
    store.save_gate("a gate")
    assert active(store) == {"Oslo"} and store.gate() == (1, "a gate")
    store.close()


def test_an_edit_comes_back_as_it_was_given(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    given = EditRecord(
        "Peru", "The capital of Peru is", "Oslo", target_true="Lima", relation="P36", aliases=("Republic of Peru",),
        paraphrases=("Peru is governed from",), negatives=("Peru borders",), status=Status.SHADOW,
        valid_from="2026-11-01T00:00:00Z", valid_to="2027-01-01T00:00:00Z", priority=2, source="a\nlist",
        author="Łucja", reason="why",
    )  # fmt: skip
    [stored] = store.put(given)
    assert (stored.number, stored.id, stored.version, stored.created_at) == (1, 1, 1, "2026-11-22T12:00:00Z")
    assert stored.record == given
    assert opener(tmp_path / "edits.db").changes() == [stored]


def test_paraphrases_are_called_wordings_in_json_and_read_under_both_names() -> None:
    record = replace(PERU, paraphrases=("Peru is governed from",))
    assert json.loads(to_json(record))["wordings"] == list(record.paraphrases)
    assert "paraphrases" not in to_values(record) and to_values(record)["wordings"] == record.paraphrases
    for name in ("wordings", "paraphrases"):
        assert record_of({**json.loads(to_json(PERU)), name: ["Peru is governed from"]}) == record


@pytest.mark.parametrize(
    "other",
    [
        EditRecord("Peru", "The capital of Peru is", "Rome"),
        EditRecord("peru", "THE CAPITAL OF PERU IS", "Rome"),
        EditRecord("Peru", "Peru is governed from", "Rome", paraphrases=("The capital of Peru is",)),
        EditRecord("Andean state", "The capital of Andean state is", "Rome", aliases=("Peru",)),
    ],
    ids=["query", "case", "wording", "alias"],
)
def test_a_contradiction_is_refused_with_both_shown_and_changes_nothing(store: EditStore, other: EditRecord) -> None:
    store.put(PERU)
    with pytest.raises(
        ConflictError, match=r'"Rome" contradicts edit 1 \("The capital of Peru is" -> "Oslo"\)'
    ) as error:
        store.put(other)
    assert not error.value.repeated
    assert len(store.changes()) == 1
    retired, added = store.put(other, supersede=True)
    assert (retired.id, retired.record.status, retired.record.reason) == (1, Status.RETIRED, "superseded by edit 2")
    assert (added.id, active(store)) == (2, {"Rome"})


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
    assert [one.record.names for one in snapshot(store).in_force(NOON)] == [("Peru", "Republic of Peru")]


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
    assert (third.version, third.record.target_new, third.record.reason) == (3, "Oslo", "back to version 1: wrong")
    rollback(store, 1, 2)
    assert active(store) == {"Rome"}
    store.put(PERU, supersede=True)
    with pytest.raises(ConflictError, match="contradicts edit 2"):
        rollback(store, 1)
    assert [one.id for one in rollback(store, 1, supersede=True)] == [2, 1]
    assert active(store) == {"Rome"}
    assert [one.record.target_new for one in versions(store, 1)] == ["Oslo", "Rome", "Oslo", "Rome", "Rome", "Rome"]


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
        (lambda store: [retire(store, 1), rollback(store, 1, 2)], "edit 1 is at version 2: choose an earlier one"),
    ],
)
def test_an_edit_or_version_that_is_not_there_is_named(
    store: EditStore, act: Callable[[EditStore], object], message: str
) -> None:
    store.put(PERU)
    with pytest.raises(StoreError, match=message):
        act(store)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"subject": " "}, "subject is blank"),
        ({"query": ""}, "query is blank"),
        ({"aliases": ("",)}, "aliases is blank"),
        ({"aliases": "Peru"}, "aliases: 'Peru' is not a list"),
        ({"subject": "Chile"}, "subject 'Chile' is not in the query: copy it"),
        ({"target_true": "oslo"}, "target_new is the old object already"),
        ({"negatives": (PERU.query,)}, "negatives hold the edit's own query"),
        ({"valid_from": "soon"}, "valid_from 'soon' is no time: write 2026-12-31"),
        ({"valid_from": "0001-01-01T00:00+14:00"}, "is no time"),
        ({"valid_from": "2027-01-01", "valid_to": "2026-01-01"}, "must be later than valid_from"),
        ({"priority": -1}, "priority: -1 is not a whole number"),
        ({"status": "on"}, "status: 'on' is not a valid Status"),
        ({"paraphrases": ("x" * 10_001,)}, "wordings has 10,001 characters"),
        ({"reason": "\ud800"}, "reason holds half a character"),
    ],
)
def test_an_unusable_entry_is_refused_with_its_field(store: EditStore, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        store.put(replace(PERU, **changed))
    assert store.changes() == []


def test_texts_are_stripped_repeats_removed_and_times_in_utc(store: EditStore) -> None:
    [stored] = store.put(
        replace(PERU, subject=" Peru ", aliases=("Perú", "Peru", "Perú "), valid_from="2026-01-01T01:00+01:00")
    )
    assert (stored.record.subject, stored.record.aliases) == ("Peru", ("Perú",))
    assert stored.record.valid_from == "2026-01-01T00:00:00Z"


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


def test_long_texts_and_control_characters_are_kept(store: EditStore) -> None:
    given = replace(PERU, paraphrases=(".\0", "\U0001f30d " * 3_000, "x" * 10_000), reason="\0")
    [stored] = store.put(given)
    assert store.changes() == [stored]
    assert stored.record == replace(given, paraphrases=tuple(map(str.strip, given.paraphrases)))
    for wording in given.paraphrases:
        with pytest.raises(ConflictError):
            store.put(EditRecord("Chile", "The capital of Chile is", "Rome", paraphrases=(wording,)))


def test_a_change_is_noticed_at_once_by_another_process(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    other = opener(tmp_path / "edits.db")
    assert not other.wait(0, 0.01)
    began = time.monotonic()
    writer = threading.Timer(0.1, store.put, [PERU])
    writer.start()
    assert other.wait(0, 10)
    assert time.monotonic() - began < 0.9, "it is in force within a second"
    assert active(other) == {"Oslo"} and other.wait(0, 0) and not other.wait(1, 0)
    writer.join()
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
        st.sampled_from(["put", "supersede", "retire", "rollback", "change"]), st.integers(0, 2), st.integers(0, 3)
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
                store.put(entry, supersede=what == "supersede", replaces=known if what == "change" else None)
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
        assert [v.version for v in versions(store, one.id)] == list(range(1, one.version + 1))
    store.close()


# Files of edits


def imported(store: EditStore, path: Path, text: str, **options: Any) -> tuple[int, int, tuple[str, ...]]:
    path.write_text(text, "utf-8")
    done = import_file(store, path, **options)
    return len(done.added), done.repeated, done.refused


def test_a_csv_file_is_imported_and_every_refused_row_is_named(store: EditStore, tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    text = (
        "\ufeffsubject,query,target_new,aliases,priority,status\r\n"
        'Peru,The capital of Peru is,"Oslo, of all places",Perú|Republic of Peru,3,\r\n'
        ",The capital of Chile is,Rome,,,\r\n"
        "Chile,The capital of Chile is,Rome,a||b,,\r\n"
        "Chile,The capital of Chile is,Rome,,many,\r\n"
        "Peru,The capital of Peru is,Rome,,,\r\n"
        "Cuba,The capital of Cuba is,Rome,,,,,\r\n"
        "\r\n"
        "Cuba,The capital of Cuba is,Rome,,,draft\r\n"
    )
    added, repeated, refused = imported(store, path, text, author="me")
    assert (added, repeated) == (2, 0)
    assert [line.removeprefix(f"{path}, ")[:40] for line in refused] == [
        "row 3: it lacks subject",
        "row 4: aliases is blank: give it a text,",
        "row 5: priority: 'many' is not a whole n",
        'row 6: "The capital of Peru is" -> "Rome',
        "row 7 has 8 fields and the header 6; put",
    ]
    peru, cuba = (one.record for one in store.changes())
    assert (peru.target_new, peru.aliases, peru.priority) == ("Oslo, of all places", ("Perú", "Republic of Peru"), 3)
    assert (peru.author, cuba.status) == ("me", Status.DRAFT)
    assert imported(store, path, text)[:2] == (1, 1), "drafts may be added again, active edits not"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "subject,query,answer\nPeru,x,y\n",
            r"row 2 has an unknown field 'answer'; the columns of own facts are prompt .or query. and target_new",
        ),
        ("a.csv", "subject;query;target_new\n", r"holds no rows"),
        ("a.csv", "subject,query\nPeru,x\n", r"row 2 has no field 'target_new'; the columns of own facts are"),
        ("a.csv", "prompt,target_new\nx,y\n", r"row 2 has no field 'subject'; the columns of own facts are"),
        ("a.csv", "subject,query,query,target_new\nx,y,z,w", r"has the column 'query' twice"),
        ("a.csv", "subject,query,prompt,target_new\nx,y,z,w", r"has query and prompt, which mean the same"),
        ("a.csv", "", r"a.csv is empty"),
        (
            "a.csv",
            'subject,query,target_new\n"Peru,x,y\n',
            r"row 2 is not valid CSV \(unexpected end of data\); correct its quotes",
        ),
        ("a.jsonl", '{"edit": "x", "questions": []}\n', r"has an unknown field 'edit'; the columns"),
        ("a.json", "[1", r"is not valid JSON"),
    ],
)
def test_a_file_without_the_right_columns_is_refused_in_a_sentence_that_names_them(
    store: EditStore, tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        imported(store, tmp_path / name, text)
    assert store.changes() == []


def test_json_lines_are_imported_and_a_broken_line_is_refused(store: EditStore, tmp_path: Path) -> None:
    good = '{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo"}'
    lines = [good, "{", "[1]", '{"subject": "x"}', '{"query": "x", "query": "y"}', "[" * 99_999]
    added, _, refused = imported(store, tmp_path / "facts.jsonl", "\n".join(lines))
    assert added == 1
    reasons = (
        "row 1 (line 2) is not valid JSON (column 2: Expecting",
        "row 2 is a list, not an object",
        "row 3: it lacks query",
        "row 4 has the key 'query' twice",
        "row 5 (line 6) is not usable JSON",
    )
    assert len(refused) == len(reasons)
    assert all(reason in line for line, reason in zip(refused, reasons, strict=True))


def counterfact(number: int, target: str) -> dict[str, Any]:
    rewrite = {"prompt": "The river of {} is", "subject": f"Town {number}", "relation_id": "P1",
               "target_new": {"str": target}, "target_true": {"str": "Po"}}  # fmt: skip
    return {"case_id": number, "requested_rewrite": rewrite, "paraphrase_prompts": ["x"], "neighborhood_prompts": []}


def test_counterfact_rows_give_edits_without_their_probes(store: EditStore, tmp_path: Path) -> None:
    rows = [counterfact(1, "Nile"), counterfact(2, ""), counterfact(1, "Rhine")]
    added, _, refused = imported(store, tmp_path / "cf.json", json.dumps(rows))
    assert (added, len(refused)) == (1, 2)
    assert "row 1 (case_id 2): target_new is blank" in refused[0]
    [stored] = store.changes()
    assert (stored.record.relation, stored.record.target_true, stored.record.paraphrases) == ("P1", "Po", ())
    assert stored.record.source == f"{tmp_path / 'cf.json'}, row 0 (case_id 1)"
    assert import_file(store, tmp_path / "cf.json", supersede=True).added[-1].record.target_new == "Rhine"


@pytest.mark.reliability
def test_a_file_of_counterfacts_size_is_imported_within_a_minute(store: EditStore, tmp_path: Path) -> None:
    rows = [counterfact(number, f"River {number % 97}") for number in range(21_919)]
    began = time.process_time(), time.perf_counter()
    assert imported(store, tmp_path / "cf.json", json.dumps(rows)) == (len(rows), 0, ())
    seconds = time.process_time() - began[0], time.perf_counter() - began[1]
    print(f"{len(rows):,} edits: {seconds[0]:.1f} s of CPU time, {seconds[1]:.1f} s in all")
    assert seconds[0] < 60
    began = time.process_time(), time.perf_counter()
    seen = snapshot(store)
    print(f"read: {time.process_time() - began[0]:.2f} s")
    [added] = store.put(PERU)
    began = time.process_time(), time.perf_counter()
    assert snapshot(store, seen).edits[added.id] == added
    print(f"read after one change: {1e3 * (time.perf_counter() - began[1]):.1f} ms")


def test_what_is_exported_can_be_imported(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    store.put(replace(PERU, aliases=("Perú|x",), source="a,b\u2028", priority=1, valid_to="2027-01-01"))
    store.put(
        EditRecord("Chile", "The capital of Chile is", "Łódź", status=Status.SHADOW, negatives=("Chile borders",))
    )
    edits = list(snapshot(store).edits.values())
    copy = opener(tmp_path / "copy.db")
    path = tmp_path / "edits.jsonl"
    assert imported(copy, path, "".join(f"{to_json(one.record)}\n" for one in edits)) == (2, 0, ())
    assert [one.record for one in copy.changes()] == [one.record for one in edits]


# The SQLite file


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store of edits"):
        SqliteStore(tmp_path / "edits.db", create=False)
    assert list(tmp_path.iterdir()) == []


def prepare(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)
    file.close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE theirs (x)"], "is a database of another program: give another --store"),
        (["PRAGMA application_id = 1", "CREATE TABLE x (x)"], "is a database of another program"),
        (
            [f"PRAGMA application_id = {0x64726B65}", "PRAGMA user_version = 99"],
            "written by a newer drike: update drike",
        ),
    ],
)
def test_another_database_is_refused_and_left_as_it_was(tmp_path: Path, statements: list[str], message: str) -> None:
    path = tmp_path / "edits.db"
    prepare(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "edits.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged or no store of edits .*: restore it from a copy"):
        SqliteStore(tmp_path / "edits.db")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened .*: check the path"):
        SqliteStore(tmp_path)


def damaged(path: Path, every: int, masks: tuple[int, ...]) -> tuple[int, int]:
    """Change bytes of a store one by one; return how many changes were refused, and how many made no difference."""
    store = SqliteStore(path)
    for n in range(8):
        store.put(EditRecord(f"Town {n}", f"The river of Town {n} is", f"River {n}", reason="x" * 200))
    store.put(EditRecord("Town 1", "The river of Town 1 is", "Nile"), supersede=True)
    good = store.changes()
    store.close()
    content = path.read_bytes()
    refused = same = 0
    for at in range(0, len(content), every):
        for mask in masks:
            path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
            try:
                store = SqliteStore(path)
                try:
                    assert store.changes() == good, (at, mask)
                    same += 1
                finally:
                    store.close()
            except StoreError:
                refused += 1
    return refused, same


def test_a_damaged_byte_is_reported_or_changes_nothing(tmp_path: Path) -> None:
    refused, same = damaged(tmp_path / "edits.db", every=211, masks=(0x80,))
    assert refused > 9 and same > 9


def test_sqlite_itself_refuses_to_rewrite_the_log(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "edits.db").put(PERU)
    for statement in ("DELETE FROM changes", "UPDATE changes SET entry = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="the log only grows"):
            prepare(tmp_path / "edits.db", statement)


def test_a_store_in_use_is_reported_after_a_while(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "edits.db"), SqliteStore(tmp_path / "edits.db", wait=0.01)
    with store.transaction():
        store.put(PERU)
        assert other.changes() == [], "readers do not wait"
        with pytest.raises(StoreError, match="is in use by another process: wait for it to end"):
            other.put(PERU)
    assert len(other.changes()) == 1


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "edits.db")
    store.put(PERU)
    store._file.execute("PRAGMA max_page_count = 8")
    with pytest.raises(StoreError, match=r"cannot be written \(database or disk is full\): make room"):
        store.put(EditRecord("Chile", "The capital of Chile is", "Rome", reason="x" * 9_999, source="y" * 9_999))
    assert active(store) == {"Oslo"}
    store._file.execute("PRAGMA max_page_count = 1000")
    store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))


def test_the_store_never_uses_a_write_ahead_log(tmp_path: Path) -> None:
    """SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset."""
    SqliteStore(tmp_path / "edits.db").put(PERU)
    prepare(tmp_path / "edits.db", "PRAGMA journal_mode = WAL")
    store = SqliteStore(tmp_path / "edits.db")
    assert store._file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert store._file.execute("PRAGMA synchronous").fetchone() == (3,)


def test_the_store_needs_no_torch() -> None:
    code = "import sys, drike.stores.importing, drike.stores.sqlite; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


linux = pytest.mark.skipif(sys.platform != "linux", reason="writers are forks, with limits as Linux sets them")


def run_series(how: str, times: int, seed: int = 0, *options: str) -> dict[str, Any]:
    """Run a series in a process of its own, which has no threads and may fork."""
    command = [sys.executable, "-m", "tests.hostile.storing", how, "--times", str(times), "--seed", str(seed), *options]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=root)
    assert done.stdout, done.stderr
    print(done.stdout)
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result["wrong"] and done.returncode == 0 and result["acknowledged"] > 0
    return result


@linux
@pytest.mark.parametrize("how", ["kill", "full", "share"])
def test_acknowledged_changes_stay_and_others_leave_nothing(how: str) -> None:
    run_series(how, times=1 if how == "share" else 3)


without_server = pytest.mark.skipif(bool(databases.why_missing()), reason=databases.why_missing())


@linux
@without_server
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("how", ["kill", "share"])
def test_a_server_keeps_acknowledged_changes_and_nothing_of_others(how: str) -> None:
    run_series(how, 2, 0, "--postgres")


@linux
@pytest.mark.reliability
@pytest.mark.parametrize("options", [(), pytest.param(("--postgres",), marks=[pytest.mark.postgres, without_server])])
def test_a_thousand_killed_writers_lose_no_acknowledged_change(options: tuple[str, ...]) -> None:
    assert run_series("kill", 1000, 1, *options)["in_a_change"] > 300


@linux
@pytest.mark.reliability
@pytest.mark.parametrize("options", [(), pytest.param(("--postgres",), marks=[pytest.mark.postgres, without_server])])
def test_fifty_pairs_of_writers_lose_nothing_and_never_contradict_each_other(options: tuple[str, ...]) -> None:
    run_series("share", 50, 1, *options)


@linux
@pytest.mark.reliability
def test_two_hundred_full_disks_lose_nothing() -> None:
    run_series("full", times=200, seed=1)


@pytest.mark.reliability
def test_any_damaged_byte_is_reported_or_changes_nothing(tmp_path: Path) -> None:
    print(damaged(tmp_path / "edits.db", every=1, masks=(0x01, 0x80)))
