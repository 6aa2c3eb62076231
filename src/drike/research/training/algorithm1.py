"""Training the retriever: REINFORCE on the frozen model's right and wrong answers (Algorithm 1).

`train` is the paper's listing, line by line, without baselines. What may differ from it comes in as
parts: which retains are tried (`Choose`), what they earn (`Reward`), when (`Schedule`), and how
rewards arrive (`RewardChannel`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from functools import partial
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
from drike.research.evaluation.judge import Judge, Rule, Verdict, ask_cases, is_right
from drike.support.parallel import in_groups, in_order


@dataclass(frozen=True, eq=False)
class Choice:
    """An edit's n retains in the order in which they are tried.

    order: their indices in the pool [n]. probs: p [n]. log_p: log p [n], differentiable. kept: how
    many the budget would show. k: how many prefixes are evaluated, at least `kept`.
    """

    order: tuple[int, ...]
    probs: tuple[float, ...]
    log_p: Tensor
    kept: int
    k: int


Choose = Callable[[DemonstrationSet, Tensor, Budget], Choice]


def top(pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Choice:
    """The most probable retains first (Algorithm 1, lines 8-11 and 14).

    log_p: [n], in the order of the pool's retains.
    """
    ranking = ranking_of(pool.retains, log_p.tolist())
    return Choice(
        order=ranking.order,
        probs=ranking.probs,
        log_p=log_p[list(ranking.order)],
        kept=budget.keep(ranking.probs, pool),
        k=budget.evaluated(ranking.probs, pool),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout(Choice):
    """What an episode tries for an edit.

    editor: shows it. pool: the edit's demonstrations. number: of the rollout, from 0.
    """

    editor: InContextEditor[RankAndCut]
    case: EditCase
    pool: DemonstrationSet
    number: int = 0

    def prompts(self, queries: Sequence[str]) -> list[list[Prompt]]:
        """The prompts [prefixes][queries], shortest prefix first.

        There are k prefixes, or fewer if the longer ones exceed the editor's limit.
        """
        longest_fitting = self.editor.fit(self._prefix(self.k), queries)
        prefixes = [self._prefix(j) for j in range(1, longest_fitting.k + 1)]
        return [self.editor.show(prefix, queries) for prefix in prefixes]

    def _prefix(self, j: int) -> Selection:
        """Copies, updates, and the first j retains in the order in which they are tried."""
        retains = tuple(self.pool.retains[index] for index in self.order)
        return Selection.of_ranking(self.pool, Ranking(retains, self.order, self.probs), j)


@dataclass(frozen=True)
class Rewards:
    """The rewards of a rollout's prefixes, shortest first; fewer than k if a limit ended it early.

    correct: whether the edit's own query was answered right under each. prompt_tokens: those read
    for all of them, as if prompts shared nothing; None if they are not counted. probes: the reward
    of each probe [prefixes, probes]; None if only the edit's own query was asked.
    """

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    prompt_tokens: int | None
    seconds: float
    probes: tuple[tuple[float, ...], ...] | None = None


Reward = Callable[[Rollout], Rewards]


@dataclass(frozen=True)
class JointReward:
    """A reward that several rollouts may earn in one call of the model.

    earn: the rewards of rollouts. at_once: how many are best earned together.
    """

    earn: Callable[[Sequence[Rollout]], list[Rewards]]
    at_once: int = 1

    def __call__(self, rollout: Rollout) -> Rewards:
        """The rewards of a rollout alone."""
        [rewards] = self.earn([rollout])
        return rewards


RollOut = Callable[[EditCase], Rollout]  # under theta and sigma as they are
Schedule = Callable[[Sequence[EditCase], RollOut, Reward], Generator[tuple[Rollout, Rewards]]]
Arrival = tuple[Rollout, tuple[float, ...]]  # a rollout and the rewards it is learned with
RewardChannel = Callable[[Rollout, Rewards], Iterable[Arrival]]


@dataclass(frozen=True)
class EpisodeRecord:
    """A line of episodes.jsonl: n retains as in `Choice`, and the `Rewards` of k prefixes.

    rewards: as earned; a channel may give the learner others, or later. loss: -sum_j r_j log p_j
    of these. sigma: of the budget after the episode, for this edit; share: of the retains that it
    keeps; each None if the budget has none. Raises ValueError for fields that do not go together.
    """

    epoch: int
    case_id: str
    order: tuple[int, ...]
    probs: tuple[float, ...]
    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    loss: float
    prompt_tokens: int | None
    seconds: float
    kept: int
    sigma: float | None
    k: int
    share: float | None
    probes: tuple[tuple[float, ...], ...] | None

    def __post_init__(self) -> None:
        n = len(self.order)
        if sorted(self.order) != list(range(n)) or len(self.probs) != n:
            raise ValueError("order and probs are not those of one ranking")

        lengths = {len(self.rewards), len(self.correct)}
        if lengths != {self.k} or not 1 <= self.k <= n or self.kept < 1 or self.epoch < 1:
            raise ValueError("k, kept, rewards and correct do not go together")
        if self.probes is not None and len(self.probes) != self.k:
            raise ValueError("probes are not those of k prefixes")

    @property
    def success(self) -> bool:
        """Whether the answer was right under the prompt that the budget would have given."""
        shown = min(self.kept, self.k)
        return self.correct[shown - 1]


@dataclass(frozen=True)
class Episode(EpisodeRecord):
    """The record of one rollout, and the budget after it."""

    budget: Budget

    @property
    def record(self) -> dict[str, object]:
        """Its line of episodes.jsonl: all but the budget."""
        return {field.name: getattr(self, field.name) for field in fields(EpisodeRecord)}


def rewrite_reward(
    model: LanguageModel,
    *,
    rule: Rule | None = None,
    hear: Callable[[Verdict], None] | None = None,
) -> Reward:
    """The paper's reward: +1 where the edit's own query gets the new object as answer, else -1.

    rule: when an answer is right; None is the model's default. hear: gets each verdict, from
    several threads where a schedule has them. Raises as `Judge` and `hear` do.
    """
    judge = Judge(model, rule)

    def earn(rollouts: Sequence[Rollout]) -> list[Rewards]:
        began = time.perf_counter()
        probes = [rewrite_probe(rollout.case.edit) for rollout in rollouts]
        prompts_by_rollout = [
            rollout.prompts([probe.query]) for rollout, probe in zip(rollouts, probes, strict=True)
        ]
        verdicts_by_rollout = ask_cases(judge, [[probe] for probe in probes], prompts_by_rollout)
        if hear:
            for verdicts in verdicts_by_rollout:
                for [verdict] in verdicts:
                    hear(verdict)

        seconds = (time.perf_counter() - began) / len(rollouts)
        return [
            _as_rewards([verdict for [verdict] in verdicts], seconds)
            for verdicts in verdicts_by_rollout
        ]

    return JointReward(earn, model.info.edits_per_call)


def _as_rewards(verdicts: Sequence[Verdict], seconds: float) -> Rewards:
    """+1 for each right answer, else -1."""
    correct = tuple(is_right(verdict) for verdict in verdicts)
    rewards = tuple(1.0 if right else -1.0 for right in correct)
    return Rewards(rewards, correct, count_tokens(verdicts), seconds)


def count_tokens(answers: Iterable[Verdict | EpisodeRecord]) -> int | None:
    """The prompt tokens of all answers; None if the model does not count them."""
    total = 0
    for answer in answers:
        if answer.prompt_tokens is None:
            return None
        total += answer.prompt_tokens
    return total


def replayed(records: Sequence[EpisodeRecord], reward: Reward) -> Reward:
    """The recorded rewards of the first episodes, then `reward`: training resumes bit for bit.

    Raises ReplayError where the records are not those of this training.
    """

    def replay(rollout: Rollout) -> Rewards:
        record = records[rollout.number]
        _require_record_of(rollout, record)
        return Rewards(
            record.rewards, record.correct, record.prompt_tokens, record.seconds, record.probes
        )

    def earn(rollouts: Sequence[Rollout]) -> list[Rewards]:
        # Numbers count up, so that those with a record come first.
        recorded = [rollout for rollout in rollouts if rollout.number < len(records)]
        replays = [replay(rollout) for rollout in recorded]
        new = rollouts[len(recorded) :]
        return [*replays, *earned(reward, new)]

    return JointReward(earn, _at_once(reward))


def earned(reward: Reward, rollouts: Sequence[Rollout]) -> list[Rewards]:
    """The rewards of rollouts, in one call of the model where that is possible."""
    if isinstance(reward, JointReward) and rollouts:
        return reward.earn(rollouts)
    return [reward(rollout) for rollout in rollouts]


def _at_once(reward: Reward) -> int:
    return reward.at_once if isinstance(reward, JointReward) else 1


def _require_record_of(rollout: Rollout, record: EpisodeRecord) -> None:
    case = rollout.case
    recorded = f"the recorded episode of edit {record.case_id}"
    if record.case_id != case.case_id:
        raise ReplayError(f"{recorded} stands where edit {case.case_id} comes: start a new run")
    if record.order != rollout.order or len(record.rewards) > rollout.k:
        raise ReplayError(f"{recorded} tried other retains: start a new run")
    if any(len(row) != len(case.probes) for row in record.probes or ()):
        raise ReplayError(f"{recorded} asked other probes: start a new run")


def in_blocks(size: int, threads: int = 1) -> Schedule:
    """A schedule that tries `size` edits at a time under one theta and sigma.

    threads: how many earn rewards at once, at most. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"parallel_edits must be at least 1, not {size}")

    def schedule(
        cases: Sequence[EditCase], roll_out: RollOut, reward: Reward
    ) -> Generator[tuple[Rollout, Rewards]]:
        earn = partial(earned, reward)
        for block_cases in in_groups(cases, size):
            block = [roll_out(case) for case in block_cases]
            groups = in_groups(block, _at_once(reward))
            with closing(in_order(earn, groups, min(len(block), threads))) as rewards_by_group:
                rewards = chain.from_iterable(rewards_by_group)
                yield from zip(block, rewards, strict=True)

    return schedule


one_by_one = in_blocks(1)  # each edit under the theta and sigma that the one before it left


def at_once(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
    """The channel by which an episode learns from its own rewards, unchanged."""
    return [(rollout, rewards.rewards)]


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

    For example, on the embedded model and data:

        model = drike.load_model("reader")
        split = drike.load_dataset("tinyfacts").split(seed=0)
        pool = drike.Pool(split.demonstrations, drike.load_encoder())
        retriever = drike.Retriever(drike.load_encoder())
        selector = drike.RankAndCut(retriever, drike.Threshold())
        editor = drike.InContextEditor("DR-IKE", pool, selector)

        *_, last = drike.train(editor, drike.rewrite_reward(model), split.train)

        selector = drike.RankAndCut(retriever, last.budget)
        trained = drike.InContextEditor("DR-IKE", pool, selector)
        print(drike.summarise(list(drike.evaluate(trained, model, split.test))))

    editor: its selector's `ranker` learns in place, and its budget is where sigma starts; the pool
    gives copies, updates and the retain candidates C. reward: of a rollout's prefixes, as
    `rewrite_reward(model)`. cases: the training set T, in this order in every epoch. The last
    episode has the trained `budget`. Raises TypeError for an editor whose ranker is no Retriever.
    """
    policy = editor.selector.ranker  # line 1: theta
    budget = editor.selector.budget  # line 1: sigma
    if not isinstance(policy, Retriever):
        raise TypeError(
            f"training needs an editor whose ranker is a Retriever, not a {type(policy).__name__}"
        )
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    adam = torch.optim.Adam(policy.head.parameters(), lr=learning_rate)

    # Copies, updates and C are the same in every epoch, and so are their features, as the encoder
    # is frozen.
    pools = editor.pool.for_groups([case.edits for case in cases])
    pool_by_edits = {pool.edits: pool for pool in pools}
    features_by_edits = {pool.edits: policy.features(pool) for pool in pools}
    rollout_numbers = count()

    def roll_out(case: EditCase) -> Rollout:  # under theta and sigma as they are now
        pool = pool_by_edits[case.edits]  # lines 4-5: copies and updates; C
        log_p = policy.log_probs(features_by_edits[case.edits])  # 6-7: z <- S_theta(x, C); softmax
        choice = choose(pool, log_p, budget)  # 8-11: k <- min(K, #{p > sigma}), at least 1
        return Rollout(
            **vars(choice), editor=editor, case=case, pool=pool, number=next(rollout_numbers)
        )

    for epoch in range(1, epochs + 1):  # line 2
        with closing(schedule(cases, roll_out, reward)) as rollouts:
            for rollout, rewards in rollouts:  # 3 and 13-17: r_j under the first j retains
                # The rewards of this episode, unless a study delays or changes them.
                for update, r in channel(rollout, rewards):
                    loss = loss_of(r, update.log_p)  # 12 and 22: L <- -sum_j r_j log p_j
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()  # 25: theta <- theta - alpha grad L
                    budget = budget.after(update.probs, r, update.pool)  # 18-21: where r fell
                yield _episode(epoch, rollout, rewards, budget)


def loss_of(rewards: Sequence[float], log_p: Tensor) -> Tensor:
    """REINFORCE's -sum_j r_j log p_j over the k prefixes that were evaluated.

    rewards: r [k]. log_p: [n], in the order in which the retains were tried.
    """
    r = torch.tensor(rewards, dtype=log_p.dtype)
    return -(r * log_p[: len(r)]).sum()


def _episode(epoch: int, rollout: Rollout, rewards: Rewards, budget: Budget) -> Episode:
    loss = loss_of(rewards.rewards, rollout.log_p.detach())
    return Episode(
        epoch=epoch,
        case_id=rollout.case.case_id,
        order=rollout.order,
        probs=rollout.probs,
        rewards=rewards.rewards,
        correct=rewards.correct,
        loss=loss.item(),
        prompt_tokens=rewards.prompt_tokens,
        seconds=rewards.seconds,
        kept=rollout.kept,
        sigma=budget.sigma_for(rollout.probs, rollout.pool),
        k=len(rewards.rewards),
        share=getattr(budget, "share", None),
        probes=rewards.probes,
        budget=budget,
    )
