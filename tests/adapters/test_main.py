"""The self-test of the adapters: a sentence and an exit code, in the user's own environment."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from drike.adapters.__main__ import run
from drike.conversations.corrections import Corrections
from drike.stores.opening import open_store
from tests.worlds.talking import PERU

FRAMEWORKS = {
    "langchain": "LangChain", "openai_agents": "OpenAI's Agents SDK", "open_webui": "the filter for Open WebUI",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> str:
    with closing(open_store(tmp_path / "edits.db")) as opened:
        opened.put(PERU)
    return str(tmp_path / "edits.db")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.clients if name != "open_webui" else ()) for name in FRAMEWORKS]
)
def test_it_says_whether_a_fact_reached_the_model(
    name: str, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([name, store]) == 0
    said = f'edit 1 ("The capital of Peru is" -> "Oslo") reached the model through {FRAMEWORKS[name]}\n'
    assert capsys.readouterr().out == said
    monkeypatch.setattr(Corrections, "apply", lambda edits, request, api: type("Same", (), {"request": request}))
    assert run([name, store]) == 1
    assert capsys.readouterr().out == said.replace("reached", "did not reach")


def test_it_is_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "drike.adapters", "open_webui", str(tmp_path / "none.db")]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    assert tried.returncode == 1 and "none.db" in tried.stdout and tried.stdout.count("\n") == 1 and not tried.stderr


@pytest.mark.parametrize("arguments", [[], ["langchain"], ["other", "a.db"], ["langchain", "a.db", "b.db"], ["--help"]])
def test_it_takes_a_framework_and_a_store(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().out.startswith("give a framework (langchain, openai_agents, open_webui) and a store")


def test_a_store_without_edits_in_force_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(tmp_path / "empty.db").close()
    assert run(["open_webui", str(tmp_path / "empty.db")]) == 1
    assert "has no edit in force: add one" in capsys.readouterr().out


def test_a_framework_that_is_missing_is_named(
    store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "langchain.agents", None)
    assert run(["langchain", store]) == 1
    assert "LangChain cannot be tried here" in capsys.readouterr().out
