"""DR-IKE-Q as it was: a policy over mixes that reads an edit and a query as vectors, and never leaves a query alone.

    pi(mix | edit, query) = softmax(W phi + b)
    phi = (c, c^2, c^3, 1 if the query names the subject, u * v, |u - v|)

u and v are the unit vectors of the edit's query and of the query asked, and c is their cosine. Features of the pair are
used because features of one text that contains both do not generalise to relations outside the training edits
(benchmarks/notes/README.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from drike.edits.edit import Aspect, Edit, EditCase
from drike.encoders import TextEncoder
from drike.encoders.base import unit
from drike.prompts import DemonstrationSet, Role
from drike.research.editors.selectors import RoleCounts, Selection, Selector
from drike.research.evaluation.case_answers import CaseAnswers
from drike.text.words import mentions

Masks = Mapping[Aspect, Tensor]  # which probes are of an aspect, [probes]
Loss = Callable[[Tensor, Tensor, Masks], Tensor]  # of logits and right answers [probes, mixes]
_SCALARS = (
    4  # features before the vectors: three powers of the cosine, and whether the subject is named
)


class PairPolicy(Selector):
    """The policy: a frozen encoder, the mixes to choose from, and a linear head, which starts at zero.

    named: whether the feature for a query that names the edited subject is used; otherwise it is 0. `trained_on` holds
    the key (query, new object) of every edit that the head was trained on or its offset was chosen on.
    """

    def __init__(
        self, encoder: TextEncoder, mixes: Sequence[RoleCounts], *, named: bool = False
    ) -> None:
        if not mixes:
            raise ValueError("a policy needs at least one mix to choose")
        self.encoder, self.mixes, self.named = encoder, tuple(mixes), named
        self.head = nn.Linear(_SCALARS + 2 * encoder.dim, len(self.mixes))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    def features(self, edit: Edit, queries: Sequence[str]) -> Tensor:
        """Phi of each query about an edit [m, d]; float32, no gradient."""
        vectors = unit(np.asarray(self.encoder.encode([edit.query, *queries]), dtype=np.float64))
        u, v = vectors[0], vectors[1:]
        c = (v @ u)[:, None]
        subject = edit.subject if self.named else None
        named = np.array(
            [[subject is not None and mentions(query, subject)] for query in queries],
            dtype=np.float64,
        )
        columns = [c, c**2, c**3, named.reshape(-1, 1), v * u, np.abs(v - u)]
        return torch.from_numpy(np.hstack(columns).astype(np.float32))

    def log_probs(self, features: Tensor) -> Tensor:
        """Log pi over the mixes [m, mixes], differentiable in the head."""
        return torch.log_softmax(self.head(features), dim=1)

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """The most probable mix for each query; the smallest of equally probable ones."""
        if not queries:
            return []
        with torch.no_grad():
            best = self.log_probs(self.features(edit, queries)).argmax(dim=1)
        return [self.mixes[i] for i in best.tolist()]

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The demonstrations of each query's mix."""
        mixes = self.choose(candidates.edit, queries)
        return [Selection(candidates, mix.nearest(candidates)) for mix in mixes]


def pair_mixes(roles: Sequence[Role]) -> list[RoleCounts]:
    """Its mixes: all copies and updates or neither, with no, a quarter of or all retains; or all copies alone."""
    copies, updates, retains = (roles.count(role) for role in (Role.COPY, Role.UPDATE, Role.RETAIN))
    fixed = (
        RoleCounts(c, u, r)
        for c, u in ((0, 0), (copies, updates))
        for r in (0, -(-retains // 4), retains)
    )
    return sorted({RoleCounts(copies, 0, 0), *fixed}, key=lambda mix: (mix.size, mix))


def minus_s(logits: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """-S of the aspects' expected means under pi = softmax(logits)."""
    expected = (logits.softmax(dim=1) * right).sum(dim=1)
    means = torch.stack([expected[mask].mean() for mask in masks.values()])
    return -len(means) / means.clamp_min(1e-3).reciprocal().sum()


def train_pair_policy(
    policy: PairPolicy, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], *, loss: Loss = minus_s,
    price: float = 0.05,
) -> None:  # fmt: skip
    """Minimise a loss with Adam, all edits in each step; the policy's head learns in place.

    answers: to the cases, under each mix. price: how much S a prompt with all demonstrations may cost.
    """
    right = torch.cat([torch.tensor(of_case.correct, dtype=torch.float32) for of_case in answers])
    aspects = [probe.aspect for case in cases for probe in case.probes]
    masks = {
        wanted: torch.tensor([aspect is wanted for aspect in aspects])
        for wanted in Aspect
        if wanted in aspects
    }
    sizes = torch.tensor([float(mix.size) for mix in policy.mixes])
    phi = torch.cat(
        [policy.features(case.edit, [probe.query for probe in case.probes]) for case in cases]
    )
    mean, scale = phi.mean(dim=0), phi.std(dim=0).clamp_min(1e-6)
    phi = (phi - mean) / scale
    policy.trained_on |= {edit.key for case in cases for edit in case.edits}
    head = policy.head
    adam = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(200):
        logits = head(phi)
        shots = logits.softmax(dim=1) @ sizes
        cost = torch.stack(
            [shots[mask].mean() for mask in masks.values()]
        ).mean() / sizes.max().clamp_min(1)
        total = loss(logits, right, masks) + price * cost + 1e-3 * head.weight.square().sum()
        adam.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        adam.step()
    with torch.no_grad():  # the head reads features as they are
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ mean)
