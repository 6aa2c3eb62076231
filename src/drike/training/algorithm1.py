"""Training the retriever: REINFORCE on the frozen model's right and wrong answers (paper, Algorithm 1).

The policy orders an edit's retain pool; the budget says how many prefixes k are tried; the model answers the edit's
query under each of the k nested prompts; every answer is a reward for the retain that was added last. `train` is the
listing, line by line; what may differ from it comes in as parts. Left out: baselines.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import count

import torch
from torch import Tensor

from drike.editors.budgets import Budget
from drike.editors.in_context import InContextEditor
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import EditCase
from drike.training.rewards import (
    Choose,
    EpisodeRecord,
    Reward,
    RewardChannel,
    Rewards,
    Rollout,
    Schedule,
    at_once,
    one_by_one,
    top,
)  # fmt: skip


@dataclass(frozen=True)
class Episode(EpisodeRecord):
    """The record of one rollout, and the budget after it."""

    budget: Budget

    @property
    def record(self) -> dict[str, object]:
        """Its line of episodes.jsonl: all but the budget."""
        return {field.name: getattr(self, field.name) for field in fields(EpisodeRecord)}

    @property
    def success(self) -> bool:
        """Whether the answer was right under the prompt that the budget would have given."""
        return self.correct[min(self.kept, self.k) - 1]


def train(
    editor: InContextEditor[RankAndCut],
    reward: Reward,
    cases: Sequence[EditCase],
    *,
    epochs: int = 5,
    learning_rate: float = 1e-4,
    choose: Choose = top,
    schedule: Schedule = one_by_one,
    channel: RewardChannel = at_once,
) -> Generator[Episode]:
    """Algorithm 1 with Adam and a batch of one; yields every episode as it ends.

    editor: its selector's `ranker`, a Retriever, learns in place; the selector's budget is where sigma starts, and the
    pool gives copies, updates and the retain candidates C. The last episode's `budget` is the trained one. reward: of
    the prefixes of a rollout, as `rewrite_reward(model)`. cases: the training set T, in this order in every epoch.
    choose: which retains are tried. schedule: when edits are. channel: how rewards reach the learner.

    Raises TypeError for an editor whose ranker is no Retriever.
    """
    policy, budget = editor.selector.ranker, editor.selector.budget  # theta, sigma                                 1
    if not isinstance(policy, Retriever):
        raise TypeError(f"training needs an editor whose ranker is a Retriever, not a {type(policy).__name__}")
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    adam = torch.optim.Adam(policy.head.parameters(), lr=learning_rate)
    pools = editor.pool.for_groups([case.edits for case in cases])  #     the same in every epoch, as are features:
    known = {pool.edits: (pool, policy.features(pool)) for pool in pools}  # the encoder is frozen
    numbers = count()

    def roll_out(case: EditCase) -> Rollout:  #                       under theta and sigma as they are now
        pool, features = known[case.edits]  #                         copies, updates; C                          4-5
        log_p = policy.log_probs(features)  #                         z <- S_theta(x, C); p <- softmax(z)         6-7
        choice = choose(pool, log_p, budget)  #                       k <- min(K, #{p > sigma}), at least 1      8-11
        return Rollout(**vars(choice), editor=editor, case=case, pool=pool, number=next(numbers))

    for epoch in range(1, epochs + 1):  #                                                                           2
        with closing(schedule(cases, roll_out, reward)) as rollouts:
            for rollout, rewards in rollouts:  #                      r_j under the first j retains          3, 12-17
                for update, r in channel(rollout, rewards):  #        this episode, unless a study delays it
                    loss = loss_of(r, update.log_p)  #                L <- -sum_j r_j log p_j                      22
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()  #                                    theta <- theta - alpha grad L                25
                    budget = budget.after(update.probs, r, update.pool)  # sigma rises where r fell             18-21
                yield _episode(epoch, rollout, rewards, budget)


def loss_of(rewards: Sequence[float], log_p: Tensor) -> Tensor:
    """REINFORCE's -sum_j r_j log p_j over the k prefixes that were evaluated; log_p [n] in the order tried."""
    return -(torch.tensor(rewards, dtype=log_p.dtype) * log_p[: len(rewards)]).sum()


def _episode(epoch: int, rollout: Rollout, rewards: Rewards, budget: Budget) -> Episode:
    return Episode(
        **vars(rewards), epoch=epoch, case_id=rollout.case.case_id, order=rollout.order, probs=rollout.probs,
        loss=loss_of(rewards.rewards, rollout.log_p.detach()).item(), kept=rollout.kept, k=len(rewards.rewards),
        sigma=budget.sigma_for(rollout.probs, rollout.pool), share=getattr(budget, "share", None), budget=budget,
    )  # fmt: skip
