"""Learned budgets, called controllers: a small network predicts sigma for each edit (paper, appendix, Table 6).

The paper names four (`KINDS`) but not how they are trained. Here they are one `Controller` with different features;
benchmarks/notes/methods.md gives the inputs, the network, the loss and the reasons. After an episode whose sigma
lies outside its `bracket`, Adam takes one step on the pinball loss (Koenker and Bassett) towards that interval, in log
sigma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drike.encoders import TextEncoder
from drike.prompts import DemonstrationSet, demonstration_block, query_block
from drike.research.editors.budgets import (
    Budget,
    Flip,
    Threshold,
    require_candidates,
    require_shots,
)

KINDS: Mapping[str, tuple[str, ...]] = {  # of learned budgets, with their features
    "scores": ("scores",),
    "scores-query": ("scores", "traits"),
    "query": ("query",),
    "query-context": ("query", "context"),
}
HIDDEN = 16
RANKS = 16  # how many probabilities a controller reads
SETTLE = 25  # steps after which the learning rate begins to fall
START = 0.5  # sigma of an untrained controller, in units of 1 / n
_MIN_P = 1e-12  # so that a logarithm is finite
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # Adam's


@dataclass(frozen=True)
class Feature:
    """One input of a controller, scaled to a length of about 1.

    vector: its numbers [size], float32, from `probs` [n], in any order, and the demonstrations they belong to. encoder:
    that of its texts; None if it needs none. texts: what it reads, so that those of many edits are encoded in one call.
    """

    name: str
    size: int
    vector: Callable[[Sequence[float], DemonstrationSet], Tensor]
    encoder: TextEncoder | None = None
    texts: Callable[[DemonstrationSet], list[str]] = lambda _: []


def feature(name: str, encoder: TextEncoder) -> Feature:
    """A feature by its name. Raises ValueError for an unknown name."""
    match name:
        case "scores":
            return Feature(name, RANKS, _scores)
        case "traits":
            return Feature(name, 6, _traits)
        case "query":
            return _encoded(name, encoder, lambda c: [query_block(c.edit, c.edit.query)])
        case "context":
            # One text per block: the cache shares blocks between edits, and the encoder truncates none of them.
            return _encoded(
                name, encoder, lambda c: [demonstration_block(d).strip() for d in c.demonstrations]
            )
    raise ValueError(f"a controller has no feature {name!r}")


def _scores(probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
    """log(n p) of the most probable retains, best first, in [-8, 8]; -8 for ranks that do not exist."""
    ordered = sorted(probs, reverse=True)[:RANKS]
    logs = [min(8.0, max(-8.0, math.log(len(probs) * max(p, _MIN_P)))) for p in ordered]
    return torch.tensor(logs + [-8.0] * (RANKS - len(logs))) / math.sqrt(RANKS)


def _traits(probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
    """log(1 + words) of query and object; mean, max and min cosine of the retains; share of them with that object."""
    edit, near = candidates.edit, candidates.retain_similarities
    same = sum(retain.answer == edit.target_new for retain in candidates.retains)
    words = [math.log1p(len(text.split())) for text in (edit.query, edit.target_new)]
    pool = [sum(near) / len(near), max(near), min(near), same / len(near)] if near else [0.0] * 4
    return torch.tensor(words + pool) / math.sqrt(6)


def _encoded(
    name: str, encoder: TextEncoder, texts: Callable[[DemonstrationSet], list[str]]
) -> Feature:
    """The mean of the encoder's vectors of some texts, scaled to length 1."""

    def vector(probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        mean = torch.from_numpy(
            np.asarray(encoder.encode(texts(candidates)), dtype=np.float32)
        ).mean(dim=0)
        unit: Tensor = mean / mean.norm().clamp_min(_MIN_P)
        return unit

    return Feature(name, encoder.dim, vector, encoder, texts)


@dataclass(frozen=True, eq=False)
class Controller(Budget):
    """A budget whose sigma a small network predicts from `features`.

    weights: of the network, flat [P]. moments: Adam's means of gradient and squared gradient, [2, P]. steps: that Adam
    has taken. max_shots: K. quantile: q of the pinball loss. learning_rate: of the first step. flip: as in `Threshold`.
    Raises ValueError for an impossible value.
    """

    features: tuple[Feature, ...]
    weights: Tensor
    moments: Tensor
    steps: int = 0
    max_shots: int = 16
    quantile: float = 0.95
    learning_rate: float = 1e-2
    flip: Flip = "offender"

    def __post_init__(self) -> None:
        require_shots(self.max_shots)
        Threshold(flip=self.flip)
        if type(self.quantile) is not float or not 0.0 < self.quantile < 1.0:
            raise ValueError(f"a controller's quantile must lie in (0, 1), not {self.quantile!r}")
        for what, value, kinds in (
            ("learning rate", self.learning_rate, (int, float)),
            ("steps", self.steps, (int,)),
        ):
            if type(value) not in kinds or not 0 <= value < math.inf:
                raise ValueError(
                    f"a controller's {what} must be a number of at least 0, not {value!r}"
                )
        size = _size(self.features)
        if self.weights.shape != (size,) or self.moments.shape != (2, size):
            raise ValueError(
                f"a controller of {', '.join(f.name for f in self.features)} has {size} weights"
            )
        for tensor in (self.weights, self.moments):
            if tensor.dtype != torch.float32 or not torch.isfinite(tensor).all():
                raise ValueError(
                    "a controller's weights and moments must be finite numbers in float32"
                )
        if (self.moments[1] < 0).any():
            raise ValueError("a controller's means of squares must not be negative")

    @property
    def encoder(self) -> TextEncoder | None:
        """The encoder of its features; None if they need none."""
        return next((part.encoder for part in self.features if part.encoder is not None), None)

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder reads for an edit."""
        return [text for part in self.features for text in part.texts(candidates)]

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """min(K, #{p_i > sigma}), at least 1, with the sigma predicted for this edit."""
        return Threshold(self.sigma_for(probs, candidates), self.max_shots).keep(probs)

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """One more than it keeps, if there is one, to learn whether it could keep more."""
        return min(self.max_shots, len(probs), self.keep(probs, candidates) + 1)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float:
        """The predicted sigma, in (0, 1]."""
        require_candidates(probs)
        with torch.no_grad():
            log_sigma = _log_sigma(self.weights, self._input(probs, candidates), len(probs))
        return math.exp(min(0.0, log_sigma.item()))

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet
    ) -> Controller:
        """The controller after an episode: unchanged if sigma lies in [low, high), else after one step of Adam."""
        low, high = bracket(probs, rewards, self.flip)
        sigma = self.sigma_for(probs, candidates)
        if low <= sigma < high:
            return self
        slope = -self.quantile if sigma < low else 1.0 - self.quantile  # of the loss in log sigma
        weights = self.weights.clone().requires_grad_()
        with torch.enable_grad():
            log_sigma = _log_sigma(weights, self._input(probs, candidates), len(probs))
            [gradient] = torch.autograd.grad(slope * log_sigma, weights)
        steps = self.steps + 1
        mean = _BETA1 * self.moments[0] + (1 - _BETA1) * gradient
        square = _BETA2 * self.moments[1] + (1 - _BETA2) * gradient.square()
        step = mean / (1 - _BETA1**steps) / ((square / (1 - _BETA2**steps)).sqrt() + _EPS)
        rate = self.learning_rate / math.sqrt(1 + self.steps / SETTLE)
        moved = self.weights - rate * step
        return replace(self, weights=moved, moments=torch.stack([mean, square]), steps=steps)

    def _input(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        return torch.cat([part.vector(probs, candidates) for part in self.features])


def bracket(
    probs: Sequence[float], rewards: Sequence[float], flip: Flip = "offender"
) -> tuple[float, float]:
    """[low, high): the sigmas that would have cut the retains that broke the answer in an episode, and no others.

    low: the sigma that `Threshold` would reach from 0, which is the probability of the retain that broke the answer, or
    0 if none did. high: the smallest probability above low, or 1.
    """
    low = Threshold(flip=flip).after(probs, rewards).sigma
    return low, min((p for p in probs[: len(rewards)] if p > low), default=1.0)


def untrained(kind: str, encoder: TextEncoder, *, seed: int = 0, **settings: Any) -> Controller:
    """An untrained controller of one of the paper's four kinds, with random weights. Raises ValueError for other kinds.

    settings: max_shots, quantile, learning_rate and flip of `Controller`.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no controller {kind!r}: choose from {', '.join(KINDS)}")
    features = tuple(feature(name, encoder) for name in KINDS[kind])
    width = sum(part.size for part in features)
    weights = torch.zeros(_size(features))
    # The input has a length of about 1: with weights of variance 1 the hidden units use the curved part of tanh.
    weights[: HIDDEN * width] = torch.randn(
        HIDDEN * width, generator=torch.Generator().manual_seed(seed)
    )
    return Controller(features, weights, torch.zeros(2, len(weights)), **settings)


def _size(features: Sequence[Feature]) -> int:
    """The number of weights: hidden layer, its bias, output layer, its bias."""
    return HIDDEN * (sum(part.size for part in features) + 2) + 1


def _log_sigma(weights: Tensor, x: Tensor, n: int) -> Tensor:
    """Log(START / n) + w2 . tanh(W1 x + b1) + b2, a scalar."""
    first = weights[: HIDDEN * len(x)].view(HIDDEN, len(x))
    bias, last = weights[HIDDEN * len(x) : -1].view(2, HIDDEN)
    log_sigma: Tensor = math.log(START / n) + last @ torch.tanh(first @ x + bias) + weights[-1]
    return log_sigma
