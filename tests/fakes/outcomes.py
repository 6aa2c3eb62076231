"""Outcomes of an evaluation, made up."""

from __future__ import annotations

from drike.edits.edit import Aspect
from drike.research.evaluation.metrics import Outcome


def outcome(
    case: str, shots: int, *, correct: bool = True, editor: str = "DR-IKE", query: str = "q"
) -> Outcome:
    """A rewrite probe's, with so many demonstrations."""
    return Outcome(
        editor=editor, case_id=case, aspect=Aspect.REWRITE, query=query, target="new", distractor="old",
        correct=correct, answer=None, matched=None, exact=None, prefers=None,
        prob_margin=None, logprob_margin=None, logit_gap=None,
        shots=shots, pruned=0, prompt_tokens=10 * shots, calls=1, seconds=0.1,
    )  # fmt: skip
