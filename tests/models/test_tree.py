"""The packed tree, compared with brute force on random groups of sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.models.local.token_trees import build_tree, packs

# Few distinct tokens, so that prefixes, repeats and forks are frequent at every depth.
SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


def prefixes(sequences: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(sequence[:n]) for sequence in sequences for n in range(1, len(sequence) + 1)}


@given(SEQUENCES)
def test_each_distinct_prefix_takes_one_position_in_the_tree(sequences: list[list[int]]) -> None:
    tree = build_tree(sequences)
    assert len(tree) == len(prefixes(sequences)) == len(tree.depth) == len(tree.end)
    for sequence, path in zip(sequences, tree.paths, strict=True):
        assert tree.ids[path].tolist() == sequence
        assert tree.depth[path].tolist() == list(range(len(sequence)))


@given(SEQUENCES, st.one_of(st.none(), st.integers(1, 4)), st.one_of(st.none(), st.integers(1, 4)))
def test_a_token_attends_exactly_to_its_own_prefix(
    sequences: list[list[int]], window: int | None, chunk: int | None
) -> None:
    tree = build_tree(sequences)
    seen = tree.mask(window=window, chunk=chunk)
    expected = np.zeros_like(seen)
    for path in tree.paths:
        for depth, row in enumerate(path):
            for earlier_depth, earlier in enumerate(path[: depth + 1]):
                in_window = window is None or depth - earlier_depth < window
                in_chunk = chunk is None or depth // chunk == earlier_depth // chunk
                expected[row, earlier] = in_window and in_chunk
    assert (seen == expected).all()
    assert (tree.mask(window=window, chunk=chunk, first=tree.trunk) == expected[tree.trunk :]).all()


@given(SEQUENCES)
def test_the_trunk_is_the_longest_sequence(sequences: list[list[int]]) -> None:
    tree = build_tree(sequences)
    assert tree.trunk == max(map(len, sequences))
    assert (tree.depth[: tree.trunk] == np.arange(tree.trunk)).all()


@given(SEQUENCES, st.randoms())
def test_the_packing_does_not_depend_on_the_order(sequences: list[list[int]], rng: object) -> None:
    shuffled = sequences[:]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    tree = build_tree(sequences)
    tree_of_shuffled = build_tree(shuffled)
    assert len(tree) == len(tree_of_shuffled)
    lengths = {}
    for sequence, path in zip(sequences, tree.paths, strict=True):
        lengths[tuple(sequence)] = len(path)
    for sequence, path in zip(shuffled, tree_of_shuffled.paths, strict=True):
        assert len(path) == lengths[tuple(sequence)]


@settings(max_examples=100)
@given(SEQUENCES, st.integers(1, 30), st.integers(1, 30))
def test_packs_hold_every_sequence_once_within_the_budget(
    sequences: list[list[int]], budget: int, unrelated: int
) -> None:
    groups = packs(sequences, budget, unrelated)
    assert sorted(i for group in groups for i in group) == list(range(len(sequences)))
    for group in groups:
        assert len(group) == 1 or len(build_tree([sequences[i] for i in group])) <= budget


def test_sequences_with_a_shared_prefix_are_packed_together() -> None:
    trunk = list(range(100))
    family = [[*trunk[: 10 * n], 200, 201] for n in range(5, 11)]
    stranger = [300 + n for n in range(50)]
    groups = packs([*family, stranger], budget=1000, unrelated=60)
    assert sorted(map(sorted, groups)) == [[0, 1, 2, 3, 4, 5], [6]]
    assert len(packs([*family, stranger], budget=1000, unrelated=1000)) == 1


def test_nesting_may_be_thousands_deep() -> None:
    tree = build_tree([[7] * n for n in range(1, 2001)])
    assert len(tree) == tree.trunk == 2000


@given(SEQUENCES)
def test_runs_are_the_segments_between_forks(sequences: list[list[int]]) -> None:
    tree = build_tree(sequences)
    runs = tree.runs
    assert [i for run in runs for i in range(run.begin, run.end)] == list(range(len(tree)))
    children: dict[tuple[int, ...], set[int]] = {}
    for prefix in prefixes(sequences):
        children.setdefault(prefix[:-1], set()).add(prefix[-1])
    texts: list[tuple[int, ...]] = []  # up to the end of each run, from the start of its sequences
    for run in runs:
        assert run.parent < len(texts)
        text = texts[run.parent] if run.parent >= 0 else ()
        assert tree.depth[run.begin] == len(text)
        for i in range(run.begin, run.end):
            assert i == run.begin or len(children[text]) == 1
            text = (*text, int(tree.ids[i]))
        assert len(children.get(text, ())) != 1
        texts.append(text)
