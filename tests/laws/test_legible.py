"""The figures that tools/legible.py reports are those of the code."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tools import legible

WIDE = "# " + "x" * 98  # 100 columns
TOO_WIDE = "# " + "x" * 99

SOURCE = f'''
"""A docstring of a module."""

{WIDE}
{TOO_WIDE}

first, second = 1, 2
table = [1, 2]  # fmt: skip


@decorated(1, 2, 3)
def long():
    """A docstring.

    It has several lines.
    """
    # a comment

    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass


def short():
    """One of less than ten lines, though its docstring is long.

    It goes on.

    It goes on.

    It goes on.
    """
    pass
'''

CROWDED = "class Crowded:\n" + "\n".join(f"    def method_{i}(self): ..." for i in range(13))


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    path = tmp_path / "made_up.py"
    path.write_text(SOURCE, "utf-8")
    return path


def test_a_functions_docstring_blank_lines_and_decorators_are_left_out(made_up: Path) -> None:
    [function] = legible.measure(made_up).functions
    assert function.name == "long"
    assert function.lines == 10  # def, the comment, and eight times pass
    assert function.nodes == 10  # the function, its arguments, and eight times pass
    assert function.density == 1.0


def test_rates_are_set_against_lines_that_are_not_blank(made_up: Path) -> None:
    files = [legible.measure(made_up)]
    filled = len([line for line in SOURCE.splitlines() if line.strip()])
    assert legible.filled_lines(files) == filled
    assert legible.lines_too_wide(files) == 1
    assert legible.percentage_of_wide_lines(files) == pytest.approx(100 * 2 / filled)
    assert legible.tuple_assignments(files) == pytest.approx(1000 / filled)
    assert legible.unformatted(files) == 1


def test_long_modules_and_crowded_classes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "crowded.py"
    path.write_text(CROWDED + "\n" * 488, "utf-8")  # 501 lines
    file = legible.measure(path)
    assert legible.long_modules([file]) == legible.classes_too_crowded([file]) == 1
    assert list(legible.outliers([file])) == [
        f"{path}: 501 lines",
        f"{path}: Crowded has 13 public members",
    ]


def test_the_densest_functions_are_listed_once(made_up: Path) -> None:
    groups = legible.groups_of([made_up, made_up.parent])
    worst = list(legible.lists(groups, worst=1, above=math.inf))
    assert worst[-2:] == [
        "The densest functions:",
        f"{made_up}:12 long: 10 lines, 1.0 nodes per line",
    ]
    above = list(legible.lists(groups, worst=0, above=0.5))
    assert above[-2:] == ["Functions of more than 0.5 nodes per line (1):", worst[-1]]
