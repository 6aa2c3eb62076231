"""Facts on the command line: "QUERY -> OBJECT"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drike.edits import Edit, EditCase
from drike.errors import UsageError
from drike.words import mentions

_ARROW = "->"
_ARROWS = re.compile("\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}|=>")


def parse_fact(text: str, cases: Sequence[EditCase]) -> Edit:
    """An edit from "QUERY -> OBJECT", with subject and relation of the cases that have the query. Raises UsageError."""
    parts = [part.strip() for part in _ARROWS.sub(_ARROW, text).split(_ARROW)]
    if len(parts) != 2 or not all(any(map(str.isalnum, part)) for part in parts):
        raise UsageError(
            f'{text!r} is not a fact: write --fact "QUERY -> OBJECT", such as "The capital of Peru is -> Oslo"'
        )
    query, target = parts
    target = target.rstrip(".") if target.count(".") == 1 else target
    known = next((case.edit for case in cases if query in {probe.query for probe in case.probes[:3]}), None)
    if known is not None and known.subject is not None and mentions(query, known.subject):
        return Edit(query, target, known.target_true, known.subject, known.relation)
    subjects = {case.edit.subject for case in cases if case.edit.subject and mentions(query, case.edit.subject)}
    return Edit(query, target, subject=max(subjects, key=len, default=None))
