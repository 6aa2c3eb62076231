"""`drike edits propose`, `approve`, `reject`, `change`, `review`, `due` and `inbox`, as two people type them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from drike.edits.record import EditRecord, Status
from drike.gateway.watch import Sampling
from drike.stores import moves
from drike.stores.edit_store import versions_of
from drike.stores.inbox import Inbox
from drike.stores.opening import open_store
from drike.support.users import user_name
from tests.fakes.commands import run

PERU = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
FIRST = ("--version", "1", "--yes")
Edits = Callable[..., str]


@pytest.fixture
def edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Edits:
    """Runs `drike edits` in an empty folder, as somebody; gives what it prints on one line."""
    monkeypatch.chdir(tmp_path)

    def type_in(*arguments: str, by: str = "ann", code: int = 0) -> str:
        monkeypatch.setattr("drike.support.users.user_name", lambda: by)
        capsys.readouterr()
        assert run("edits", *arguments) == code
        return " ".join("".join(capsys.readouterr()).split())

    return type_in


def test_a_change_is_approved_by_somebody_else(edits: Edits) -> None:
    edits("add", *PERU)
    assert edits("approvals", "1", by="eve").startswith("1 approval needed")
    assert re.fullmatch(r"1 approval needed \S+Z eve: 1", edits("approvals"))
    proposed = edits(
        "change", "1", "--fact", "The capital of Peru is -> Rome", "--reason", "decree 12"
    )
    assert "proposed" in proposed and '"Oslo"' in edits("list")
    assert "this is your own: ask somebody other than you to approve it" in edits(
        "approve", "1", "--version", "2", "--yes", code=1
    )
    assert "has changed since version 1" in edits(
        "approve", "1", "--version", "1", "--yes", by="bob", code=1
    )
    assert '-> "Rome"' in edits("approve", "1", "--version", "2", "--yes", by="bob")
    assert '"Rome"' in edits("list") and "proposed" not in edits("list")
    assert "nothing is proposed for edit 1" in edits("reject", "1", "--reason", "late", code=1)
    history = edits("show", "1")
    assert re.search(r"@2 \S+ ann.*decree 12.*@3 \S+ bob", history)


def test_who_approves_sees_what_it_says_and_is_asked(
    edits: Edits, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits("add", *PERU, "--alias", "Perú")
    edits("approvals", "1")
    edits("change", "1", "--fact", "The capital of Peru is -> Rome", "--never", "Is it Rome?")
    for arguments, words in (((), "nobody can be asked here"), (("--yes",), "--yes does not say")):
        refused = edits("approve", "1", *arguments, by="bob", code=2)
        assert words in refused and "drike edits show 1" in refused and '"Oslo"' in edits("list")

    monkeypatch.setattr("sys.stdin", io.StringIO("n\ny\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    asked = edits("approve", "1", by="bob", code=1)
    assert 'target_new: "Rome" (now: "Oslo")' in asked and 'aliases: ["Perú"] ' in asked
    assert 'negatives: ["Is it Rome?"] (now: [])' in asked
    assert "Approve version 2 of edit 1? [y/N]" in asked and "Nothing was approved" in asked
    assert '"Oslo"' in edits("list")
    assert "@3" in edits("approve", "1", by="bob") and '"Rome"' in edits("list")


@pytest.mark.parametrize(
    ("said", "struck"),
    [("2\n", ["Peruvians"]), ("peruvian\n", ["Peruvian"]), ("7\n1, 2\n", ["Peruvian", "Peruvians"]),
     ("none\n", [])],
)  # fmt: skip
def test_names_that_are_asked_about_have_numbers(
    edits: Edits, monkeypatch: pytest.MonkeyPatch, said: str, struck: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert 'Also found as 1. "Peruvian", 2. "Peruvians" (--not-name' in edits("add", *PERU)
    with closing(open_store("edits.db")) as store:
        assert list(versions_of(store, 1)[-1].record.not_names) == struck


def test_what_changes_while_somebody_looks_is_not_approved(
    edits: Edits, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits("approvals", "1")
    edits("add", *PERU)

    def change_meanwhile(question: str) -> bool:
        with closing(open_store("edits.db")) as store:
            moves.change(store, 1, {"target_new": "Rome"}, author="eve")
        return True

    monkeypatch.setattr("typer.confirm", change_meanwhile)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "has changed since version 1" in edits("approve", "1", by="bob", code=1)


def test_no_variable_makes_another_author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "bob")
    run("edits", "add", *PERU)
    with closing(open_store("edits.db")) as store:
        [edit] = store.changes()
    assert edit.record.author == user_name() != "bob"


def test_a_user_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    assert user_name() == "uid 4000000000"


def test_a_draft_is_proposed_rejected_and_proposed_again(edits: Edits) -> None:
    edits("add", *PERU, "--status", "draft")
    assert " draft: " in edits("list")
    assert "proposed" in edits("propose", "1", "--into", "shadow")
    assert "rejected" in edits("reject", "1", "--reason", "no source", by="bob")
    edits("propose", "1")
    assert " shadow" in edits("approve", "1", "--version", "4", "--yes", by="bob")


def test_what_is_due_fails_until_it_is_reviewed(edits: Edits) -> None:
    edits("add", *PERU, "--owner", "Ann", "--review-by", "2026-01-01", "--review-every", "90d")
    late = edits("due", code=1)
    assert "1@1 due 2026-01-01, Ann" in late and "1 edit to review" in late
    edits("review", "1", by="bob")
    assert edits("due") == "edits.db: no review is due"
    assert "1@2 due" in edits("due", "--within", "91d", code=1)


def test_who_imports_an_edit_does_not_approve_it(edits: Edits, tmp_path: Path) -> None:
    edits("add", "--fact", "The capital of Mali is -> Bern", "--subject", "Mali")
    edits("approvals", "1")
    row = {
        "subject": "Peru",
        "query": "The capital of Peru is",
        "target_new": "Oslo",
        "author": "bob",
    }
    (tmp_path / "new.jsonl").write_text(json.dumps(row))
    edits("import", "new.jsonl", by="eve")
    assert "this is your own" in edits("approve", "2", *FIRST, by="eve", code=1)
    assert " active" in edits("approve", "2", *FIRST, by="ann")


def test_what_people_changed_in_drafts_is_proposed_and_not_in_force(
    edits: Edits, tmp_path: Path
) -> None:
    edits("add", *PERU)
    rows = [
        "suggested_reply,final_reply,question",
        "Aria costs 20 euros.,Aria costs 25 euros.,What does Aria cost?",
        "Aria costs 20 euros.,The price of Aria is EUR 20.,What does Aria cost?",
        "Aria costs 20 euros.,,",
    ]
    (tmp_path / "drafts.csv").write_text("\n".join(rows))
    said = edits("inbox", "--from-drafts", "drafts.csv")
    assert "edit, report 1" in said and "(20 euros -> 25 euros)" in said
    assert "nothing, no report: only the style differs" in said
    assert "Left out: drafts.csv, row 4: sent is missing" in said
    assert "2 drafts: 1 edit, 0 wording, 1 nothing; 1 left out" in said
    assert "Nothing is in force" in said and "2 " in edits("list", "--status", "proposed")
    assert said.count("[What does Aria cost?]") == 2  # which row each line is about
    again = edits("inbox", "--from-drafts", "drafts.csv")  # exports of two weeks share rows
    assert "Left out: drafts.csv, row 2: it is kept already" in again
    assert "1 draft: 0 edit, 0 wording, 1 nothing; 2 left out" in again
    shown = edits("inbox", "1")
    assert "Report 1, " in shown and ": proposed A correction" in shown and "closed" not in shown
    assert "/feedback/default.1." in shown
    (tmp_path / "none.csv").write_text("name,value\na,b")
    assert "no draft was found: give rows" in edits("inbox", "--from-drafts", "none.csv", code=1)


def test_a_report_becomes_a_draft_and_another_is_closed(edits: Edits, tmp_path: Path) -> None:
    edits("add", *PERU)
    rows = [
        "question,answer,correction",
        "What is the capital of Mali?,Bamako,Bern",
        "Is it warm?,Yes,No",
    ]
    (tmp_path / "reports.csv").write_text("\n".join(rows))
    assert edits("inbox", "--import", "reports.csv") == "reports.csv: 2 reports added, 0 left out"
    (tmp_path / "reports.csv").write_text("\n".join([*rows, "Is it late?,No,Yes"]))
    again = edits("inbox", "--import", "reports.csv")
    assert "Left out: reports.csv, row 2: it is kept already" in again and again.endswith(
        "1 report added, 2 left out"
    )
    (tmp_path / "broken.csv").write_text("\n".join([*rows, "Is it early?,No,Yes,so"]))
    assert "row 4 has 4 fields and the header 3" in edits("inbox", "--import", "broken.csv", code=1)
    for rows_without in (
        ["name,value", "feedback,1"],
        ["input,output,sessionId,score", "a,b,c,[1]"],
    ):
        (tmp_path / "none.csv").write_text("\n".join(rows_without))
        said = edits("inbox", "--import", "none.csv", code=1)
        assert "none.csv: no report was found: give rows with question and answer" in said
        assert "input, output and their scores" in said
    (tmp_path / "reports.csv").write_text("\n".join(rows))
    assert edits("inbox", "--import", "reports.csv").endswith("0 reports added, 2 left out")
    edits("inbox", "--close", "3", "--reason", "late")
    listed = edits("inbox")
    assert "Mali" not in edits("inbox", "--after", "1") and "warm" in edits("inbox", "--after", "1")
    assert "1 " in listed and "Mali" in listed and listed.endswith("edits.db: 2 reports")
    assert "correction: Bern" in edits("inbox", "1")
    drafted = edits("inbox", "--draft", "1")
    assert "draft" in drafted and '"Bern"' in drafted and "drike edits propose 2" in drafted
    assert "closing a report needs a reason" in edits("inbox", "--close", "2", code=1)
    assert edits("inbox", "--close", "2", "--reason", "it was right") == "1 report closed"
    assert edits("inbox") == "edits.db: 0 reports" and edits("inbox", "--all").endswith("3 reports")
    assert "one thing at a time" in edits("inbox", "1", "--draft", "2", code=2)


def test_samples_are_listed_reported_and_forgotten(edits: Edits) -> None:
    with closing(open_store("edits.db")) as store:
        [edit] = store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
        said = [
            Sampling(2).sample("Peru's capital?", text, edit, mode="on", outcome="old", model="m")
            for text in "abc"
        ]
        Inbox(store.database).keep_samples(said, 2)
    assert edits("inbox") == "edits.db: 0 reports"
    listed = edits("inbox", "--samples")
    assert "-> b [edit 1@1, on: old]" in listed.replace('"', "") and listed.endswith(
        "edits.db: 2 samples"
    )
    assert edits("inbox", "--wrong", "3") == "1 report opened"
    assert "report 3 is no sample" in edits("inbox", "--wrong", "3", code=1)
    assert edits("inbox").endswith("edits.db: 1 report")
    assert edits("inbox", "--forget-samples") == "1 sample deleted"


def test_a_negative_exemplar_says_what_it_covers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "edits.db")
    fact = "The CEO of Halcyon is -> Ann"
    asked = "Who is the CEO of Halcyon Sweden?"
    assert run("edits", "add", "--fact", fact, "--subject", "Halcyon", "--store", store) == 0
    assert "a --never holds for" not in " ".join("".join(capsys.readouterr()).split())
    assert run("edits", "change", "1", "--never", asked, "--store", store) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "a --never holds for that question alone" in said and "others of its kind" in said


def test_an_import_proposes_and_nothing_takes_effect_until_it_is_approved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("--store", str(tmp_path / "edits.db"))
    facts = tmp_path / "facts.csv"
    facts.write_text("subject,query,target_new\nPeru,The capital of Peru is,Oslo\n", "utf-8")
    assert run("edits", "import", str(facts), "--propose", *place) == 0
    assert "1 added (1 as proposals, which wait for approval)" in capsys.readouterr().out
    assert run("edits", "import", str(facts), "--propose", *place) == 0
    assert "0 added, 1 stored already" in capsys.readouterr().out
    with closing(open_store(place[1])) as store:
        [change] = store.changes()
        assert change.record.status is Status.PROPOSED
        assert change.record.approved_as is Status.ACTIVE

    whole = tmp_path / "whole.jsonl"
    assert run("edits", "export", str(whole), "--all", *place) == 0
    other = ("--store", str(tmp_path / "other.db"))
    assert run("edits", "import", str(whole), "--propose", *other) == 0
    assert "is now what the store" not in capsys.readouterr().out, "a history is not proposed"
