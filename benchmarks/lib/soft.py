"""Soft rewards: the log-probability margin of target and distractor instead of right or wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import chain

from drike.edits.edit import Probe
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt
from drike.research.evaluation.judge import GREEDY, Judge, Question, Verdict, is_right
from drike.research.training.algorithm1 import Reward, Rewards, Rollout, count_tokens

from .credit import mean_of_aspects


def soft_probes(model: LanguageModel) -> Reward:
    """As `every_probe`, but each probe gives its margin. Raises UsageError for a model without log-probabilities."""
    judge = Judge(model, GREEDY)

    def reward(rollout: Rollout) -> Rewards:
        began = time.perf_counter()
        probes = rollout.case.probes
        verdicts = ask_with_distractors(
            judge, probes, rollout.prompts([probe.query for probe in probes])
        )
        rows = tuple(tuple(map(margin, row)) for row in verdicts)
        correct = tuple(is_right(row[0]) for row in verdicts)  # the rewrite probe comes first
        rewards = tuple(mean_of_aspects(probes, row) for row in rows)
        return Rewards(
            rewards, correct, count_tokens(chain(*verdicts)), time.perf_counter() - began, rows
        )

    return reward


def ask_with_distractors(
    judge: Judge, probes: Sequence[Probe], prompts: Sequence[Sequence[Prompt]]
) -> list[list[Verdict]]:
    """As `ask_probes`, [choices][probes], with the scores of targets and distractors."""
    questions = [
        Question(prompt, probe.target, probe.distractor)
        for under_choice in prompts
        for prompt, probe in zip(under_choice, probes, strict=True)
    ]
    verdicts = judge.ask(questions)
    return [verdicts[i : i + len(probes)] for i in range(0, len(verdicts), len(probes))]


def margin(verdict: Verdict) -> float:
    """sigma(m) - sigma(-m), m being log P(target) - log P(distractor); without a distractor 2 P(target) - 1."""
    assert verdict.score is not None
    if verdict.distractor is None:
        return 2 * math.exp(verdict.score.logprob) - 1
    return math.tanh((verdict.score.logprob - verdict.distractor.logprob) / 2)
