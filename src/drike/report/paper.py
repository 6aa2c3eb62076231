"""What the paper publishes (its eight tables and the figures in its text), and the recipe that repeats each.

The numbers stand in paper.toml, next to this file. A published row keeps its coordinates (model, data, editor, setting)
with its values, so that our rows can stand next to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIELDS = {"S": "s", "ESR": "esr", "PC": "pc", "RR": "rr", "ESM": "esm", "GSM": "gsm", "s/query": "seconds"}


@dataclass(frozen=True)
class Published:
    """A row of the paper: its coordinates and its values; None where the table has no such column or cell.

    variant: the setting of DR-IKE that the row is about, if any. extra_parameters: as printed. seconds: "inference
    time per iteration", which the paper does not define further.
    """

    model: str
    editor: str
    data: str = "CounterFact"
    variant: str = ""
    s: float | None = None
    esr: float | None = None
    pc: float | None = None
    rr: float | None = None
    esm: float | None = None
    gsm: float | None = None
    seconds: float | None = None
    extra_parameters: str = ""

    def value(self, column: str) -> float | None:
        """The value of a column of `FIELDS`."""
        printed: float | None = getattr(self, FIELDS[column])
        return printed


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
class PublishedAspects:
    """HalluEditBench's in-context editor on a model: shares of right answers by aspect.

    rewrite: its efficacy. same_subject: its locality. pushback: robustness after one "Are you sure?". two_hops: its
    portability for questions of two hops.
    """

    model: str
    rewrite: float
    same_subject: float
    pushback: float
    two_hops: float


@dataclass(frozen=True)
class PublishedBudget:
    """Retains per prompt of DR-IKE on 100 test edits (appendix, figures of the retain budget)."""

    model: str
    mean: float
    std: float


@dataclass(frozen=True)
class PublishedEpoch:
    """Seconds per epoch of training without and with the budget controller (section 5.3)."""

    model: str
    without: float
    seconds: float


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


def _table(number: int, label: str, about: str, columns: list[str], rows: list[dict[str, Any]]) -> PaperTable:
    names = [FIELDS[column] for column in columns]

    def published(values: list[float | str], **others: Any) -> Published:
        numbers: dict[str, Any] = {n: None if v == "n/a" else v for n, v in zip(names, values, strict=True)}
        return Published(**others, **numbers)

    return PaperTable(number, label, about, tuple(columns), tuple(published(**row) for row in rows))


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
TABLES = tuple(_table(**table) for table in _PAPER["table"])
PAPER_TABLE1 = TABLES[0].rows
HALLUEDIT = tuple(PublishedAspects(**row) for row in _PAPER["halluedit"])
RETAIN_BUDGETS = tuple(PublishedBudget(**row) for row in _PAPER["retains"])
EPOCH_SECONDS = tuple(PublishedEpoch(**row) for row in _PAPER["epoch_seconds"])
STUDIES = tuple(Study(**study) for study in _PAPER["study"])


def study(name: str) -> Study | None:
    """Find a study by name, accepting table2, Table 2 and table2.sh alike; None if there is none."""
    wanted = name.casefold().replace(" ", "").removesuffix(".sh")
    return next((study for study in STUDIES if study.name == wanted), None)
