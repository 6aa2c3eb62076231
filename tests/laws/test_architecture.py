"""The page on architecture is true: its functions exist, its examples run, its drawing shows the imports of today."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import drike
from tools import draw_imports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "architecture.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(drike\.[\w.]+)`", PAGE))))
def test_a_function_that_the_page_names_exists(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        assert callable(found)
        return
    pytest.fail(f"{name} cannot be imported")


def test_every_package_has_a_line_in_the_tree() -> None:
    tree = PAGE.split("```")[1]
    for name in draw_imports.import_graph():
        assert re.search(rf"\b{name}(/|\.py)", tree), name


def test_the_drawing_shows_the_imports_of_today() -> None:
    drawn = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
    assert drawn == draw_imports.draw(draw_imports.import_graph()), "run: make drawing"


def test_the_examples_run() -> None:
    data = drike.load_dataset("tinyfacts")
    split = data.split(seed=0, train=2, test=2)
    encoder = drike.load_encoder("hashing")
    pool = drike.Pool(split.demonstrations, encoder)
    names: dict[str, Any] = {
        "drike": drike,
        "model": drike.load_model("reader"),
        "cases": split.train,
        "editor": drike.InContextEditor(
            "DR-IKE", pool, drike.RankAndCut(drike.Retriever(encoder), drike.Threshold())
        ),
    }
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        exec(compile(example, "design/architecture.md", "exec"), names)
        assert names["outcomes"] or names["last"].rewards[0] <= 1.0
