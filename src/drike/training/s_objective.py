"""Train DR-IKE-Q on S itself: a policy over mixes of demonstrations, from known answers (docs/method.md).

With the answers under every mix at hand, the expected reward of a probe is a sum, sum_a pi(a | edit, query) r_a, and
needs neither samples nor a baseline. S is the harmonic mean of the aspects' means m, so its gradient weights a probe
of an aspect by S^2 / (A m^2) for A aspects: the weaker an aspect, the more its probes count.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drike.editors.query_policy import QueryPolicy
from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.evaluation.answer_matrix import CaseAnswers

Masks = Mapping[Aspect, Tensor]  # which probes are of an aspect, [probes]
Loss = Callable[[Tensor, Tensor, Masks], Tensor]  # of logits and right answers [probes, mixes]


@dataclass(frozen=True)
class TrainingStep:
    """A step of training: the expected mean of each aspect, their harmonic mean, and the expected demonstrations."""

    number: int
    means: dict[Aspect, float]
    score: float
    shots: float


def minus_s(logits: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """-S of the aspects' expected means under pi = softmax(logits)."""
    expected = (logits.softmax(dim=1) * right).sum(dim=1)
    return -_harmonic([expected[mask].mean() for mask in masks.values()])


def train_query_policy(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    loss: Loss = minus_s,
    steps: int = 200,
    learning_rate: float = 0.05,
    decay: float = 1e-3,
    price: float = 0.05,
) -> Generator[TrainingStep]:
    """Minimise a loss with Adam, all edits in each step; the policy's head learns in place.

    cases: the training edits; their probes are the training signal. An aspect that no case has counts for nothing.
    answers: to them, under each of the policy's mixes. decay: weight of the squared head, for features scaled to unit
    variance. price: how much S a prompt with all demonstrations may cost; larger prices choose shorter prompts.

    Raises UsageError if there are no cases, or if the answers are not those of the cases and mixes.
    """
    right, masks = _training_data(policy, cases, answers)
    sizes = torch.tensor([float(mix.size) for mix in policy.mixes])
    phi = torch.cat([policy.features(case.edit, [probe.query for probe in case.probes]) for case in cases])
    mean, scale = phi.mean(dim=0), phi.std(dim=0).clamp_min(1e-6)
    phi = (phi - mean) / scale
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    head = policy.head
    adam = torch.optim.Adam(head.parameters(), lr=learning_rate)
    for number in range(1, steps + 1):
        logits = head(phi)
        pi = logits.softmax(dim=1)
        expected, shots = (pi * right).sum(dim=1), pi @ sizes
        cost = torch.stack([shots[mask].mean() for mask in masks.values()]).mean() / sizes.max().clamp_min(1)
        total = loss(logits, right, masks) + price * cost + decay * head.weight.square().sum()
        adam.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        adam.step()
        means = {aspect: expected[mask].mean().detach() for aspect, mask in masks.items()}
        score = _harmonic(list(means.values())).item()
        yield TrainingStep(number, {aspect: m.item() for aspect, m in means.items()}, score, shots.mean().item())
    with torch.no_grad():  # the head reads features as they are
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ mean)


def _training_data(
    policy: QueryPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers]
) -> tuple[Tensor, Masks]:
    """Right answers of all probes under each mix, [probes, mixes], and which probes are of each aspect."""
    right = [torch.tensor(of_case.correct, dtype=torch.float32) for of_case in answers]
    shapes = [(len(case.probes), len(policy.mixes)) for case in cases]
    if not cases or [tuple(of_case.shape) for of_case in right] != shapes:
        raise UsageError(f"the answers of {len(answers)} edits are not those of these {len(cases)} under each mix")
    aspects = [probe.aspect for case in cases for probe in case.probes]
    masks = {wanted: torch.tensor([aspect is wanted for aspect in aspects]) for wanted in Aspect if wanted in aspects}
    return torch.cat(right), masks


def _harmonic(means: Sequence[Tensor]) -> Tensor:
    return len(means) / torch.stack([m.clamp_min(1e-3).reciprocal() for m in means]).sum()
