"""Choose DR-IKE-Q's shift on edits it was not trained on, so that a guarantee holds for edits to come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drike.edits import EditCase
from drike.errors import GuaranteeError, UsageError
from drike.evaluation import risk_control
from drike.evaluation.answer_matrix import CaseAnswers
from drike.gates.policy import QueryPolicy
from drike.training.s_objective import SHIFTS, count_right


def certify(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    guarantee: risk_control.Guarantee,
    *,
    max_probes: int,
    price: float = 0.05,
) -> risk_control.CertifiedGuarantee:
    """The shift of its logit with the largest S, less the price of its prompts as in training, that meets a guarantee.

    cases: edits that the policy was not trained on, in an order that does not depend on their answers. answers: under
    each of its `actions`. max_probes: the most probes of the guaranteed aspect that an edit of the data has. Raises
    GuaranteeError, with the best level that can be guaranteed, if no shift is certified to meet it.
    """
    shifts = SHIFTS if guarantee.metric == "rr" else SHIFTS[::-1]  # the safest first
    right, probes, cost = count_right(policy, cases, answers, price=price, shifts=shifts)
    best = risk_control.calibrate(right, probes, guarantee=guarantee, max_probes=max_probes, cost=cost)
    column, confidence = risk_control.METRICS.index(guarantee.metric), guarantee.confidence
    edits = int((probes[:, column] > 0).sum())
    if best is None:
        safest = right[shifts[0]]
        level = risk_control.lower_bound(guarantee.metric, safest, probes, confidence=confidence, max_probes=max_probes)
        raise GuaranteeError(
            f"{guarantee} cannot be guaranteed with {edits} edits: best certified {level:.2f}; ask for less, or hold "
            "more edits out by `calibrate_on`"
        )
    return risk_control.CertifiedGuarantee(
        guarantee, edits, best, float(right[best][:, column].sum() / probes[:, column].sum())
    )


def check_possible(guarantee: risk_control.Guarantee, cases: Sequence[EditCase]) -> None:
    """Raise UsageError if these edits could not certify a guarantee even if every answer were right."""
    edits = sum(any(probe.aspect is guarantee.aspect for probe in case.probes) for case in cases)
    if not edits:
        raise UsageError(
            f"{guarantee} cannot be guaranteed, as no edit held out for it has a {guarantee.aspect.value} probe: "
            "choose another metric, or give other `data`"
        )
    if not risk_control.exceeds([1.0] * edits, guarantee.level, guarantee.confidence):
        raise UsageError(
            f"{guarantee} cannot be guaranteed with {edits} edits, even if every answer is right: ask for less, or "
            "hold more edits out by `calibrate_on`"
        )


def most_probes(guarantee: risk_control.Guarantee, cases: Iterable[EditCase]) -> int:
    """The most probes of the guaranteed aspect that an edit has."""
    return max(sum(probe.aspect is guarantee.aspect for probe in case.probes) for case in cases)
