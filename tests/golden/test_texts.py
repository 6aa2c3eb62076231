"""What the command line says: every help text, and typical mistakes with their exit codes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.commands import SMALL, commands, run
from tests.golden.compare import matches_golden, without_chance

PERU = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
SMALLEST = " ".join(SMALL)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MISTAKES = (
    "", "nonsense", "--nonsense", "edits", "edits nonsense", "data inspect", "data inspect tinyfact",
    "data inspect nowhere.json", "data inspect facts.csv", "data inspect odd.json",
    "data inspect tinyfacts --zsre-target x",
    "report no-run", "report no-run --out page.pdf", "tour --out tour.pdf",
    "evaluate --model openay:gpt --encoder hashing", "evaluate --model gpt-4o --encoder hashing",
    f"evaluate {SMALLEST} --editors magic", f"evaluate {SMALLEST} --editors dr-ike", "evaluate --run no-run",
    f"evaluate {SMALLEST} --test 0", "evaluate --resume no-run",
    f"train {SMALLEST} --edits 5000", f"train {SMALLEST} --budget x", f"train {SMALLEST} --shot-price nan",
    f"train {SMALLEST} --guarantee rr", f"train {SMALLEST} --test many", "train --resume no-run",
    f"edit {SMALLEST} --fact Oslo", f"edit {SMALLEST} --fact 'It is -> green' --subject Bo",
    f"edit {SMALLEST} --fact 'Nowhere is -> green'", "edit --gate",
    "serve --upstream http://example.org/v1", "serve --upstream https://example.org/v1 --store no.db",
    "serve --mode odd", "serve --gate-threshold 2", "serve --model embedded --upstream https://example.org/v1",
    "serve --keys no.json --store edits.db", "serve --require-keys --upstream https://example.org/v1",
    "edits add", "edits add --fact 'The capital of Peru is -> Rome' --subject Peru",
    "edits add --fact 'The capital of Peru is -> Oslo' --subject Peru", "edits add --fact 'a -> b' --subject ''",
    "edits add --fact 'It is -> b' --subject Mali", "edits add --fact 'Mali is -> b' --subject Mali --valid-to soon",
    "edits add --fact 'Mali is -> b' --subject Mali --status odd",
    "edits list --store no.db", "edits list --status odd", "edits list --store facts.csv", "edits show 9",
    "edits show x", "edits retire", "edits retire 9 --reason x", "edits rollback 1 --version 7", "edits approve 1", "edits approve 1 --yes", "edits approve 1 --yes --version 9",
    "edits reject 1", "edits change 1", "edits review 1", "edits review 1 --until soon", "edits approvals 99",
    "edits propose 9",
    "edits import nowhere.csv", "edits import facts.csv", "edits import odd.json", "edits export out.txt",
    "edits replay nowhere.jsonl --gate named", "edits replay odd.json --gate named",
    "edits replay log.jsonl --gate odd",
    "edits calibrate nowhere.csv", "edits verify --gateway example.org",
    "edits inbox --close 1", "edits inbox --draft 1", "edits due --days x", "edits diff", "edits diff --since soon",
    "edits reword 9", "edits report --days 0", "edits health --days x",
    "keys add --role odd", "keys revoke nothing",
)  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a store of one edit and some files, at 80 columns without colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drike.support.users.user_name", lambda: "ann")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("OPENAI_API_KEY", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "facts.csv").write_text("prompt,answer\nThe capital of Peru is,Oslo\n", "utf-8")
    (tmp_path / "odd.json").write_text('{"rows": [1, ', "utf-8")
    (tmp_path / "log.jsonl").write_text(json.dumps("The capital of Peru is") + "\n", "utf-8")
    return tmp_path


def lines(text: str) -> list[str]:
    return [without_chance(line.rstrip()) for line in COLOUR.sub("", text).splitlines()]


def test_every_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for name in commands():
        assert run(*name.split()[1:], "--help") == 0
        found[name] = "\n".join(
            line.rstrip(" │").lstrip("│") for line in lines(capsys.readouterr().out)
        )
    matches_golden("help", {name: text.splitlines() for name, text in found.items()})


def test_mistakes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    assert run("edits", "add", *PERU) == 0
    for mistake in MISTAKES:
        capsys.readouterr()
        code = run(*shlex.split(mistake))
        shown = capsys.readouterr()
        assert str(place) not in shown.err, mistake
        found[mistake] = [code, *lines(shown.err)]
    matches_golden("mistakes", found)
