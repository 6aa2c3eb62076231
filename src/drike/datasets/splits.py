"""Splits: training, validation and test edits, and the cases that supply demonstrations; saved by their case ids.

`Dataset.split` draws them. A subset narrows which rows are edited, never which demonstrate. The order of a file's rows
makes no difference, and more training rows leave the test rows as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drike.edits import EditCase
from drike.errors import DataError
from drike.files import checksum_ok, with_checksum, write_text


@dataclass(frozen=True)
class SplitIds:
    """A split as split.json keeps it: case ids by part, and the data set they belong to.

    `train`, `validation` and `test` are disjoint and lie in `editable`, `demonstrations` do not.
    """

    name: str
    seed: int
    dataset: str
    fingerprint: str
    editable: tuple[str, ...]
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    demonstrations: tuple[str, ...]

    @property
    def title(self) -> str:
        """What is measured on: the data set, and the subset of it that is edited if there is one."""
        return self.dataset if self.name == "default" else f"{self.dataset} ({self.name})"

    def of(self, cases: Iterable[EditCase]) -> Split:
        """The split with these cases. Raises DataError for an id that none of them has."""
        known = {case.case_id: case for case in cases}
        drawn = (self.train, self.validation, self.test, self.demonstrations)
        try:
            return Split(self, *(tuple(known[one] for one in ids) for ids in drawn))
        except KeyError as unknown:
            raise DataError(
                f"split {self.name!r} names the case {unknown}, which {self.dataset} does not have; draw it again"
            ) from None

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(with_checksum(asdict(self)), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> SplitIds:
        """Read what `save` wrote. Raises DataError if the file is missing, damaged or not a split."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"split {path} cannot be read ({error.strerror}); check the path, or draw it again"
            ) from None
        except (ValueError, RecursionError):
            raise DataError(f"split {path} is not valid JSON; draw it again") from None
        values = raw if isinstance(raw, dict) else {}
        checked = {field.name: _checked(values.get(field.name), str(field.type)) for field in fields(cls)}
        if unusable := [name for name, value in checked.items() if value is None]:
            raise DataError(f"split {path} lacks a usable field {unusable[0]!r}; draw it again")
        if not checksum_ok(values):
            raise DataError(f"split {path} has changed since it was saved; copy it again, or draw it again")
        return cls(**checked)


@dataclass(frozen=True)
class Split:
    """The cases of a split, disjoint parts; `ids` is what identifies and saves it."""

    ids: SplitIds
    train: tuple[EditCase, ...]
    validation: tuple[EditCase, ...]
    test: tuple[EditCase, ...]
    demonstrations: tuple[EditCase, ...]


def _checked(value: object, kind: str) -> Any:
    """A field of split.json, lists as tuples; None unless it is of the right type."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = tuple(value)
    return value if isinstance(value, {"str": str, "int": int}.get(kind, tuple)) else None
