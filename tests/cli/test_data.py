"""`drike data inspect`."""

from __future__ import annotations

import pytest

from drike.encoders import MINILM, HashingEncoder
from tests.worlds.commands import run


def test_inspecting_data_encodes_nothing_unless_similarity_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    monkeypatch.setattr("drike.cli.data.WatchedEncoder", lambda name: named.append(name) or HashingEncoder())
    assert run("data", "inspect", "tinyfacts") == 0 and not named
    assert "mean cosine similarity" not in capsys.readouterr().out
    assert run("data", "inspect", "tinyfacts", "--similarity") == 0
    assert run("data", "inspect", "tinyfacts", "--encoder", "hashing") == 0
    assert named == [MINILM, "hashing"] and capsys.readouterr().out.count("mean cosine similarity") == 2
