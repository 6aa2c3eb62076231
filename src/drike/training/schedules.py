"""The way of rewards from the model's answers to the learner (paper, appendix "Sensitivity of Reward Function").

Usually an episode's rewards teach at once and as they are. A study of robustness holds them back or falsifies some:

    delay: an episode's rewards arrive d episodes later, d drawn uniformly from 0, 1, ..., delay
    noise: every reward is flipped with this probability, independently

What arrives late is exactly what would have been learned at once: log p_j with the graph of the policy that acted. That
is the score function of the decision the reward is about, so every term stays an honest REINFORCE term and only comes
late, as in delayed gradient descent. Log-probabilities of the policy of the day would be another estimator: without a
weight pi_now / pi_then for each of them it is biased, and a change of the results would have two causes. The graph of a
linear head over fixed features is small, and it does not need the weights that have moved on since.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drike.demonstrations import DemonstrationSet

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Update:
    """An episode as the learner is told of it.

    due: number of the episode behind which it arrives. candidates: of its edit. probs: of the ranking that was tried,
    [n]. rewards: of its first k prefixes, +1 or -1, as told, [k]. log_p: log p_j of these, [k], with the graph of the
    policy that chose them.
    """

    due: int
    candidates: DemonstrationSet
    probs: tuple[float, ...]
    rewards: tuple[int, ...]
    log_p: Tensor


@dataclass(frozen=True)
class Feedback:
    """How rewards reach the learner; by default at once and true.

    delay: most episodes they are held back. noise: probability that a reward is told with the wrong sign.
    """

    delay: int = 0
    noise: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no number of episodes, or no probability."""
        if type(self.delay) is not int or self.delay < 0:
            raise ValueError(f"delay must be a whole number of episodes, 0 or more, not {self.delay!r}")
        if type(self.noise) not in (int, float) or not 0.0 <= self.noise <= 1.0:
            raise ValueError(f"noise is a probability; {self.noise!r} is not")

    def send(
        self,
        candidates: DemonstrationSet,
        probs: Sequence[float],
        rewards: Sequence[int],
        log_p: Tensor,
        *,
        now: int,
        last: int,
        rng: random.Random,
    ) -> Update:
        """The lesson of episode `now`; with the `last` episode everything arrives that is still on its way."""
        due = min(now + rng.randint(0, self.delay), last)
        told = tuple(-r if rng.random() < self.noise else r for r in rewards)
        return Update(due, candidates, tuple(probs), told, log_p)


AT_ONCE = Feedback()
