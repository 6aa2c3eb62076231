"""Texts with shared beginnings as one packed tree, in which each distinct token stands once.

In a packed tree, or a forest of them, tokens are laid out depth first, the branch that reaches
deepest before its siblings, so that the subtree of token k is the range k .. end[k] - 1: token q
attends to token k iff k <= q < end[k]. A token's depth is its position in every sequence that it
belongs to; windows and chunks of attention are measured in depth, never in packed indices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class TokenRun(NamedTuple):
    """A branch of a tree without forks: packed begin and end, and which run it continues, or -1."""

    begin: int
    end: int
    parent: int


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Packed token sequences.

    ids, depth, end: [N] int64; token id, position in its sequences, one past the last token of its
    subtree. paths: the packed indices of each sequence's tokens. trunk: length of the longest path,
    which comes first and is causal.
    """

    ids: Ids
    depth: Ids
    end: Ids
    paths: tuple[Ids, ...]
    trunk: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def runs(self) -> list[TokenRun]:
        """The branches without forks, depth first."""
        # Tokens of one run have the same subtree's end, and the next run has another.
        is_last_of_run = np.append(self.end[1:] != self.end[:-1], True)
        run_ends = (np.flatnonzero(is_last_of_run) + 1).tolist()
        run_begins = [0, *run_ends[:-1]]
        runs: list[TokenRun] = []
        subtree_ends: list[int] = []  # of each run
        open_runs: list[int] = []  # those that the next run may continue, the deepest last
        for begin, end in zip(run_begins, run_ends, strict=True):
            while open_runs and subtree_ends[open_runs[-1]] <= begin:
                open_runs.pop()
            parent = open_runs[-1] if open_runs else -1
            open_runs.append(len(runs))
            runs.append(TokenRun(begin, end, parent))
            subtree_ends.append(int(self.end[begin]))
        return runs

    def mask(
        self, *, window: int | None = None, chunk: int | None = None, first: int = 0
    ) -> NDArray[np.bool_]:
        """Which tokens the rows from `first` on attend to [N - first, N].

        window: how many tokens back, with their own; chunk: length of the pieces of a text that
        attend to themselves.
        """
        keys = np.arange(len(self))
        rows = keys[first:, None]
        row_depth = self.depth[first:, None]
        attends = (keys <= rows) & (rows < self.end)
        if window is not None:
            attends &= row_depth - self.depth < window
        if chunk is not None:
            attends &= row_depth // chunk == self.depth // chunk
        return attends


def build_tree(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """Pack `sequences`, none of which is empty; equal ones share all their tokens."""
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    ids: list[Ids] = []  # of each sequence what it does not share with the one before
    depths: list[Ids] = []
    paths: dict[int, Ids] = {}
    end = np.zeros(sum(map(len, tokens)), dtype=np.int64)
    size = 0
    previous = path = np.zeros(0, dtype=np.int64)
    for i in _depth_first(tokens):
        sequence = tokens[i]
        common = shared_prefix(previous, sequence)
        if common == len(sequence):
            # A prefix of its predecessor has no tokens of its own, and no subtree ends here.
            paths[i] = path[:common]
            continue
        end[path[common:]] = size  # these subtrees of the last path are complete
        ids.append(sequence[common:])
        depths.append(np.arange(common, len(sequence)))
        new_size = size + len(sequence) - common
        path = np.concatenate([path[:common], np.arange(size, new_size)])
        paths[i] = path
        previous = sequence
        size = new_size
    end[path] = size
    return TokenTree(
        ids=np.concatenate(ids),
        depth=np.concatenate(depths),
        end=end[:size],
        paths=tuple(paths[i] for i in range(len(tokens))),
        trunk=len(ids[0]),  # the deepest branch comes first
    )


def packs(sequences: Sequence[Sequence[int]], budget: int, unrelated: int) -> list[list[int]]:
    """Group `sequences`, by index, so that each group is one packing and shares much.

    budget: most tokens in a packing; a family that needs more is split between its leaves, and its
    trunk read again (a longer sequence is a group of its own). unrelated: most tokens in a packing
    of sequences that share little, which only gain fewer forwards, while attention is quadratic.
    """
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    groups: list[list[int]] = []
    size = 0  # tokens of the last group
    is_forest = False  # whether some of its sequences share little
    previous = np.zeros(0, dtype=np.int64)
    for i in _sorted(tokens):
        sequence = tokens[i]
        common = shared_prefix(previous, sequence)
        added = len(sequence) - common
        is_related = 2 * common >= min(len(previous), len(sequence))
        limit = budget if is_related and not is_forest else min(budget, unrelated)
        if groups and size + added <= limit:
            groups[-1].append(i)
            size += added
            is_forest = is_forest or not is_related
        else:
            groups.append([i])
            size = len(sequence)
            is_forest = False
        previous = sequence
    return groups


def shared_prefix(a: Ids, b: Ids) -> int:
    """Length of the common prefix of two sequences."""
    shorter = min(len(a), len(b))
    differences = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(differences[0]) if len(differences) else shorter


def _sorted(tokens: Sequence[Ids]) -> list[int]:
    """Indices in lexicographic order: sequences with a common prefix are neighbours.

    A sequence that is a prefix of others comes before them.
    """
    # Non-negative numbers whose highest byte comes first have the order of their bytes.
    keys = [sequence.astype(">i8").tobytes() for sequence in tokens]
    return sorted(range(len(tokens)), key=lambda i: keys[i])


def _depth_first(tokens: Sequence[Ids]) -> list[int]:
    """Indices in the order of a depth-first walk that takes the deepest branch first at forks."""
    ordered = _sorted(tokens)
    lengths = [len(tokens[i]) for i in ordered]
    shared_with_previous = [0]
    for previous, i in pairwise(ordered):
        shared_with_previous.append(shared_prefix(tokens[previous], tokens[i]))

    walk: list[int] = []
    branches = [(0, len(ordered))]  # a stack, as recursion would be k deep for k nested prompts
    while branches:
        low, high = branches.pop()
        if high - low <= 1:
            walk += ordered[low:high]
            continue
        fork = min(shared_with_previous[low + 1 : high])  # the depth at which these part
        cuts = [i for i in range(low + 1, high) if shared_with_previous[i] == fork]
        parts = list(pairwise([low, *cuts, high]))
        parts.sort(key=lambda part: max(lengths[part[0] : part[1]]))
        branches += parts  # the deepest is taken next
    return walk
