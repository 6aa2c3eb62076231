"""Training the retriever: REINFORCE on the frozen model's right and wrong answers (paper, Algorithm 1).

For an edit, the policy orders its retain pool; the budget says how many prefixes k are tried; the model answers the
edit's query under each of the k nested prompts; every answer is a reward of +1 or -1 for the retain that was added
last. The loss is -sum_j r_j log p_j, and the budget learns from the same rewards.

Where the paper leaves a choice, the default stands first: `selection` "top" (the appendix) or "sample" (section 4.2:
drawn without replacement, until a retain does not exceed sigma); `renormalise` takes log p_j over what is left of the
pool; `stop_on_flip` ends an episode where an added retain breaks the answer. `Feedback` can delay or falsify what the
learner is told. Left out: baselines and reward mixtures.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from drike.demonstrations import DemonstrationSet
from drike.edits import EditCase, rewrite_probe
from drike.errors import ReplayError
from drike.judging import Question, judge
from drike.models.protocols import LanguageModel
from drike.parallel import in_order
from drike.prompts import Layout, Prompt, PromptStyle, RetainForm
from drike.retrieval.budget import Budget, Threshold
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever, best_first
from drike.retrieval.token_limit import TokenLimit
from drike.training.schedules import AT_ONCE, Feedback, Update

Selection = Literal["top", "sample"]


@dataclass(frozen=True)
class Episode:
    """One rollout: an edit's retains in the order tried, what each earned, and the budget it leaves.

    order: pool indices, [n]. probs: their probabilities, in that order, [n]. rewards: +1 or -1 for the first k, as the
    model earned them, [k]. loss: -sum_j r_j log p_j. prompt_tokens: read by the model as if nothing were shared; None
    if unknown. kept: how many the budget in force keeps; learned ones try one more. sigma: what the budget left asks of
    this edit's retains; None where it asks no probability. A `Feedback` may tell the learner later, or otherwise.
    """

    epoch: int
    case_id: str
    order: tuple[int, ...]
    probs: tuple[float, ...]
    rewards: tuple[int, ...]
    loss: float
    budget: Budget
    prompt_tokens: int | None
    seconds: float
    kept: int
    sigma: float | None

    @property
    def k(self) -> int:
        """How many prefixes were tried."""
        return len(self.rewards)

    @property
    def success(self) -> bool:
        """Whether the answer was right under the prompt that the budget would have given."""
        return self.rewards[min(self.kept, self.k) - 1] > 0


Acted = tuple[Episode, Tensor]  # an episode, and log p_j of the prefixes tried in it


@dataclass(frozen=True)
class RecordedRollout:
    """What the model answered in an episode of a run that was stopped: everything of it that cannot be computed again.

    case_id, order: whose episode it was, and the retains as tried. rewards, prompt_tokens, seconds: as in `Episode`.
    """

    case_id: str
    order: tuple[int, ...]
    rewards: tuple[int, ...]
    prompt_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class Switches:
    """Readings of the paper that change an episode; the defaults are Algorithm 1's.

    retain, layout and own_copy word the prompts: an editor with the trained policy should use the same.
    """

    selection: Selection = "top"
    renormalise: bool = False
    stop_on_flip: bool = False
    retain: RetainForm = "headed"
    layout: Layout = "append"
    own_copy: bool = True

    def __post_init__(self) -> None:
        """Refuse readings that do not exist."""
        if self.selection not in ("top", "sample"):
            raise ValueError(f"selection must be top or sample, not {self.selection!r}")
        _ = self.style

    @property
    def style(self) -> PromptStyle:
        """The style of the prompts."""
        return PromptStyle(self.layout, self.own_copy, self.retain)


def train(
    model: LanguageModel,
    cases: Sequence[EditCase],
    pool: Pool,
    retriever: Retriever,
    budget: Budget | None = None,
    *,
    epochs: int = 5,
    learning_rate: float = 1e-4,
    switches: Switches = Switches(),
    limit: TokenLimit | None = None,
    feedback: Feedback = AT_ONCE,
    parallel_edits: int = 1,
    seed: int = 0,
    past: Sequence[RecordedRollout] = (),
) -> Generator[Episode, None, None]:
    """Algorithm 1 with Adam and a batch of one; yields every episode as it ends, `retriever.head` learning in place.

    Args:
        cases: the training set T, gone through in this order in every epoch.
        pool: where copies, updates and the retain candidates C come from.
        limit: prefixes of the ranking whose prompts are longer are not tried.
        budget: sigma and K; Threshold(0, 16) unless given.
        feedback: how rewards reach the learner; at once and true unless given.
        parallel_edits: B, edits rolled out at once, by as many threads as the model takes (`info.calls_at_once`). The B
            episodes see theta and sigma as they were before the first of them; then theta makes a step and sigma its
            update for each in turn, as in Algorithm 1, which B = 1 is. Neither threads nor timing change the result.
        seed: of the draws of `selection="sample"` and, apart from these, of `feedback`; nothing else is random.
        past: answers of the first episodes, where a run is taken up again. Everything else about them is computed
            anew, so that head, optimiser, sigma and every draw are what they were, bit for bit; the model is not asked.

    Raises ValueError for parallel_edits below 1, ReplayError where `past` belongs to another training. The last
    episode's `budget` is the trained one.
    """
    if parallel_edits < 1:
        raise ValueError(f"parallel_edits must be at least 1, not {parallel_edits}")
    budget = Threshold() if budget is None else budget  # sigma <- 0, once: not again in later epochs
    optimizer = torch.optim.Adam(retriever.head.parameters(), lr=learning_rate)
    rng, chance = random.Random(seed), random.Random(f"{seed}|feedback")
    retriever.trained_on |= {case.edit.key for case in cases}
    pools = pool.candidates([case.edit for case in cases])  # copies, updates and C do not depend on theta,
    features = [retriever.features(candidates) for candidates in pools]  # nor does what the frozen encoder reads
    waiting: list[Update] = []
    now, last = 0, epochs * len(cases)
    for epoch in range(1, epochs + 1):
        for start in range(0, len(cases), parallel_edits):
            block = slice(start, start + parallel_edits)  # a single edit in the paper
            log_ps = [retriever.log_probs(read) for read in features[block]]  # z <- S_theta(x, C); p <- softmax(z)
            # Where several draw at once, each has its own generator, seeded by the run's.
            draws = [rng if parallel_edits == 1 else random.Random(rng.getrandbits(64)) for _ in log_ps]
            acts = [
                partial(rollout, model, candidates, log_p, budget, switches=switches, limit=limit, rng=draw, past=told)
                for candidates, log_p, draw, told in zip(
                    pools[block], log_ps, draws, _told(past, now, cases[block]), strict=True
                )
            ]
            with closing(in_order(_do, acts, min(len(acts), model.info.calls_at_once))) as acted:
                for case, candidates, (episode, tried) in zip(cases[block], pools[block], acted, strict=True):
                    now += 1
                    probs, rewards = episode.probs, episode.rewards
                    waiting.append(feedback.send(candidates, probs, rewards, tried, now=now, last=last, rng=chance))
                    for lesson in [lesson for lesson in waiting if lesson.due <= now]:  # this episode's, unless delayed
                        optimizer.zero_grad()
                        loss_of(lesson.rewards, lesson.log_p).backward()  # type: ignore[no-untyped-call]
                        optimizer.step()  # theta <- theta - alpha grad L
                        # sigma rises where r fell from +1 to -1
                        budget = budget.after(lesson.probs, lesson.rewards, lesson.candidates)
                    waiting = [lesson for lesson in waiting if lesson.due > now]
                    sigma = budget.sigma_for(episode.probs, candidates)
                    yield replace(episode, epoch=epoch, case_id=case.case_id, budget=budget, sigma=sigma)


def _do(act: Callable[[], Acted]) -> Acted:
    return act()


def _told(past: Sequence[RecordedRollout], now: int, cases: Sequence[EditCase]) -> list[RecordedRollout | None]:
    """The recorded answer of each of these cases, `now` episodes being over; None where the model is to be asked."""
    told = [past[now + i] if now + i < len(past) else None for i in range(len(cases))]
    for answered, case in zip(told, cases, strict=True):
        if answered is not None and answered.case_id != case.case_id:
            raise ReplayError(f"the recorded episode of edit {answered.case_id} stands where edit {case.case_id} comes")
    return told


def loss_of(rewards: Sequence[int], log_p: Tensor) -> Tensor:
    """REINFORCE's -sum_j r_j log p_j over the prefixes that were tried, both [k] (Algorithm 1, line 22)."""
    return -(torch.tensor(rewards, dtype=log_p.dtype) * log_p).sum()


def rollout(
    model: LanguageModel,
    candidates: DemonstrationSet,
    log_p: Tensor,
    budget: Budget,
    *,
    switches: Switches = Switches(),
    limit: TokenLimit | None = None,
    rng: random.Random | None = None,
    past: RecordedRollout | None = None,
) -> Acted:
    """One episode of an edit under `log_p` [n], and log p_j of the k prefixes tried, [k] (Algorithm 1, lines 8-22).

    Nothing is learned here: the episode's `budget` is the one it was cut by. `rng` is needed for `selection="sample"`
    only. past: its answers, where the model gave them before. Raises ValueError if `rng` is missing, ReplayError where
    `past` is of retains in another order.
    """
    if switches.selection == "sample" and rng is None:
        raise ValueError('selection="sample" draws: it needs a seeded random.Random as rng')
    began = time.perf_counter()
    p = [math.exp(log_p_i) for log_p_i in log_p.tolist()]  # as a ranking has them: sigma is compared with these
    draws = rng if switches.selection == "sample" else None
    order, kept, k = _choose(log_p.tolist(), p, candidates, budget, draws)
    probs = [p[i] for i in order]
    if past is not None:
        if past.order != tuple(order) or len(past.rewards) > k:
            raise ReplayError(f"the recorded episode of edit {past.case_id} tried other retains")
        rewards, tokens = list(past.rewards), past.prompt_tokens
    else:
        prompts = _prompts(candidates, order[:k], switches)
        if limit is not None:
            prompts = prompts[: limit.fitting(k, lambda j: prompts[j - 1 : j])]
        rewards, tokens = _rewards(model, candidates, prompts, switches)
    tried = log_p[order[: len(rewards)]]
    if switches.renormalise:
        tried = _over_what_is_left(log_p, order)[: len(rewards)]
    loss, sigma = loss_of(rewards, tried).item(), budget.sigma_for(probs, candidates)
    seconds = time.perf_counter() - began if past is None else past.seconds
    episode = Episode(0, "", tuple(order), tuple(probs), tuple(rewards), loss, budget, tokens, seconds, kept, sigma)
    return episode, tried


def _choose(
    log_p: Sequence[float], p: Sequence[float], candidates: DemonstrationSet, budget: Budget, rng: random.Random | None
) -> tuple[list[int], int, int]:
    """The order in which retains are tried, how many of it are kept, and how many are tried.

    Top-j by p, or with `rng` drawn without replacement.
    """
    by_p = best_first(p)
    ranked = [p[i] for i in by_p]
    kept, tried = budget.keep(ranked, candidates), budget.evaluated(ranked, candidates)
    if rng is None:
        return by_p, kept, tried
    # Gumbel top-k: sorting by log p + Gumbel noise draws without replacement, and no p is too small for it.
    keys = [x - math.log(-math.log(max(rng.random(), 1e-300))) for x in log_p]
    order = best_first(keys)
    sigma = budget.sigma_for(ranked, candidates) or 0.0
    admitted = next((j for j, i in enumerate(order) if p[i] <= sigma), len(order))
    drawn = max(1, min(kept, admitted))  # a draw at or below sigma is the stop action
    return order, drawn, min(len(order), drawn + tried - kept)


def _rewards(
    model: LanguageModel, candidates: DemonstrationSet, prompts: Sequence[Prompt], switches: Switches
) -> tuple[list[int], int | None]:
    """r_j for the prompt of every prefix, all asked at once since none depends on another's; and the tokens read."""
    target = rewrite_probe(candidates.edit).target
    questions = [Question(prompt, target) for prompt in prompts]
    batches = [[question] for question in questions] if switches.stop_on_flip else [questions]
    rewards: list[int] = []
    tokens: list[int | None] = []
    for batch in batches:
        verdicts = judge(model, batch)
        rewards += [1 if verdict.correct else -1 for verdict in verdicts]
        tokens += [verdict.prompt_tokens for verdict in verdicts]
        if switches.stop_on_flip and rewards[-2:] == [1, -1]:
            break
    counted = [n for n in tokens if n is not None]
    return rewards, sum(counted) if len(counted) == len(tokens) else None


def _prompts(candidates: DemonstrationSet, chosen: Sequence[int], switches: Switches) -> list[Prompt]:
    """The edit's own query under every prefix of `chosen`, shortest first."""
    query, retains = rewrite_probe(candidates.edit).query, candidates.retains
    prompts: list[Prompt] = []
    for j in range(1, len(chosen) + 1):
        prompts += switches.style.show(candidates, [retains[i] for i in chosen[:j]], [query])
    return prompts


def _over_what_is_left(log_p: Tensor, order: Sequence[int]) -> Tensor:
    """Log p_j renormalised over the retains not drawn before step j: the log-probability of the draw itself."""
    ordered = log_p[list(order)]
    return ordered - torch.logcumsumexp(ordered.flip(0), dim=0).flip(0)
