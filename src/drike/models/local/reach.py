"""How deep texts may be, and how many tokens their tree may have, by the checks that were passed.

A check looks ahead: texts are read with others that go on from them, half as deep again, as part of
a tree that has a quarter more tokens. If these are right, so are all texts of up to that depth,
which then need no check. So nothing that leaves was read at a depth that was not checked, while
texts that grow steadily cost a check only where they are half as long again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedConfig

from drike.models.local.architecture import context_window, encoding_of
from drike.models.local.token_trees import TokenTree
from drike.models.local.tokens import Tokens

_DEPTH_PART = 2  # a check looks ahead by this part of the depth
_LEAST = 64  # and by this many tokens at least
_TREE_PART = 4  # and by this part of the tree's tokens
_LATE = 2  # tokens of a branch that leaves a text at its end


class Reach(NamedTuple):
    """Tokens of the longest text, of the longest beside the tree's trunk, and of the whole tree.

    steps: tokens that are read alone and continued, at most in one text; some models go on by one
    token in another way than by several.
    """

    depth: int = 0
    branch: int = 0
    tokens: int = 0
    steps: int = 0

    def covers(self, other: Reach) -> bool:
        """Whether texts of the other reach need no check, if this one was checked."""
        return all(mine >= others for mine, others in zip(self, other, strict=True))

    def including(self, other: Reach) -> Reach:
        """The reach of both."""
        return Reach(*map(max, self, other))


class Ahead(NamedTuple):
    """Texts that look ahead of others, to be read with them, and what is compared.

    sample: of the others, by index. texts: the first is longer than all, and takes the tree's
    trunk. compared: of the texts, by index. They leave the trunk early and late, as models that
    continue a text otherwise than they read it may do so at one of these only.
    """

    sample: tuple[int, ...]
    texts: list[Tokens]
    compared: tuple[int, ...]

    def reach_in(self, tree: TokenTree) -> Reach:
        """What is known if all that is compared is right, in a tree with these texts."""
        if not self.texts:
            return reach_of(tree)
        depth = tree.trunk - 1  # the trunk itself is not compared
        return Reach(depth, depth, len(tree))


def reach_of(tree: TokenTree) -> Reach:
    """The reach of the texts of a tree."""
    branches = [len(path) for path in tree.paths if path[-1] >= tree.trunk]
    return Reach(tree.trunk, max(branches, default=0), len(tree))


def steps_of(tree: TokenTree) -> list[int]:
    """How many tokens of each text are a run of the tree by themselves, between two others."""
    runs = tree.runs
    parents = {run.parent for run in runs}
    alone = [
        run.begin
        for number, run in enumerate(runs)
        if run.end - run.begin == 1 and run.parent >= 0 and number in parents
    ]
    return [int(np.isin(path, alone).sum()) for path in tree.paths]


def ahead(texts: Sequence[Tokens], tree: TokenTree, config: PreTrainedConfig) -> Ahead:
    """Texts that look ahead of these; none if the model can read no longer ones."""
    most = _farthest(config, tree.trunk)
    depth = most - 1  # of the branches: the trunk must be longer
    if depth <= tree.trunk + _LATE:
        return none_ahead(tree)
    known = sorted({token for text in texts for token in text})
    rng = random.Random(depth)

    def continued(text: Tokens, length: int) -> Tokens:
        return (*text, *rng.choices(known, k=length - len(text)))

    longest = _on_trunk(tree)
    deep = _beside_trunk(tree)
    if deep is None:
        deep = longest
    trunk = continued(texts[longest], most)
    added = depth - len(texts[deep])
    count = 1 + len(tree) // _TREE_PART // added
    early = [continued(texts[deep], depth) for _ in range(count)]
    fork = depth - _LATE
    others = (token for token in known if token != trunk[fork])
    another = next(others, max(0, trunk[fork] - 1))
    late = continued((*trunk[:fork], another), depth)
    sample = {_shortest(tree), deep}
    return Ahead(tuple(sample), [trunk, *early, late], (count, count + 1))


def none_ahead(tree: TokenTree) -> Ahead:
    """No further texts than those of the tree."""
    deep = _beside_trunk(tree)
    sample = {_shortest(tree), _on_trunk(tree)} | (set() if deep is None else {deep})
    return Ahead(tuple(sample), [], ())


def _shortest(tree: TokenTree) -> int:
    """The shortest text, by index."""
    return min(range(len(tree.paths)), key=lambda i: len(tree.paths[i]))


def _on_trunk(tree: TokenTree) -> int:
    """The text, by index, whose tokens are the tree's trunk."""
    return next(i for i, path in enumerate(tree.paths) if path[-1] == tree.trunk - 1)


def _beside_trunk(tree: TokenTree) -> int | None:
    """The longest text, by index, that leaves the trunk, which alone is easily right."""
    branches = [i for i, path in enumerate(tree.paths) if path[-1] >= tree.trunk]
    return max(branches, key=lambda i: len(tree.paths[i]), default=None)


def _farthest(config: PreTrainedConfig, depth: int) -> int:
    """How long a text that looks ahead of this depth is, with the same encoding of positions."""
    most = depth + max(depth // _DEPTH_PART, _LEAST)
    window = context_window(config)
    if window is not None:
        most = min(most, window)
    encoding = encoding_of(config, depth)
    while most > depth and encoding_of(config, most) != encoding:
        most -= 1
    return most
