"""`drike edits replay`: logged requests are decided on as the gateway would."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.conversations.rendering import AsBlock
from drike.encoders import TextEncoder, load_encoder
from drike.encoders.base import BULK
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate, to_json
from drike.gateway.feed import EditFeed
from drike.gateway.proving.replay import replay_log
from drike.stores.opening import open_store
from drike.stores.sqlite import SqliteStore
from tests.fakes.commands import run
from tests.fakes.gateways import ENTRY

ABOUT = {"messages": [{"role": "user", "content": "What is the capital of Peru?"}]}
FAR = {"messages": [{"role": "user", "content": "Name a poet from Peru."}]}
OTHER = {"prompt": "The capital of Chile is"}
LINES = [
    json.dumps(ABOUT),
    json.dumps({"custom_id": "1", "url": "/v1/chat/completions", "body": ABOUT}),
    json.dumps({"request": json.dumps(FAR)}),
    json.dumps(OTHER),
    "not JSON",
    json.dumps({"messages": [{"role": "tool", "content": "Peru"}]}),
    "",
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    opened = SqliteStore(tmp_path / "edits.db")
    opened.put(ENTRY)
    opened.close()
    return tmp_path / "edits.db"


def test_doubtful_fires_come_first(store: Path) -> None:
    opened = SqliteStore(store)
    result = replay_log(
        [line.encode() for line in LINES], EditFeed(opened, Named()).follower(AsBlock())
    )
    opened.close()
    assert (result.requests, result.matched, sum(result.unread.values())) == (4, 3, 2)
    assert [(replayed.query, replayed.times) for replayed in result.matches] == [
        ("Name a poet from Peru.", 1),
        ("What is the capital of Peru?", 2),
    ]


def test_the_command_shows_fires_and_writes_nothing(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(LINES))
    before = store.read_bytes()
    assert run("edits", "replay", str(log), "--store", str(store), "--gate", "named") == 0
    shown = capsys.readouterr().out
    assert "4 requests, 3 would get an edit (75.0%)" in shown and "2 lines" not in shown
    assert shown.index("Name a poet") < shown.index("What is the capital")
    assert store.read_bytes() == before


def test_no_vectors_of_logged_questions_are_kept_on_disk(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    least: list[int] = []

    def loaded(name: str, *, bulk: int = 0, onnx: bool = False) -> TextEncoder:
        least.append(bulk)
        return load_encoder(name)

    monkeypatch.setattr("drike.live.store_gate.load_encoder", loaded)
    with closing(open_store(store)) as opened:
        opened.save_gate(to_json(replace(default_gate(), encoder="hashing:64:5")))
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(LINES))
    assert run("edits", "replay", str(log), "--store", str(store)) == 0
    assert least == [BULK]


@pytest.mark.parametrize(("content", "word"), [("", "no request"), (None, "No such file")])
def test_an_unusable_log_is_refused(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, word: str
) -> None:
    log = tmp_path / "log.jsonl"
    if content is not None:
        log.write_text(content)
    assert run("edits", "replay", str(log), "--store", str(store), "--gate", "named") == 1
    assert word in " ".join(capsys.readouterr().err.split())
