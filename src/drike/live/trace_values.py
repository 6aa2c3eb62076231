"""What traces say of a decision and its edits: ids, versions and probabilities, never a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from drike.edits.record import EditVersion
from drike.gates.decision import Decision

TraceValue = str | bool | int | float | Sequence[str] | Sequence[float]
TraceValues = Mapping[str, TraceValue]

DECISION = "drike.decide"  # the name of a span
_MODEL = re.compile(r"[\w./:@+,=-]{1,100}")  # names of models; other texts may be a user's


def edit_name(edit: EditVersion) -> str:
    """An edit as the header x-drike-edits names it."""
    return f"{edit.id}@{edit.version}"


def model_in(model: object) -> str | None:
    """The name of a model in a request; None for any other text."""
    if isinstance(model, str) and _MODEL.fullmatch(model):
        return model
    return None


def decision_values(decision: Decision | None, edits: Sequence[EditVersion]) -> TraceValues:
    """The edits that a request gets, and the candidates of its last turn.

    The names and the probabilities of candidates stand in the same order.
    """
    values: dict[str, TraceValue] = {"drike.edits": [edit_name(edit) for edit in edits]}
    if decision is not None:
        candidates = decision.candidates
        values["drike.candidates"] = [edit_name(candidate.edit) for candidate in candidates]
        values["drike.candidates.probability"] = [candidate.probability for candidate in candidates]
        values["drike.candidates.uncertain"] = [
            edit_name(candidate.edit) for candidate in decision.uncertain
        ]
    return values
