"""Stores of edits and files of keys: old ones are read and brought up to date; new ones have the same schema."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.commands import run
from tests.golden.compare import DATA, json_lines, matches_golden, without_chance

STORES = DATA / "stores"
OLD = ("version-1", "version-2")
PERU = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drike.support.users.user_name", lambda: "ann")
    return tmp_path


def rebuilt(name: str, place: Path) -> Path:
    """A store's file from its dump."""
    path = place / "edits.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript((STORES / f"{name}.sql").read_text("utf-8"))
    return path


def layout(path: Path) -> dict[str, object]:
    """The statements that made a database's tables, without their white space, and the numbers in its header."""
    with closing(sqlite3.connect(path)) as file:
        pragmas = {
            name: file.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        }
        made = file.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
    return {**pragmas, **{name: " ".join(sql.split()) for name, sql in made}}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that a command prints; it must succeed."""
    capsys.readouterr()
    assert run(*arguments) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", OLD)
def test_an_old_store_is_read(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both versions hold the same edits, and so share their golden."""
    rebuilt(name, place)
    found = {
        " ".join(asked): said(capsys, "edits", *asked)
        for asked in (
            ("list",),
            ("list", "--all"),
            ("show",),
            *(("show", str(edit)) for edit in range(1, 6)),
        )
    }
    said(capsys, "edits", "export", "out.jsonl", "--all")
    exported = json_lines(place / "out.jsonl")
    exported[0].pop("gates")  # only the later store has one
    matches_golden("store_read", {**found, "export": exported})


@pytest.mark.parametrize("name", OLD)
def test_an_old_store_is_brought_up_to_date_and_goes_on(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rebuilt(name, place)
    said(capsys, "edits", "add", "--fact", "The capital of Chad is -> Rome", "--subject", "Chad")
    assert said(capsys, "edits", "list")[-1] == "edits.db: 4 edits, 10 changes"
    assert layout(path) == layout_of_a_new_store(place)


def layout_of_a_new_store(place: Path) -> dict[str, object]:
    assert run("edits", "add", *PERU, "--store", str(place / "new.db")) == 0
    return layout(place / "new.db")


def test_the_layout_and_rows_of_a_new_store(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = layout_of_a_new_store(place)
    every = {
        "subject": "Mali", "query": "The capital of Mali is", "target_new": "Kyiv", "target_true": "Bamako",
        "relation": "P36", "aliases": ["Republic of Mali"], "wordings": ["Mali is governed from"],
        "negatives": ["Who lives in Mali?"], "status": "shadow", "valid_from": "2026-01-02",
        "valid_to": "2027-01-02T03:04:05+02:00", "priority": 3, "enforce": True, "source": "a list", "author": "bob",
        "reason": "why",
    }  # fmt: skip
    (place / "in.jsonl").write_text(json.dumps(every) + "\n", "utf-8")
    said(capsys, "edits", "import", "in.jsonl", "--store", "new.db")
    with closing(sqlite3.connect(place / "new.db")) as file:
        rows = file.execute(
            "SELECT number, edit, version, entry FROM changes ORDER BY number"
        ).fetchall()
        conflict_keys = file.execute("SELECT key, edit FROM claims ORDER BY key").fetchall()
    entries = [[*numbers, json.loads(entry)] for *numbers, entry in rows]
    matches_golden("store_new", {"layout": found, "rows": entries, "claims": conflict_keys})


def test_the_gate_of_an_old_store_decides(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its gate reads vectors of the hashing encoder, so that its decisions are exact."""
    rebuilt("version-2", place)
    asked = (
        "The capital of Peru is",
        "Mali is governed from",
        "Who lives in Mali?",
        "Which town governs Mali?",
        "Hello",
    )
    (place / "log.jsonl").write_text(
        "".join(f"{json.dumps(question)}\n" for question in asked), "utf-8"
    )
    kept, named = (
        said(capsys, "edits", "replay", "log.jsonl", *gate) for gate in ((), ("--gate", "named"))
    )
    assert kept != named
    matches_golden("store_gate", {"kept": kept, "named": named})


def test_an_old_file_of_keys_is_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "edits.keys.json"
    path.write_bytes((STORES / "keys.json").read_bytes())
    old = said(capsys, "keys", "list")
    said(capsys, "keys", "revoke", old[1].split()[0])
    [key] = said(capsys, "keys", "add", "--role", "admin")
    kept = json.loads(path.read_text("utf-8"))
    new = kept["keys"][-1]
    assert (key.split("-")[0], key.split("-")[1]) == ("drike", new["id"])
    listed = [without_chance(line) for line in said(capsys, "keys", "list")]
    found = {
        "old": old,
        "new": [line.replace(new["id"], "ID") for line in listed],
        "fields": [*kept, *new],
    }
    matches_golden("keys", found)
