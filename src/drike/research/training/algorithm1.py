"""Training the retriever: REINFORCE on the frozen model's right and wrong answers (paper, Algorithm 1).

`train` is the listing, line by line, without baselines. What may differ from it comes in as parts: which retains are
tried (`Choose`), what they earn (`Reward`), when (`Schedule`), and how rewards arrive (`RewardChannel`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import chain, count

import torch
from torch import Tensor

from drike.edits.edit import EditCase, rewrite_probe
from drike.errors import ReplayError
from drike.models.protocols import LanguageModel
from drike.prompts import DemonstrationSet, Prompt
from drike.research.editors.budgets import Budget
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.rankings import Ranking, ranking_of
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut, Selection
from drike.research.evaluation.judge import Judge, Rule, Verdict, ask_probes, is_right
from drike.support.parallel import in_order


@dataclass(frozen=True, eq=False)
class Choice:
    """An edit's n retains in the order tried: indices, p, log p (differentiable); k >= kept prefixes are evaluated."""

    order: tuple[int, ...]
    probs: tuple[float, ...]
    log_p: Tensor
    kept: int
    k: int


Choose = Callable[[DemonstrationSet, Tensor, Budget], Choice]


def top(pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Choice:
    """The most probable retains first (Algorithm 1)."""
    ranking = ranking_of(pool.retains, log_p.tolist())
    order, probs = ranking.order, ranking.probs
    return Choice(
        order, probs, log_p[[*order]], budget.keep(probs, pool), budget.evaluated(probs, pool)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout(Choice):
    """What an episode tries for an edit, the editor that shows it, the edit's demonstrations and its number from 0."""

    editor: InContextEditor[RankAndCut]
    case: EditCase
    pool: DemonstrationSet
    number: int = 0

    def prompts(self, queries: Sequence[str]) -> list[list[Prompt]]:
        """The prompts [prefixes][queries], shortest prefix first; longer ones while they fit the editor's limit."""
        ranking = Ranking(tuple(self.pool.retains[i] for i in self.order), self.order, self.probs)
        fitting = self.editor.fit(Selection.of_ranking(self.pool, ranking, self.k), queries)
        return [
            self.editor.show(Selection.of_ranking(self.pool, ranking, j), queries)
            for j in range(1, fitting.k + 1)
        ]


@dataclass(frozen=True)
class Rewards:
    """The rewards of a rollout's prefixes, shortest first; fewer than k where a limit ended it early."""

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]  # whether the edit's own query was answered right
    prompt_tokens: int | None  # read as if prompts shared nothing; None if not counted
    seconds: float
    probes: tuple[tuple[float, ...], ...] | None = (
        None  # of each, [prefixes, probes]; None: the own query only
    )


Reward = Callable[[Rollout], Rewards]
RollOut = Callable[[EditCase], Rollout]  # under theta and sigma as they are
Schedule = Callable[[Sequence[EditCase], RollOut, Reward], Generator[tuple[Rollout, Rewards]]]
Arrival = tuple[Rollout, tuple[float, ...]]  # a rollout and the rewards it is learned with
RewardChannel = Callable[[Rollout, Rewards], Iterable[Arrival]]


@dataclass(frozen=True)
class EpisodeRecord:
    """A line of episodes.jsonl: n retains as in `Choice`, and the `Rewards` of k prefixes. Raises ValueError."""

    epoch: int
    case_id: str
    order: tuple[int, ...]
    probs: tuple[float, ...]
    rewards: tuple[float, ...]  # a channel may give the learner others, or later
    correct: tuple[bool, ...]
    loss: float  # -sum_j r_j log p_j
    prompt_tokens: int | None
    seconds: float
    kept: int
    sigma: float | None  # of the budget afterwards for this edit, if it has one
    k: int
    share: float | None  # of the retains, by such a budget
    probes: tuple[tuple[float, ...], ...] | None

    def __post_init__(self) -> None:
        n, k = len(self.order), self.k
        if sorted(self.order) != list(range(n)) or len(self.probs) != n:
            raise ValueError("order and probs are not those of one ranking")
        if (
            not 1 <= k <= n
            or not len(self.rewards) == len(self.correct) == k
            or self.kept < 1
            or self.epoch < 1
        ):
            raise ValueError("k, kept, rewards and correct do not go together")
        if self.probes is not None and len(self.probes) != k:
            raise ValueError("probes are not those of k prefixes")

    @property
    def success(self) -> bool:
        """Whether the answer was right under the prompt that the budget would have given."""
        return self.correct[min(self.kept, self.k) - 1]


def rewrite_reward(model: LanguageModel, *, rule: Rule | None = None) -> Reward:
    """The paper's: +1 where the edit's own query is answered with the new object, else -1. Raises as `Judge` does."""
    judge = Judge(model, rule)

    def reward(rollout: Rollout) -> Rewards:
        began = time.perf_counter()
        probe = rewrite_probe(rollout.case.edit)
        verdicts = [*chain(*ask_probes(judge, [probe], rollout.prompts([probe.query])))]
        correct = tuple(map(is_right, verdicts))
        rewards = tuple(1.0 if right else -1.0 for right in correct)
        return Rewards(rewards, correct, count_tokens(verdicts), time.perf_counter() - began)

    return reward


def count_tokens(asked: Iterable[Verdict | EpisodeRecord]) -> int | None:
    """The prompt tokens of all questions; None if the model does not count them."""
    counts = [of.prompt_tokens for of in asked]
    return None if None in counts else sum(filter(None, counts))


def replayed(records: Sequence[EpisodeRecord], reward: Reward) -> Reward:
    """The recorded rewards of the first episodes, then `reward`, to resume bit for bit; others raise ReplayError."""

    def replay(rollout: Rollout) -> Rewards:
        if rollout.number >= len(records):
            return reward(rollout)
        record, case = records[rollout.number], rollout.case
        recorded = f"the recorded episode of edit {record.case_id}"
        if record.case_id != case.case_id:
            raise ReplayError(f"{recorded} stands where edit {case.case_id} comes: start a new run")
        if record.order != rollout.order or len(record.rewards) > rollout.k:
            raise ReplayError(f"{recorded} tried other retains: start a new run")
        if any(len(row) != len(case.probes) for row in record.probes or ()):
            raise ReplayError(f"{recorded} asked other probes: start a new run")
        return Rewards(
            record.rewards, record.correct, record.prompt_tokens, record.seconds, record.probes
        )

    return replay


def in_blocks(size: int, threads: int = 1) -> Schedule:
    """Blocks of edits under one theta and sigma, rewards on `threads` at most. Raises ValueError for a size below 1."""
    if size < 1:
        raise ValueError(f"parallel_edits must be at least 1, not {size}")

    def schedule(
        cases: Sequence[EditCase], roll_out: RollOut, reward: Reward
    ) -> Generator[tuple[Rollout, Rewards]]:
        for start in range(0, len(cases), size):
            block = [roll_out(case) for case in cases[start : start + size]]
            with closing(in_order(reward, block, min(len(block), threads))) as rewards:
                yield from zip(block, rewards, strict=True)

    return schedule


one_by_one = in_blocks(1)  # each edit under the theta and sigma that the one before it left


def at_once(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
    """An episode's rewards in that episode."""
    return [(rollout, rewards.rewards)]


@dataclass(frozen=True)
class Episode(EpisodeRecord):
    """The record of one rollout, and the budget after it."""

    budget: Budget

    @property
    def record(self) -> dict[str, object]:
        """Its line of episodes.jsonl: all but the budget."""
        return {field.name: getattr(self, field.name) for field in fields(EpisodeRecord)}


def train(
    editor: InContextEditor[RankAndCut], reward: Reward, cases: Sequence[EditCase], *,
    epochs: int = 5, learning_rate: float = 1e-4,
    choose: Choose = top, schedule: Schedule = one_by_one, channel: RewardChannel = at_once,
) -> Generator[Episode]:  # fmt: skip
    """Algorithm 1 with Adam and a batch of one; yields every episode as it ends, the last with the trained `budget`.

    editor: its selector's `ranker` learns in place, and its budget is where sigma starts; the pool gives copies,
    updates and the retain candidates C. reward: of a rollout's prefixes, as `rewrite_reward(model)`. cases: the
    training set T, in this order in every epoch. Raises TypeError for an editor whose ranker is no Retriever.
    """
    policy, budget = (
        editor.selector.ranker,
        editor.selector.budget,
    )  # theta, sigma                                 1
    if not isinstance(policy, Retriever):
        raise TypeError(
            f"training needs an editor whose ranker is a Retriever, not a {type(policy).__name__}"
        )
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    adam = torch.optim.Adam(policy.head.parameters(), lr=learning_rate)
    pools = editor.pool.for_groups(
        [case.edits for case in cases]
    )  #     the same in every epoch, as are features:
    known = {pool.edits: (pool, policy.features(pool)) for pool in pools}  # the encoder is frozen
    numbers = count()

    def roll_out(
        case: EditCase,
    ) -> Rollout:  #                       under theta and sigma as they are now
        pool, features = known[
            case.edits
        ]  #                         copies, updates; C                          4-5
        log_p = policy.log_probs(
            features
        )  #                         z <- S_theta(x, C); p <- softmax(z)         6-7
        choice = choose(
            pool, log_p, budget
        )  #                       k <- min(K, #{p > sigma}), at least 1      8-11
        return Rollout(**vars(choice), editor=editor, case=case, pool=pool, number=next(numbers))

    for epoch in range(
        1, epochs + 1
    ):  #                                                                           2
        with closing(schedule(cases, roll_out, reward)) as rollouts:
            for (
                rollout,
                rewards,
            ) in rollouts:  #                      r_j under the first j retains          3, 12-17
                for update, r in channel(
                    rollout, rewards
                ):  #        this episode, unless a study delays it
                    loss = loss_of(
                        r, update.log_p
                    )  #                L <- -sum_j r_j log p_j                      22
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()  #                                    theta <- theta - alpha grad L                25
                    budget = budget.after(
                        update.probs, r, update.pool
                    )  # sigma rises where r fell             18-21
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
