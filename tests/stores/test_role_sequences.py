"""Nobody gets their own text in force by themselves, whatever several people do to edits, in whatever order.

`make test` plays 50 sequences, `make reliability` 15,000 (30 series of 500). The acts are those of the store and of
the admin port: `tests/fakes/role_sequences.py`. What may be in use is told by a model that is given what
each person does, and believes nothing that a version says of itself: `tests/fakes/approval_model.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.record import ApprovalError, EditRecord, Move, Status
from drike.gates.index import EditIndex
from drike.live import drafts
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.export import lines_of, whole_store
from drike.stores.folder import sync_folder
from drike.stores.imports import PlacedRecord, import_edits
from drike.stores.inbox import Inbox, Report
from drike.stores.moves import approve, change, propose, reject, retire
from drike.stores.snapshots import snapshot
from tests.fakes.role_sequences import Series
from tests.fakes.stores import PERU, Opener, active
from tests.fakes.tally import Tally

ROME = {"target_new": "Rome"}
DRAFT = replace(PERU, status=Status.DRAFT)


def test_no_sequence_of_roles_puts_a_text_in_force_by_its_author(tmp_path: Path) -> None:
    series = Series()
    series.run(range(320, 370), tmp_path, api=0.02, length=8)
    assert series.problems == [] and series.in_use > 5


@pytest.mark.reliability
@pytest.mark.parametrize("block", range(30))
def test_no_sequence_of_many_does(tmp_path: Path, tally: Tally, block: int) -> None:
    series = Series()
    series.run(range(1_000 * block, 1_000 * block + 500), tmp_path)
    tally("sequences of roles that approve edits", series.sequences, len(series.problems))
    print(
        f"{series.sequences} sequences of {series.acts} acts, {series.refused} refused: "
        f"{series.in_use} versions in use, {len(series.problems)} by their authors"
    )
    assert series.problems == []


def retired_by_another(store: EditStore) -> int:
    [edit] = store.put(replace(PERU, status=Status.RETIRED, author="anna"))
    return edit.id


def changed_while_retired(store: EditStore) -> int:
    [edit] = store.put(replace(PERU, status=Status.RETIRED, author="bob"))
    change(store, edit.id, ROME, author="anna")
    return edit.id


def with_a_move_of_a_file(store: EditStore) -> int:
    row = replace(DRAFT, move=Move.APPROVE)
    [edit] = import_edits(store, [PlacedRecord("row 1", row)], author="anna").added
    return edit.id


def with_a_move_of_its_own(store: EditStore) -> int:
    [edit] = store.put(replace(DRAFT, author="anna", move=Move.REVIEW))
    return edit.id


def written_by_whom_a_file_names(store: EditStore) -> int:
    row = replace(DRAFT, author="Anna")
    [edit] = import_edits(store, [PlacedRecord("row 1", row)], author="bob").added
    return edit.id


def in_a_file_of_a_folder(store: EditStore, folder: Path) -> int:
    (folder / "a.json").write_text(
        '{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo", '
        '"status": "draft", "author": "anna", "move": "approve"}'
    )
    [edit] = sync_folder(store, folder, author="bob").changes
    return edit.id


def with_a_word_of_another(store: EditStore) -> int:
    [edit] = store.put(replace(DRAFT, author="anna"))
    change(store, edit.id, {"aliases": ("Republic of Peru",)}, author="bob")
    return edit.id


def renamed_by_another(store: EditStore) -> int:
    [edit] = store.put(replace(DRAFT, author="anna"))
    chad = {"subject": "Chad", "query": "The capital of Chad is"}
    change(store, edit.id, chad, author="bob")
    return edit.id


def scheduled_by_another(store: EditStore) -> int:
    [edit] = store.put(replace(DRAFT, valid_to="2020-01-01", author="anna"))
    change(store, edit.id, {"valid_to": "2030-01-01"}, author="bob")
    return edit.id


def rejected_and_proposed_again(store: EditStore) -> int:
    [edit] = store.put(replace(DRAFT, author="anna"))
    propose(store, edit.id, author="bob")
    reject(store, edit.id, author="cid", reason="no")
    return edit.id


def reported_to_another(store: EditStore) -> int:
    told = Report("What is the capital of Peru?", "Lima", "Oslo")
    [report] = Inbox(store.database).add([told], "Anna (report)")
    [edit] = drafts.draft(store, [report.number], EditIndex(), author="Bob (approve)")
    return edit.id


def copied_into_another_edit(store: EditStore) -> int:
    store.put(replace(DRAFT, author="anna"))
    [edit] = store.put(replace(DRAFT, query="the capital of  Peru is", author="bob"))
    return edit.id


def split_off_another_edit(store: EditStore) -> int:
    store.put(replace(DRAFT, paraphrases=("Peru is ruled from",), author="anna"))
    [edit] = store.put(replace(DRAFT, query="Peru is ruled from", author="bob"))
    return edit.id


def merged_into_another_edit(store: EditStore) -> int:
    store.put(replace(DRAFT, query="Peru is ruled from", author="anna"))
    [edit] = store.put(replace(DRAFT, paraphrases=("Peru is ruled from",), author="bob"))
    return edit.id


Written = Callable[..., int]


@pytest.mark.parametrize(
    "written",
    [
        retired_by_another, changed_while_retired, with_a_move_of_a_file, with_a_move_of_its_own,
        written_by_whom_a_file_names, in_a_file_of_a_folder, with_a_word_of_another,
        renamed_by_another, scheduled_by_another, rejected_and_proposed_again, reported_to_another,
        copied_into_another_edit, split_off_another_edit, merged_into_another_edit,
    ],
)  # fmt: skip
def test_who_wrote_a_text_does_not_approve_it_whatever_became_of_it(
    store: EditStore, tmp_path: Path, written: Written
) -> None:
    require_approvals(store, 1)
    more = (tmp_path,) if written is in_a_file_of_a_folder else ()
    edit = written(store, *more)
    propose(store, edit, author="dora")
    for author in ("anna", "Anna (approve)", "dora"):
        with pytest.raises(ApprovalError, match="this is your own"):
            approve(store, edit, author=author)
    approve(store, edit, author="eve")
    assert len(active(store)) == 1


def test_what_was_in_use_is_its_authors_no_more(store: EditStore) -> None:
    require_approvals(store, 1)
    [edit] = store.put(replace(PERU, status=Status.PROPOSED, author="anna"))
    approve(store, edit.id, author="bob")
    change(store, edit.id, ROME, author="bob")
    approve(store, edit.id, author="anna")  # who wrote the question, which Bob has approved
    assert active(store) == {"Rome"}
    change(store, edit.id, {"target_new": "Bern"}, author="anna")
    reject(store, edit.id, author="bob", reason="no")
    change(store, edit.id, {"target_new": "Lima"}, author="bob")
    approve(store, edit.id, author="anna")  # whose text was rejected, and is not in this one
    assert active(store) == {"Lima"}
    retire(store, edit.id, author="anna")
    assert snapshot(store).edits[edit.id].record.status is Status.RETIRED


def test_a_text_that_was_exported_is_still_its_authors(opener: Opener, tmp_path: Path) -> None:
    with closing(opener(tmp_path / "a.db")) as store:
        require_approvals(store, 1)
        [edit] = store.put(replace(PERU, status=Status.PROPOSED, author="anna"))
        approve(store, edit.id, author="bob")
        (tmp_path / "a.jsonl").write_text("\n".join(lines_of(store)), "utf-8")
    whole = whole_store(tmp_path / "a.jsonl")
    assert whole is not None
    with closing(opener(tmp_path / "b.db")) as store:
        require_approvals(store, 1)
        [edit] = import_edits(store, whole.edits("a.jsonl"), author="eve").added
        for author in ("anna", "eve"):
            with pytest.raises(ApprovalError):
                approve(store, edit.id, author=author)
        approve(store, edit.id, author="bob")


def test_who_approves_a_copied_fact_is_none_of_its_authors(store: EditStore) -> None:
    require_approvals(store, 1)
    [edit] = store.put(replace(PERU, status=Status.PROPOSED, author="anna"))
    approve(store, edit.id, author="bob")
    retire(store, edit.id, author="cid")
    other = EditRecord("Peru", PERU.query, "Oslo", status=Status.PROPOSED, author="dora")
    [copy] = store.put(other)
    with pytest.raises(ApprovalError):
        approve(store, copy.id, author="anna")
    approve(store, copy.id, author="bob")
