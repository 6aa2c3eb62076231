"""Training the retriever: REINFORCE on the frozen model's right and wrong answers (paper, Algorithm 1).

For an edit, the policy orders its retain pool; the budget says how many prefixes k are tried; the model answers the
edit's query under each of the k nested prompts; every answer is a reward for the retain that was added last. The loss
is -sum_j r_j log p_j, and the budget learns from the same rewards.

`train` is the listing, line by line; what may differ from it comes in as parts: the reward, the choice of retains, the
schedule and the channel of rewards. Left out: baselines.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from drike.editors.budgets import Budget
from drike.editors.in_context import InContextEditor
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import EditCase
from drike.training.rewards import Reward, RewardChannel, Rewards, Schedule, at_once, one_by_one
from drike.training.rollouts import Choose, Rollout, top


@dataclass(frozen=True)
class Episode:
    """The record of one rollout: an edit's retains in the order tried, their rewards, and the budget afterwards.

    order: pool indices, [n]. probs: their probabilities, in that order, [n]. rewards: of the first k, [k]; with a
    `channel`, the learner may get them later, or others. correct: whether the answer was right under each of these,
    [k]. loss: -sum_j r_j log p_j. prompt_tokens: read by the model as if prompts shared nothing; None if unknown.
    seconds: spent on the rewards. kept: how many retains the budget in force kept; learned budgets evaluate one more.
    sigma: that of the budget afterwards for this edit, if any. probes: the reward of each by prefix, if all were asked.
    """

    epoch: int
    case_id: str
    order: tuple[int, ...]
    probs: tuple[float, ...]
    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    loss: float
    budget: Budget
    prompt_tokens: int | None
    seconds: float
    kept: int
    sigma: float | None
    probes: tuple[tuple[float, ...], ...] | None = None

    @property
    def k(self) -> int:
        """How many prefixes were evaluated."""
        return len(self.rewards)

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

    Args:
        editor: its selector's `ranker`, a Retriever, learns in place; the selector's budget is where sigma starts, and
            the pool gives copies, updates and the retain candidates C. The last episode's `budget` is the trained one.
        reward: of the prefixes of a rollout: `rewrite_reward(model)`, or one of your own.
        cases: the training set T, in this order in every epoch.
        choose: which retains are tried; `top`, or one of your own.
        schedule: when edits are tried; `one_by_one`, or `in_blocks` of `training.rewards`.
        channel: how rewards reach the learner; `at_once`, or one of your own.

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
        **vars(rewards),
        epoch=epoch,
        case_id=rollout.case.case_id,
        order=rollout.order,
        probs=rollout.probs,
        loss=loss_of(rewards.rewards, rollout.log_p.detach()).item(),
        budget=budget,
        kept=rollout.kept,
        sigma=budget.sigma_for(rollout.probs, rollout.pool),
    )
