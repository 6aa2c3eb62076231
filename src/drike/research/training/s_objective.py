"""Train DR-IKE-Q on S itself, from known answers, and certify what it keeps on edits to come (docs/design/method.md).

The expected reward of a probe is a sum, sum_a pi(a | edit, query) r_a, and needs neither samples nor a baseline. S is
the harmonic mean of A aspects' means m: its gradient weights a probe by S^2 / (A m^2), more the weaker its aspect is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drike.edits.edit import ASPECTS_OF_S, STABLE, Aspect, EditCase
from drike.errors import GuaranteeError, UsageError
from drike.gates.calibrated import LogisticHead
from drike.gates.decision import EQUAL, Candidate
from drike.prompts import Role
from drike.research.datasets.generated import with_generated
from drike.research.editors.query_policy import QueryPolicy, Shown, relations_of
from drike.research.editors.selectors import LeaveAlone, Selector, policy_mixes
from drike.research.evaluation.evaluate import CaseAnswers
from drike.research.evaluation.risk_control import (
    CertifiedGuarantee,
    Counts,
    Guarantee,
    calibrate,
    lower_bound,
)
from drike.support.statistics import exceeds

_FURTHER = (Aspect.ALIAS, Aspect.SAME_SUBJECT)
SHIFTS = tuple(np.arange(-8, 8.25, 0.25).tolist())  # of the logit that an edit applies
_FOLDS, _STEPS, _CERTAIN = 5, 200, 100.0  # the last is a logit beyond doubt

Masks = Mapping[Any, Tensor]  # which probes are of an aspect, [probes]


@dataclass(frozen=True)
class Expected:
    """What training expects: the mean of each aspect, their harmonic mean, and the share of the tokens."""

    means: dict[Aspect, float]
    score: float
    tokens: float


def training_cases(cases: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The cases with the further questions that a policy is trained on, generated where they have none."""
    completed = []
    for case in with_generated(cases, seed):
        further = tuple(probe for probe in case.further if probe.aspect in _FURTHER)
        questions = tuple(
            question for question in case.baseline_questions if question.aspect in _FURTHER
        )
        completed.append(replace(case, further=further, baseline_questions=questions))
    return tuple(completed)


def actions(roles: Sequence[Role]) -> tuple[Selector, ...]:
    """What a policy may do with a pool's demonstrations, as selectors: leave a query alone, or show a mix."""
    return (LeaveAlone(), *policy_mixes(roles))


def minus_s(pi: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """-S of the aspects' expected means."""
    return -len(masks) / _means(pi * right, masks).clamp_min(1e-3).reciprocal().sum()


def _means(values: Tensor, masks: Masks) -> Tensor:
    """The mean over each aspect's probes of the sum over actions, [aspects]."""
    return torch.stack([values[mask].sum(dim=1).mean() for mask in masks.values()])


def train_query_policy(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    price: float = 0.05,
) -> tuple[QueryPolicy, Expected]:
    """The policy with the largest S over all edits, and what it expects of them.

    It compares texts through the relations of these edits: while it is trained on an edit, through those of other
    edits, once of all and once of those with other relations, as it will with new edits and with new relations. Its
    threshold then moves to the largest S, less the price, of its choices, as `count_right` counts them.
    answers: under each of `actions`. price: how much S it may cost to show all demonstrations; other prompts cost less
    in proportion to their tokens. Raises UsageError if these are not the answers of the cases.
    """
    relations = {name: place for place, name in enumerate(relations_of(cases))}
    of_relations = [relations[next(iter(relations_of([case])))] for case in cases]
    candidates = [
        *_crossed(policy, cases, of_relations),
        *_crossed(policy, cases, range(len(cases))),
    ]
    cases, answers = (
        [*cases, *cases],
        [*answers, *answers],
    )  # as for new relations, and as for new edits
    right, costs = _right(policy, cases, answers), _costs(policy, answers)
    aspects = [probe.aspect for case in cases for probe in case.asked]
    masks = {
        wanted: torch.tensor([aspect is wanted for aspect in aspects])
        for wanted in Aspect
        if wanted in aspects
    }
    trained = fit(policy, candidates, right, price * costs, masks)
    chosen, probes, cost = count_right(
        trained, cases, answers, candidates, price=price, shifts=sorted(SHIFTS, key=abs)
    )
    trained = trained.shifted(calibrate(chosen, probes, cost=cost) or 0.0).with_relations(
        relations_of(cases).values()
    )
    pi = _probabilities(*_features(trained, candidates), _weights(trained))
    means = dict(zip(masks, _means(pi * right, masks).tolist(), strict=True))
    share = float((pi * costs).sum(dim=1).mean())
    keys = policy.trained_on | {edit.key for case in cases for edit in case.edits}
    return replace(trained, trained_on=keys), Expected(
        means, -float(minus_s(pi, right, masks)), share
    )


def fit(
    policy: QueryPolicy, candidates: Sequence[Candidate | None], right: Tensor, costs: Tensor, masks: Masks, *,
    strength: float = 0.003,
) -> QueryPolicy:  # fmt: skip
    """The policy with the weights of the largest S less costs [probes, actions], pulled to the given ones (L-BFGS)."""
    start = _weights(policy)
    (phi, forced), weights = _features(policy, candidates), start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        pi = _probabilities(phi, forced, weights)
        spent, pull = _means(pi * costs, masks).mean(), strength * (weights - start).square().sum()
        total = minus_s(pi, right, masks) + spent + pull
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return _with_weights(policy, weights.detach())


def count_right(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers],
    candidates: Sequence[Candidate | None] | None = None, *, price: float = 0.05, shifts: Sequence[float] = SHIFTS,
) -> tuple[dict[float, Counts], Counts, dict[float, float]]:  # fmt: skip
    """Right answers [edits, 3] at each shift of the logit, probes [edits, 3], and the cost of prompts at each."""
    candidates = candidates or [c for of_case in _candidates(policy, cases) for c in of_case]
    phi, forced = _features(policy, candidates)
    applies, *suits = _weights(policy) @ phi.T
    mixes, logits = torch.stack(suits).argmax(dim=0) + 1, applies + forced
    right, costs = _right(policy, cases, answers), _costs(policy, answers)
    # Short names count as paraphrases, same-subject questions as neighbours.
    column = [
        2 if p.aspect in STABLE else int(p.aspect is not Aspect.REWRITE)
        for case in cases
        for p in case.asked
    ]
    owner = np.repeat(np.arange(len(cases)), [len(case.asked) for case in cases])

    def of_edits(values: Tensor) -> Counts:
        sums = np.zeros((len(cases), 3))
        np.add.at(sums, (owner, np.array(column)), values.numpy())
        return sums

    def under(values: Tensor, shift: float) -> Tensor:
        return values.gather(1, torch.where(logits + shift >= 0, mixes, 0)[:, None])[:, 0]

    counts = {shift: of_edits(under(right, shift)) for shift in shifts}
    return (
        counts,
        of_edits(torch.ones(len(owner))),
        {s: price * float(under(costs, s).mean()) for s in shifts},
    )


def certify(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], guarantee: Guarantee, *,
    max_probes: int, price: float = 0.05,
) -> CertifiedGuarantee:  # fmt: skip
    """The shift of its logit with the largest S, less the price of its prompts, that meets a guarantee.

    cases: not trained on, in an order that does not depend on their answers. max_probes: the most of the guaranteed
    aspect that an edit of the data has. Raises GuaranteeError, with the best level that can be met, if none meets it.
    """
    shifts = SHIFTS if guarantee.metric == "rr" else SHIFTS[::-1]  # the safest first
    right, probes, cost = count_right(policy, cases, answers, price=price, shifts=shifts)
    best = calibrate(right, probes, guarantee=guarantee, max_probes=max_probes, cost=cost)
    column = ASPECTS_OF_S.index(guarantee.aspect)
    edits = int((probes[:, column] > 0).sum())
    if best is None:
        level = lower_bound(guarantee, right[shifts[0]], probes, max_probes=max_probes)
        problem = f"{guarantee} cannot be guaranteed with {edits} edits: best certified {level:.2f}"
        raise GuaranteeError(f"{problem}; ask for less, or hold more edits out by `calibrate_on`")
    return CertifiedGuarantee(
        guarantee, edits, best, float(right[best][:, column].sum() / probes[:, column].sum())
    )


def check_possible(guarantee: Guarantee, cases: Sequence[EditCase]) -> None:
    """Raise UsageError if these edits could not certify a guarantee even if every answer were right."""
    edits = sum(any(probe.aspect is guarantee.aspect for probe in case.probes) for case in cases)
    if not edits:
        problem = (
            f"cannot be guaranteed, as no edit held out for it has a {guarantee.aspect.value} probe"
        )
        raise UsageError(f"{guarantee} {problem}: choose another metric, or give other `data`")
    if not exceeds([1.0] * edits, guarantee.level, guarantee.confidence):
        problem = (
            f"{guarantee} cannot be guaranteed with {edits} edits, even if every answer is right"
        )
        raise UsageError(f"{problem}: ask for less, or hold more edits out by `calibrate_on`")


def _candidates(policy: QueryPolicy, cases: Sequence[EditCase]) -> list[list[Candidate | None]]:
    return [policy.candidates(case.edits, [probe.query for probe in case.asked]) for case in cases]


def _crossed(
    policy: QueryPolicy, cases: Sequence[EditCase], groups: Sequence[int]
) -> list[Candidate | None]:
    """The candidates of all probes, found through the relations of the cases of groups in other folds."""
    folds = [group % _FOLDS for group in groups]
    found: dict[int, list[Candidate | None]] = {}
    for fold in range(_FOLDS):
        others = relations_of(case for case, of in zip(cases, folds, strict=True) if of != fold)
        own = [place for place, of in enumerate(folds) if of == fold]
        found |= zip(
            own,
            _candidates(policy.with_relations(others.values()), [cases[i] for i in own]),
            strict=True,
        )
    return [candidate for place in range(len(cases)) for candidate in found[place]]


def _names(policy: QueryPolicy) -> list[str]:
    return [*policy.gate.named.weights, EQUAL]


def _features(policy: QueryPolicy, candidates: Sequence[Candidate | None]) -> tuple[Tensor, Tensor]:
    """The features of each probe with a 1 at the end [probes, d]; a logit beside the head's where that is certain."""
    features = [candidate.features if candidate else {} for candidate in candidates]
    phi = [[of_probe.get(name, 0.0) for name in _names(policy)] + [1.0] for of_probe in features]
    certain = [
        -_CERTAIN if not of_probe else _CERTAIN * (EQUAL in of_probe) for of_probe in features
    ]
    return torch.tensor(phi, dtype=torch.float64), torch.tensor(certain, dtype=torch.float64)


def _weights(policy: QueryPolicy) -> Tensor:
    """Of the gate and of each mix, with the bias at the end [1 + mixes, d]."""
    heads = [policy.gate.named, *(shown.head for shown in policy.shown)]
    rows = [
        [head.weights.get(name, 0.0) for name in _names(policy)] + [head.bias] for head in heads
    ]
    return torch.tensor(rows, dtype=torch.float64)


def _with_weights(policy: QueryPolicy, weights: Tensor) -> QueryPolicy:
    heads = [
        LogisticHead(dict(zip(_names(policy), row, strict=False)), row[-1])
        for row in weights.tolist()
    ]
    named = LogisticHead(
        {name: heads[0].weights[name] for name in policy.gate.named.weights}, heads[0].bias
    )
    return replace(
        policy,
        gate=replace(policy.gate, named=named),
        shown=tuple(map(Shown, policy.mixes, heads[1:])),
    )


def _probabilities(phi: Tensor, forced: Tensor, weights: Tensor) -> Tensor:
    """Pi over the actions [probes, actions]."""
    applies = torch.sigmoid(phi @ weights[0] + forced)[:, None]
    return torch.cat([1 - applies, applies * (phi @ weights[1:].T).softmax(dim=1)], dim=1)


def _costs(policy: QueryPolicy, answers: Sequence[CaseAnswers]) -> Tensor:
    """The tokens of each prompt as a share of the mean under the longest action [probes, actions]."""
    rows = [row for of_case in answers for row in of_case.prompt_tokens if None not in row]
    if len(rows) < sum(
        len(of_case.correct) for of_case in answers
    ):  # they are not counted, but demonstrations are
        rows = [
            (0, *(1 + mix.size for mix in policy.mixes))
            for of_case in answers
            for _ in of_case.correct
        ]
    tokens = torch.tensor(rows, dtype=torch.float64)
    return tokens / tokens.mean(dim=0).max()


def _right(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers]
) -> Tensor:
    """Right answers to all probes under each action, [probes, actions]. Raises UsageError for those of other cases."""
    right = [torch.tensor(of_case.correct, dtype=torch.float64) for of_case in answers]
    shapes = [(len(case.asked), 1 + len(policy.shown)) for case in cases]
    if not cases or [tuple(of_case.shape) for of_case in right] != shapes:
        raise UsageError(
            f"the answers of {len(answers)} edits are not those of these {len(cases)} under each action"
        )
    return torch.cat(right)
