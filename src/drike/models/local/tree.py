"""Prefix trees over token ids, or forests of them, packed so that one forward reads every distinct token once.

Tokens are laid out depth first, the branch that reaches deepest before its siblings, so that the subtree of token k is
the range k .. end[k] - 1: token q attends to token k iff k <= q < end[k]. A token's depth is its position in every
sequence that it belongs to; windows and chunks of attention are measured in depth, never in packed indices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Packed token sequences.

    ids, depth, end: [N] int64; token id, position in its sequences, one past the last token of its subtree. paths: the
    packed indices of each sequence's tokens. trunk: length of the longest path, which comes first and is causal.
    """

    ids: Ids
    depth: Ids
    end: Ids
    paths: tuple[Ids, ...]
    trunk: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """The runs (branches without forks), depth first: packed begin and end, and which run it continues, or -1."""
        continues = np.append(self.end[1:] == self.end[:-1], False)
        ends = (np.flatnonzero(~continues) + 1).tolist()
        runs: list[tuple[int, int, int]] = []
        open_runs: list[int] = []
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            while open_runs and self.end[runs[open_runs[-1]][0]] <= begin:
                open_runs.pop()
            runs.append((begin, end, open_runs[-1] if open_runs else -1))
            open_runs.append(len(runs) - 1)
        return runs

    def mask(self, *, window: int | None = None, chunk: int | None = None, first: int = 0) -> NDArray[np.bool_]:
        """Where rows from `first` on attend [N - first, N]: to `window` tokens with their own, within a `chunk`."""
        index = np.arange(len(self))
        rows, depth = index[first:, None], self.depth[first:, None]
        seen = (index <= rows) & (rows < self.end)
        if window is not None:
            seen &= depth - self.depth < window
        if chunk is not None:
            seen &= depth // chunk == self.depth // chunk
        return seen


def build_tree(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """Pack `sequences`; equal ones share all their tokens. Raises ValueError for an empty sequence."""
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    if not all(map(len, tokens)):
        raise ValueError("a tree cannot contain an empty sequence")
    runs: list[Ids] = []
    paths: dict[int, Ids] = {}
    end = np.zeros(sum(map(len, tokens)), dtype=np.int64)
    size = 0
    path = previous = np.zeros(0, dtype=np.int64)
    for i in _depth_first(tokens):
        sequence = tokens[i]
        common = shared_prefix(previous, sequence)
        if common == len(sequence):  # a prefix of its predecessor: no new tokens, and no subtree ends here
            paths[i] = path[:common]
            continue
        end[path[common:]] = size  # these subtrees of the last path are complete
        runs.append(sequence[common:])
        path = np.concatenate([path[:common], np.arange(size, size + len(sequence) - common)])
        size, previous, paths[i] = size + len(sequence) - common, sequence, path
    end[path] = size
    depth = np.zeros(size, dtype=np.int64)
    for path in paths.values():
        depth[path] = np.arange(len(path))
    trunk = max(map(len, tokens))  # as the deepest branch comes first
    return TokenTree(np.concatenate(runs), depth, end[:size], tuple(paths[i] for i in range(len(tokens))), trunk)


def packs(sequences: Sequence[Sequence[int]], budget: int, unrelated: int) -> list[list[int]]:
    """Group `sequences`, by index, so that each group is one packing and shares as much as possible.

    budget: most tokens in a packing; a family that needs more is split between its leaves, and its trunk read again (a
    longer sequence is a group of its own). unrelated: most tokens in a packing of sequences that share little, which
    only gain fewer forwards, while attention is quadratic.
    """
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    groups: list[list[int]] = []
    size, forest = 0, False
    previous = np.zeros(0, dtype=np.int64)
    for i in _sorted(tokens):
        common = shared_prefix(previous, tokens[i])
        kin = 2 * common >= min(len(previous), len(tokens[i]))
        limit = budget if kin and not forest else min(budget, unrelated)
        if groups and size + len(tokens[i]) - common <= limit:
            groups[-1].append(i)
            size += len(tokens[i]) - common
            forest = forest or not kin
        else:
            groups.append([i])
            size, forest = len(tokens[i]), False
        previous = tokens[i]
    return groups


def shared_prefix(a: Ids, b: Ids) -> int:
    """Length of the common prefix of two sequences."""
    short = min(len(a), len(b))
    differ = np.flatnonzero(a[:short] != b[:short])
    return int(differ[0]) if len(differ) else short


def _sorted(tokens: Sequence[Ids]) -> list[int]:
    """Indices in lexicographic order: sequences with a common prefix are neighbours, the shortest first."""
    return sorted(range(len(tokens)), key=lambda i: tokens[i].astype(">i8").tobytes())


def _depth_first(tokens: Sequence[Ids]) -> list[int]:
    """Indices in the order of a depth-first walk that takes the deepest branch first at every fork."""
    ordered = _sorted(tokens)
    lengths = [len(tokens[i]) for i in ordered]
    shared = [0] + [shared_prefix(tokens[a], tokens[b]) for a, b in pairwise(ordered)]
    result: list[int] = []
    # A stack instead of recursion: k nested prompts are k forks deep.
    stack = [(0, len(ordered))]
    while stack:
        low, high = stack.pop()
        if high - low <= 1:
            result += ordered[low:high]
            continue
        fork = min(shared[low + 1 : high])
        cuts = [low, *(i for i in range(low + 1, high) if shared[i] == fork), high]
        stack += sorted(pairwise(cuts), key=lambda branch: max(lengths[branch[0] : branch[1]]))
    return result
