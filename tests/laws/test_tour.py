"""docs/tour.ipynb runs from its first cell to its last, and is stored with its outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


def shapes(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """The kinds of output of each code cell; nothing in them that differs from machine to machine."""
    return [
        sorted(
            {
                kind
                for output in cell.outputs
                for kind in output.get("data", {output.output_type: None})
            }
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
def test_the_tour_runs_and_shows_what_its_stored_outputs_show() -> None:
    stored = nbformat.read(TOUR, as_version=4)  # type: ignore[no-untyped-call]
    fresh = nbformat.read(TOUR, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(fresh, timeout=300, kernel_name="python3").execute()
    assert shapes(fresh) == shapes(stored)
    rich = [kinds for kinds in shapes(fresh) if {"text/html", "text/markdown"} & set(kinds)]
    assert len(rich) >= 2, "a table and an explanation"
