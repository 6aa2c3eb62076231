"""Splits: which cases are edited and which only demonstrate; named, seeded, disjoint, saved.

The first rows by case_id are editable, the rest demonstrates (2,000 and the rest in the paper). From the editable rows
are drawn those that train, those that test, and where wanted those that validate a choice. A subset narrows which of
them are edited, never what demonstrates. The same data set, sizes and seed always give the same split, in whatever
order the file's rows stand; more training rows leave the test rows as they are.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drike.datasets import Dataset, by_case_id
from drike.datasets.subsets import Subset
from drike.edits import EditCase
from drike.errors import DataError
from drike.files import checksum_ok, with_checksum, write_text

EDITABLE, TRAIN, TEST = 2000, 300, 100  # the paper's


@dataclass(frozen=True)
class Split:
    """Case ids by part. `train`, `validation` and `test` are disjoint and lie in `editable`, `demonstrations` do not.

    `dataset` and `fingerprint` tell which cases the ids belong to.
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

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(with_checksum(asdict(self)), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Split:
        """Read what `save` wrote; DataError if the file is missing, damaged or not a split."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"split {path} cannot be read ({error.strerror}); check the path, or draw it again"
            ) from None
        except (ValueError, RecursionError):
            raise DataError(f"split {path} is not valid JSON; draw it again") from None
        return cls(**_checked(raw, path))


@dataclass(frozen=True)
class Parts:
    """The cases of a split, each part in the split's order."""

    train: tuple[EditCase, ...]
    validation: tuple[EditCase, ...]
    test: tuple[EditCase, ...]
    demonstrations: tuple[EditCase, ...]


def default_editable(rows: int) -> int:
    """How many rows are editable unless told: the paper's 2,000, or half where there are fewer than 4,000."""
    return min(EDITABLE, rows // 2)


def draw(
    dataset: Dataset,
    *,
    editable: int | None = None,
    train: int | None = None,
    test: int | None = None,
    validation: int = 0,
    seed: int = 0,
    name: str = "default",
    subset: Subset | None = None,
) -> Split:
    """Draw a split; a size that is given is met exactly.

    Defaults: `editable` is 2,000, or half of the rows where there are fewer than 4,000; of these only those in the
    `subset` are edited. `test` is 100, or a quarter of the editable rows if that is less; `train` 300, or what is left
    if that is less. Raises DataError, with the numbers to change, where the rows do not suffice.
    """
    ids = [case.case_id for case in by_case_id(dataset.cases)]
    if editable is None:
        editable = default_editable(len(ids))
    if min(editable, train or 0, test or 0, validation) < 0:
        raise DataError("the sizes of a split must not be negative; ask for 0 rows or more")
    if editable > len(ids):
        raise DataError(
            f"{dataset.name} has {len(ids)} rows, so {editable} cannot be editable; "
            f"ask for at most {len(ids)}, and leave some to demonstrate"
        )
    edited = _edited(dataset, ids[:editable], subset)
    if test is None:
        test = min(TEST, len(edited) // 4)
    if train is None:
        train = max(0, min(TRAIN, len(edited) - test - validation))
    if train + validation + test > len(edited):
        raise DataError(
            f"{train} training, {validation} validation and {test} test rows are more than {len(edited)} editable rows "
            f"of {dataset.name}; ask for fewer, or make more of its {len(ids)} rows editable"
        )
    drawn = list(edited)
    random.Random(seed).shuffle(drawn)
    # Test rows first and validation rows last: a change of one size moves as few other rows as can be.
    return Split(
        name=name,
        seed=seed,
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        editable=edited,
        train=tuple(drawn[test : test + train]),
        validation=tuple(drawn[len(drawn) - validation :]),
        test=tuple(drawn[:test]),
        demonstrations=tuple(ids[editable:]),
    )


def _edited(dataset: Dataset, ids: Sequence[str], subset: Subset | None) -> tuple[str, ...]:
    """Those of the first rows that are edited. Raises DataError where the subset leaves none."""
    if subset is None:
        return tuple(ids)
    within = {case.case_id for case in dataset.cases if subset(case)}
    edited = tuple(case_id for case_id in ids if case_id in within)
    if not edited:
        raise DataError(
            f"none of the {len(ids)} editable rows of {dataset.name} is in the subset ({len(within)} of all its rows "
            "are); make more rows editable, or take another data set"
        )
    return edited


def parts(split: Split, dataset: Dataset) -> Parts:
    """The cases of a split; DataError if it was drawn from another data set."""
    if split.fingerprint != dataset.fingerprint:
        raise DataError(
            f"split {split.name!r} was drawn from {split.dataset}, whose rows are not those of {dataset.name}; "
            "load the same files, or draw a new split"
        )
    cases = {case.case_id: case for case in dataset.cases}
    unknown = next((one for ids in (split.train, split.validation, split.test, split.demonstrations)
                    for one in ids if one not in cases), None)  # fmt: skip
    if unknown is not None:
        raise DataError(
            f"split {split.name!r} names the case {unknown!r}, which {dataset.name} does not have; draw it again"
        )

    def of(ids: Iterable[str]) -> tuple[EditCase, ...]:
        return tuple(cases[case_id] for case_id in ids)

    return Parts(of(split.train), of(split.validation), of(split.test), of(split.demonstrations))


def _checked(raw: object, path: str | Path) -> dict[str, Any]:
    """A split's fields from JSON, lists as tuples; DataError if any is missing or of another type."""
    values = raw if isinstance(raw, dict) else {}
    checked: dict[str, Any] = {}
    for field in fields(Split):
        value = values.get(field.name)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = tuple(value)
        kind = {"str": str, "int": int}.get(str(field.type), tuple)
        if not isinstance(value, kind):
            raise DataError(f"split {path} lacks a usable field {field.name!r}; draw it again")
        checked[field.name] = value
    if not checksum_ok(values):
        raise DataError(f"split {path} is not as it was saved (its sha256 tells); copy it again, or draw it again")
    return checked
