"""A small setup for work that is done in a run's folder."""

from __future__ import annotations

from functools import cache

from drike.encoders import HashingEncoder
from drike.research import datasets
from drike.research.editors.pool import Pool
from drike.research.runs.setup import Setup

ENCODER = HashingEncoder()


@cache
def small_setup(*, train: int = 4, test: int = 3, validation: int = 0) -> Setup:
    """TinyFacts with a few edits of each part."""
    dataset = datasets.load("tinyfacts")
    split = dataset.split(seed=0, train=train, test=test, validation=validation)
    return Setup(dataset, split, Pool(split.demonstrations, ENCODER))
