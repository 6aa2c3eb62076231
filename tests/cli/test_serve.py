"""`drike serve` and `drike keys` as commands: what they print, and what they refuse in a sentence."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli.gateway_parts import gateway_parts
from drike.conversations.rendering import AsBlock, Placement, Restating
from drike.conversations.turns import Api
from drike.edits.record import EditRecord
from drike.errors import DrikeError, UsageError
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate, to_json
from drike.gateway.assembly import gate_for
from drike.gateway.http.admission import principal_of
from drike.gateway.options import GatewayOptions
from drike.gateway.parts import OpenedEditor
from drike.gateway.proving.tuning import ChosenPlacement, save_choice
from drike.gateway.requests import read_request
from drike.gateway.start import Started, start
from drike.stores.opening import TENANT
from drike.stores.sqlite import SqliteStore
from tests.fakes.commands import run
from tests.fakes.gateways import FewShots, ask, decided
from tests.fakes.ports import free_port, free_ports
from tests.fakes.suggestible_task import UNTRAINED


def few_shots(*_: object) -> OpenedEditor:
    """Instead of demonstrations, which take a second to open."""
    return OpenedEditor(FewShots())


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run("serve", *arguments) in (1, 2)
    return " ".join(capsys.readouterr().err.split())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--upstream", "https://host.example", "--model", "embedded"), "give one of them"),
        (("--upstream", "http://host.example/v1"), "is not encrypted"),
        (("--upstream", "ftp://host.example/v1"), "is not an address"),
        (("--upstream", "https://key@host.example/v1"), "put the key into"),
        (("--upstream", "https://[host.example/v1"), "is not an address"),
        (("--port", "8801"), "is given twice"),
        (("--host", "0.0.0.0"), "without a key"),
        (("--admin-host", "0.0.0.0"), "without a key"),
        (("--mode", "of"), "must be shadow or on or off"),
        (("--model", "openai:gpt-5", "--port", "0", "--admin-port", "0"), "as --upstream"),
        (
            (
                "--gate",
                "nowhere",
                "--upstream",
                "http://127.0.0.1:9",
                "--create",
                "--port",
                "0",
                "--admin-port",
                "0",
            ),
            "cannot be read",
        ),
        (("--run", "nowhere", "--port", "0", "--admin-port", "0"), "is not a run"),
    ],
)
def test_unusable_options_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, *arguments)


def test_the_first_start_shows_how_far_the_wordings_are_encoded(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(started: Started) -> None:
        started.tenants.close()
        for opened in started.sockets:
            opened.close()

    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    monkeypatch.setattr(Started, "run", end)
    monkeypatch.setattr("drike.cli.console._LINES_EVERY", 0.0)
    (here / "gate.json").write_text(to_json(replace(default_gate(), encoder="hashing")))
    store = SqliteStore(here / "edits.db")
    with store.transaction():
        for i in range(250):
            store.put(EditRecord(f"Town {i}", f"The mayor of Town {i} is", "Ann"))
    store.close()
    upstream = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0", "--admin-port", "0")
    assert run("serve", *upstream, "--gate", "gate.json") == 0
    assert "encoding: 250 of 250" in capsys.readouterr().err


def test_the_ports_open_once_requests_can_be_answered(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(here / "edits.db")) as store:
        store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    ports = free_ports(2)
    refusing: list[bool] = []

    def look(*_: object) -> None:
        for port in ports:
            with closing(socket.socket()) as client:
                refusing.append(client.connect_ex(("127.0.0.1", port)) != 0)

    monkeypatch.setattr("drike.gateway.start._warm_up", look)  # the last step of starting
    options = GatewayOptions(
        "http://127.0.0.1:9/v1", port=ports[0], admin_port=ports[1], gate="named"
    )
    started = start(options, gateway_parts())
    assert refusing == [True, True]
    look()
    assert refusing[2:] == [False, False]
    with pytest.raises(UsageError, match="cannot listen on"):
        start(options, gateway_parts())
    started.tenants.close()
    for opened in started.sockets:
        opened.close()


def test_no_collection_of_garbage_looks_at_the_edits_of_a_gateway_that_serves(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stop all requests meanwhile, with 20,000 edits for a tenth of a second."""
    left = []
    store = SqliteStore(here / "edits.db")
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    store.close()
    started = start(
        GatewayOptions("http://127.0.0.1:9/v1", port=0, admin_port=0, gate="named"), gateway_parts()
    )
    index = started.tenants.feeds[TENANT].index
    looked_at = lambda: any(of is index.edits for of in gc.get_objects())  # noqa: E731
    assert looked_at(), "or this test could not fail"
    monkeypatch.setattr(started.server, "run", lambda sockets: left.append(looked_at()))
    try:
        started.run()
    finally:
        gc.unfreeze()
        for opened in started.sockets:
            opened.close()
    assert left == [False]


def test_a_runs_policy_is_the_gate_where_the_store_has_none_of_its_own(here: Path) -> None:
    own = replace(default_gate(), threshold=0.9)
    store, options = SqliteStore(here / "edits.db"), GatewayOptions(run="run")
    assert gate_for(options, store, UNTRAINED.gate) == UNTRAINED.gate
    assert gate_for(options, store) is None
    assert gate_for(replace(options, gate="named"), store, UNTRAINED.gate) == Named()
    store.save_gate(to_json(own))
    assert gate_for(options, store, UNTRAINED.gate) is None, "the store's own is followed"
    store.close()


CHOICE = ChosenPlacement(
    "restated",
    "m",
    "https://host.example/v1/",
    True,
    "2026-11-23T00:00:00Z",
    1,
    (),
    (),
    9,
    9,
    0.95,
    0.1,
)


@pytest.mark.parametrize(
    ("changes", "placed", "words"),
    [
        ({}, Restating(AsBlock()), "facts are placed as chosen: restated for m"),
        ({"upstream": "https://other.example/v1"}, AsBlock(), "was chosen for another model"),
        ({"demonstrations": 0}, AsBlock(), ""),
    ],
)
def test_facts_are_placed_as_was_chosen_for_the_model(
    here: Path, changes: dict[str, object], placed: Placement, words: str
) -> None:
    store = SqliteStore(here / "edits.db")
    save_choice(store, CHOICE)
    store.close()
    options = GatewayOptions(upstream="https://host.example/v1", port=0, admin_port=0)
    started = start(replace(options, **changes), gateway_parts())  # type: ignore[arg-type]
    started.tenants.close()
    for opened in started.sockets:
        opened.close()
    assert started.editor.placements[Api.CHAT] == placed
    assert words in " ".join(started.notes)


def test_a_port_that_is_taken_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in refused(
            capsys, "--upstream", "http://127.0.0.1:9/v1", "--create", "--port", port
        )


def test_a_damaged_store_is_refused_and_frees_the_ports(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "edits.db").write_bytes(b"damaged" * 1000)
    port = free_port()
    for _ in range(2):
        words = refused(
            capsys, "--upstream", "http://127.0.0.1:9/v1", "--port", str(port), "--admin-port", "0"
        )
        assert "is damaged or no store" in words


def test_keys_are_made_listed_and_revoked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("keys", "add", "--role", "edit", "--tenant", "shop", "--name", "Anna") == 0
    )  # approve, as files had it
    key = capsys.readouterr().out.strip()
    assert (
        re.fullmatch(r"drike-[0-9a-f]{8}-[\w-]{32}", key)
        and key not in Path("edits.keys.json").read_text()
    )
    run("keys", "list")
    id, *words = capsys.readouterr().out.split()
    assert (
        key.startswith(f"drike-{id}-") and words[:2] == ["approve", "shop"] and words[3] == "Anna"
    )
    assert run("keys", "revoke", id) == 0 and run("keys", "revoke", id) == 1
    assert (
        run("keys", "add", "--tenant", "../x") == 1
        and run("keys", "add", "--name", "key 1 (admin)") == 1
    )
    (here / "edits.keys.json").write_text("{")
    assert run("keys", "list") == 1
    with pytest.raises(DrikeError, match="file of keys"):
        start(
            GatewayOptions(upstream="http://127.0.0.1:9/v1", create=True, port=0, admin_port=0),
            gateway_parts(),
        )


def test_a_gateway_whose_keys_are_all_revoked_stays_closed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    options = GatewayOptions(upstream="http://127.0.0.1:9/v1", create=True, port=0, admin_port=0)
    keyless = start(options, gateway_parts())
    scope: dict[str, object] = {"headers": []}
    assert keyless.keys is None and principal_of(scope, keyless.keys)
    run("keys", "add")
    id = capsys.readouterr().out.split("-")[1]
    run("keys", "revoke", id)
    started = start(replace(options, host="0.0.0.0"), gateway_parts())
    assert started.keys is not None and principal_of(scope, started.keys) is None
    for gateway in (keyless, started):
        gateway.tenants.close()
        for opened in gateway.sockets:
            opened.close()


@pytest.mark.slow
def test_a_gateway_answers_its_first_edited_question_within_20_seconds(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "drike", "serve", "--port", "0", "--admin-port", "0"]
    command += ["--model", "embedded"]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout
            shown = ""
            while "curl" not in shown:
                shown += running.stdout.readline()
            url, body = re.search(r"curl (\S+) .* -d '(.*)'", shown).groups()  # type: ignore[union-attr]
            status, headers, answer = ask(url, "POST", body.encode())
            assert status == 200 and headers["x-drike-scope"] == "fired" and b"MTV" in answer
            assert time.monotonic() - began < 20
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(15) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("most", "shown"), [(0, 0), (3, 3), (None, 16)])
def test_the_number_of_demonstrations_can_be_limited(
    tmp_path: Path, most: int | None, shown: int
) -> None:
    started = start(
        GatewayOptions(
            store=str(tmp_path / "edits.db"), create=True, port=0, admin_port=0, demonstrations=most
        ),
        gateway_parts(),
    )
    entry = EditRecord("Peru", "The capital of Peru is", "Oslo")
    started.tenants.feeds["default"].store.put(entry)
    started.tenants.feeds["default"].refresh()
    follower = started.tenants.feeds["default"].follower(started.editor.placements[Api.COMPLETIONS])
    request = read_request(
        Api.COMPLETIONS, json.dumps({"prompt": "The capital of Peru is"}).encode()
    )
    assert request
    texts = follower.follow(request.conversation).texts(request.conversation)
    prompt = json.loads(request.with_texts(texts))["prompt"]
    assert prompt.count("New Fact: ") == shown + 2  # and the edit's own, twice
    started.tenants.close()
    for opened in started.sockets:
        opened.close()


def test_the_calibrated_gate_decides_and_keeps_nothing_of_what_users_write(tmp_path: Path) -> None:
    started = start(
        GatewayOptions(
            upstream="http://127.0.0.1:9/v1",
            store=str(tmp_path / "edits.db"),
            create=True,
            port=0,
            admin_port=0,
            gate="calibrated",
        ),
        gateway_parts(),
    )
    feed = started.tenants.feeds["default"]
    feed.store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    feed.refresh()
    assert (
        decided(feed, "What is the capital of Peru?").matched
        and not decided(feed, "Who sings in Peru?").matched
    )
    assert "What is the capital of Peru?" not in feed.index.encoder._known  # type: ignore[union-attr]
    started.tenants.close()
    for opened in started.sockets:
        opened.close()


NOWHERE = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0", "--admin-port", "0")


def test_a_store_that_is_missing_is_refused_or_made_on_request(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    for store in ((), ("--store", "typo.db")):
        said = refused(capsys, *NOWHERE, *store, "--mode", "on")
        assert "there is no store" in said and "or make this one (--create)" in said
    assert not [*here.iterdir()]
    made = start(
        GatewayOptions(upstream=NOWHERE[1], store="new.db", create=True, port=0, admin_port=0),
        gateway_parts(),
    )
    ended(made)
    assert (here / "new.db").is_file() and any("no edit is in force" in note for note in made.notes)
    store = SqliteStore(here / "new.db")
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    store.close()
    again = start(
        GatewayOptions(upstream=NOWHERE[1], store="new.db", port=0, admin_port=0), gateway_parts()
    )
    ended(again)
    assert not any("no edit is in force" in note for note in again.notes)


def test_keys_may_be_elsewhere_and_may_be_required(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    assert "there are no keys: make one" in refused(capsys, *NOWHERE, "--create", "--require-keys")
    assert "no file of keys at kept/keys.json" in refused(
        capsys, *NOWHERE, "--create", "--keys", "kept/keys.json"
    )
    assert run("keys", "add", "--keys", "kept/keys.json") == 0
    key = capsys.readouterr().out.strip()
    assert (
        run("keys", "list", "--keys", "kept/keys.json") == 0
        and key[6:14] in capsys.readouterr().out
    )
    options = GatewayOptions(
        upstream=NOWHERE[1], create=True, port=0, admin_port=0, keys="kept/keys.json"
    )
    started = start(replace(options, require_keys=True), gateway_parts())
    ended(started)
    assert started.keys and started.keys.principal(key)
    assert run("keys", "revoke", key[6:14], "--keys", "kept/keys.json") == 0
    assert not (here / "edits.keys.json").exists()


@pytest.mark.parametrize("key", ["sk-a\n", "sk-a\r\nX: y", " sk-a", "sk-\u00e9"])
def test_a_key_for_the_upstream_that_is_none_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    monkeypatch.setenv("DRIKE_API_KEY", key)
    said = refused(capsys, *NOWHERE, "--create")
    assert "$DRIKE_API_KEY holds characters that no key has" in said and "sk-a" not in said


def test_an_upstream_without_encryption_must_be_named(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.cli.gateway_parts.open_editor", few_shots)
    address = "http://vllm.internal:8000/v1"
    words = refused(capsys, "--upstream", address, "--create", "--allow-http", "other.internal")
    assert "use https, or allow it (--allow-http; drike serve: --allow-http vllm.internal)" in words
    options = GatewayOptions(
        upstream=address, allow_http="vllm.internal", create=True, port=0, admin_port=0
    )
    started = start(options, gateway_parts())
    ended(started)
    assert started.upstream.name == address


def ended(started: Started) -> None:
    started.tenants.close()
    for opened in started.sockets:
        opened.close()
