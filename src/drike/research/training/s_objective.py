"""Train DR-IKE-Q on S itself, from known answers, and certify what it keeps on edits to come.

The expected reward of a probe is a sum over actions a, sum_a pi(a | edit, query) r_a, and needs
neither samples nor a baseline. S is the harmonic mean of the means m of A aspects: its gradient
weights the probes of an aspect by S^2 / (A m^2), more the weaker the aspect is
(docs/design/method.md).

Tensors are over all probes of all cases, in the order of the cases and of their `asked`, and over
actions: the first leaves the query alone, and each other one shows a mix of the policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drike.edits.edit import ASPECTS_OF_S, STABLE, Aspect, EditCase
from drike.errors import GuaranteeError, UsageError
from drike.gates.decision import Candidate
from drike.prompts import Role
from drike.research.datasets.generated import with_generated
from drike.research.editors.query_policy import QueryPolicy, relations_of
from drike.research.editors.selectors import LeaveAlone, Selector, policy_mixes
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.evaluation.risk_control import (
    CertifiedGuarantee,
    Counts,
    Guarantee,
    calibrate,
    lower_bound,
)
from drike.research.training.policy_tensors import (
    inputs_of,
    probabilities,
    weights_of,
    with_weights,
)
from drike.support.statistics import exceeds

SHIFTS = tuple(np.arange(-8, 8.25, 0.25).tolist())  # of the logit that an edit applies

_FURTHER_ASPECTS = (Aspect.ALIAS, Aspect.SAME_SUBJECT)  # that a policy is trained on
_FOLDS = 5
_STEPS = 200  # of L-BFGS at most

Masks = Mapping[Any, Tensor]  # for each aspect which probes are of it [probes]


@dataclass(frozen=True)
class Expected:
    """What training expects of the trained policy.

    means: the share of right answers by aspect. score: their harmonic mean. tokens: those of its
    prompts, as a share of those of the longest action.
    """

    means: dict[Aspect, float]
    score: float
    tokens: float


@dataclass(frozen=True)
class ShiftCounts:
    """What a policy's choices give at each shift of the logit that an edit applies.

    right: right answers by shift [edits, 3]; probes: how many were asked [edits, 3]; the columns
    are those of ESR, PC and RR. costs: the price of the prompts by shift.
    """

    right: dict[float, Counts]
    probes: Counts
    costs: dict[float, float]


def training_cases(cases: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The cases with the further questions that a policy is trained on.

    They are generated where a case has none; further questions of other aspects are left out.
    """
    completed = []
    for case in with_generated(cases, seed):
        probes = [probe for probe in case.further if probe.aspect in _FURTHER_ASPECTS]
        questions = [
            question for question in case.baseline_questions if question.aspect in _FURTHER_ASPECTS
        ]
        completed.append(replace(case, further=tuple(probes), baseline_questions=tuple(questions)))
    return tuple(completed)


def actions(roles: Sequence[Role]) -> tuple[Selector, ...]:
    """What a policy may do with a pool's demonstrations: leave a query alone, or show a mix."""
    return (LeaveAlone(), *policy_mixes(roles))


def train_query_policy(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    price: float = 0.05,
) -> tuple[QueryPolicy, Expected]:
    """The policy with the largest S over all edits, and what it expects of them.

    It compares texts through the relations of these edits. While it is trained on an edit, it
    compares through those of other edits: once of all others, as it will with new edits, and once
    of those with other relations, as it will with new relations. Its threshold then moves to where
    S, less the price, of its choices is largest.

    answers: under each of `actions`. price: how much S it may cost to show all demonstrations;
    other prompts cost less in proportion to their tokens. Raises UsageError if these are not the
    answers of the cases.
    """
    # Every edit counts twice: as one with a new relation, and as a new one.
    candidates = [
        *_candidates_by_others(policy, cases, groups=_relation_numbers(cases)),
        *_candidates_by_others(policy, cases, groups=range(len(cases))),
    ]
    cases_twice = [*cases, *cases]
    answers_twice = [*answers, *answers]
    right = _right(policy, cases_twice, answers_twice)
    costs = _costs(policy, answers_twice)
    masks = _masks(cases_twice)

    # The largest expected S first, then the largest S of the choices.
    trained = fit(policy, candidates, right, price * costs, masks)
    nearest_shifts_first = sorted(SHIFTS, key=abs)
    counts = count_right(
        trained, cases_twice, answers_twice, candidates, price=price, shifts=nearest_shifts_first
    )
    shift = calibrate(counts.right, counts.probes, cost=counts.costs) or 0.0
    trained = trained.shifted(shift).with_relations(relations_of(cases).values())

    pi = probabilities(inputs_of(trained, candidates), weights_of(trained))
    means = _means(pi * right, masks).tolist()
    expected = Expected(
        means=dict(zip(masks, means, strict=True)),
        score=-float(minus_s(pi, right, masks)),
        tokens=float((pi * costs).sum(dim=1).mean()),
    )
    keys = {edit.key for case in cases for edit in case.edits}
    return replace(trained, trained_on=policy.trained_on | keys), expected


def minus_s(pi: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """-S of the aspects' expected means; pi, right: [probes, actions]."""
    means = _means(pi * right, masks).clamp_min(1e-3)
    return -len(masks) / means.reciprocal().sum()


def _means(values: Tensor, masks: Masks) -> Tensor:
    """The mean over each aspect's probes [aspects] of the sum over actions."""
    return torch.stack([values[mask].sum(dim=1).mean() for mask in masks.values()])


def fit(
    policy: QueryPolicy,
    candidates: Sequence[Candidate | None],
    right: Tensor,
    costs: Tensor,
    masks: Masks,
    *,
    strength: float = 0.003,
) -> QueryPolicy:
    """The policy with the weights of the largest S less costs, found by L-BFGS.

    candidates: of each probe. right, costs: [probes, actions]. strength: of the pull towards the
    weights that the policy has.
    """
    inputs = inputs_of(policy, candidates)
    start = weights_of(policy)
    weights = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        pi = probabilities(inputs, weights)
        spent = _means(pi * costs, masks).mean()
        pull = strength * (weights - start).square().sum()
        loss = minus_s(pi, right, masks) + spent + pull
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return with_weights(policy, weights.detach())


def count_right(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    candidates: Sequence[Candidate | None] | None = None,
    *,
    price: float = 0.05,
    shifts: Sequence[float] = SHIFTS,
) -> ShiftCounts:
    """What the policy's choices give at each of the shifts, in their order.

    candidates: of each probe; None finds them. Short names count as paraphrases, and questions
    about the same subject as neighbours.
    """
    if not candidates:
        candidates = [found for case in cases for found in _candidates(policy, case)]
    inputs = inputs_of(policy, candidates)
    right = _right(policy, cases, answers)
    costs = _costs(policy, answers)

    logits = weights_of(policy) @ inputs.phi.T  # [1 + mixes, probes]
    applies = logits[0] + inputs.certain
    best_mix = logits[1:].argmax(dim=0) + 1

    edit_of_probe = np.repeat(np.arange(len(cases)), [len(case.asked) for case in cases])
    column_of_probe = np.array([_column(probe.aspect) for case in cases for probe in case.asked])

    def sums_by_edit(values: Tensor) -> Counts:
        sums = np.zeros((len(cases), 3))
        np.add.at(sums, (edit_of_probe, column_of_probe), values.numpy())
        return sums

    right_by_shift = {}
    cost_by_shift = {}
    for shift in shifts:
        action = torch.where(applies + shift >= 0, best_mix, 0)
        right_by_shift[shift] = sums_by_edit(_under(action, right))
        cost_by_shift[shift] = price * float(_under(action, costs).mean())
    return ShiftCounts(
        right_by_shift, probes=sums_by_edit(torch.ones(len(edit_of_probe))), costs=cost_by_shift
    )


def _column(aspect: Aspect) -> int:
    """Of `Counts`: the place of the metric among ESR, PC and RR that a probe counts for."""
    if aspect is Aspect.REWRITE:
        return 0
    return 2 if aspect in STABLE else 1


def _under(action: Tensor, values: Tensor) -> Tensor:
    """The values [probes, actions] of the action that each probe gets, [probes]."""
    return values.gather(1, action[:, None])[:, 0]


def certify(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    guarantee: Guarantee,
    *,
    max_probes: int,
    price: float = 0.05,
) -> CertifiedGuarantee:
    """The shift of its logit with the largest S, less the price of prompts, that meets a guarantee.

    cases: not trained on, in an order that does not depend on their answers. max_probes: the most
    probes of the guaranteed aspect that an edit of the data has. Raises GuaranteeError, with the
    best level that can be met, if no shift meets it.
    """
    # The tests go from the safest shift on: for RR it is the one that applies edits least.
    shifts = SHIFTS if guarantee.metric == "rr" else SHIFTS[::-1]
    counts = count_right(policy, cases, answers, price=price, shifts=shifts)
    best_shift = calibrate(
        counts.right, counts.probes, guarantee=guarantee, max_probes=max_probes, cost=counts.costs
    )

    column = ASPECTS_OF_S.index(guarantee.aspect)
    probes = counts.probes[:, column]
    edits = int((probes > 0).sum())
    if best_shift is None:
        safest = counts.right[shifts[0]]
        level = lower_bound(guarantee, safest, counts.probes, max_probes=max_probes)
        raise GuaranteeError(
            f"{guarantee} cannot be guaranteed with {edits} edits: best certified {level:.2f}; "
            "ask for less, or hold more edits out by `calibrate_on`"
        )
    right = counts.right[best_shift][:, column]
    measured = float(right.sum() / probes.sum())
    return CertifiedGuarantee(guarantee, edits, best_shift, measured)


def check_possible(guarantee: Guarantee, cases: Sequence[EditCase]) -> None:
    """Raises UsageError if these edits cannot certify a guarantee even if every answer is right."""
    edits = sum(any(probe.aspect is guarantee.aspect for probe in case.probes) for case in cases)
    if edits == 0:
        raise UsageError(
            f"{guarantee} cannot be guaranteed, as no edit held out for it has "
            f"a {guarantee.aspect.value} probe: choose another metric, or give other `data`"
        )
    all_right = [1.0] * edits
    if not exceeds(all_right, guarantee.level, guarantee.confidence):
        raise UsageError(
            f"{guarantee} cannot be guaranteed with {edits} edits, even if every answer is right: "
            "ask for less, or hold more edits out by `calibrate_on`"
        )


def _candidates(policy: QueryPolicy, case: EditCase) -> list[Candidate | None]:
    """The candidate of each probe of a case."""
    return policy.candidates(case.edits, [probe.query for probe in case.asked])


def _candidates_by_others(
    policy: QueryPolicy, cases: Sequence[EditCase], groups: Sequence[int]
) -> list[Candidate | None]:
    """The candidates of all probes, found through relations of cases of other groups only.

    groups: a number for each case. They are dealt into folds, and the cases of a fold are compared
    through the relations of all other folds.
    """
    folds = [group % _FOLDS for group in groups]
    policies = []
    for fold in range(_FOLDS):
        others = [case for case, its_fold in zip(cases, folds, strict=True) if its_fold != fold]
        policies.append(policy.with_relations(relations_of(others).values()))

    candidates = []
    for case, fold in zip(cases, folds, strict=True):
        candidates += _candidates(policies[fold], case)
    return candidates


def _relation_numbers(cases: Sequence[EditCase]) -> list[int]:
    """A number for the relation of each case."""
    number_by_name = {name: number for number, name in enumerate(relations_of(cases))}
    names = [name for case in cases for name in relations_of([case])]
    return [number_by_name[name] for name in names]


def _masks(cases: Sequence[EditCase]) -> dict[Aspect, Tensor]:
    """For each aspect that has probes which of all probes are of it [probes]."""
    aspects = [probe.aspect for case in cases for probe in case.asked]
    return {
        aspect: torch.tensor([aspect_of_probe is aspect for aspect_of_probe in aspects])
        for aspect in Aspect
        if aspect in aspects
    }


def _right(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers]
) -> Tensor:
    """Whether the answer to each probe is right under each action, 1 or 0 [probes, actions].

    Raises UsageError if they are the answers of other cases.
    """
    tables = [torch.tensor(of_case.correct, dtype=torch.float64) for of_case in answers]
    shapes = [tuple(table.shape) for table in tables]
    expected_shapes = [(len(case.asked), 1 + len(policy.shown)) for case in cases]
    if not cases or shapes != expected_shapes:
        raise UsageError(
            f"the answers of {len(answers)} edits are not those of these {len(cases)} "
            "under each action"
        )
    return torch.cat(tables)


def _costs(policy: QueryPolicy, answers: Sequence[CaseAnswers]) -> Tensor:
    """The tokens of each prompt as a share of the mean of the longest action [probes, actions].

    Where a model does not count tokens, the demonstrations and the query are counted instead.
    """
    probes = sum(len(of_case.correct) for of_case in answers)
    rows = [row for of_case in answers for row in of_case.prompt_tokens if None not in row]
    if len(rows) < probes:
        sizes = (0, *(1 + mix.size for mix in policy.mixes))
        rows = [sizes] * probes
    tokens = torch.tensor(rows, dtype=torch.float64)
    return tokens / tokens.mean(dim=0).max()
