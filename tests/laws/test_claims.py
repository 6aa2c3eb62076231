"""Figures that the README claims stand in the notes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = re.sub(
    r"^```.*?^```", "", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
)
FIGURE = re.compile(r"(?<![\w.])0?(\.\d{3})(?!\d)")


def test_shares_named_in_the_readme_are_in_the_notes() -> None:
    notes = "".join(page.read_text("utf-8") for page in (ROOT / "benchmarks/notes").glob("*.md"))
    claimed, measured = set(FIGURE.findall(README)), set(FIGURE.findall(notes))
    assert len(claimed) > 5
    assert claimed - measured == set()
