"""Folders that hold something else, links, unreadable files, a full disk: a sentence each."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drike import tinyfacts
from drike.errors import RunError
from drike.research.runs.files import append, keep_lines
from drike.research.runs.run import Run
from drike.support.files import write_text
from tests.fakes.commands import run

SMALL = (
    "--model",
    "reader",
    "--encoder",
    "hashing",
    "--edits",
    "4",
    "--test",
    "2",
    "--epochs",
    "1",
)
Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["episodes.jsonl", "outcomes/ike.jsonl", "summary.json"])
@pytest.mark.parametrize(
    "command", [("train", *SMALL), ("evaluate", *SMALL[:4], "--test", "1"), ("demo", *SMALL)]
)
def test_results_without_their_run_json_are_neither_used_nor_added_to(
    name: str, command: tuple[str, ...], tmp_path: Path, capfd: Said
) -> None:
    old = tmp_path / "run" / name
    write_text(old, "{}\n")
    assert run(*command, "--out", str(tmp_path / "run")) == 1
    assert (
        f"{tmp_path / 'run'} holds results of a run whose run.json is gone: choose"
        in capfd.readouterr().err
    )
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file()] == [old]
    assert old.read_text("utf-8") == "{}\n"


@pytest.mark.parametrize("arguments", [("--out", ""), ("--out=",), ("--model", "")])
def test_an_empty_argument_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("train", *SMALL, *arguments) == 2
    assert (
        "an argument is empty: give it a value, or leave its option out" in capfd.readouterr().err
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_place_of_a_file_of_a_run_is_not_followed(
    exists: bool, tmp_path: Path, capfd: Said
) -> None:
    other, folder = tmp_path / "other.jsonl", tmp_path / "run"
    if exists:
        other.write_text("{}\n", "utf-8")
    assert run("train", *SMALL, "--out", str(folder)) == 0
    path = folder / "episodes.jsonl"
    path.unlink()
    path.symlink_to(other)
    for change in (lambda: append(path, [{}]), lambda: keep_lines(path, 0)):
        with pytest.raises(RunError, match="is a symbolic link"):
            change()
    capfd.readouterr()
    assert run("train", "--resume", str(folder)) == 1
    assert "episodes.jsonl" in capfd.readouterr().err
    assert path.is_symlink() and (
        other.read_text("utf-8") == "{}\n" if exists else not other.exists()
    )


@pytest.mark.parametrize(
    "write", [lambda path: append(path, [{}]), lambda path: write_text(path, "{}")]
)
def test_the_error_of_a_full_disk_names_the_file(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


def test_the_sentence_about_a_full_disk_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said
) -> None:
    real = os.fsync

    def full(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink().name == "episodes.jsonl":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert run("train", *SMALL, "--out", str(tmp_path / "run")) == 1
    said = " ".join(capfd.readouterr().err.split())
    assert f"No space left on device ({tmp_path / 'run' / 'episodes.jsonl'}): make room" in said


def test_a_run_json_that_cannot_be_read_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, tmp_path / "none", Path(__file__)):
        with pytest.raises(
            RunError, match=r"is not a run, as it holds no run\.json: give a folder"
        ):
            Run.open(folder)

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(
        RunError, match=r"run\.json cannot be read \(Permission denied\): check its permissions"
    ):
        Run.open(tmp_path)


@pytest.mark.parametrize("place", ["data/mine.json", "mine.json"])
def test_a_run_that_moved_with_its_data_finds_them_and_other_data_of_that_name_are_not_taken(
    place: str, tmp_path: Path
) -> None:
    source, old, new = tinyfacts.ROWS, tmp_path / "old", tmp_path / "new"
    data = old / place
    data.parent.mkdir(parents=True)
    data.write_bytes(source.read_bytes())
    assert run("train", *SMALL, "--data", str(data), "--out", str(old / "runs" / "a")) == 0

    old.rename(new)
    assert Run.open(new / "runs" / "a").data == (str(new / place),)
    (new / place).write_bytes(source.read_bytes() + b"\n")
    assert Run.open(new / "runs" / "a").data == (str(data),)
