"""Named kinds of edits: which rows of a data set a measurement is about (paper, appendix "Temporal and Numerical Facts").

The paper's numerical subset of CounterFact has no published rule. None of CounterFact's objects is a number, so it
cannot mean the objects; ours takes every edit whose fact holds a digit, which on CounterFact stands in the subject
("Peugeot 107, produced by"): 4 % of its rows. On zsRE most such facts are dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from drike.edits import EditCase

Subset = Callable[[EditCase], bool]

_DIGIT = re.compile(r"\d")


def numerical(case: EditCase) -> bool:
    """Whether a digit stands in the edit's query or in one of its objects."""
    edit = case.edit
    return any(_DIGIT.search(text) for text in (edit.query, edit.target_new, edit.target_true or ""))


SUBSETS: dict[str, Subset] = {"numerical": numerical}
