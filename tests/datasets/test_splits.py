"""Splits: disjoint, of exact sizes, independent of row order, and loaded as saved."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike import tinyfacts
from drike.cli import main
from drike.edits.edit import Edit, EditCase, rewrite_probe
from drike.errors import DataError
from drike.research.datasets import Dataset, load
from drike.research.datasets.dataset import SplitIds


def dataset(rows: int, name: str = "data", order: random.Random | None = None) -> Dataset:
    """Make `n` cases with scattered ids, in file order or shuffled."""
    edits = [Edit(f"{name} {i} is in", "Oslo", "Rome", f"{name} {i}", "P1") for i in range(rows)]
    cases = [EditCase(str(i * 7), edit, (rewrite_probe(edit),)) for i, edit in enumerate(edits)]
    if order:
        order.shuffle(cases)
    return Dataset(name, (), tuple(cases), ())


def draw(data: Dataset, **options: Any) -> SplitIds:
    """Return the ids of a split."""
    return data.split(**options).ids


def with_shared_facts(numbers: list[list[int]]) -> Dataset:
    """Make a case with these facts for each list of numbers."""
    edits = [
        [Edit(f"{i} is in", "Oslo", "Rome", str(i), "P1") for i in dict.fromkeys(of_case)]
        for of_case in numbers
    ]
    cases = [
        EditCase(str(i), one[0], tuple(map(rewrite_probe, one)), (), (), tuple(one[1:]))
        for i, one in enumerate(edits)
    ]
    return Dataset("hops", (), tuple(cases), ())


sizes = st.tuples(
    st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 8), st.integers(0, 8)
)


class TestDraw:
    @given(sizes, st.integers(0, 2**32))
    def test_parts_are_disjoint_and_have_the_requested_sizes(self, numbers, seed) -> None:
        train, validation, test, unused, others = numbers
        editable = train + validation + test + unused
        split = draw(
            dataset(editable + others),
            editable=editable,
            train=train,
            validation=validation,
            test=test,
            seed=seed,
        )
        found = [split.train, split.validation, split.test, split.demonstrations]
        assert [len(part) for part in found] == [train, validation, test, others]
        assert len(set().union(*found)) == train + validation + test + others
        assert set(split.train + split.validation + split.test) <= set(split.editable)
        assert not set(split.editable) & set(split.demonstrations)

    @given(
        st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), min_size=8, max_size=30),
        st.integers(0, 99),
    )
    def test_no_fact_of_a_case_with_several_edits_is_in_two_parts(self, numbers, seed) -> None:
        data = with_shared_facts(numbers)
        split = data.split(editable=len(numbers), seed=seed)
        parts = [
            {edit.key for case in part for edit in case.edits} for part in (split.train, split.test)
        ]
        assert not parts[0] & parts[1]
        for part in (split.train, split.test):
            assert len({frozenset(case.edits) for case in part}) == len(part)
        most = len(split.train)
        if most > 1:
            held = data.split(
                editable=len(numbers), seed=seed, train=most - 1, validation=1, test=len(split.test)
            )
            assert held.test == split.test and held.train == split.train[:-1]
            assert {edit for case in held.train for edit in case.edits}.isdisjoint(
                held.validation[0].edits
            )

    def test_a_case_is_excluded_if_any_of_its_facts_is(self) -> None:
        data = with_shared_facts([[0, 1], [2], [3]])
        assert data.split(editable=3, exclude={data.cases[0].edits[1].key}).ids.editable == (
            "1",
            "2",
        )

    @given(st.integers(2, 60), st.integers(0, 999), st.randoms(use_true_random=False))
    def test_the_split_does_not_depend_on_file_order(self, rows, seed, order) -> None:
        assert draw(dataset(rows), seed=seed) == draw(dataset(rows, order=order), seed=seed)

    @given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
    def test_more_training_rows_leave_the_other_parts_unchanged(
        self, train, more, validation
    ) -> None:
        few = draw(dataset(80), editable=60, train=train, test=10, validation=validation)
        many = draw(dataset(80), editable=60, train=train + more, test=10, validation=validation)
        assert (few.test, few.validation) == (many.test, many.validation)
        assert many.train[:train] == few.train

    @given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 9))
    def test_a_subset_restricts_the_edits_but_not_the_demonstrations(
        self, editable, others, seed
    ) -> None:
        data, whole = (
            dataset(editable + others),
            draw(dataset(editable + others), editable=editable),
        )
        split = draw(data, editable=editable, seed=seed, subset="numerical")
        assert split == replace(
            draw(data, editable=editable, seed=seed), name="numerical"
        )  # every row has an id
        even = draw(
            data, editable=editable, seed=seed, subset=lambda case: int(case.case_id) % 2 == 0
        )
        assert even.editable == tuple(one for one in whole.editable if int(one) % 2 == 0)
        assert even.demonstrations == whole.demonstrations
        assert set(even.train + even.test) <= set(even.editable)

    def test_an_empty_subset_is_refused_with_a_remedy(self) -> None:
        with pytest.raises(
            DataError, match=r"none of the 3 editable rows .*0 of all its rows.* more rows editable"
        ):
            draw(dataset(9), editable=3, subset=lambda case: False)

    @given(st.integers(0, 30), st.integers(0, 10), st.integers(0, 99))
    def test_no_fact_is_in_two_parts_even_under_different_case_ids(
        self, rows, duplicates, seed
    ) -> None:
        data = dataset(rows)
        copies = tuple(
            replace(case, case_id=f"9{case.case_id}") for case in data.cases[:duplicates]
        )
        whole = replace(data, cases=(*data.cases, *copies))
        split = whole.split(
            seed=seed, editable=len(whole.cases), train=rows - rows // 3, test=rows // 3
        )
        assert len({case.edit.key for case in (*split.train, *split.test)}) == rows
        with pytest.raises(DataError, match="more than"):
            whole.split(editable=len(whole.cases), train=rows, test=1)

    def test_editable_rows_are_those_with_the_lowest_case_ids(self) -> None:
        split = draw(dataset(40), editable=12, train=2, test=2)
        assert split.editable == tuple(str(7 * i) for i in range(12))

    def test_rows_that_the_embedded_model_has_seen_are_not_editable_beside_other_files(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "facts.csv"
        path.write_text(
            "prompt,target_new\nRolex is run from,Oslo\nFiat is run from,Rome\n", "utf-8"
        )
        for sources in (["tinyfacts", path], [path, "tinyfacts"]):
            data = load(*sources)
            assert data.editable == load(*sources, pool=[path]).editable == tinyfacts.EDITABLE
        assert load(path, pool=["tinyfacts"]).editable == 2

    def test_different_seeds_draw_different_splits(self) -> None:
        assert len({draw(dataset(100), seed=seed).test for seed in range(5)}) == 5

    @given(st.integers(0, 30000))
    def test_default_sizes_fit_every_data_set(self, rows) -> None:
        editable = Dataset("data", (), dataset(1).cases * rows, ()).editable
        assert editable <= rows - editable
        if rows <= 500:
            split = draw(dataset(rows))
            assert len(split.train) + len(split.test) <= len(split.editable) == editable

    def test_default_sizes_are_the_papers_if_there_are_enough_rows(self) -> None:
        split = draw(dataset(4100))
        assert [len(part) for part in (split.editable, split.train, split.test)] == [2000, 300, 100]

    @pytest.mark.parametrize(
        ("numbers", "named"),
        [
            ({"editable": 10, "train": 8, "test": 3}, "more than 10 editable rows"),
            ({"editable": 41}, "at most 40"),
            ({"train": -1}, "negative"),
        ],
    )
    def test_too_few_rows_are_refused_with_the_numbers(self, numbers, named) -> None:
        with pytest.raises(DataError, match=named):
            draw(dataset(40), **numbers)


class TestSaved:
    @given(st.integers(2, 40), st.integers(0, 99))
    def test_a_saved_split_loads_unchanged(self, tmp_path_factory, rows, seed) -> None:
        split = draw(dataset(rows, name="naïve"), seed=seed)
        path = tmp_path_factory.mktemp("split") / "split.json"
        split.save(path)
        assert SplitIds.load(path) == split
        assert [file.name for file in path.parent.iterdir()] == ["split.json"]

    @pytest.mark.parametrize("content", ["", "[1]", "{}", '{"name": 3}'])
    def test_a_damaged_split_is_refused(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "split.json"
        path.write_text(content)
        with pytest.raises(DataError, match="draw it again"):
            SplitIds.load(path)
        with pytest.raises(DataError, match="check the path"):
            SplitIds.load(tmp_path / "none.json")

    def test_a_field_of_the_wrong_type_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "split.json"
        draw(dataset(9)).save(path)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"train": [1, 2]}))
        with pytest.raises(DataError, match="train: 1 is not text"):
            SplitIds.load(path)


class TestRestored:
    def test_restored_parts_are_the_cases_with_the_saved_ids(self) -> None:
        data = dataset(40)
        split = data.split(editable=20, train=5, validation=3, test=4)
        assert tuple(case.case_id for case in split.train) == split.ids.train
        assert [len(split.validation), len(split.test), len(split.demonstrations)] == [3, 4, 20]
        assert data.restore(split.ids) == split

    def test_a_split_of_another_data_set_is_refused_even_if_its_ids_exist(self) -> None:
        ids = draw(dataset(40))
        with pytest.raises(DataError, match="draw a new split"):
            dataset(40, "other").restore(ids)
        assert replace(dataset(40, order=random.Random(1)), name="renamed").restore(ids)

    def test_an_unknown_id_is_refused(self) -> None:
        ids = replace(draw(dataset(40)), test=("0", "mine"))
        with pytest.raises(DataError, match=r"names the case 'mine'.*draw it again"):
            dataset(40).restore(ids)


class TestTinyFacts:
    """Only its first rows are editable: the embedded model was trained on edits of the other facts."""

    @pytest.mark.parametrize("given", ["name", "path", "copy"])
    def test_tinyfacts_has_its_own_editable_count_however_it_is_loaded(
        self, given: str, tmp_path: Path
    ) -> None:
        copy = tmp_path / "mine.json"
        copy.write_bytes(tinyfacts.ROWS.read_bytes())
        data = load({"name": "tinyfacts", "path": tinyfacts.ROWS, "copy": copy}[given])
        split = data.split(seed=0)
        assert data.editable == len(split.ids.editable) == tinyfacts.EDITABLE
        assert (data.name, data.fingerprint) == ("TinyFacts", load("tinyfacts").fingerprint)

    @pytest.mark.parametrize("seed", [0, 3])
    def test_python_and_the_command_line_draw_the_same_split(
        self, seed: int, tmp_path: Path
    ) -> None:
        with pytest.raises(SystemExit, match="0"):
            main(["train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "20", "--epochs", "1",
                  "--seed", str(seed), "--out", str(tmp_path / "run")])  # fmt: skip
        ids = load("tinyfacts").split(seed=seed, train=4, test=20).ids
        assert SplitIds.load(tmp_path / "run" / "split.json") == ids

    def test_excluded_facts_are_not_edited(self) -> None:
        data = load("tinyfacts")
        first = data.split(seed=0)
        learned = {case.edit.key for case in first.train}
        again = data.split(seed=1, train=0, exclude=learned)
        assert not learned & {case.edit.key for case in again.test}
        assert not set(first.ids.train) & set(again.ids.editable)
