"""The learned policy that ranks retains: a frozen text encoder f with a linear head S_theta (paper, section 4.2).

The head gives every retain e of an edit x a score z; p = softmax(z). Two forms of S_theta fit the paper's text:

    dot:   z = (W f(x) + b) . (W f(e) + b) / sqrt(h)     the parent method's; x and e are encoded apart
    cross: z = w . f(x, e)                               the pair is encoded as one text
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
HIDDEN = 128


class Retriever:
    """A frozen encoder and a trainable head of one form; `trained_on`: the keys of the edits it was trained on."""

    def __init__(self, encoder: TextEncoder, *, form: Form = "dot", seed: int = 0) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.encoder = encoder
        self.form: Form = form
        with torch.random.fork_rng(devices=[]):  # so that the global generator is left alone
            torch.manual_seed(seed)
            self.head = (
                nn.Linear(encoder.dim, HIDDEN)
                if form == "dot"
                else nn.Linear(encoder.dim, 1, bias=False)
            )
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    @property
    def parameters(self) -> int:
        """How many numbers are learned."""
        return sum(weight.numel() for weight in self.head.parameters())

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder reads for an edit: x and each e for "dot", each pair for "cross"."""
        x = query_block(candidates.edit, candidates.edit.query)
        blocks = [demonstration_block(retain).strip() for retain in candidates.retains]
        return [x, *blocks] if self.form == "dot" else [f"{x}\n\n{block}" for block in blocks]

    def features(self, candidates: DemonstrationSet) -> Tensor:
        """F of `texts`: [1 + n, d] for "dot", [n, d] for "cross"; of unit root mean square, whatever the encoder."""
        vectors = torch.from_numpy(
            np.asarray(self.encoder.encode(self.texts(candidates)), dtype=np.float32)
        )
        return vectors / vectors.square().mean(dim=1, keepdim=True).sqrt().clamp_min(1e-12)

    def log_probs(self, features: Tensor) -> Tensor:
        """Log p over the retains [n], differentiable in the head (Algorithm 1, lines 6-7)."""
        hidden = self.head(features)
        scores = (
            hidden.squeeze(1)
            if self.form == "cross"
            else hidden[1:] @ hidden[0] / math.sqrt(hidden.shape[1])
        )
        return torch.log_softmax(scores, dim=0)

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains in the policy's order."""
        with torch.no_grad():
            return ranking_of(
                candidates.retains, self.log_probs(self.features(candidates)).tolist()
            )
