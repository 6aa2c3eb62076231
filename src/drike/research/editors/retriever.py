"""The learned policy that ranks retains: a frozen text encoder f with a linear head S_theta.

The head gives every retain e of an edit x a score z, and p = softmax(z) (paper, section 4.2). Two
forms of S_theta fit the paper's text:

    dot:   z = (W f(x) + b) . (W f(e) + b) / sqrt(h)   the parent method's; x, e are encoded apart
    cross: z = w . f(x, e)                             the pair is encoded as one text
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from drike.encoders import TextEncoder
from drike.prompts import DemonstrationSet, demonstration_block, query_block
from drike.research.editors.rankings import Ranking, ranking_of

Form = Literal["dot", "cross"]

FORMS: tuple[Form, ...] = ("dot", "cross")
HIDDEN = 128  # h of the form "dot"


class Retriever:
    """A frozen encoder with a trainable head of one form.

    `trained_on` has the keys of the edits that the head was trained on.
    """

    def __init__(self, encoder: TextEncoder, *, form: Form = "dot", seed: int = 0) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.encoder = encoder
        self.form: Form = form
        with torch.random.fork_rng(devices=[]):  # so that the global generator is left alone
            torch.manual_seed(seed)
            self.head = _head(form, encoder.dim)
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    @property
    def parameters(self) -> int:
        """How many numbers are learned."""
        return sum(weight.numel() for weight in self.head.parameters())

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder reads for an edit: x and each e for "dot", each pair for "cross"."""
        x = query_block(candidates.edit, candidates.edit.query)
        retains = [demonstration_block(retain).strip() for retain in candidates.retains]
        if self.form == "dot":
            return [x, *retains]
        return [f"{x}\n\n{e}" for e in retains]

    def features(self, candidates: DemonstrationSet) -> Tensor:
        """The vectors f of `texts`: [1 + n, d] for "dot", [n, d] for "cross".

        Each has a root mean square of 1, whatever the encoder's vectors are like.
        """
        encoded = self.encoder.encode(self.texts(candidates))
        vectors = torch.from_numpy(np.asarray(encoded, dtype=np.float32))
        mean_squares = vectors.square().mean(dim=1, keepdim=True)
        return vectors / mean_squares.sqrt().clamp_min(1e-12)

    def log_probs(self, features: Tensor) -> Tensor:
        """Log p over the retains [n], differentiable in the head (Algorithm 1, lines 6-7)."""
        hidden = self.head(features)
        if self.form == "cross":
            z = hidden.squeeze(1)
        else:
            hidden_x = hidden[0]
            hidden_e = hidden[1:]
            z = hidden_e @ hidden_x / math.sqrt(hidden.shape[1])
        return torch.log_softmax(z, dim=0)

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains in the policy's order."""
        with torch.no_grad():
            log_probs = self.log_probs(self.features(candidates))
        return ranking_of(candidates.retains, log_probs.tolist())


def _head(form: Form, dim: int) -> nn.Linear:
    """An untrained S_theta over vectors of a dimension, drawn from the global generator."""
    if form == "dot":
        return nn.Linear(dim, HIDDEN)
    return nn.Linear(dim, 1, bias=False)
