"""`drike edits`: what it prints, keeps and refuses."""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gateway.proving.tuning import stored_choice
from drike.live.store_gate import needs_recalibration, open_gate
from drike.research.editors.placements import placements
from drike.stores.opening import open_store
from drike.stores.sqlite import SqliteStore
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import serve, serving

PERU = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where edits.db will be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drike.support.users.user_name", lambda: "ann")
    return tmp_path


def edits(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints, on one line; error messages included."""
    capsys.readouterr()
    assert run("edits", *arguments) == code
    return " ".join("".join(capsys.readouterr()).split())


def test_an_edit_goes_through_its_life(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    added = edits(capsys, "add", *PERU, "--alias", "Perú", "--source", "the gazette", "--valid-from", "2026-01-01",
                  "--object-alias", "Christiania")  # fmt: skip
    begin = "from 2026-01-01T00:00:00Z"
    assert re.fullmatch(
        r'Also found as "Peruvian", "Peruvians" \(--not-name strikes one out\) '
        rf'edits.db is a new store of edits 1@1 \S+Z ann active {begin}: "The capital of Peru is" -> "Oslo"',
        added,
    )
    rome = ("--fact", "The capital of Peru is -> Rome", "--subject", "Peru")
    refused = edits(capsys, "add", *rome, code=1)
    assert (
        'Error: "The capital of Peru is" -> "Rome" contradicts edit 1' in refused
        and "(--supersede)" in refused
    )
    superseded = edits(capsys, "add", *rome, "--supersede", "--reason", "a new decree")
    assert re.search(
        rf'1@2 \S+ ann retired {begin}: .* -> "Oslo" \(superseded by edit 2\) 2@1 ', superseded
    )
    assert superseded.startswith('Also found as "Peruvian", "Peruvians"')
    assert superseded.endswith('active: "The capital of Peru is" -> "Rome" (a new decree)')
    assert '"Rome"' in edits(capsys, "list") and '"Oslo"' not in edits(capsys, "list")
    assert edits(capsys, "list", "--all").endswith("edits.db: 2 edits, 3 changes")
    edits(capsys, "retire", "2", "--reason", "premature")
    assert "1@3" in edits(capsys, "rollback", "1")
    shown = edits(capsys, "show", "1")
    assert "aliases: Perú" in shown and "source: the gazette" in shown
    assert re.search(r"1@1 .* 1@2 .* 1@3 .* \(back to version 1\)$", shown)
    assert re.search(r"1@1 .* 1@2 .* 2@1 .* 2@2 .* \(premature\) 1@3 ", edits(capsys, "show"))
    assert edits(capsys, "export", "out.jsonl") == "out.jsonl: 1 exported"
    [line] = (place / "out.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["aliases"] == ["Perú"]
    assert json.loads(line)["object_aliases"] == ["Christiania"]


def test_the_old_object_is_given_and_changed(capsys: pytest.CaptureFixture[str]) -> None:
    edits(capsys, "add", *PERU, "--old", "Cusco")
    assert "target_true: Cusco" in edits(capsys, "show", "1")
    edits(capsys, "change", "1", "--old", "Lima")
    assert "target_true: Lima" in edits(capsys, "show", "1")


def test_an_import_counts_and_names_what_it_refuses(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    (place / "facts.csv").write_text(
        "subject,query,target_new\nPeru,The capital of Peru is,Oslo\n,The capital of Chile is,Rome\n",
        "utf-8",
    )
    said = edits(capsys, "import", "facts.csv", code=1)
    assert "Refused: facts.csv, row 3: it lacks subject" in said
    assert "facts.csv: 1 added, 0 stored already, 1 refused" in said
    assert (
        "Error: facts.csv has refused rows (listed above, and in facts.csv.refused.csv): correct them"
        in said
    )
    assert "0 added, 1 stored already, 1 refused" in edits(capsys, "import", "facts.csv", code=1)
    assert "No such file or directory (other.csv): check the path" in edits(
        capsys, "import", "other.csv", code=1
    )


def test_a_table_comes_through_a_pipe(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    os.mkfifo(pipe := place / "pipe.csv")
    row = "subject,query,target_new\nPeru,The capital of Peru is,Oslo\n"
    writer = threading.Thread(target=pipe.write_text, args=(row,))
    writer.start()
    assert "1 added, 0 stored already, 0 refused" in edits(capsys, "import", "pipe.csv")
    writer.join()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("list",), 1, "Error: there is no store of edits at edits.db: add an edit first"),
        (("retire", "1"), 1, "Error: there is no store of edits"),
        (("add", "--fact", "The capital of Peru is -> Oslo"), 2, "Missing option '--subject'"),
        (
            ("add", *PERU, "--alias", " "),
            1,
            "Error: aliases is blank: give it a text, or leave it out",
        ),
        (
            ("add", *PERU, "--status", "on"),
            2,
            "Error: --status must be active or shadow or proposed or draft, not on",
        ),
        (("add", *PERU, "--valid-to", "soon"), 1, "Error: valid_to 'soon' is no time"),
        (
            ("add", *PERU, "--store", "."),
            1,
            "cannot be opened (unable to open database file): check the path",
        ),
        (("add", *PERU, "--store", "no/such/edits.db"), 1, "cannot be opened"),
        (
            ("export", "edits.db"),
            2,
            "Error: edits.db does not end in .jsonl: give the file of JSON lines such a name",
        ),
        (("retire", "9" * 30), 2, "Invalid value"),
    ],
)
def test_a_mistake_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in edits(capsys, *arguments, code=code)


def test_retiring_several_edits_retires_all_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    edits(capsys, "add", *PERU)
    assert "there is no edit 2" in edits(capsys, "retire", "1", "2", code=1)
    assert "active" in edits(capsys, "list")


def test_a_subject_that_common_questions_name_is_told(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    told = edits(capsys, "add", "--fact", "The film It came out in -> 1999", "--subject", "It")
    assert (
        "is named in" in told and "of 121 common questions, such as" in told and "--never" in told
    )
    assert "named" not in edits(capsys, "add", *PERU)
    (place / "log.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "Is Chile far?"}]}\n"Hello"\n', "utf-8"
    )
    chile = (
        "--fact",
        "The capital of Chile is -> Oslo",
        "--subject",
        "Chile",
        "--log",
        "log.jsonl",
    )
    assert "is named in 1 of 2 logged questions, such as 'Is Chile far?'" in edits(
        capsys, "add", *chile
    )
    bolivia = (
        "--fact",
        "The capital of Bolivia is -> Oslo",
        "--subject",
        "Bolivia",
        "--log",
        "log.jsonl",
    )
    assert "No subject or alias of this edit is named in 2 logged" in edits(capsys, "add", *bolivia)


def test_short_forms_and_names_that_may_mean_something_else_are_told(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    def added(name: str) -> str:
        return edits(capsys, "add", "--fact", f"The seat of {name} is -> Oslo", "--subject", name)

    assert (
        'Also found as "Nordlicht"' in (first := added("Nordlicht GmbH"))
        and "may mean" not in first
    )
    assert '"Nordlicht" may mean something else (edit 1 may be meant): it counts where' in added(
        "Nordlicht AG"
    )
    assert '"May" may mean something else: it counts where its capitals' in added("May")
    assert "short forms: Nordlicht ambiguous: Nordlicht" in edits(capsys, "show", "1")
    assert "ambiguous: May" in edits(capsys, "show", "3")
    rows = "subject,query,target_new\nWill,Will was made in,Rome\nLima,Lima is in,Chile\n"
    (place / "more.csv").write_text(rows, "utf-8")
    assert '1 name may mean something else, such as "Will": it counts' in edits(
        capsys, "import", "more.csv"
    )


def own_gate(path: str) -> Gate:
    with closing(open_store(path)) as opened:
        return open_gate(opened)


def test_a_gate_is_certified_kept_in_its_store_used_and_offered_anew(
    capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = replace(default_gate(), encoder="hashing")
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: shipped)
    edits(capsys, "add", *PERU)
    needs, refused = (
        "0.20% false fires take 3,326 edits or more",
        edits(capsys, "calibrate", code=1),
    )
    assert (
        refused.index(needs) < refused.index("nothing can be certified")
        and "0 of 1 in force have one" in refused
    )
    rows = [
        {"subject": name, "query": f"The capital of {name} is", "target_new": "Oslo",
         "wordings": [f"The city that governs {name} is"], "negatives": [f"The mother of {name} is"]}
        for name in ("Chile", "Bolivia", "Ecuador", "Brazil", "Uruguay", "Paraguay", "Suriname", "Guyana", "Panama")
    ]  # fmt: skip
    (place / "more.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    edits(capsys, "import", "more.jsonl")
    refused = edits(capsys, "calibrate", code=1)
    assert (
        "10 edits in force: 0.20% false fires cannot be certified" in refused
        and "add probes of" in refused
    )
    assert own_gate("edits.db") == shipped
    assert "at most 50.00% false fires" in edits(
        capsys, "calibrate", "--false-fire", ".5", "--confidence", ".5"
    )
    gate = own_gate("edits.db")
    assert (
        not needs_recalibration(gate, 11)
        and needs_recalibration(gate, 12)
        and not needs_recalibration(Named(), 12)
    )
    assert isinstance(gate, Calibrated) and gate.edits == 10 and own_gate("other.db") == shipped
    for name in ("Spain", "Italy"):
        edits(capsys, "add", "--fact", f"The capital of {name} is -> Oslo", "--subject", name)
    assert "grown by a fifth since its gate was calibrated" in edits(
        capsys, "verify", "2", "--model", "reader", code=2
    )
    assert (
        "has the default gate" in edits(capsys, "calibrate", "--remove")
        and own_gate("edits.db") == shipped
    )


def test_paraphrases_are_added_under_both_names_of_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    edits(
        capsys,
        "add",
        *PERU,
        "--paraphrase",
        "Peru is governed from",
        "--wording",
        "The seat of Peru is",
    )
    assert "wordings: Peru is governed from | The seat of Peru is" in edits(capsys, "show", "1")


def test_adding_to_a_path_where_no_store_is_says_that_it_makes_one(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    assert "typo.db is a new store of edits" in edits(capsys, "add", *PERU, "--store", "typo.db")
    more = ("--fact", "The capital of Chile is -> Rome", "--subject", "Chile", "--store", "typo.db")
    assert "new store" not in edits(capsys, "add", *more)


def test_the_placement_of_facts_is_chosen_by_a_models_answers_and_kept(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    refused = edits(capsys, "tune", "--store", "none.db", code=1)
    assert "there is no store of edits at none.db" in refused
    edits(capsys, "add", "--fact", "Episodes of Nova ran on -> BBC", "--subject", "Nova")
    edits(capsys, "retire", "1")
    assert "no edit is in force in edits.db: add one" in edits(capsys, "tune", code=1)
    for subject in ("Nova", "Monday Night Countdown", "Grange Hill"):
        fact = ("--fact", f"Episodes of {subject} ran on -> MTV", "--subject", subject)
        edits(capsys, "add", *fact, "--paraphrase", f"The network behind {subject} is")
    counted = edits(capsys, "tune", "--dry-run", "--model", "vllm:m@http://127.0.0.1:9/v1")
    calls = int(re.search(r"calls (\d+)", counted)[1])  # type: ignore[index]
    assert "nothing was sent" in counted
    chosen = edits(capsys, "tune", "--model", "reader", "--questions", "3")
    assert "new-fact" in chosen and "demonstrations-16" in chosen
    assert "take 38" in chosen, "6 placements times 6 questions that get the fact, and 2 others"
    assert calls == 47, "7 placements times 6 questions that get the fact, and 5 others"
    assert "the questions are few" in chosen
    name = re.search(r"edits.db has the placement (\S+) from now on", chosen)[1]  # type: ignore[index]
    store = SqliteStore(place / "edits.db")
    choice = stored_choice(store, placements)
    assert choice and (choice.placement, choice.model, choice.chat, choice.edits) == (
        name,
        "reader",
        False,
        3,
    )
    assert "the usual placement" in edits(capsys, "tune", "--remove")
    assert stored_choice(store, placements) is None
    store.close()


def test_a_served_model_is_asked_in_a_chat_and_a_second_time_from_the_cache(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    def behind_the_question(prompt: str) -> str:
        question, _, behind = prompt.partition("</corrected-facts ")[2].partition(
            "<corrected-facts "
        )
        new = re.search(r"^- The capital of (\w+) is (\w+)$", behind, re.MULTILINE)
        return new[2] if new and new[1] in question else "Lima"

    for i in range(16):
        land = f"Land{i}"
        fact = ("--fact", f"The capital of {land} is -> Oslo{i}", "--subject", land)
        edits(capsys, "add", *fact, "--paraphrase", f"{land} has the capital")
    with serve(serving(ScriptedModel(behind_the_question, scores=False))) as served:
        tune = ("tune", "--model", f"vllm:some-model@{served.url}", "--questions", "16")
        first = edits(capsys, *tune)
        assert (
            "edits.db has the placement restated from now on" in first
            and "every other one is worse" in first
        )
        assert served.requests <= int(re.findall(r"([\d,]+) calls; all", first)[0])
        asked = served.requests
        assert "the placement restated" in edits(capsys, *tune)
        assert served.requests == asked, "all answers come from the cache"
    with closing(open_store(place / "edits.db")) as store:
        choice = stored_choice(store, placements)
    assert choice and choice.chat and choice.server and choice.server.startswith(served.url)


def test_edits_are_found_compared_and_synced(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    edits(capsys, "add", *PERU, "--owner", "Ann")
    edits(capsys, "add", "--fact", "The capital of Chile is -> Rome", "--subject", "Chile")
    assert edits(capsys, "list", "--search", "peru").endswith("edits.db: 1 edit, 2 changes")
    assert edits(capsys, "list", "--limit", "1").endswith("edits.db: 1 edit of 2, 2 changes")
    assert json.loads(edits(capsys, "list", "--owner", "ann", "--json"))["id"] == 1
    assert "no status 'gone'" in edits(capsys, "list", "--status", "gone", code=1)
    assert (
        "1@1" in edits(capsys, "show", "--at", "2999-01-01")
        and edits(capsys, "show", "--at", "2000-01-01") == ""
    )
    assert "there was no edit 1 at 2000-01-01" in edits(
        capsys, "show", "1", "--at", "2000-01-01", code=1
    )
    assert edits(capsys, "show", "1", "--at", "2999-01-01").startswith(
        "edit 1 was in force at 2999-01-01"
    )
    assert "added 2@1" in edits(capsys, "diff", "2000-01-01", "2999-01-01")
    edits(
        capsys,
        "add",
        "--fact",
        "The capital of Mali is -> Bern",
        "--subject",
        "Mali",
        "--store",
        "mali.db",
    )
    edits(capsys, "retire", "1", "--store", "mali.db")
    backwards = edits(capsys, "diff", "2999-01-01", "2000-01-01", "--store", "mali.db")
    assert backwards.startswith("added and retired 1@2: ") and backwards.endswith("1 edit differ")
    assert "2 edits and 2 changes exported, without the inbox" in edits(
        capsys, "export", "all.jsonl", "--all"
    )
    assert "is now what the store" in edits(capsys, "import", "all.jsonl", "--store", "new.db")
    assert "2 stored already" in edits(capsys, "import", "all.jsonl", "--store", "new.db")
    assert edits(capsys, "sync", "files") == "files: 2 files written, 0 changes taken over"
    next((place / "files").glob("00002*")).unlink()
    assert "1 edit left alone" in edits(capsys, "sync", "files", code=1)
