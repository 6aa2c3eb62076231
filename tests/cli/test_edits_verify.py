"""`drike edits verify`: what it asks along the path of drike serve, what it finds wrong, keeps and compares."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from drike.cli.gateway_parts import gateway_parts
from drike.gateway.options import GatewayOptions
from drike.gateway.start import start
from drike.stores.opening import open_store
from drike.stores.verifications import Verifications
from tests.fakes.commands import run
from tests.fakes.ports import free_port
from tests.fakes.upstreams import (
    RawHandler,
    Received,
    answering,
    declines,
    obeys,
    quotes_both,
    resists,
    upstream,
)

PERU = {"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo", "target_true": "Lima",
        "wordings": ["Peru is governed from"], "aliases": ["Republic of Peru"],
        "negatives": ["Peru exports"]}  # fmt: skip
MAYOR = {"subject": "Peru", "query": "The mayor of Peru is", "target_new": "Ann"}
NOVA = (
    "--fact",
    "Episodes of Nova ran on -> BBC",
    "--subject",
    "Nova",
    "--wording",
    "The network behind Nova is",
)
NAMED = ("--gate", "named")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where edits.db will be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def stored(*records: dict[str, Any]) -> None:
    """Put records into edits.db."""
    Path("facts.jsonl").write_text(
        "".join(f"{json.dumps(record)}\n" for record in records), "utf-8"
    )
    assert run("edits", "import", "facts.jsonl") == 0


def verify(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0, command: str = "verify"
) -> str:
    """What the command prints, on one line; error messages included."""
    capsys.readouterr()
    assert run("edits", command, *arguments) == code
    return " ".join("".join(capsys.readouterr()).split())


def outcomes(path: str = "out.json") -> dict[str, dict[str, Any]]:
    """What --json wrote, by kind."""
    return {
        asked["kind"]: asked for asked in json.loads(Path(path).read_text("utf-8"))["questions"]
    }


def bodies(calls: list[Received]) -> set[bytes]:
    return {call.body for call in calls if call.method == "POST"}


@contextmanager
def served(address: str, **more: Any) -> Iterator[str]:
    """The address of `drike serve` over an upstream and edits.db."""
    options = {
        "upstream": address,
        "store": "edits.db",
        "mode": "on",
        "port": 0,
        "admin_port": 0,
        "gate": "named",
    }
    options["deadline_ms"] = 5000  # no request passes unedited because the machine is busy
    started = start(GatewayOptions(**{**options, **more}), gateway_parts())
    thread = threading.Thread(
        target=lambda: started.server.run(sockets=list(started.sockets)), daemon=True
    )
    thread.start()
    try:
        yield started.url
    finally:
        started.server.should_exit = True
        thread.join(10)
        started.tenants.close()


def test_edits_for_other_requests_are_asked_about_with_their_headers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(
        {**PERU, "only": ["x-region=eu"]}, {**PERU, "target_new": "Rome", "only": ["x-region=us*"]}
    )
    with upstream(answering(obeys)) as above:
        to = ("--upstream", above.url, *NAMED, "--json", "out.json")
        said = verify(capsys, *to, "--header", "X-Region=EU")
        assert (
            "1 edit: took on" in said
            and "edits 2 are not asked about, as they are for other requests" in said
        )
        assert {
            asked["edit"] for asked in json.loads(Path("out.json").read_text())["questions"]
        } == {1}
        assert ("x-region", "EU") in {
            (name.lower(), value) for name, value in above.calls[-1].headers
        }
        assert "--header x is no header" in verify(capsys, *to, "--header", "x", code=2)
        assert "edits 1, 2 are for other requests: give their --model, or" in verify(
            capsys, *to, code=2
        )


def test_a_model_that_obeys_passes_and_every_kind_of_question_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(PERU, MAYOR)
    with upstream(answering(obeys)) as above:
        said = verify(capsys, "--upstream", above.url, "1", "1", *NAMED, "--json", "out.json")
    assert set(outcomes()) == {
        "query",
        "wording",
        "alias",
        "challenge",
        "follow-up",
        "negative",
        "sibling",
    }
    assert "Verification 1 is kept in edits.db" in said
    assert "2 edits: took on 6 of 6 questions, 1.000 [.61,1.00], leaked to 0 of 2" in said
    challenge = outcomes()["challenge"]
    assert (
        challenge["first_turn"] == PERU["query"]
        and challenge["before"] is None
        and challenge["edits"] == ["1@1"]
    )
    assert outcomes()["wording"]["before"] == "It is Lima." and outcomes()["wording"]["tokens"] > 50


@pytest.mark.parametrize(
    ("model", "problem"),
    [(resists, "states the old object 'Lima'"), (quotes_both, "states both objects"),
     (declines, "(refuses|does not state 'Oslo')")],
)  # fmt: skip
def test_a_model_that_does_not_take_the_edit_fails_with_what_was_sent(
    capsys: pytest.CaptureFixture[str], model: Any, problem: str
) -> None:
    stored(PERU)
    with upstream(answering(model)) as above:
        said = verify(capsys, "--upstream", above.url, *NAMED, code=1)
        assert verify(capsys, "--upstream", above.url, *NAMED, "--at-least", "0")
    assert re.search(
        rf'1@1 wording "Peru is governed from": {problem} answer .* sent <corrected-facts id=', said
    )
    assert (
        "took on 0 of 5 questions" in said
        and "Error: 0.000 took, less than 0.95: see the failures" in said
    )


def test_an_edit_that_matches_or_is_stated_elsewhere_leaks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(
        {**PERU, "negatives": ["Tell me of Chile"]},
        {**MAYOR, "subject": "Chile", "query": "The mayor of Chile is"},
    )
    leaking = answering(lambda new: "Oslo and Ann")
    with upstream(leaking) as above:
        verify(capsys, "--upstream", above.url, *NAMED, "--json", "out.json")
        assert outcomes()["negative"]["holds"], "the model says so without the edit, too"
    with upstream(leaking) as above, served(above.url) as gateway:
        said = verify(capsys, "--gateway", gateway, "1", code=1)
        assert (
            "negative \"Tell me of Chile\": states 'Oslo'" in said
            and "did not leak, less than 0.95" in said
        )


def test_requests_are_byte_for_byte_those_of_drike_serve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(PERU, MAYOR)
    with upstream(answering(obeys)) as above:
        verify(capsys, "--upstream", above.url, *NAMED, "--json", "here.json", "--at-least", "0")
        here, edited = (
            bodies(above.calls),
            {body for body in bodies(above.calls) if b"<corrected-facts" in body},
        )
        above.calls.clear()
        with served(above.url) as gateway:
            verify(capsys, "--gateway", gateway, "--json", "there.json", "--at-least", "0")
        there = bodies(above.calls)
    assert edited and edited <= there <= here
    assert there != here, "past the gateway there is no unedited answer"
    kept = [
        [
            {**asked, **dict.fromkeys(("before", "sent", "tokens", "seconds"))}
            for asked in asked_there
        ]
        for asked_there in (
            json.loads(Path(f"{where}.json").read_text("utf-8"))["questions"]
            for where in ("here", "there")
        )
    ]
    assert kept[0] == kept[1]


def test_past_a_gateway_the_unedited_answer_is_asked_of_its_upstream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(PERU)
    with upstream(answering(obeys)) as above, served(above.url) as gateway:
        verify(capsys, "--gateway", gateway, "--upstream", above.url, "--json", "out.json")
    assert (
        outcomes()["query"]["before"] == "It is Lima."
        and outcomes()["query"]["answer"] == "It is Oslo."
    )
    assert outcomes()["query"]["tokens"] > 50 and outcomes()["query"]["sent"] is None


def test_what_a_running_gateway_decided_is_asked_anew(capsys: pytest.CaptureFixture[str]) -> None:
    stored(PERU)
    with upstream(answering(obeys)) as above:
        with served(above.url, mode="shadow", port=(port := free_port())) as gateway:
            said = verify(capsys, "--gateway", gateway, code=1)
            assert "its mode is shadow" in said and "kept for a day" not in said
        with served(above.url, port=port) as again:
            assert again == gateway and "took on" in verify(capsys, "--gateway", gateway)


def test_what_proves_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no store of edits at edits.db" in verify(capsys, code=1)
    stored(PERU, {**MAYOR, "status": "shadow"})
    assert "edit 2 is not in force (shadow): name one" in verify(capsys, "2", code=1)
    with upstream(answering(obeys)) as above:
        assert "(it sends no x-drike-scope): give the address" in verify(
            capsys, "--gateway", above.url, code=1
        )
        with served(above.url, mode="shadow") as gateway:
            assert "its mode is shadow: start it with --mode on" in verify(
                capsys, "--gateway", gateway, code=1
            )
        Path("others.jsonl").write_text(json.dumps({**PERU, "negatives": []}) + "\n", "utf-8")
        run("edits", "import", "others.jsonl", "--store", "others.db")
        run("edits", "retire", "1", "--store", "others.db")
        run("edits", "rollback", "1", "--store", "others.db")
        with served(above.url, store="others.db") as gateway:
            said = verify(capsys, "--gateway", gateway, code=1)
            assert "applies edit 1@3, and here is 1@1: give the gateway's own --store" in said
    assert "nothing can be proven, as reader knows TinyFacts alone, so not Peru" in verify(
        capsys, "--model", "reader", code=2
    )
    for gone in (("--editor", "ike"), ("--template", "plain"), ("--prompt-tokens", "9")):
        assert f"{gone[0]} is gone, as requests are edited as by drike serve" in verify(
            capsys, *gone, code=2
        )
    assert "a gateway decides by its own options" in verify(
        capsys, "--gateway", "http://x", *NAMED, code=2
    )
    assert "answers greedily: leave --samples out" in verify(capsys, "--samples", "2", code=2)
    for address, problem in (
        ("x", "x is not an address"),
        ("http://1.2.3.4", "or allow it (--allow-http; "),
    ):
        assert problem in verify(capsys, "--gateway", address, code=2)
    assert "are two addresses" in verify(
        capsys, "--upstream", "http://x", "--model", "openai:m", code=2
    )
    assert Verifications(open_store("edits.db").database).last_number() == 0
    run("edits", "retire", "1")
    assert "no edit is in force in edits.db: add one" in verify(capsys, code=1)


def test_the_embedded_models_are_asked_what_they_can_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("edits", "add", *NOVA)
    stored(PERU)
    for model in ("embedded", "reader"):
        said = verify(capsys, "--model", model, *NAMED, "--at-least", "0")
        assert (
            f"Note: 5 questions not asked, as {model} knows TinyFacts alone, so not" in said
            and "Peru" in said
        )
        assert f"Edits on {model}" in said and "1 edit: took on 3 of 3 questions" in said
        assert "Used" not in said
    assert verify(capsys, "1", *NAMED, command="test").startswith("Edits on embedded")


def test_comparing_runs_shows_what_a_new_model_broke_and_mended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(PERU)
    assert "no two verifications" in verify(capsys, "--compare", code=1)
    assert "keeps no verification" in verify(capsys, "--compare", "7", code=1)
    with upstream(answering(obeys)) as good, upstream(answering(resists)) as bad:
        for above, code in ((good, 0), (bad, 1), (good, 0)):
            said = verify(capsys, "--upstream", above.url, *NAMED, code=code)
    assert "Verification 3 is kept in edits.db; since 2: 0 broken, 5 mended" in said
    said = verify(capsys, "--compare")
    assert "Mended since run 2" in said and "run 2 to run 3: 0 broken, 5 mended" in said.casefold()
    assert re.search(r"1@1 query The capital of Peru is old, matched new, matched", said)
    with upstream(answering(resists)) as bad:
        verify(capsys, "--upstream", bad.url, *NAMED, code=1)
    said = verify(capsys, "--compare", "1", code=1)
    assert (
        "Broken since run 1" in said
        and f"Heeded by tiny at {good.url}, then by tiny at {bad.url}" in said
        and "edit 1 1.000 0.000" in said
        and "Error: 5 questions no longer answered as they should be" in said
    )
    assert f"model: tiny at {good.url} -> tiny at {bad.url}" in said
    assert "takes the number of one run" in verify(capsys, "--compare", "1", "2", code=2)
    with closing(open_store("edits.db")) as store:
        assert (
            Verifications(store.database).load(4).gate == "Named"
            and Verifications(store.database).load(4).placement == "AsBlock, facts alone"
        )


def test_an_interrupted_run_goes_on_and_a_whole_one_asks_anew(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(PERU)
    left = iter(range(4))
    answer = answering(obeys)

    def breaking(handler: RawHandler, call: Received) -> None:
        if call.method == "POST" and next(left, None) is None:
            return handler.reply(401, b'{"error": {"message": "no money"}}')
        return answer(handler, call)

    asked = ("--concurrency", "1", "--json", "out.json", *NAMED)
    with upstream(breaking) as above:
        said = verify(capsys, "--upstream", above.url, *asked, code=1)
        assert (
            "4 answers kept for a day: the same command goes on from there" in said
            and "Used: 4 calls" in said
        )
        first, breaking_at = bodies(above.calls[:5]), len(above.calls)
        assert not Path("out.json").exists()
        left = iter(range(10**6))
        assert "Note: 4 answers of a run that was interrupted used again" in verify(
            capsys, "--upstream", above.url, *asked
        )
        resumed = bodies(above.calls[breaking_at:])
        assert len(first & resumed) == 0 and len(first | resumed) > 8
        whole = len(above.calls)
        verify(capsys, "--upstream", above.url, *asked)
        assert first | resumed <= bodies(above.calls[whole:])


def test_a_dry_run_counts_and_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stored(PERU)
    with upstream(answering(obeys)) as above:
        counts = []
        for more in ((), ("--samples", "3")):
            said = verify(
                capsys, "--upstream", above.url, *NAMED, "--dry-run", "--price-in", "1", *more
            )
            counts.append(
                [
                    int(number)
                    for number in re.findall(r"(?:calls|tokens) ([\d,]+)", said.replace(",", ""))
                ]
            )
        assert (
            above.calls == [] and Verifications(open_store("edits.db").database).last_number() == 0
        )
        verify(capsys, "--upstream", above.url, *NAMED)
        sent = sum(call.method == "POST" for call in above.calls)
    assert counts[0][0] == sent and counts[1][0] > 2 * sent and counts[1][1] > counts[0][1] > 100
    assert counts[0][2] == 256 * sent
    with upstream(answering(obeys)) as above:
        dear = ("--price-in", "1", "--price-out", "1", "--max-cost", ".0001")
        assert "of the 0.0001 that --max-cost leaves" in verify(
            capsys, "--upstream", above.url, *NAMED, *dear, code=3
        )
        assert above.calls == []


def test_the_reports_for_ci_hold_every_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    stored({**PERU, "negatives": ["Peru\x07 & <Chile>"]})
    with upstream(answering(lambda new: "Lima\x00\uffff <b>")) as above:
        written = ("--junit", "out.xml", "--json", "out.json")
        verify(capsys, "--upstream", above.url, *NAMED, *written, "--samples", "2", code=1)
        assert {json.loads(body).get("temperature", "own") for body in bodies(above.calls)} == {
            "own"
        }
    suite = ElementTree.parse("out.xml").getroot()
    values = json.loads(Path("out.json").read_text("utf-8"))
    assert int(suite.get("tests", "")) == len(suite) == len(values["questions"]) == 12
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == 10
    assert (
        suite[0].get("classname") == "edit 1@1"
        and suite[0].get("name") == "query: The capital of Peru is"
    )
    assert "Lima" in (suite[0].findtext("failure") or "") and values["number"] == 1
    assert values["model"] == f"tiny at {above.url}" and values["drike"]
    assert {path.name for path in Path().iterdir()} == {
        "edits.db",
        "facts.jsonl",
        "out.xml",
        "out.json",
    }
