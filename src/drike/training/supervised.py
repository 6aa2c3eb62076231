"""A supervised rival of Algorithm 1: how much each retain helps is measured once, and the head learns to rank by it.

The utility of a retain is what an edit's probes earn with all retains less what they earn without this one. A listwise
loss (ListNet) makes the policy's softmax over the pool the softmax of the utilities.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch

from drike.editors.pool import Pool
from drike.editors.rankers import Retriever
from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.evaluation.judge import Judge
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.support.parallel import in_order
from drike.training.rewards import ask_probes, mean_of_aspects


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
    weights: Mapping[Aspect, float] | None = None,
) -> Generator[Utilities, None, None]:
    """Drop each retain once; all prompts of an edit, 1 + n of them for each probe, go to the model in one call.

    weights: of the aspects; None: equal ones. soft: as in `every_probe`. Raises PoolError and the model's ModelErrors;
    UsageError if soft and the model gives no log-probabilities.
    """
    pool.beside([case.edits for case in cases])  # all in one search

    def measure(case: EditCase) -> Utilities:
        [candidates] = pool.beside([case.edits])
        retains = candidates.retains
        shown = [retains, *(retains[:i] + retains[i + 1 :] for i in range(len(retains)))]
        queries = [probe.query for probe in case.probes]
        prompts = [style.show(candidates, kept, queries) for kept in shown]
        rows, _ = ask_probes(Judge(model), case.probes, prompts, soft=soft)
        everything, *without = [mean_of_aspects(case.probes, row, weights) for row in rows]
        return Utilities(case.case_id, tuple(everything - one for one in without))

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
    pools = pool.beside([case.edits for case in cases])
    shapes = [(case.case_id, len(one.retains)) for case, one in zip(cases, pools, strict=True)]
    if not cases or shapes != [(one.case_id, len(one.of_retains)) for one in measured]:
        raise UsageError(f"the utilities of {len(measured)} edits are not those of these {len(cases)}")
    retriever.trained_on |= {edit.key for case in cases for edit in case.edits}
    wanted = [torch.softmax(torch.tensor(one.of_retains) / temperature, dim=0) for one in measured]
    features = [retriever.features(one) for one in pools]
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
