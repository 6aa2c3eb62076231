"""Choose DR-IKE-Q's offset on edits it was not trained on, so that a guarantee holds for edits to come.

`QueryPolicy.with_logit_offset` says what an offset favours; the larger it is, the more neighbours keep their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from drike.editors.query_policy import QueryPolicy
from drike.edits import ASPECTS_OF_S, EditCase
from drike.errors import GuaranteeError, UsageError
from drike.evaluation import risk_control
from drike.evaluation.answer_matrix import CaseAnswers

_STEPS = tuple(2 ** (i / 2) for i in range(13))  # 1, 1.4, 2, ... 64
OFFSETS = (*(-step for step in reversed(_STEPS)), 0.0, *_STEPS, *(64 + step for step in _STEPS))  # retains last


def certify(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    guarantee: risk_control.Guarantee,
    *,
    max_probes: int,
    price: float = 0.05,
) -> risk_control.CertifiedGuarantee:
    """The offset with the largest S, less the price of its demonstrations as in training, that meets a guarantee.

    cases: edits that the policy was not trained on, in an order that does not depend on their answers. answers: under
    each of the policy's mixes. max_probes: the most probes of the guaranteed aspect that an edit of the data has.
    Raises GuaranteeError, with the best level that can be guaranteed, if no offset is certified to meet it.
    """
    offsets = OFFSETS[::-1] if guarantee.metric == "rr" else OFFSETS
    right, probes, shots = count_right(policy, cases, answers, offsets)
    largest = max(mix.size for mix in policy.mixes) or 1
    cost = {offset: price * count / largest for offset, count in shots.items()}
    best = risk_control.calibrate(right, probes, guarantee=guarantee, max_probes=max_probes, cost=cost)
    column, confidence = risk_control.METRICS.index(guarantee.metric), guarantee.confidence
    edits = int((probes[:, column] > 0).sum())
    if best is None:
        safest = right[offsets[0]]
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


def count_right(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], offsets: Sequence[float] = OFFSETS
) -> tuple[dict[float, risk_control.Counts], risk_control.Counts, dict[float, float]]:
    """Right answers [edits, 3] at each offset, probes [edits, 3], and mean demonstrations per prompt at each offset."""
    aspects = [
        np.array([[probe.aspect is aspect for aspect in ASPECTS_OF_S] for probe in case.probes], dtype=float)
        for case in cases
    ]
    features = [policy.features(case.edit, [probe.query for probe in case.probes]) for case in cases]
    right, shots = {}, {}
    for offset in offsets:
        shifted = policy.with_logit_offset(offset)
        chosen = [shifted.log_probs(phi).argmax(dim=1).tolist() for phi in features]
        correct = [
            np.array([row[mix] for row, mix in zip(of_case.correct, mixes, strict=True)])
            for of_case, mixes in zip(answers, chosen, strict=True)
        ]
        right[offset] = np.array([of_case @ masks for of_case, masks in zip(correct, aspects, strict=True)])
        shots[offset] = float(np.mean([policy.mixes[mix].size for mixes in chosen for mix in mixes]))
    return right, np.array([masks.sum(axis=0) for masks in aspects]), shots
