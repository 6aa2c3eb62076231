"""A supervised rival of Algorithm 1: measure once how much each retain helps, and train the head to rank by it.

The utility of a retain is the reward of an edit's probes with all retains minus that without this one. A listwise loss
(ListNet) makes the policy's softmax over the pool the softmax of the utilities.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch

from drike.edits.edit import EditCase
from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.prompts import Demonstration, PromptStyle
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.evaluation.judge import GREEDY, Judge, ask_probes, is_right
from drike.support.parallel import in_order

from .credit import mean_of_aspects
from .soft import ask_with_distractors, margin


@dataclass(frozen=True)
class Utilities:
    """How much each retain of an edit's pool helps, in the order of the pool, [n]; from -2 (hurts most) to 2."""

    case_id: str
    of_retains: tuple[float, ...]


def utilities(
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    style: PromptStyle = PromptStyle(),
    soft: bool = True,
) -> Generator[Utilities, None, None]:
    """Drop each retain once; all prompts of an edit, 1 + n of them for each probe, go to the model in one call.

    soft: rewards are margins, else +1 or -1. Raises PoolError and the model's ModelErrors; UsageError if soft and the
    model gives no log-probabilities.
    """
    judge = Judge(model, GREEDY if soft else None)
    pool.for_groups([case.edits for case in cases])  # all in one search

    def measure(case: EditCase) -> Utilities:
        [candidates] = pool.for_groups([case.edits])
        retains = candidates.retains
        shown: list[tuple[Demonstration, ...]] = [
            retains, *(retains[:i] + retains[i + 1 :] for i in range(len(retains)))
        ]  # fmt: skip
        queries = [probe.query for probe in case.probes]
        prompts = [style.show(candidates, kept, queries) for kept in shown]
        if soft:
            rows = [
                [margin(verdict) for verdict in row]
                for row in ask_with_distractors(judge, case.probes, prompts)
            ]
        else:
            verdicts = ask_probes(judge, case.probes, prompts)
            rows = [[1.0 if is_right(verdict) else -1.0 for verdict in row] for row in verdicts]
        everything, *without = [mean_of_aspects(case.probes, row) for row in rows]
        return Utilities(case.case_id, tuple(everything - reward for reward in without))

    with closing(in_order(measure, cases, model.info.calls_at_once)) as measured:
        yield from measured


def train_listwise(
    retriever: Retriever,
    pool: Pool,
    cases: Sequence[EditCase],
    measured: Sequence[Utilities],
    *,
    epochs: int = 5,
    learning_rate: float = 1e-3,
    temperature: float = 0.1,
) -> Generator[float, None, None]:
    """Minimise -sum_i q_i log p_i with q = softmax(utilities / temperature), one edit a step; yields mean losses.

    The retriever's head learns in place. Raises UsageError if the utilities are not those of the cases.
    """
    pools = pool.for_groups([case.edits for case in cases])
    shapes = [
        (case.case_id, len(candidates.retains))
        for case, candidates in zip(cases, pools, strict=True)
    ]
    if not cases or shapes != [(of_case.case_id, len(of_case.of_retains)) for of_case in measured]:
        raise UsageError(
            f"the utilities of {len(measured)} edits are not those of these {len(cases)}"
        )
    retriever.trained_on |= {edit.key for case in cases for edit in case.edits}
    wanted = [
        torch.softmax(torch.tensor(of_case.of_retains) / temperature, dim=0) for of_case in measured
    ]
    features = [retriever.features(candidates) for candidates in pools]
    adam = torch.optim.Adam(retriever.head.parameters(), lr=learning_rate)
    for _ in range(epochs):
        losses = []
        for phi, q in zip(features, wanted, strict=True):
            loss = -(q * retriever.log_probs(phi)).sum()
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            losses.append(loss.item())
        yield sum(losses) / len(losses)
