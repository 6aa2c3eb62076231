"""Named kinds of edits: which rows of a data set are edited (paper, appendix on temporal and numerical facts).

The paper's numerical subset of CounterFact has no published rule. It cannot mean the objects: in 20,000 of its 21,919
rows none holds a digit. Ours takes every edit whose fact holds one; on CounterFact it stands in the subject ("Route 66
is in"), in 872 of those 20,000 rows. On zsRE most such facts are dates.
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
