"""Train a policy over mixes from known answers: on S itself, or on which mixes are right.

With the answers under every mix at hand, the expected reward of a probe is a sum, sum_a pi(a | edit, query) r_a, and
needs neither samples nor a baseline. S is the harmonic mean of the aspects' means m, so its gradient weights a probe
of an aspect by S^2 / (A m^2) for A aspects: the weaker an aspect, the more its probes count.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from drike.editors.query_policy import QueryPolicy
from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.evaluation.answer_matrix import CaseAnswers

Masks = Mapping[Aspect, Tensor]  # which probes are of an aspect, [probes]
Loss = Callable[[Tensor, Tensor, Masks], Tensor]  # of logits and right answers [probes, mixes]


@dataclass(frozen=True)
class Step:
    """A step of training: the expected mean of each aspect, their harmonic mean, and the expected demonstrations."""

    number: int
    means: dict[Aspect, float]
    score: float
    shots: float


def minus_s(logits: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """-S of the aspects' expected means under pi = softmax(logits)."""
    expected = (logits.softmax(dim=1) * right).sum(dim=1)
    return -_harmonic([expected[mask].mean() for mask in masks.values()])


def right_with_each(logits: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """Cross-entropy of "right under this mix", for all mixes at once, the aspects weighted by 1 / m^2 (AICL's k head).

    sigmoid(logit) becomes P(right); m is an aspect's mean under the mix that is most probably right.
    """
    losses = functional.binary_cross_entropy_with_logits(logits, right, reduction="none").mean(dim=1)
    chosen = right.gather(1, logits.detach().argmax(dim=1, keepdim=True)).squeeze(1)
    weights = [chosen[mask].mean().clamp_min(0.1) ** -2 for mask in masks.values()]
    weighted = [weight * losses[mask].mean() for weight, mask in zip(weights, masks.values(), strict=True)]
    return torch.stack(weighted).sum() / torch.stack(weights).sum()


def train_balanced(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    loss: Loss = minus_s,
    steps: int = 200,
    learning_rate: float = 0.05,
    decay: float = 1e-3,
    price: float = 0.05,
) -> Generator[Step, None, None]:
    """Minimise a loss with Adam, all edits in each step; the policy's head learns in place.

    Args:
        policy: its mixes are those of the answers.
        cases: the training edits; their probes are the training signal. An aspect that no case has counts for nothing.
        answers: of `answers_under`, in the order of the cases.
        loss: `minus_s`, or `right_with_each`.
        decay: weight of the squared head, for features scaled to unit variance.
        price: how much S a prompt with all demonstrations may cost; larger prices choose shorter prompts.

    Raises UsageError if there are no cases, or if the answers are not those of the cases and mixes.
    """
    rewards = [torch.tensor(one.correct, dtype=torch.float32) for one in answers]
    shapes = [(len(case.probes), len(policy.mixes)) for case in cases]
    if not cases or [tuple(one.shape) for one in rewards] != shapes:
        raise UsageError(f"the answers of {len(answers)} edits are not those of these {len(cases)} under each mix")
    aspects = [probe.aspect for case in cases for probe in case.probes]
    masks = {aspect: torch.tensor([one is aspect for one in aspects]) for aspect in Aspect if aspect in aspects}
    r, sizes = torch.cat(rewards), torch.tensor([float(mix.size) for mix in policy.mixes])
    phi = torch.cat([policy.features(case.edit, [probe.query for probe in case.probes]) for case in cases])
    mean, scale = phi.mean(dim=0), phi.std(dim=0).clamp_min(1e-6)
    phi = (phi - mean) / scale
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    head = policy.head
    adam = torch.optim.Adam(head.parameters(), lr=learning_rate)
    for number in range(1, steps + 1):
        logits = head(phi)
        pi = logits.softmax(dim=1)
        right, shots = (pi * r).sum(dim=1), pi @ sizes
        cost = torch.stack([shots[mask].mean() for mask in masks.values()]).mean() / sizes.max().clamp_min(1)
        total = loss(logits, r, masks) + price * cost + decay * head.weight.square().sum()
        adam.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        adam.step()
        means = {aspect: right[mask].mean().detach() for aspect, mask in masks.items()}
        score = _harmonic(list(means.values())).item()
        yield Step(number, {aspect: m.item() for aspect, m in means.items()}, score, shots.mean().item())
    with torch.no_grad():  # the head reads features as they are
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ mean)


def _harmonic(means: Sequence[Tensor]) -> Tensor:
    return len(means) / torch.stack([m.clamp_min(1e-3).reciprocal() for m in means]).sum()
