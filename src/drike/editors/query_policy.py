"""DR-IKE-Q's policy, which reads an edit and a query and chooses the mix of demonstrations that the query is shown.

    pi(mix | edit, query) = softmax(W phi + b)
    phi = (c, c^2, c^3, 1 if the query names the subject, u * v, |u - v|)

u and v are the unit vectors of the edit's query and of the query asked, and c is their cosine. Features of the pair are
used because features of one text that contains both do not generalise to relations outside the training edits
(docs/results.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from drike.editors.role_counts import RoleCountPolicy, RoleCounts
from drike.edits import Edit
from drike.encoders import TextEncoder
from drike.encoders.base import unit
from drike.words import mentions

_SCALARS = 4  # features before the vectors: three powers of the cosine, and whether the subject is named


class QueryPolicy(RoleCountPolicy):
    """The policy: a frozen encoder, the mixes to choose from, and a linear head, which starts at zero.

    named: whether the feature for a query that names the edited subject is used; otherwise it is 0. `trained_on` holds
    the key (query, new object) of every edit that the head was trained on or its offset was chosen on.
    """

    def __init__(self, encoder: TextEncoder, mixes: Sequence[RoleCounts], *, named: bool = False) -> None:
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
        named = np.array([[subject is not None and mentions(query, subject)] for query in queries], dtype=np.float64)
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

    def with_logit_offset(self, offset: float) -> QueryPolicy:
        """A copy of this policy with a number added to the logit of each mix; an offset of 0 adds nothing.

        A positive offset favours prompts with all retains, or all copies and updates, over mixed ones; above 64 it
        increasingly favours retains, so that more neighbours keep their answers; a negative one copies and updates.
        """
        whole_weight = min(max(offset, 0.0), 64.0)
        retain_weight = offset if offset < 0 else whole_weight / 16 + max(offset - 64.0, 0.0)
        full = self.mixes[-1]
        retains, others = max(full.retains, 1), max(full.copies + full.updates, 1)
        # The share of the retains that a mix shows, minus that of the copies and updates, in [-1, 1].
        lead = torch.tensor([mix.retains / retains - (mix.copies + mix.updates) / others for mix in self.mixes])
        policy = copy(self)
        policy.head = deepcopy(self.head)
        with torch.no_grad():
            policy.head.bias.add_(whole_weight * lead.abs() + retain_weight * lead)
        return policy
