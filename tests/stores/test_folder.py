"""The edits of a store as files of a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from drike.edits.record import EditRecord, Status, StoreError
from drike.edits.record_json import to_json
from drike.errors import DataError
from drike.stores import moves
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.export import lines_of, whole_store
from drike.stores.folder import sync_folder
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore

PERU = EditRecord(
    "Peru", "The capital of Peru is", "Oslo", aliases=("Perú",), author="ann", reason="decree"
)
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at a folder again at once."""
    monkeypatch.setattr("drike.stores.folder._PAUSE", 0.01)


def edit_file(folder: Path, id: int, **changes: object) -> None:
    [path] = folder.glob(f"{id:05}-*.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def test_a_folder_and_a_store_agree(store: EditStore, tmp_path: Path) -> None:
    folder = tmp_path / "edits"
    store.put(PERU)
    store.put(CHILE)
    assert sync_folder(store, folder).written == ("00001-peru.json", "00002-chile.json")
    assert sync_folder(store, folder) == ((), (), ())
    edit_file(folder, 1, target_new="Lima")
    moves.change(store, 2, {"target_new": "Pisa"})
    synced = sync_folder(store, folder, author="bob")
    assert synced.written == ("00001-peru.json", "00002-chile.json") and not synced.left
    assert [edit.record.target_new for edit in snapshot(store).edits.values()] == ["Lima", "Pisa"]
    assert synced.changes[-1].record.author == "bob"
    edit_file(folder, 1, target_new="Quito")
    moves.change(store, 1, {"target_new": "Arica"})
    before = next(folder.glob("00001-*")).read_text("utf-8")
    [left] = sync_folder(store, folder).left
    assert (
        "changed in the store, too" in left
        and next(folder.glob("00001-*")).read_text("utf-8") == before
    )
    edit_file(folder, 1, target_new="Arica")
    assert not sync_folder(store, folder).left
    (folder / "new.json").write_text(
        '{"subject": "Oz", "query": "The capital of Oz is", "target_new": "Graz"}', "utf-8"
    )
    assert (
        sync_folder(store, folder).written == ("00003-oz.json",)
        and not (folder / "new.json").exists()
    )
    (folder / "00003-oz.json").unlink()
    assert "--retire-missing" in sync_folder(store, folder).left[0]
    assert (
        sync_folder(store, folder, retire_missing=True).changes[-1].record.status is Status.RETIRED
    )
    assert sync_folder(store, folder) == ((), (), ())
    (folder / "bad.json").write_text("{", "utf-8")
    with pytest.raises(DataError, match=r"bad.json is no edit"):
        sync_folder(store, folder)


def test_a_file_that_is_left_alone_keeps_what_it_says_whatever_its_name(
    store: EditStore, tmp_path: Path
) -> None:
    store.put(PERU)
    sync_folder(store, tmp_path)
    path = next(tmp_path.glob("00001-*")).rename(tmp_path / "facts: peru.json")
    text = path.read_text("utf-8").replace("Oslo", "Quito")
    path.write_text(text, "utf-8")
    moves.change(store, 1, {"target_new": "Arica"})
    assert len(sync_folder(store, tmp_path).left) == 1 and path.read_text("utf-8") == text


def test_a_copy_without_an_id_stands_in_no_files_way(store: EditStore, tmp_path: Path) -> None:
    store.put(PERU)
    sync_folder(store, tmp_path)
    [own] = tmp_path.glob("00001-*")
    values = json.loads(own.read_text("utf-8"))
    copied = {name: value for name, value in values.items() if name not in ("id", "version")}
    (tmp_path / "0-copy.json").write_text(json.dumps(copied), "utf-8")
    edit_file(tmp_path, 1, target_new="Quito")
    found = sync_folder(store, tmp_path)
    assert [edit.record.target_new for edit in found.changes] == ["Quito"]
    assert len(found.left) == 1 and found.left[0].startswith(
        "0-copy.json: edit 1 is also in 00001-"
    )


def test_a_file_of_another_store_changes_nothing(store: EditStore, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "other.db")) as other:
        other.put(CHILE)
        sync_folder(other, tmp_path)
    store.put(PERU)
    [left] = sync_folder(store, tmp_path).left
    assert "edit 1 has no such version 1: take id and version out" in left and "00001-chile" in left
    assert snapshot(store).edits[1].record == PERU and "Chile" in next(
        tmp_path.glob("00001-chile*")
    ).read_text("utf-8")


def test_no_file_is_written_over_that_somebody_made(store: EditStore, tmp_path: Path) -> None:
    store.put(PERU)
    sync_folder(store, tmp_path)
    store.put(
        replace(PERU, query="The currency of Peru is", target_new="Krone")
    )  # edit 2, whose file is named so
    ours = tmp_path / "00002-peru.json"
    refused = json.dumps(
        {"subject": "Peru", "query": "The capital of Peru is", "target_new": "Rome"}
    )
    ours.write_text(refused, "utf-8")
    assert (
        sync_folder(store, tmp_path).written == ("00002-peru-2.json",)
        and ours.read_text("utf-8") == refused
    )
    store.put(replace(PERU, query="The anthem of Peru is", target_new="Aria"))
    taken = json.dumps(
        {"subject": "Peru", "query": "The language of Peru is", "target_new": "Danish"}
    )
    ours.rename(tmp_path / "00003-peru.json").write_text(taken, "utf-8")
    assert sync_folder(store, tmp_path).written == ("00003-peru-2.json", "00004-peru.json")
    assert sync_folder(store, tmp_path, retire_missing=True) == ((), (), ())


def test_edits_whose_files_could_not_be_written_are_not_retired(
    store: EditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(PERU)
    store.put(CHILE)

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("drike.stores.folder.write_text", full)
        sync_folder(store, tmp_path)
    with pytest.raises(
        StoreError, match=r"has no .synced of .*: sync it without --retire-missing first"
    ):
        sync_folder(store, tmp_path, retire_missing=True)
    assert sync_folder(store, tmp_path).written == ("00001-peru.json", "00002-chile.json")


def test_a_removed_file_is_missed_in_any_checkout_of_its_folder(
    store: EditStore, tmp_path: Path
) -> None:
    store.put(PERU)
    assert sync_folder(store, tmp_path / "a").written == ("00001-peru.json",)
    (tmp_path / "a" / "00001-peru.json").unlink()
    copytree(tmp_path / "a", tmp_path / "b")
    store.put(CHILE)  # which has no file there because it is new
    synced = sync_folder(store, tmp_path / "b")
    assert (
        synced.written == ("00002-chile.json",) and "edit 1 has no file any more" in synced.left[0]
    )
    [retired] = sync_folder(store, tmp_path / "b", retire_missing=True).changes
    assert retired.id == 1 and snapshot(store).edits[2].record.status is Status.ACTIVE


def test_in_a_folder_of_another_store_no_edit_is_missing(store: EditStore, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "other.db")) as other:
        other.put(CHILE)
        sync_folder(other, tmp_path)
    store.put(PERU)
    with pytest.raises(StoreError, match="without --retire-missing first"):
        sync_folder(store, tmp_path, retire_missing=True)
    assert len(sync_folder(store, tmp_path).left) == 1
    next(tmp_path.glob("00001-*")).unlink()  # which was never that of this store's edit
    assert sync_folder(store, tmp_path).written == ("00001-peru.json",)
    assert snapshot(store).edits[1].record.status is Status.ACTIVE


@pytest.mark.parametrize("text", ["[1,2]", "5", "null", '[["subject", "Chile"]]'])
def test_a_file_that_is_no_object_is_named(store: EditStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"x.json is no edit \(it is no JSON object\): correct it"):
        sync_folder(store, tmp_path)


def test_files_may_begin_with_a_mark_of_utf_8(store: EditStore, tmp_path: Path) -> None:
    (tmp_path / "peru.json").write_text(to_json(PERU), "utf-8-sig")
    assert sync_folder(store, tmp_path).written == ("00001-peru.json",)
    (tmp_path / "all.jsonl").write_text(
        "".join(f"{line}\n" for line in lines_of(store)), "utf-8-sig"
    )
    assert (whole := whole_store(tmp_path / "all.jsonl")) and whole.changes == 1


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SHADOW, Status.DRAFT])
@pytest.mark.parametrize("needed", [0, 1])
def test_a_new_file_that_is_found_again_is_that_of_its_edit(
    store: EditStore, tmp_path: Path, needed: int, status: Status
) -> None:
    require_approvals(store, needed)
    said = to_json(replace(CHILE, status=status))

    def checkout(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "chile.json").write_text(said, "utf-8")
        return tmp_path / name

    assert len(sync_folder(store, checkout("first")).changes) == 1
    assert sync_folder(store, checkout("second")) == (("00001-chile.json",), (), ())
    assert [path.name for path in (tmp_path / "second").glob("*.json")] == ["00001-chile.json"]
    (tmp_path / "second" / "again.json").write_text(said, "utf-8")
    [left] = sync_folder(store, tmp_path / "second").left
    assert left == "again.json: edit 1 is also in 00001-chile.json: keep one of them"
    assert (tmp_path / "second" / "again.json").exists() and len(store.changes()) == 1


def test_a_new_file_is_taken_over_once_though_its_edit_could_not_be_written(
    store: EditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "chile.json").write_text(to_json(CHILE), "utf-8")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("drike.stores.folder.write_text", full)
        sync_folder(store, tmp_path)
    assert (
        sync_folder(store, tmp_path) == (("00001-chile.json",), (), ())
        and len(store.changes()) == 1
    )


def test_changes_of_files_are_proposed_where_approvals_are_required(
    store: EditStore, tmp_path: Path
) -> None:
    store.put(PERU)
    sync_folder(store, tmp_path)
    require_approvals(store, 1)
    edit_file(tmp_path, 1, target_new="Lima")
    [change] = sync_folder(store, tmp_path, author="bob").changes
    assert change.record.status is Status.PROPOSED and not sync_folder(store, tmp_path).changes
    moves.approve(store, 1, author="ann")
    assert sync_folder(store, tmp_path) == (("00001-peru.json",), (), ())
    assert snapshot(store).edits[1].record.target_new == "Lima"
    edit_file(tmp_path, 1, target_new="Quito")
    sync_folder(store, tmp_path, author="bob")
    moves.reject(store, 1, author="ann", reason="no")
    again = sync_folder(store, tmp_path, author="bob")
    assert again.changes == () and "Lima" in (tmp_path / "00001-peru.json").read_text("utf-8")


@pytest.mark.parametrize("number", [-(2**70), 2**70, 2**63, 0, -1, True, 1.0])
def test_a_file_with_an_id_that_no_store_gives_is_refused(
    store: EditStore, tmp_path: Path, number: object
) -> None:
    store.put(PERU)
    values = json.loads(to_json(PERU)) | {"id": number, "version": 1}
    (tmp_path / "a.json").write_text(json.dumps(values), "utf-8")
    with pytest.raises(DataError, match=r"a\.json is no edit \(.*id.*\): correct it"):
        sync_folder(store, tmp_path)


def _link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_out_of_the_folder(path: Path) -> None:
    outside = path.parent.parent / "outside.json"
    outside.write_text(to_json(PERU), "utf-8")
    path.symlink_to(outside)


def _large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 33)


@pytest.mark.parametrize("name", ["a.json", ".synced"])
@pytest.mark.parametrize(
    "make", [_link_to_a_device, _link_out_of_the_folder, os.mkfifo, Path.mkdir, _large]
)
def test_only_regular_files_of_the_folder_are_read(
    store: EditStore, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "edits"
    folder.mkdir()
    make(folder / name)
    with pytest.raises(DataError, match=r"no regular file|more than 4 MB"):
        sync_folder(store, folder)


@pytest.mark.parametrize("at", ["write_text", "rename"])
def test_a_kill_while_a_new_file_is_written_leaves_nothing_to_mend(
    store: EditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "chile.json").write_text(to_json(CHILE), "utf-8")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if at == "rename":
            patch.setattr(Path, "rename", killed)
        else:
            patch.setattr("drike.stores.folder.write_text", killed)
        sync_folder(store, tmp_path)
    for _ in range(2):
        assert sync_folder(store, tmp_path).left == () and len(store.changes()) == 1
    assert len(list(tmp_path.glob("*.json"))) == 1


@pytest.mark.parametrize("name", ["00000-copy.json", "copy.json"])
@pytest.mark.parametrize("is_original_changed", [False, True])
def test_a_copied_file_never_takes_over_the_edit_of_the_original(
    store: EditStore, tmp_path: Path, name: str, is_original_changed: bool
) -> None:
    store.put(PERU)
    sync_folder(store, tmp_path)
    [own] = tmp_path.glob("00001-*")
    values = json.loads(own.read_text("utf-8"))
    copied = values | {"subject": "Chile", "query": "The capital of Chile is", "aliases": []}
    (tmp_path / name).write_text(json.dumps(copied), "utf-8")
    if is_original_changed:
        edit_file(tmp_path, 1, target_new="Quito")
    texts = {path: path.read_text("utf-8") for path in tmp_path.glob("*.json")}
    synced = sync_folder(store, tmp_path)
    assert synced.changes == () and any(
        line.startswith(f"{name}: edit 1 is") for line in synced.left
    )
    assert snapshot(store).edits[1].record.subject == "Peru"
    assert texts == {path: path.read_text("utf-8") for path in tmp_path.glob("*.json")}


def test_a_checkout_in_the_meantime_retires_nothing(
    store: EditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(PERU)
    store.put(CHILE)
    sync_folder(store, tmp_path)
    [path] = tmp_path.glob("00001-*")
    text = path.read_text("utf-8")
    path.unlink()
    # Git writes the file anew between two looks.
    monkeypatch.setattr("drike.stores.folder.sleep", lambda _: path.write_text(text, "utf-8"))
    monkeypatch.setattr("drike.stores.folder._MOST_LOOKS", 1)
    with pytest.raises(StoreError, match="keeps changing: wait until nobody writes there"):
        sync_folder(store, tmp_path, retire_missing=True)
    assert snapshot(store).edits[1].record.status is Status.ACTIVE
    monkeypatch.setattr("drike.stores.folder.sleep", lambda _: None)
    assert sync_folder(store, tmp_path, retire_missing=True) == ((), (), ())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'"target_new": "Oslo", "target_new": "Rome"', r"it has the key 'target_new' twice"),
        (b'"target_new": "Oslo", "metadata": {"a": "b", "a": "c"}', r"it has the key 'a' twice"),
        ('"target_new": "Łódź"'.encode("cp1250"), r"it is not in UTF-8"),
        (b'"target_new": "Oslo", "version": ' + b"9" * 5000, r"it has a number of too many digits"),
    ],
)
def test_what_a_file_says_twice_or_nobody_can_read_is_refused(
    store: EditStore, tmp_path: Path, content: bytes, why: str
) -> None:
    said = b'{"subject": "Peru", "query": "The capital of Peru is", ' + content + b"}"
    (tmp_path / "a.json").write_bytes(said)
    with pytest.raises(DataError, match=rf"a\.json is no edit \({why}\): correct it"):
        sync_folder(store, tmp_path)
    assert not snapshot(store).edits


def test_a_file_is_an_edit_with_its_ending_in_capitals_too(
    store: EditStore, tmp_path: Path
) -> None:
    said = {"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo"}
    (tmp_path / "PERU.JSON").write_text(json.dumps(said), "utf-8")
    assert len(sync_folder(store, tmp_path).changes) == 1
