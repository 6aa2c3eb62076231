"""What an episode tries, what it earns, and when (paper, Algorithm 1, lines 8-17).

A `Choose` goes from the demonstrations of an edit, log p over its retains [n] and the budget to a `Choice`; a `Reward`
from a `Rollout`, which carries its case, to its `Rewards`. Schedule: `one_by_one` is Algorithm 1, `in_blocks` tries
several edits under the same theta and sigma. Channel: rewards arrive `at_once`, or as you like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from torch import Tensor

from drike.editors.budgets import Budget
from drike.editors.in_context import InContextEditor
from drike.editors.selectors import RankAndCut, Ranking, Selection, ranking_of
from drike.edits import EditCase, rewrite_probe
from drike.errors import ReplayError
from drike.evaluation.judge import Judge, Rule, Verdict, ask_probes, is_right
from drike.models.protocols import LanguageModel
from drike.prompts import Demonstration, DemonstrationSet, Prompt
from drike.support.parallel import in_order


@dataclass(frozen=True, eq=False)
class Choice:
    """The retains of an edit that an episode tries.

    order: indices of the n retains in the order tried, [n]. probs: p of each in that order, [n]. log_p: log p of each
    in that order, [n], differentiable in the policy that chose them. kept: how many the budget keeps. k: how many
    prefixes are evaluated, at least `kept`.
    """

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
    return Choice(order, probs, log_p[[*order]], budget.keep(probs, pool), budget.evaluated(probs, pool))


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout(Choice):
    """What an episode tries for an edit, the editor that shows it, the edit's demonstrations and its number from 0."""

    editor: InContextEditor[RankAndCut]
    case: EditCase
    pool: DemonstrationSet
    number: int = 0

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The k retains whose prefixes are evaluated."""
        return tuple(self.pool.retains[i] for i in self.order[: self.k])

    def prompts(self, queries: Sequence[str]) -> list[list[Prompt]]:
        """The editor's prompt of each query under each prefix, shortest prefix first, [prefixes][queries].

        Prefixes under which a prompt is longer than the editor's limit are left out, but for the first.
        """
        ranking = Ranking(tuple(self.pool.retains[i] for i in self.order), self.order, self.probs)
        fitting = self.editor.fit(Selection.of_ranking(self.pool, ranking, self.k), queries)
        return [self.editor.show(Selection.of_ranking(self.pool, ranking, j), queries) for j in range(1, fitting.k + 1)]


@dataclass(frozen=True)
class Rewards:
    """The rewards of a rollout's prefixes, shortest first; fewer than k where a limit ended it early.

    rewards: one per prefix. correct: whether the edit's own query was answered right under it. prompt_tokens: read by
    the model as if prompts shared nothing; None if it does not count them. seconds: wall clock. probes: the reward of
    each probe of the case under each prefix, [prefixes, probes]; None where only the edit's own query was asked.
    """

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    prompt_tokens: int | None
    seconds: float
    probes: tuple[tuple[float, ...], ...] | None = None


Reward = Callable[[Rollout], Rewards]
RollOut = Callable[[EditCase], Rollout]  # under theta and sigma as they are
Schedule = Callable[[Sequence[EditCase], RollOut, Reward], Generator[tuple[Rollout, Rewards]]]
Arrival = tuple[Rollout, tuple[float, ...]]  # a rollout and the rewards it is learned with
RewardChannel = Callable[[Rollout, Rewards], Iterable[Arrival]]


@dataclass(frozen=True)
class EpisodeRecord:
    """A line of episodes.jsonl: an edit's retains in the order tried, and their rewards.

    order: pool indices, [n]. probs: their probabilities, in that order, [n]. rewards, correct, prompt_tokens, seconds,
    probes: as in `Rewards`, of k prefixes; with a channel, the learner may get rewards later, or others. loss: -sum_j
    r_j log p_j. kept: how many retains the budget in force kept. sigma, share: of the budget afterwards for this edit,
    if it has one. Raises ValueError for what no episode can be.
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
        n, k = len(self.order), self.k
        if sorted(self.order) != list(range(n)) or len(self.probs) != n:
            raise ValueError("order and probs are not those of one ranking")
        if not 1 <= k <= n or not len(self.rewards) == len(self.correct) == k or self.kept < 1 or self.epoch < 1:
            raise ValueError("k, kept, rewards and correct do not go together")
        if self.probes is not None and len(self.probes) != k:
            raise ValueError("probes are not those of k prefixes")


def rewrite_reward(model: LanguageModel, *, rule: Rule | None = None) -> Reward:
    """The paper's reward: +1 where the model answers the edit's own query with the new object, else -1.

    rule: as in `drike.evaluate`. Raises UsageError for one that the model cannot be judged by, the reward for such an
    edit.
    """
    judge = Judge(model, rule)

    def reward(rollout: Rollout) -> Rewards:
        began = time.perf_counter()
        probe = rewrite_probe(rollout.case.edit)
        verdicts = [*chain(*ask_probes(judge, [probe], rollout.prompts([probe.query])))]
        correct = tuple(map(is_right, verdicts))
        rewards = tuple(1.0 if right else -1.0 for right in correct)
        return Rewards(rewards, correct, count_tokens(verdicts), time.perf_counter() - began)

    return reward


def count_tokens(verdicts: Iterable[Verdict]) -> int | None:
    """The prompt tokens of all questions; None if the model does not count them."""
    counts = [verdict.prompt_tokens for verdict in verdicts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def replayed(records: Sequence[EpisodeRecord], reward: Reward) -> Reward:
    """The recorded rewards of the first episodes, then `reward`: how a stopped training run is resumed.

    All else is computed again, so that head, optimiser, sigma and every draw become what they were, bit for bit,
    without calling the model. Raises ReplayError for records of another training.
    """

    def replay(rollout: Rollout) -> Rewards:
        if rollout.number >= len(records):
            return reward(rollout)
        record, case_id = records[rollout.number], rollout.case.case_id
        if record.case_id != case_id:
            raise ReplayError(
                f"the recorded episode of edit {record.case_id} stands where edit {case_id} comes: start a new run"
            )
        if record.order != rollout.order or len(record.rewards) > rollout.k:
            raise ReplayError(f"the recorded episode of edit {case_id} tried other retains: start a new run")
        if any(len(row) != len(rollout.case.probes) for row in record.probes or ()):
            raise ReplayError(f"the recorded episode of edit {case_id} asked other probes: start a new run")
        return Rewards(record.rewards, record.correct, record.prompt_tokens, record.seconds, record.probes)

    return replay


def in_blocks(size: int, threads: int = 1) -> Schedule:
    """Blocks of edits under the theta and sigma from before the block, rewards computed by up to `threads` at once.

    Updates follow one edit after the other, whatever the threads do. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"parallel_edits must be at least 1, not {size}")

    def schedule(cases: Sequence[EditCase], roll_out: RollOut, reward: Reward) -> Generator[tuple[Rollout, Rewards]]:
        for start in range(0, len(cases), size):
            block = [roll_out(case) for case in cases[start : start + size]]
            with closing(in_order(reward, block, min(len(block), threads))) as rewards:
                yield from zip(block, rewards, strict=True)

    return schedule


one_by_one = in_blocks(1)  # each edit under the theta and sigma that the one before it left


def at_once(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
    """An episode's rewards in that episode."""
    return [(rollout, rewards.rewards)]
