"""Splits: training, validation and test edits, and the cases that supply demonstrations; saved by their case ids.

`Dataset.split` draws them. A subset narrows which rows are edited, never which demonstrate. The order of a file's rows
makes no difference, and more training rows leave the test rows as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.edits import EditCase
from drike.errors import DataError
from drike.support.files import checksum_ok, with_checksum, write_text
from drike.support.records import parse, read


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
            return Split(self, *(tuple(known[case_id] for case_id in case_ids) for case_ids in drawn))
        except KeyError as unknown:
            named = f"split {self.name!r} names the case {unknown}"
            raise DataError(f"{named}, which {self.dataset} does not have; draw it again") from None

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(with_checksum(asdict(self)), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> SplitIds:
        """Read what `save` wrote. Raises DataError if the file is missing, damaged or not a split."""
        try:
            raw = parse(Path(path).read_bytes())
            values = {name: value for name, value in raw.items() if name != "sha256"} if isinstance(raw, dict) else raw
            ids = read(cls, values)
        except OSError as error:
            remedy = "check the path, or draw it again"
            raise DataError(f"split {path} cannot be read ({error.strerror}); {remedy}") from None
        except ValueError as problem:
            raise DataError(f"split {path} is damaged or of another version ({problem}); draw it again") from None
        if not checksum_ok(raw):
            raise DataError(f"split {path} has changed since it was saved; copy it again, or draw it again")
        return ids


@dataclass(frozen=True)
class Split:
    """The cases of a split, disjoint parts; `ids` is what identifies and saves it."""

    ids: SplitIds
    train: tuple[EditCase, ...]
    validation: tuple[EditCase, ...]
    test: tuple[EditCase, ...]
    demonstrations: tuple[EditCase, ...]
