"""Train a policy over sets of demonstrations: REINFORCE on sets drawn from it, with a leave-one-out baseline.

For every query, G sets are drawn and asked; the advantage of one is its reward minus the mean reward of the others,
which leaves the expected gradient unchanged (RLOO; Kool et al., 2019). The sets of all queries about an edit are drawn
with the same noise, so that similar queries see equal prompts and the model reads them once.

A reward is 1 for a right answer and 0 for a wrong one, times the weight of the probe's aspect. With `s_weights` the
policy ascends S: the gradient of S weights the mean m of an aspect by S^2 / (A m^2), with m as a running mean. With
equal weights it ascends the sum of the aspects' means.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drike.edits.edit import Aspect, EditCase
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.prompts import Demonstration, PromptStyle
from drike.research.editors.pool import Pool
from drike.research.evaluation.judge import Judge, Question, Verdict, is_right

from .subsets import PlackettLuce, Subset, SubsetPolicy


@dataclass(frozen=True)
class SetTraining:
    """Settings of `train_sets`.

    draws: sets per query, G. block: edits per step of Adam. on_s: weights from the gradient of S; False for equal ones.
    price: what a prompt with all demonstrations costs, in rewards. memory: of the running means, per edit.
    """

    epochs: int = 2
    draws: int = 4
    block: int = 2
    learning_rate: float = 0.003
    on_s: bool = True
    price: float = 0.05
    memory: float = 0.98
    seed: int = 0


@dataclass(frozen=True)
class SetEpisode:
    """An edit's draws: their mean reward by aspect, mean size, and how many questions were new to the model."""

    case_id: str
    means: dict[Aspect, float]
    shots: float
    asked: int


@dataclass
class RememberedAnswers:
    """Answers of a frozen model by prompt and target, so that each question is asked once."""

    model: LanguageModel
    known: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def ask(self, questions: Sequence[Question]) -> list[Verdict]:
        """The verdict on each; all questions that are new go to the model in one call."""
        keys = [(question.prompt.text, question.target) for question in questions]
        new = {
            key: question
            for key, question in zip(keys, questions, strict=True)
            if key not in self.known
        }
        if new:
            self.known |= zip(new, Judge(self.model).ask([*new.values()]), strict=True)
        return [self.known[key] for key in keys]


def mo_ike(encoder: TextEncoder, *, as_released: bool = False) -> tuple[SubsetPolicy, SetTraining]:
    """An untrained policy and the settings of MO-IKE (arXiv 2608.25100), a control for policies that read the query.

    As published: a policy over all demonstrations of an edit with a stop action, one set per edit, rewarded by the sum
    of edit, paraphrase and retain rewards. Our decisions: the head, the leave-one-out baseline, and that each of the
    three rewards is a mean over its probes. `as_released`: the stop action's bias starts at -10 and Adam's rate is
    1e-5, which moves it by .01 in 900 steps: all demonstrations are shown, so this is IKE in another order by
    construction. Otherwise the stop action starts equal to the demonstrations, at a rate at which it learns.
    """
    policy = SubsetPolicy(
        encoder, PlackettLuce(), reads_query=False, stop=-10.0 if as_released else 0.0
    )
    return policy, SetTraining(
        3, block=1, learning_rate=1e-5 if as_released else 0.01, on_s=False, price=0.0
    )


def train_sets(
    policy: SubsetPolicy,
    answers: RememberedAnswers,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    settings: SetTraining = SetTraining(),
    style: PromptStyle = PromptStyle(),
) -> Generator[SetEpisode, None, None]:
    """Train the policy's head in place with Adam; yields every edit's draws.

    answers: remembered ones may come from another training with the same model, pool and roles. Raises UsageError
    without cases, or for fewer than two draws.
    """
    if not cases or settings.draws < 2:
        raise UsageError(
            "training on sets needs at least one edit, and at least two draws per query to compare"
        )
    pools = pool.for_groups([case.edits for case in cases])
    known = [
        policy.features(p, [probe.query for probe in c.probes])
        for p, c in zip(pools, cases, strict=True)
    ]
    policy.standardise(known)
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    adam = torch.optim.Adam(policy.head.parameters(), lr=settings.learning_rate)
    noises, orders = torch.Generator().manual_seed(settings.seed), random.Random(settings.seed)
    means = {
        probe.aspect: 0.5 for case in cases for probe in case.probes
    }  # running ones, of aspects that are probed
    for _ in range(settings.epochs):
        order = orders.sample(range(len(cases)), len(cases))
        for block in (order[i : i + settings.block] for i in range(0, len(order), settings.block)):
            adam.zero_grad()
            for i in block:
                z = policy.scores(pools[i], known[i])
                noise = torch.rand(settings.draws, z.shape[1], generator=noises)
                drawn = [
                    [policy.draw.drawn(row, uniform) for uniform in noise] for row in z.detach()
                ]
                shown = [[policy.with_set(pools[i], subset) for subset in sets] for sets in drawn]
                before = len(answers.known)
                verdicts = answers.ask(questions_about(cases[i], shown, style))
                right = torch.tensor([float(is_right(verdict)) for verdict in verdicts])
                correct = right.reshape(len(cases[i].probes), settings.draws)
                of_case = _means(cases[i], correct)
                means |= {
                    a: settings.memory * means[a] + (1 - settings.memory) * m
                    for a, m in of_case.items()
                }
                weights = s_weights(means) if settings.on_s else dict.fromkeys(means, 1.0)
                sizes = torch.tensor([[float(len(subset)) for subset in sets] for sets in drawn])
                cost = settings.price * sizes / len(pools[i].demonstrations)
                loss = loss_of(
                    policy, z, drawn, rewards_of(cases[i], correct, cost, weights)
                ) / len(block)
                loss.backward()  # type: ignore[no-untyped-call]
                yield SetEpisode(
                    cases[i].case_id, of_case, sizes.mean().item(), len(answers.known) - before
                )
            adam.step()


def questions_about(
    case: EditCase, shown: Sequence[Sequence[Sequence[Demonstration]]], style: PromptStyle
) -> list[Question]:
    """Every probe under each of its G sets of demonstrations, or under the G sets that serve all probes."""
    per_probe = shown if len(shown) == len(case.probes) else [*shown] * len(case.probes)
    return [
        Question(style.write(case.edits, subset, [probe.query])[0], probe.target)
        for probe, sets in zip(case.probes, per_probe, strict=True)
        for subset in sets
    ]


def rewards_of(
    case: EditCase, correct: Tensor, cost: Tensor, weights: Mapping[Aspect, float]
) -> Tensor:
    """Rewards of draws [m, G], or [1, G] where one set serves all probes: each aspect counts as a whole.

    correct: [probes, G], 1 or 0. cost: of each draw, [m, G].
    """
    counts = Counter(probe.aspect for probe in case.probes)
    weight = torch.tensor([[weights[probe.aspect]] for probe in case.probes])
    share = torch.tensor([[1 / counts[probe.aspect]] for probe in case.probes])
    rewards = share * (weight * correct - cost)
    return rewards if len(cost) == len(rewards) else rewards.sum(dim=0, keepdim=True)


def loss_of(
    policy: SubsetPolicy, z: Tensor, drawn: Sequence[Sequence[Subset]], rewards: Tensor
) -> Tensor:
    """REINFORCE with a leave-one-out baseline: - sum over queries of the mean of advantage x log-probability.

    z: [m, n + 1]. drawn: G sets for each of m queries. rewards: [m, G].
    """
    draws = rewards.shape[1]
    advantages = (
        (rewards - rewards.mean(dim=1, keepdim=True)) * draws / (draws - 1)
    )  # r_g - mean of the others
    log_p = torch.stack([
        torch.stack([policy.draw.log_prob(row, subset) for subset in sets]) for row, sets in zip(z, drawn, strict=True)
    ])  # fmt: skip
    return -(advantages * log_p).mean(dim=1).sum()


def s_weights(means: Mapping[Aspect, float]) -> dict[Aspect, float]:
    """(S / m)^2 of each aspect: A times the gradient of S with respect to its mean m, which is taken as at least .1."""
    floored = {aspect: max(mean, 0.1) for aspect, mean in means.items()}
    score = len(floored) / sum(1 / mean for mean in floored.values())
    return {aspect: (score / mean) ** 2 for aspect, mean in floored.items()}


def _means(case: EditCase, correct: Tensor) -> dict[Aspect, float]:
    """The mean of each aspect over its probes and their draws."""
    aspects = [probe.aspect for probe in case.probes]
    return {
        aspect: correct[[i for i, of_probe in enumerate(aspects) if of_probe is aspect]]
        .mean()
        .item()
        for aspect in {*aspects}
    }
