"""Named subsets: which rows of a data set are edited (paper, appendix on temporal and numerical facts).

The paper gives no rule for its numerical subset of CounterFact. It cannot refer to objects: in 20,000 of the 21,919
rows none has a digit. Ours takes every edit whose fact has one; on CounterFact it is in the subject ("Route 66 is in")
of 872 of those 20,000 rows. On zsRE most such facts are dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from drike.edits import EditCase

Subset = Callable[[EditCase], bool]

_DIGIT = re.compile(r"\d")


def numerical(case: EditCase) -> bool:
    """Whether the edit's query or one of its objects has a digit."""
    edit = case.edit
    return any(_DIGIT.search(text) for text in (edit.query, edit.target_new, edit.target_true or ""))


SUBSETS: dict[str, Subset] = {"numerical": numerical}
