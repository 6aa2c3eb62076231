"""A data set: cases in order of case_id, the files they came from, and its splits, saved by their case ids."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from drike import tinyfacts
from drike.edits.edit import EditCase, Key
from drike.errors import DataError
from drike.research.datasets.read_log import Cut, Dropped
from drike.support.files import checksum_ok, sha256, with_checksum, write_text
from drike.support.records import parse, read

Subset = Callable[[EditCase], bool]  # chooses the rows that are edited

EDITABLE, TRAIN, TEST = 2000, 300, 100  # the paper's
_LONGEST_NUMBER = 18  # digits; anything longer is a name


@dataclass(frozen=True)
class SplitIds:
    """A split as split.json keeps it: case ids by part, all but `demonstrations` in `editable`, and their data set."""

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

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(with_checksum(asdict(self)), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> SplitIds:
        """Read what `save` wrote. Raises DataError if the file is missing, damaged or not a split."""
        try:
            raw = parse(Path(path).read_bytes())
            ids = read(
                cls,
                {key: raw[key] for key in raw if key != "sha256"} if isinstance(raw, dict) else raw,
            )
        except OSError as error:
            remedy = "check the path, or draw it again"
            raise DataError(f"split {path} cannot be read ({error.strerror}); {remedy}") from None
        except ValueError as problem:
            raise DataError(
                f"split {path} is damaged or of another version ({problem}); draw it again"
            ) from None
        if not checksum_ok(raw):
            raise DataError(
                f"split {path} has changed since it was saved; copy it again, or draw it again"
            )
        return ids


@dataclass(frozen=True)
class Split:
    """The cases of a split, in disjoint parts; `ids` is what identifies and saves it."""

    ids: SplitIds
    train: tuple[EditCase, ...]
    validation: tuple[EditCase, ...]
    test: tuple[EditCase, ...]
    demonstrations: tuple[EditCase, ...]


@dataclass(frozen=True)
class Source:
    """One file of a data set: `given` is the path, address or public name the user gave."""

    given: str
    path: Path
    sha256: str
    form: str
    rows: int


@dataclass(frozen=True)
class Dataset:
    """Cases in order of case_id, those that are never edited (`pool`, by id) last; what reading dropped and cut."""

    name: str
    sources: tuple[Source, ...]
    cases: tuple[EditCase, ...]
    dropped: tuple[Dropped, ...]
    cuts: tuple[Cut, ...] = field(default=(), repr=False)
    pool: frozenset[str] = frozenset()
    own: int | None = (
        None  # how many of the sources, the first ones, are not of the pool; None for all
    )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all edits in order of case_id; a split belongs to the data set with its fingerprint."""
        edits = ((case.case_id, edit) for case in by_case_id(self.cases) for edit in case.edits)
        lines = (f"{case_id}\t{edit.query}\t{edit.target_new}\n" for case_id, edit in edits)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def editable(self) -> int:
        """How many rows are editable, first by case_id: the paper's 2,000, half of fewer, or with a pool all."""
        own, rows = (
            (source.sha256 for source in self.sources[: self.own]),
            len(self.cases) - len(self.pool),
        )
        if sha256(tinyfacts.ROWS) in own and rows > tinyfacts.EDITABLE:
            return tinyfacts.EDITABLE  # the embedded model has seen edits of TinyFacts' other rows
        return rows if self.pool else min(EDITABLE, rows // 2)

    def split(
        self, *, seed: int = 0, train: int | None = None, test: int | None = None, validation: int = 0,
        editable: int | None = None, subset: str | Subset | None = None, exclude: Collection[Key] = (),
    ) -> Split:  # fmt: skip
        """Draw a split. A requested size is met exactly, and the same sizes and seed always give the same split.

        Of rows with the same new facts (query and object) at most one is drawn, and no two of the parts share a fact.
        The order of a file's rows makes no difference, and more training rows leave the test rows as they are.

        train: default 300, or what is left if that is less. test: default 100, or a quarter of the editable rows if
        that is less. validation: edits held out for choosing between methods. editable: how many rows may be edited,
        first by case_id; the others supply demonstrations. subset: edit only these rows: a name of `SUBSETS`, or a
        function of a case. exclude: facts that must not be edited, as (query, target_new), such as those a checkpoint
        was trained on. Raises DataError, with the numbers to change, where there are too few rows.
        """
        if min(editable or 0, train or 0, test or 0, validation) < 0:
            raise DataError("the sizes of a split must not be negative; ask for 0 rows or more")
        ordered = by_case_id(case for case in self.cases if case.case_id not in self.pool)
        count = self.editable if editable is None else editable
        edited = self._edited(ordered, count, subset, exclude)
        shuffled = list(edited)
        random.Random(seed).shuffle(shuffled)
        distinct: dict[frozenset[Key], EditCase] = {}
        for case in shuffled:
            distinct.setdefault(keys_of(case), case)
        drawn = list(distinct.values())
        test = min(TEST, len(drawn) // 4) if test is None else test
        tested, others = drawn[:test], list[EditCase]()
        known = frozenset().union(*map(keys_of, tested))
        for case in drawn[test:]:  # cases with several edits may share one of them
            if known.isdisjoint(keys_of(case)):
                others.append(case)
                known |= keys_of(case)
        train = max(0, min(TRAIN, len(others) - validation)) if train is None else train
        if train + validation > len(others) or test > len(drawn):
            asked, there = (
                f"{train} training, {validation} validation and {test} test rows",
                len(tested) + len(others),
            )
            remedy = f"ask for fewer, or make more of its {len(ordered)} rows editable"
            raise DataError(f"{asked} are more than {there} editable rows of {self.name}; {remedy}")
        pool = [case for case in self.cases if case.case_id in self.pool]
        name = (
            "default" if subset is None else subset if isinstance(subset, str) else subset.__name__
        )
        # Test rows come first and validation rows last: a change of one size moves as few other rows as possible.
        parts = (
            edited,
            others[:train],
            others[len(others) - validation :],
            tested,
            [*ordered[count:], *pool],
        )
        ids = (tuple(case.case_id for case in part) for part in parts)
        return self.restore(SplitIds(name, seed, self.name, self.fingerprint, *ids))

    def _edited(
        self,
        ordered: Sequence[EditCase],
        count: int,
        subset: str | Subset | None,
        exclude: Collection[Key],
    ) -> list[EditCase]:
        """Those of the first `count` rows that are in the subset and not excluded. Raises DataError."""
        if count > len(ordered):
            remedy = f"ask for at most {len(ordered)}, and leave some to demonstrate, or add a pool"
            raise DataError(
                f"{self.name} has {len(ordered)} rows, so {count} cannot be editable; {remedy}"
            )
        if isinstance(subset, str) and subset not in SUBSETS:
            raise DataError(f"there is no subset {subset!r}; choose one of {', '.join(SUBSETS)}")
        within = SUBSETS[subset] if isinstance(subset, str) else subset or (lambda case: True)
        edited = [
            case for case in ordered[:count] if within(case) and keys_of(case).isdisjoint(exclude)
        ]
        if not edited and count and (subset is not None or exclude):
            inside = f"in the subset ({sum(map(within, self.cases))} of all its rows are) and not excluded"
            remedy = "make more rows editable, or take another data set"
            raise DataError(
                f"none of the {count} editable rows of {self.name} is {inside}; {remedy}"
            )
        return edited

    def restore(self, ids: SplitIds) -> Split:
        """The split with these ids. Raises DataError if it was drawn from another data set or is damaged."""
        if ids.fingerprint != self.fingerprint:
            drawn = f"split {ids.name!r} was drawn from {ids.dataset}, whose rows are not those of {self.name}"
            raise DataError(f"{drawn}; load the same files, or draw a new split")
        known = {case.case_id: case for case in self.cases}
        parts = (ids.train, ids.validation, ids.test, ids.demonstrations)
        try:
            return Split(ids, *(tuple(known[case_id] for case_id in part) for part in parts))
        except KeyError as unknown:
            named = f"split {ids.name!r} names the case {unknown}"
            raise DataError(f"{named}, which {ids.dataset} does not have; draw it again") from None


def keys_of(case: EditCase) -> frozenset[Key]:
    """The new facts of all edits of a case."""
    return frozenset(edit.key for edit in case.edits)


def numerical(case: EditCase) -> bool:
    """Whether the edit's query or one of its objects has a digit: our reading of the paper's numerical subset."""
    return bool(re.search(r"\d", f"{case.edit.fact} {case.edit.target_true or ''}"))


SUBSETS: dict[str, Subset] = {"numerical": numerical}


def with_pool(dataset: Dataset, pool: Dataset) -> Dataset:
    """A data set with the rows of another one, which only supply demonstrations."""
    named = tuple(replace(case, case_id=f"pool:{case.case_id}") for case in pool.cases)
    sources, dropped = (*dataset.sources, *pool.sources), (*dataset.dropped, *pool.dropped)
    cases, ids = (*dataset.cases, *named), frozenset(case.case_id for case in named)
    return Dataset(
        dataset.name,
        sources,
        cases,
        dropped,
        (*dataset.cuts, *pool.cuts),
        ids,
        len(dataset.sources),
    )


def by_case_id(cases: Iterable[EditCase]) -> list[EditCase]:
    """Cases by case_id, numbers as numbers and ahead of names: the order that "the first 2,000 rows" refers to."""
    return sorted(cases, key=lambda case: order_of(case.case_id))


def order_of(case_id: str) -> tuple[int, int, str]:
    """The sort key of a case_id."""
    number = case_id.isascii() and case_id.isdigit() and len(case_id) <= _LONGEST_NUMBER
    return (0, int(case_id), case_id) if number else (1, 0, case_id)
