"""Train a policy over mixes on the score that it is judged by: S of the rewrites, paraphrases and neighbours.

With the answers under every mix at hand, the expected reward of a probe is a sum, sum_a pi(a | edit, query) r_a, and
needs neither samples nor a baseline. S is the harmonic mean of the aspects' means m, so its gradient weights a probe
of an aspect by S^2 / (A m^2) for A aspects: the weaker an aspect, the more its probes count.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch

from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.retrieval.query_policy import QueryPolicy
from drike.training.answers import CaseAnswers


@dataclass(frozen=True)
class Step:
    """A step of training: the expected mean of each aspect, their harmonic mean, and the expected demonstrations."""

    number: int
    means: dict[Aspect, float]
    score: float
    shots: float


def train_balanced(
    policy: QueryPolicy,
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    steps: int = 200,
    learning_rate: float = 0.05,
    decay: float = 1e-3,
    price: float = 0.05,
) -> Generator[Step, None, None]:
    """Ascend S with Adam, all edits in each step; the policy's head learns in place.

    Args:
        policy: its mixes are those of the answers.
        cases: the training edits; their probes are the training signal. An aspect that no case has counts for nothing.
        answers: of `answers_under`, in the order of the cases.
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
    policy.trained_on |= {case.edit.key for case in cases}
    head = policy.head
    adam = torch.optim.Adam(head.parameters(), lr=learning_rate)
    for number in range(1, steps + 1):
        pi = policy.log_probs(phi).exp()
        right, shots = (pi * r).sum(dim=1), pi @ sizes
        means = {aspect: right[mask].mean() for aspect, mask in masks.items()}
        score = len(means) / torch.stack([m.clamp_min(1e-3).reciprocal() for m in means.values()]).sum()
        cost = torch.stack([shots[mask].mean() for mask in masks.values()]).mean() / sizes.max().clamp_min(1)
        loss = price * cost + decay * head.weight.square().sum() - score
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        yield Step(number, {aspect: m.item() for aspect, m in means.items()}, score.item(), shots.mean().item())
    with torch.no_grad():  # the head reads features as they are
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ mean)
