"""A policy trained on recorded answers: for each question, leave it alone or state the fact.

It is DR-IKE-Q's (`drike.research.editors.query_policy`) with one mix, the fact alone: a logistic head over the default
gate's features of the question's own edit, and over a few of the question itself, as the good that the fact does
depends on what is asked: a choice, yes or no, several hops. That the gate does not consider the edit is a feature, too.

Two estimators of the same gradient train it, that of the harmonic mean of all kinds of questions: the exact one, as
both answers to each question are known (`drike.research.training.s_objective.fit`), and REINFORCE, which draws one of
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drike.edits.record import EditVersion
from drike.encoders import TextEncoder
from drike.gates.calibrated import LogisticHead
from drike.gates.decision import EQUAL, Candidate
from drike.research.editors.query_policy import QueryPolicy, Shown
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.metrics import harmonic_mean
from drike.research.training.s_objective import SHIFTS, fit
from lib.recorded import states

STRENGTH = 0.000003  # of the pull to the weights of the start
UNCONSIDERED = "unconsidered"
OF_QUESTION = tuple(  # a gate's features have other names
    f"question: {name}"
    for name in (
        "words",
        "words squared",
        "possessives",
        "clauses",
        "yes or no",
        "subject",
        "object",
        "both",
    )
)
_ASKS_YES_OR_NO = re.compile(r"(?i)\W*(is|are|was|were|does|do|did|has|have|can)\b")
_CLAUSE, _POSSESSIVE = (
    re.compile(r"(?i)\b(whose|that|which|where|who)\b"),
    re.compile(r"(?i)\bof\b|['’]s\b"),
)
_NEVER, _SELDOM = -100.0, -8.0  # weights
EAGER = 4.0  # what is added to the logit of the second start, which states the fact nearly always
EPOCHS, BLOCK, RATE, MEMORY = (
    20,
    512,
    0.05,
    0.9,
)  # of REINFORCE: questions of a step, Adam's rate, running means

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Learned:
    """Questions with what the gate found out about their own edit, and which of both answers are right.

    right: without and with the fact [questions, 2]. kinds: of question, as numbers from 0 [questions].
    """

    candidates: tuple[Candidate, ...]
    right: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def some(self, chosen: Flags) -> Learned:
        """Some of the questions."""
        kept = tuple(
            candidate for candidate, is_kept in zip(self.candidates, chosen, strict=True) if is_kept
        )
        return Learned(kept, self.right[chosen], self.kinds[chosen])

    def score(self, stated: Flags) -> float:
        """The harmonic mean of the kinds, if the fact is stated for these questions."""
        right = np.where(stated, self.right[:, 1], self.right[:, 0])
        return float(
            harmonic_mean(
                np.array([right[self.kinds == kind].mean() for kind in np.unique(self.kinds)])
            )
        )

    @property
    def masks(self) -> dict[int, Tensor]:
        """Which questions are of each kind."""
        return {int(kind): torch.tensor(self.kinds == kind) for kind in np.unique(self.kinds)}


Estimator = Callable[[QueryPolicy, Learned], QueryPolicy]


def described(candidate: Candidate | None, question: str, edit: EditVersion) -> Candidate:
    """The candidate with what the question itself is like among its features, beside the gate's."""
    gates = candidate.features if candidate else {UNCONSIDERED: 1.0}
    words = len(question.split()) / 10
    named = [states(question, name) for name in (edit.record.subject, edit.record.target_new)]
    counts = len(_POSSESSIVE.findall(question)), len(_CLAUSE.findall(question))
    values = words, words**2, *counts, bool(_ASKS_YES_OR_NO.match(question)), *named, all(named)
    own = dict(zip(OF_QUESTION, map(float, values), strict=True))
    return replace(candidate or Candidate(edit, 0.0), features={**gates, **own})


def start(encoder: TextEncoder, shift: float = 0.0, *, of_question: bool = True) -> QueryPolicy:
    """The default gate, with the fact alone as the one thing that it may show, and its logit shifted.

    of_question: whether it can learn from what a question itself is like, and to state what the gate does not consider.
    """
    policy = QueryPolicy.untrained(encoder, ())
    further = dict.fromkeys(OF_QUESTION if of_question else (), 0.0)
    weights = {
        **policy.gate.named.weights,
        **further,
        UNCONSIDERED: _SELDOM if of_question else _NEVER,
    }
    nothing = LogisticHead(dict.fromkeys([*weights, EQUAL], 0.0), 0.0)
    gate = replace(policy.gate, named=replace(policy.gate.named, weights=weights))
    return replace(policy, gate=gate, shown=(Shown(RoleCounts(0, 0, 0), nothing),)).shifted(shift)


def logits(policy: QueryPolicy, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """That the fact is stated [questions]: infinite before a text of the edit."""
    head = policy.gate.named
    return np.array(
        [np.inf if EQUAL in of.features else head.logit(of.features) for of in candidates]
    )


def exact(policy: QueryPolicy, learned: Learned) -> QueryPolicy:
    """The policy trained by the exact gradient."""
    right = torch.tensor(learned.right)
    return fit(
        policy, learned.candidates, right, torch.zeros_like(right), learned.masks, strength=STRENGTH
    )


def reinforced(policy: QueryPolicy, learned: Learned, seed: int = 0) -> QueryPolicy:
    """The policy trained by REINFORCE: drawn actions, with the running mean of a kind's rewards as its baseline.

    A right answer to a question of a kind with mean m is worth (S / m)^2, as in the gradient of the harmonic mean S.
    """
    head, rng = policy.gate.named, np.random.default_rng(seed)
    names = list(head.weights)
    kept = [(i, c) for i, c in enumerate(learned.candidates) if EQUAL not in c.features]
    phi = torch.tensor(
        [[c.features.get(name, 0.0) for name in names] + [1.0] for _, c in kept],
        dtype=torch.float64,
    )
    right, kinds = (values[[i for i, _ in kept]] for values in (learned.right, learned.kinds))
    weights = torch.tensor(
        [*head.weights.values(), head.bias], dtype=torch.float64, requires_grad=True
    )
    adam = torch.optim.Adam([weights], lr=RATE)
    means = np.full(learned.kinds.max() + 1, 0.5)
    for _ in range(EPOCHS):
        for block in np.array_split(rng.permutation(len(kept)), max(1, len(kept) // BLOCK)):
            p = torch.sigmoid(phi[block] @ weights)
            acts = rng.random(len(block)) < p.detach().numpy()
            rewards = np.where(acts, right[block, 1], right[block, 0])
            worth = (harmonic_mean(means.clip(0.05)) / means.clip(0.05)) ** 2
            advantages = torch.tensor(worth[kinds[block]] * (rewards - means[kinds[block]]))
            for kind in np.unique(kinds[block]):
                means[kind] += (1 - MEMORY) * (rewards[kinds[block] == kind].mean() - means[kind])
            adam.zero_grad()
            chosen = torch.where(torch.tensor(acts), p, 1 - p).clamp_min(1e-9)
            (-(advantages * chosen.log()).mean()).backward()  # type: ignore[no-untyped-call]
            adam.step()
    *values, bias = weights.detach().tolist()
    return replace(
        policy,
        gate=replace(policy.gate, named=LogisticHead(dict(zip(names, values, strict=True)), bias)),
    )


def trained(
    learned: Learned, encoder: TextEncoder, estimator: Estimator, *, of_question: bool = True
) -> QueryPolicy:
    """The better one on its own questions of two starts, as the objective is not convex, at its best shift.

    Without questions it is the start.
    """
    if not learned.candidates:
        return start(encoder, of_question=of_question)
    found: list[tuple[float, QueryPolicy]] = []
    for shift in (0.0, EAGER):
        policy = estimator(start(encoder, shift, of_question=of_question), learned)
        own = logits(policy, learned.candidates)
        found += [
            (learned.score(own + shift >= 0), policy.shifted(shift))
            for shift in sorted(SHIFTS, key=abs)
        ]
    return max(found, key=lambda pair: pair[0])[1]
