"""Runs with options that drike no longer has: they are still read, but not trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from drike.support.files import with_checksum
from tests.fakes.commands import run
from tests.golden.compare import DATA


def run_with(used: dict[str, object], place: Path) -> Path:
    """A trained run of an old version, with these options."""
    trained = place / "trained"
    shutil.copytree(DATA / "runs" / "trained", trained)
    known = json.loads((trained / "run.json").read_text("utf-8"))
    known = {name: value for name, value in known.items() if name != "sha256"}
    for group in ("options", "settings"):
        known[group] |= used
    (trained / "run.json").write_text(json.dumps(with_checksum(known)), "utf-8")
    return trained


def test_an_option_that_never_had_an_effect_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("train", "--resume", str(run_with({"named": True}, tmp_path)))
    done = capsys.readouterr()
    assert "Recovered 20 of 20 episodes" in done.out and "version" not in done.err
    assert run("train", "--named", "--model", "reader", "--out", str(tmp_path / "new")) == 2


@pytest.mark.parametrize(
    ("used", "named"),
    [
        ({"credit": "marginal"}, "--credit"),
        ({"soft": True, "reward": "probes"}, "--soft"),
        ({"soft": True, "credit": "marginal", "reward": "balanced"}, "--credit and --soft"),
        ({"reward": "balanced"}, "--reward"),
    ],
)
def test_such_a_run_is_evaluated_and_reported_but_its_training_is_not_resumed(
    used: dict[str, object], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = run_with(used, tmp_path)
    words = ("--run", str(trained), "--editors", "unedited,dr-ike")
    assert run("evaluate", *words, "--out", str(tmp_path / "evaluated")) == 0
    assert run("report", str(tmp_path / "evaluated"), "--out", str(tmp_path / "page.html")) == 0
    capsys.readouterr()
    assert run("train", "--resume", str(trained)) == 1
    complaint = " ".join(capsys.readouterr().err.split())
    assert (
        "cannot be resumed" in complaint
        and f"{named}" in complaint
        and "start a new run" in complaint
    )
