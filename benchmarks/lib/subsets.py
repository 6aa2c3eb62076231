"""A policy over sets of demonstrations: each is scored for the query asked, and a set is drawn or chosen by the scores.

    z_i = w_role(i) . phi(edit, query) + v_role(i) . psi(edit, query, i)        z_stop = w_stop . phi(edit, query)

phi(edit, query) is `pair` of their unit vectors; psi has the powers of three cosines: query and demonstration, edit and
demonstration, and their difference. Weights are kept per role, since own questions and neighbours need other roles.

`Bernoulli` includes each demonstration on its own, with probability sigmoid(z_i). `PlackettLuce` draws without
replacement from softmax(z) until it draws the stop action. Both know the exact log-probability of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from drike.encoders import TextEncoder
from drike.encoders.base import unit
from drike.prompts import Demonstration, DemonstrationSet, Role
from drike.research.editors.selectors import Selection

Subset = tuple[int, ...]  # indices of demonstrations, as shown
ROLES = tuple(Role)
_COSINES = 9  # numbers in psi


class Draw(Protocol):
    """How a set is made of scores z [n + 1], those of n demonstrations and, last, of the stop action."""

    def drawn(self, z: Tensor, noise: Tensor) -> Subset:
        """A set drawn from the policy, given uniform noise in (0, 1) [n + 1]."""

    def best(self, z: Tensor) -> Subset:
        """The set that is shown in evaluation."""

    def log_prob(self, z: Tensor, subset: Subset) -> Tensor:
        """The exact log-probability of drawing this set; of Plackett-Luce, in this order. Differentiable in z."""


@dataclass(frozen=True)
class Bernoulli:
    """Each demonstration for itself; the stop action is not used. A set keeps the order of the scores."""

    def drawn(self, z: Tensor, noise: Tensor) -> Subset:
        """Those whose noise lies below sigmoid(z)."""
        return tuple((noise < z.sigmoid())[:-1].nonzero().flatten().tolist())

    def best(self, z: Tensor) -> Subset:
        """Those with a probability above one half."""
        return tuple((z[:-1] > 0).nonzero().flatten().tolist())

    def log_prob(self, z: Tensor, subset: Subset) -> Tensor:
        """The sum over demonstrations, included or not."""
        signs = torch.full_like(z[:-1], -1.0)
        signs[[*subset]] = 1.0
        return nn.functional.logsigmoid(signs * z[:-1]).sum()


@dataclass(frozen=True)
class PlackettLuce:
    """One after the other without replacement, until the stop action or the end; a set is in the order drawn."""

    def drawn(self, z: Tensor, noise: Tensor) -> Subset:
        """Gumbel noise on z, sorted: a draw without replacement."""
        return self.best(z - (-noise.clamp(1e-30, 1 - 1e-7).log()).log())

    def best(self, z: Tensor) -> Subset:
        """Greedy until stop: those with a higher score than the stop action, best first."""
        order: list[int] = z.argsort(descending=True, stable=True).tolist()
        return tuple(order[: order.index(len(z) - 1)])

    def log_prob(self, z: Tensor, subset: Subset) -> Tensor:
        """Sum of z_j - log sum exp over what was left at each step, the final stop included."""
        rest = sorted({*range(len(z) - 1)} - {*subset})
        s = z[[*subset, len(z) - 1, *rest]]
        return (s - s.flip(0).logcumsumexp(0).flip(0))[: len(subset) + 1].sum()


class SubsetPolicy:
    """The policy: a frozen encoder, a linear head, and the way a set is drawn.

    roles: those it chooses from; demonstrations of other roles are always shown, first. reads_query: False for one set
    per edit, chosen as if the edit's own query were asked. stop: initial score of the stop action; those of
    demonstrations start at 0. `trained_on` holds the key (query, new object) of every edit the head was trained on.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        draw: Draw,
        *,
        roles: Sequence[Role] = ROLES,
        reads_query: bool = True,
        stop: float = 0.0,
    ) -> None:
        self.encoder, self.draw, self.roles, self.reads_query = (
            encoder,
            draw,
            tuple(roles),
            reads_query,
        )
        of_query, of_shown = (
            nn.Linear(3 + 2 * encoder.dim, len(ROLES) + 1),
            nn.Linear(_COSINES, len(ROLES)),
        )
        for linear in (of_query, of_shown):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        nn.init.constant_(of_query.bias[-1:], stop)
        # Normalised by the statistics of the training edits, which `standardise` sets.
        scales = [
            nn.BatchNorm1d(linear.in_features, eps=1e-9, affine=False)
            for linear in (of_query, of_shown)
        ]
        self.head = nn.ModuleList(
            [nn.Sequential(*pair) for pair in zip(scales, (of_query, of_shown), strict=True)]
        )
        self.head.eval()
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    def choices(self, candidates: DemonstrationSet) -> tuple[Demonstration, ...]:
        """The n demonstrations that a set is made of: copies, updates, retains, nearest first in each role."""
        ordered = (*candidates.fixed, *candidates.retains)
        return tuple(d for d in ordered if d.role in self.roles)

    def with_set(self, candidates: DemonstrationSet, subset: Subset) -> tuple[Demonstration, ...]:
        """What a prompt shows: demonstrations that are not chosen from, then the set."""
        choices = self.choices(candidates)
        always = tuple(d for d in candidates.fixed if d.role not in self.roles)
        return (*always, *(choices[i] for i in subset))

    def features(
        self, candidates: DemonstrationSet, queries: Sequence[str]
    ) -> tuple[Tensor, Tensor]:
        """Phi [m, d] and psi [m, n, 9] of each query; with `reads_query=False` of the edit's own query, m = 1."""
        edit, choices = candidates.edit, self.choices(candidates)
        asked = list(queries) if self.reads_query else [edit.query]
        texts = [edit.query, *asked, *(d.query for d in choices)]
        vectors = unit(np.asarray(self.encoder.encode(texts), dtype=np.float64))
        u, v, e = vectors[0], vectors[1 : len(asked) + 1], vectors[len(asked) + 1 :]
        to_query, to_edit = v @ e.T, np.broadcast_to(e @ u, (len(asked), len(choices)))
        phi = np.hstack([_powers(v @ u), v * u, np.abs(v - u)])
        psi = np.concatenate([_powers(c) for c in (to_query, to_edit, to_query - to_edit)], axis=-1)
        return torch.from_numpy(phi.astype(np.float32)), torch.from_numpy(psi.astype(np.float32))

    def scores(self, candidates: DemonstrationSet, features: tuple[Tensor, Tensor]) -> Tensor:
        """Z of the demonstrations and of the stop action, [m, n + 1], differentiable in the head."""
        roles = torch.tensor(
            [ROLES.index(d.role) for d in self.choices(candidates)], dtype=torch.long
        )
        of_query, of_shown = self.head[0](features[0]), self.head[1](features[1].flatten(0, 1))
        of_shown = of_shown.unflatten(0, features[1].shape[:2])
        own = of_shown.gather(2, roles.expand(of_shown.shape[:2])[..., None]).squeeze(2)
        return torch.cat([of_query[:, roles] + own, of_query[:, -1:]], dim=1)

    def standardise(self, features: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Scale features to mean 0 and variance 1 over these queries, as `features` returns them."""
        columns = [
            torch.cat([phi for phi, _ in features]),
            torch.cat([psi.flatten(0, 1) for _, psi in features]),
        ]
        for part, rows in zip(self.head, columns, strict=True):
            normalisation = part[0]  # type: ignore[index]
            normalisation.running_mean = rows.mean(dim=0)
            normalisation.running_var = rows.var(dim=0, correction=0)

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The set for each query."""
        if not queries:
            return []
        with torch.no_grad():
            z = self.scores(candidates, self.features(candidates, queries))
        chosen = [self.with_set(candidates, self.draw.best(row)) for row in z]
        return [
            Selection(candidates, shown)
            for shown in (chosen if self.reads_query else chosen * len(queries))
        ]


def _powers(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([cosines, cosines**2, cosines**3], axis=-1)
