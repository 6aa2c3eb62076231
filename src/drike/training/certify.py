"""Choose how far a policy per query leans to retains, on edits it was not trained on, so that a promise is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from drike.editors.query_policy import QueryPolicy
from drike.edits import ASPECTS_OF_S, EditCase
from drike.errors import GuaranteeError, UsageError
from drike.evaluation.answer_matrix import CaseAnswers
from drike.evaluation.risk_control import (
    METRICS,
    CertifiedGuarantee,
    Counts,
    Guarantee,
    calibrate,
    exceeds,
    lower_bound,
)

_STEPS = tuple(2 ** (i / 2) for i in range(13))  # 1, 1.4, 2, ... 64
OFFSETS = (*(-step for step in reversed(_STEPS)), 0.0, *_STEPS, *(64 + step for step in _STEPS))  # retains last


def promised(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    promise: Guarantee,
    *,
    most: int,
    price: float = 0.05,
) -> CertifiedGuarantee:
    """The offset with the largest S, less the price of its demonstrations as in training, that keeps a promise.

    Args:
        cases: edits that the policy was not trained on, in an order that does not depend on their answers.
        answers: under each of the policy's mixes, in the order of the cases.
        most: the most probes of the promised aspect that an edit of the data has.

    Raises GuaranteeError, with the best level that can be promised, if no offset is shown to keep it.
    """
    offsets = OFFSETS[::-1] if promise.metric == "rr" else OFFSETS
    right, probes, shots = answered_at(policy, cases, answers, offsets)
    sizes = max(mix.size for mix in policy.mixes) or 1
    found = calibrate(
        right,
        probes,
        guarantee=promise,
        max_probes=most,
        cost={one: price * count / sizes for one, count in shots.items()},
    )
    column = METRICS.index(promise.metric)
    edits = int((probes[:, column] > 0).sum())
    if found is None:
        reached = lower_bound(promise.metric, right[offsets[0]], probes, confidence=promise.confidence, max_probes=most)
        raise GuaranteeError(
            f"{promise} cannot be promised with {edits} edits: best certified {reached:.2f}; promise less, or hold "
            "more edits out by --calibrate-on"
        )
    return CertifiedGuarantee(promise, edits, found, float(right[found][:, column].sum() / probes[:, column].sum()))


def check_possible(promise: Guarantee, cases: Sequence[EditCase]) -> None:
    """Raise UsageError if these edits could not certify a promise even if every answer were right."""
    edits = sum(any(probe.aspect is promise.aspect for probe in case.probes) for case in cases)
    if not edits:
        raise UsageError(
            f"{promise} cannot be promised, as no edit held out for it has a {promise.aspect.value} probe: promise "
            "another metric, or give other --data"
        )
    if not exceeds([1.0] * edits, promise.level, promise.confidence):
        raise UsageError(
            f"{promise} cannot be promised with {edits} edits, even if every answer is right: promise less, or hold "
            "more edits out by --calibrate-on"
        )


def most_probes(promise: Guarantee, cases: Iterable[EditCase]) -> int:
    """The most probes of the promised aspect that an edit has."""
    return max(sum(probe.aspect is promise.aspect for probe in case.probes) for case in cases)


def answered_at(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], offsets: Sequence[float] = OFFSETS
) -> tuple[dict[float, Counts], Counts, dict[float, float]]:
    """Right answers [edits, 3] at each offset, probes [edits, 3], and mean demonstrations per prompt at each offset."""
    aspects = [
        np.array([[p.aspect is one for one in ASPECTS_OF_S] for p in case.probes], dtype=float) for case in cases
    ]
    features = [policy.features(case.edit, [probe.query for probe in case.probes]) for case in cases]
    right, shots = {}, {}
    for offset in offsets:
        with_logit_offset = policy.with_logit_offset(offset)
        chosen = [with_logit_offset.log_probs(phi).argmax(dim=1).tolist() for phi in features]
        found = [
            [row[i] for row, i in zip(one.correct, mixes, strict=True)]
            for one, mixes in zip(answers, chosen, strict=True)
        ]
        right[offset] = np.array([np.array(one) @ aspect for one, aspect in zip(found, aspects, strict=True)])
        shots[offset] = float(np.mean([policy.mixes[i].size for mixes in chosen for i in mixes]))
    return right, np.array([aspect.sum(axis=0) for aspect in aspects]), shots
