"""What the paper publishes (its eight tables and the figures in its text), and the recipe that repeats each.

The numbers stand in paper.toml, next to this file. A published row keeps its coordinates (model, data, editor, setting)
with its values, so that our rows can stand next to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Published:
    """A row of the paper: its coordinates, and its values by column, without those that the paper does not print.

    variant: the setting of DR-IKE that the row is about, if any. extra_parameters: as printed. s/query: the paper's
    "inference time per iteration", which it does not define further.
    """

    model: str
    editor: str
    values: Mapping[str, float]
    data: str = "CounterFact"
    variant: str = ""
    extra_parameters: str = ""


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: its number, its label in the source, what it compares, its columns and rows."""

    number: int
    label: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Published, ...]

    @property
    def has_extra(self) -> bool:
        """Whether it has a column of extra parameters."""
        return any(row.extra_parameters for row in self.rows)


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper and what repeating it needs.

    name: of its recipe, recipes/NAME.sh. place: where it stands in the paper. trainings, editors: training runs and
    evaluated editors, per model. unclear: what the paper leaves open, and what the recipe does about it.
    """

    name: str
    place: str
    about: str
    models: Sequence[str]
    data: Sequence[str]
    trainings: int = 1
    editors: int = 2
    unclear: str = ""

    @property
    def recipe(self) -> str:
        """The path of the recipe in the repository."""
        return f"recipes/{self.name}.sh"

    @property
    def needs_api(self) -> bool:
        """Whether a model of the study is behind an API, so that it costs money and needs a key."""
        return any(":" in model for model in self.models)


def _table(columns: list[str], rows: list[dict[str, Any]], **others: Any) -> PaperTable:
    pairs = ((row, zip(columns, row["values"], strict=True)) for row in rows)
    published = (Published(**row | {"values": {name: v for name, v in values if v != "n/a"}}) for row, values in pairs)
    return PaperTable(columns=tuple(columns), rows=tuple(published), **others)


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
TABLES = tuple(_table(**table) for table in _PAPER["table"])
# By model: shares of right answers by aspect; mean and standard deviation of retains per prompt of DR-IKE, on 100 test
# edits (appendix); seconds per epoch of training without and with the budget controller (section 5.3).
HALLUEDIT: dict[str, dict[str, float]] = _PAPER["halluedit"]
RETAIN_BUDGETS: dict[str, tuple[float, float]] = {row["model"]: (row["mean"], row["std"]) for row in _PAPER["retains"]}
EPOCH_SECONDS = {row["model"]: (row["without"], row["seconds"]) for row in _PAPER["epoch_seconds"]}
STUDIES = tuple(Study(**study) for study in _PAPER["study"])


def study(name: str) -> Study | None:
    """Find a study by name, accepting table2, Table 2 and table2.sh alike; None if there is none."""
    wanted = name.casefold().replace(" ", "").removesuffix(".sh")
    return next((study for study in STUDIES if study.name == wanted), None)
