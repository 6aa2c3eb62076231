"""A data set: cases in order of case_id, the files they came from, and its splits.

A split is saved by its case ids.
"""

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

# The paper's.
EDITABLE = 2000
TRAIN = 300
TEST = 100

_LONGEST_NUMBER = 18  # digits; anything longer is a name


@dataclass(frozen=True)
class SplitIds:
    """A split as split.json keeps it: the case ids of each part, and the data set.

    name: of the subset that is edited, or "default". editable: what the parts are drawn from, all
    but `demonstrations`.
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
        """What is measured on: the data set, and the subset that is edited if there is one."""
        return self.dataset if self.name == "default" else f"{self.dataset} ({self.name})"

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        content = json.dumps(with_checksum(asdict(self)), ensure_ascii=False)
        write_text(Path(path), content + "\n")

    @classmethod
    def load(cls, path: str | Path) -> SplitIds:
        """Read what `save` wrote.

        Raises DataError if the file is missing, damaged or not a split.
        """
        try:
            raw = parse(Path(path).read_bytes())
            ids = read(cls, _without_checksum(raw))
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


def _without_checksum(raw: object) -> object:
    if not isinstance(raw, dict):
        return raw
    return {key: value for key, value in raw.items() if key != "sha256"}


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
class _Sizes:
    """How many cases are asked for in each part of a split; None is the default."""

    train: int | None
    validation: int
    test: int | None


@dataclass(frozen=True)
class _DrawnParts:
    """The cases drawn for the parts of a split, which share no fact."""

    train: Sequence[EditCase]
    validation: Sequence[EditCase]
    test: Sequence[EditCase]


@dataclass(frozen=True)
class Dataset:
    """Cases in order of case_id, and what reading them dropped and cut.

    pool: the ids of the cases that are never edited, which stand last. own: how many of the
    sources, the first ones, are not of the pool; None for all.
    """

    name: str
    sources: tuple[Source, ...]
    cases: tuple[EditCase, ...]
    dropped: tuple[Dropped, ...]
    cuts: tuple[Cut, ...] = field(default=(), repr=False)
    pool: frozenset[str] = frozenset()
    own: int | None = None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all edits in order of case_id; a split belongs to the data set with it."""
        lines = [
            f"{case.case_id}\t{edit.query}\t{edit.target_new}\n"
            for case in by_case_id(self.cases)
            for edit in case.edits
        ]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def editable(self) -> int:
        """How many rows are editable, the first by case_id.

        They are the paper's 2,000, half of fewer, or with a pool all. Of TinyFacts they are fewer,
        since the embedded model has seen edits of its other rows.
        """
        rows = len(self.cases) - len(self.pool)
        own_files = [source.sha256 for source in self.sources[: self.own]]
        if sha256(tinyfacts.ROWS) in own_files and rows > tinyfacts.EDITABLE:
            return tinyfacts.EDITABLE
        if self.pool:
            return rows
        return min(EDITABLE, rows // 2)

    def split(
        self,
        *,
        seed: int = 0,
        train: int | None = None,
        test: int | None = None,
        validation: int = 0,
        editable: int | None = None,
        subset: str | Subset | None = None,
        exclude: Collection[Key] = (),
    ) -> Split:
        """Draw a split.

        A requested size is met exactly, and the same sizes and seed always give the same split. Of
        rows with the same new facts (query and object) at most one is drawn, and no two of the
        parts share a fact. The order of a file's rows makes no difference, and more training rows
        leave the test rows as they are.

        train: default 300, or what is left if that is less. test: default 100, or a quarter of the
        editable rows if that is less. validation: edits held out for choosing between methods.
        editable: how many rows may be edited, first by case_id; the others supply demonstrations.
        subset: edit only these rows: a name of `SUBSETS`, or a function of a case. exclude: facts
        that must not be edited, as (query, target_new), such as those a checkpoint was trained on.

        Raises DataError, with the numbers to change, where there are too few rows.
        """
        if min(editable or 0, train or 0, test or 0, validation) < 0:
            raise DataError("the sizes of a split must not be negative; ask for 0 rows or more")

        ordered = by_case_id(case for case in self.cases if case.case_id not in self.pool)
        count = self.editable if editable is None else editable
        edited = self._edited(ordered[:count], count, len(ordered), subset, exclude)
        parts = self._drawn(edited, seed, _Sizes(train, validation, test), len(ordered))

        pool = [case for case in self.cases if case.case_id in self.pool]
        ids = SplitIds(
            name=_name_of(subset),
            seed=seed,
            dataset=self.name,
            fingerprint=self.fingerprint,
            editable=_ids_of(edited),
            train=_ids_of(parts.train),
            validation=_ids_of(parts.validation),
            test=_ids_of(parts.test),
            demonstrations=_ids_of([*ordered[count:], *pool]),
        )
        return self.restore(ids)

    def _edited(
        self,
        rows: Sequence[EditCase],
        count: int,
        available: int,
        subset: str | Subset | None,
        exclude: Collection[Key],
    ) -> list[EditCase]:
        """Those of the editable rows that are in the subset and not excluded. Raises DataError."""
        if count > available:
            remedy = f"ask for at most {available}, and leave some to demonstrate, or add a pool"
            raise DataError(
                f"{self.name} has {available} rows, so {count} cannot be editable; {remedy}"
            )
        is_within = _subset_of(subset)
        edited = [row for row in rows if is_within(row) and keys_of(row).isdisjoint(exclude)]
        if not edited and count and (subset is not None or exclude):
            within = sum(is_within(case) for case in self.cases)
            remedy = "make more rows editable, or take another data set"
            raise DataError(
                f"none of the {count} editable rows of {self.name} is in the subset "
                f"({within} of all its rows are) and not excluded; {remedy}"
            )
        return edited

    def _drawn(
        self, edited: Sequence[EditCase], seed: int, sizes: _Sizes, rows: int
    ) -> _DrawnParts:
        """Draw the parts of a split. Raises DataError where there are too few edited rows.

        Test rows come first and validation rows last: a change of one size moves as few other rows
        as possible.
        """
        drawn = _with_distinct_facts(edited, seed)
        test = min(TEST, len(drawn) // 4) if sizes.test is None else sizes.test
        tested = drawn[:test]
        others = _sharing_no_fact(drawn[test:], tested)

        most_for_training = len(others) - sizes.validation
        train = max(0, min(TRAIN, most_for_training)) if sizes.train is None else sizes.train
        if train > most_for_training or test > len(drawn):
            remedy = f"ask for fewer, or make more of its {rows} rows editable"
            raise DataError(
                f"{train} training, {sizes.validation} validation and {test} test rows "
                f"are more than {len(tested) + len(others)} editable rows of {self.name}; {remedy}"
            )
        return _DrawnParts(train=others[:train], validation=others[most_for_training:], test=tested)

    def restore(self, ids: SplitIds) -> Split:
        """The split with these ids.

        Raises DataError if it was drawn from another data set or is damaged.
        """
        if ids.fingerprint != self.fingerprint:
            raise DataError(
                f"split {ids.name!r} was drawn from {ids.dataset}, whose rows are not those of "
                f"{self.name}; load the same files, or draw a new split"
            )
        case_by_id = {case.case_id: case for case in self.cases}

        def cases_of(part: Sequence[str]) -> tuple[EditCase, ...]:
            return tuple(case_by_id[case_id] for case_id in part)

        try:
            return Split(
                ids,
                train=cases_of(ids.train),
                validation=cases_of(ids.validation),
                test=cases_of(ids.test),
                demonstrations=cases_of(ids.demonstrations),
            )
        except KeyError as unknown_id:
            raise DataError(
                f"split {ids.name!r} names the case {unknown_id}, which {ids.dataset} does not "
                "have; draw it again"
            ) from None


def _ids_of(cases: Iterable[EditCase]) -> tuple[str, ...]:
    return tuple(case.case_id for case in cases)


def _with_distinct_facts(cases: Sequence[EditCase], seed: int) -> list[EditCase]:
    """The cases in a random order; of those with the same new facts only the first."""
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)
    first_by_facts: dict[frozenset[Key], EditCase] = {}
    for case in shuffled:
        first_by_facts.setdefault(keys_of(case), case)
    return list(first_by_facts.values())


def _sharing_no_fact(cases: Sequence[EditCase], taken: Sequence[EditCase]) -> list[EditCase]:
    """Those of the cases that share no fact with the taken ones, nor with each other.

    Cases with several edits may share one of them.
    """
    taken_facts = frozenset[Key]().union(*map(keys_of, taken))
    chosen = []
    for case in cases:
        if taken_facts.isdisjoint(keys_of(case)):
            chosen.append(case)
            taken_facts |= keys_of(case)
    return chosen


def keys_of(case: EditCase) -> frozenset[Key]:
    """The new facts of all edits of a case."""
    return frozenset(edit.key for edit in case.edits)


def numerical(case: EditCase) -> bool:
    """Whether the edit's query or one of its objects has a digit.

    This is our reading of the paper's numerical subset.
    """
    return bool(re.search(r"\d", f"{case.edit.fact} {case.edit.target_true or ''}"))


def _everything(case: EditCase) -> bool:
    return True


SUBSETS: dict[str, Subset] = {"numerical": numerical}


def _subset_of(subset: str | Subset | None) -> Subset:
    """The function of a subset by its name. Raises DataError for an unknown one."""
    if subset is None:
        return _everything
    if not isinstance(subset, str):
        return subset
    if subset not in SUBSETS:
        raise DataError(f"there is no subset {subset!r}; choose one of {', '.join(SUBSETS)}")
    return SUBSETS[subset]


def _name_of(subset: str | Subset | None) -> str:
    if subset is None:
        return "default"
    return subset if isinstance(subset, str) else subset.__name__


def with_pool(dataset: Dataset, pool: Dataset) -> Dataset:
    """A data set with the rows of another one, which only supply demonstrations."""
    renamed = tuple(replace(case, case_id=f"pool:{case.case_id}") for case in pool.cases)
    return Dataset(
        name=dataset.name,
        sources=(*dataset.sources, *pool.sources),
        cases=(*dataset.cases, *renamed),
        dropped=(*dataset.dropped, *pool.dropped),
        cuts=(*dataset.cuts, *pool.cuts),
        pool=frozenset(case.case_id for case in renamed),
        own=len(dataset.sources),
    )


def by_case_id(cases: Iterable[EditCase]) -> list[EditCase]:
    """Cases by case_id, numbers as numbers and ahead of names.

    This is the order that "the first 2,000 rows" refers to.
    """
    return sorted(cases, key=lambda case: order_of(case.case_id))


def order_of(case_id: str) -> tuple[int, int, str]:
    """The sort key of a case_id: whether it is a name, its number, and itself."""
    is_number = case_id.isascii() and case_id.isdigit() and len(case_id) <= _LONGEST_NUMBER
    return (0, int(case_id), case_id) if is_number else (1, 0, case_id)
