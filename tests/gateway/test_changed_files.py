"""`ChangedFiles`: a look at a folder spares one at each of its files, and misses no change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drike.gateway import changed_files
from drike.gateway.changed_files import ChangedFiles
from drike.stores.opening import open_store
from tests.fakes.gateways import ENTRY

LONG_AGO = (1_700_000_000, 1_700_000_000)


def settle(*paths: Path) -> None:
    """Let nobody have written to these, nor in their folders, for long."""
    for path in paths:
        os.utime(path, LONG_AGO)
        os.utime(path.parent, LONG_AGO)


def watched(looks: int, *paths: Path) -> ChangedFiles:
    """Some files, after two looks at them: at the second all are as they were."""
    settle(*paths)
    files = ChangedFiles(looks)
    for path in paths:
        files.add(str(path))
    assert files.look() == [str(path) for path in paths] and not files.look()
    return files


def stores(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{i}.db" for i in range(count)]
    for path in paths:
        open_store(str(path), create=True).close()
    return paths


def test_a_change_by_sqlite_is_seen_at_the_next_look(tmp_path: Path) -> None:
    paths = stores(tmp_path, 3)
    files = watched(1_000, *paths)
    open_store(str(paths[1])).put(ENTRY)
    assert files.look() == [str(paths[1])]
    settle(*paths)
    files.look()
    assert not files.look()


def test_a_file_that_another_takes_the_place_of_is_seen_at_the_next_look(tmp_path: Path) -> None:
    paths = stores(tmp_path, 2)
    other = tmp_path / "copy.db"
    other.write_bytes(paths[0].read_bytes())
    files = watched(1_000, *paths)
    os.utime(other, LONG_AGO)  # as a restored copy may have it
    other.replace(paths[0])
    assert files.look() == [str(paths[0])]


def test_a_file_that_is_gone_may_change_at_each_look(tmp_path: Path) -> None:
    paths = stores(tmp_path, 2)
    files = watched(1_000, *paths)
    paths[0].unlink()
    assert [files.look() for _ in range(3)] == [[str(paths[0])]] * 3


def test_a_file_that_was_written_over_is_seen_within_so_many_looks(tmp_path: Path) -> None:
    paths = stores(tmp_path, 3)
    files = watched(4, *paths)
    paths[2].write_bytes(paths[2].read_bytes())  # in place: the folder stays as it was
    assert {name for _ in range(4) for name in files.look()} == {str(paths[2])}


def test_who_may_read_a_file_is_a_change_of_it(tmp_path: Path) -> None:
    [path] = stores(tmp_path, 1)
    files = watched(1, path)
    path.chmod(0o400)
    assert files.look() == [str(path)] and not files.look()


def test_a_store_behind_a_link_is_followed_where_it_lies(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("links", "first", "second")]
    for folder in folders:
        folder.mkdir()
    [first], [second] = stores(folders[1], 1), stores(folders[2], 1)
    link = folders[0] / "edits.db"
    link.symlink_to(first)
    files = watched(4, link)
    settle(first)

    open_store(str(link)).put(ENTRY)
    assert files.look() == [str(link)]
    settle(first, second, link)
    link.unlink()
    link.symlink_to(second)
    assert str(link) in {name for _ in range(4) for name in files.look()}
    settle(second)
    files.look()
    open_store(str(second)).put(ENTRY)
    assert files.look() == [str(link)]


def test_what_is_no_file_may_change_at_each_look() -> None:
    files = ChangedFiles()
    files.add("postgresql://somewhere")
    assert [files.look() for _ in range(2)] == [["postgresql://somewhere"]] * 2


def test_a_look_at_many_files_is_one_at_their_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = watched(4, *stores(tmp_path, 20))
    looked: list[str] = []
    status = changed_files._status

    def counted(path: str) -> object:
        looked.append(path)
        return status(path)

    monkeypatch.setattr(changed_files, "_status", counted)
    for _ in range(8):
        files.look()
    assert len(looked) == 8 + 2 * 20
