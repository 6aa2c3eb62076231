"""What the paper publishes: its eight tables and the figures in its text.

The numbers stand in paper.toml, next to this file. A published row keeps its coordinates (model, data, editor, setting)
with its values, so that our rows can stand next to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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


def _table(columns: list[str], rows: list[dict[str, Any]], **others: Any) -> PaperTable:
    pairs = ((row, zip(columns, row["values"], strict=True)) for row in rows)
    published = (Published(**row | {"values": {name: v for name, v in values if v != "n/a"}}) for row, values in pairs)
    return PaperTable(columns=tuple(columns), rows=tuple(published), **others)


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
TABLES = tuple(_table(**table) for table in _PAPER["table"])
# By model: mean and standard deviation of retains per prompt of DR-IKE, on 100 test edits (appendix); seconds per epoch
# of training without and with the budget controller (section 5.3).
RETAIN_BUDGETS: dict[str, tuple[float, float]] = {row["model"]: (row["mean"], row["std"]) for row in _PAPER["retains"]}
EPOCH_SECONDS = {row["model"]: (row["without"], row["seconds"]) for row in _PAPER["epoch_seconds"]}
