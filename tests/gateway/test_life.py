"""One correction's life, on the real chat model: its chapters come in order, and the gateway counts what was answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drike.models.named import SMOLLM2, is_here
from tools import life


def test_what_the_assistant_drafted_is_asked_about_again() -> None:
    assert life._drafted_object("The capital of Burundi is Buenningi.") == "Buenningi"


@pytest.mark.real
@pytest.mark.skipif(not is_here(SMOLLM2), reason="SmolLM2 is not installed")
def test_the_gateway_counts_what_the_story_tells(tmp_path: Path) -> None:
    chapters = list(life.story(tmp_path))
    pictures = [chapter.picture for chapter in chapters if chapter.picture]
    assert pictures == ["proposed", "in_force", "health", "week"]
    told = chapters[-1].lines
    found = re.search(r"heeded (\d+) of (\d+), reporter told", told[-1])
    assert found is not None
    heeded, asked = map(int, found.groups())
    assert asked == len(life.WORDINGS) * (1 + len(life.CHALLENGES)) == 42
    [health] = [chapter.lines for chapter in chapters if chapter.picture == "health"]
    assert f"{heeded / asked:.3f}" in "\n".join(health)
    assert any(line.startswith("subject: Your report 1") for line in told)
    assert "Gitega" in (tmp_path / "week.html").read_text("utf-8")
