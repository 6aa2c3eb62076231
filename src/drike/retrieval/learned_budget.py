"""Learned budget controllers: a small network predicts sigma for each edit (paper, appendix, Table 6).

The paper names four and says nothing of their training. Here they are one `Controller` that differs in what it reads:

    scores          MLP on softmax scores                  the policy's probabilities, best first
    scores-query    MLP on softmax + query features        these, and plain traits of the query and its pool
    query           BERT + MLP (predict sigma)             the frozen encoder's vector of the query
    query-context   BERT (query + context) + MLP           that, and the mean vector of all demonstrations dealt

Output: sigma = exp(o(x)) / n, so that o = 0 stands for the probability of a blind guess. The network has one hidden
layer of 16 tanh units and starts at o = log(1/2) for every x: the pools of an untrained policy are kept nearly whole.

Target: what the paper's rule says of this episode alone. `Threshold` started at 0 would move to some `low` (the
probability of the retain that broke the answer; 0 if none did); `high` is the least probable retain among those tried
before it. Any sigma in [low, high) keeps all that did no harm and cuts what did. An edit that was right under no
prefix tells of no harm, so it asks for more retains, as the paper wants of hard edits.

Loss: the pinball loss of quantile regression (Koenker and Bassett) to that interval, in log sigma:

    q (log low - log sigma)         where sigma < low      a retain was kept that broke the answer
    (1 - q) (log sigma - log high)  where sigma >= high    a retain was cut that did no harm
    0                               in between

so that sigma becomes the q-quantile, given x, of the thresholds that edits ask for: with q = .95 one edit in twenty may
keep a retain too many. `Threshold` keeps their running maximum, the same for all edits: q = 1 without any x. Every
episode whose sigma lies outside makes a step of Adam at the rate .01 / sqrt(1 + t / 25), t steps being made: fast at
first, then calm, since a sigma that trembles keeps too few; and never too slow to go any way (the rates' sum diverges).

Recovery: a cut that is never looked behind could not be found too strict. So training always tries one retain more than
is kept; whether it breaks the answer says on which side of sigma the target lies, which is all this loss needs to know.
Nothing is drawn at random but the first weights. What is read are probabilities, similarities and texts of the prompt,
never a true object or a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from drike.demonstrations import DemonstrationSet
from drike.encoders import TextEncoder
from drike.prompts import demonstration_block, query_block
from drike.retrieval.budget import Flip, Threshold, require_candidates, require_shots

HIDDEN = 16
SETTLE = 25  # steps after which the rate begins to fall
START = 0.5  # sigma of an untrained controller, in units of 1/n
KINDS: Mapping[str, tuple[str, ...]] = {
    "scores": ("scores",),
    "scores-query": ("scores", "traits"),
    "query": ("query",),
    "query-context": ("query", "context"),
}
_LEAST = 1e-12  # of a probability, before its logarithm is taken
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # Adam's


class Reading(Protocol):
    """One part of what a controller reads, scaled to a length of about 1."""

    @property
    def name(self) -> str:
        """What checkpoints call it."""
        ...

    @property
    def size(self) -> int:
        """How many numbers it reads."""
        ...

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What an encoder has to read for an edit; for encoding many edits at once."""
        ...

    def read(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        """Numbers [size], float32, of `probs` [n] in any order and the pool they are of."""
        ...


@dataclass(frozen=True)
class Scores:
    """log(n p) of the `size` most probable retains, best first, in [-8, 8]; ranks that the pool lacks read as -8."""

    size: int = 16
    name: str = "scores"

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """None."""
        return []

    def read(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        """The distribution's shape: all 0 where the policy knows nothing."""
        ordered = sorted(probs, reverse=True)[: self.size]
        logs = [min(8.0, max(-8.0, math.log(len(probs) * max(p, _LEAST)))) for p in ordered]
        return torch.tensor(logs + [-8.0] * (self.size - len(logs))) / math.sqrt(self.size)


@dataclass(frozen=True)
class Traits:
    """Query features without an encoder: how long query and new object are, and how near and how alike the pool is.

    log(1 + words) of both; mean, greatest and least cosine of the retains' records; share of retains that answer with
    the new object.
    """

    size: int = 6
    name: str = "traits"

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """None."""
        return []

    def read(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        """Six numbers of order 1."""
        edit, near = candidates.edit, candidates.retain_similarities
        same = sum(retain.answer == edit.target_new for retain in candidates.retains)
        words = [math.log1p(len(text.split())) for text in (edit.query, edit.target_new)]
        pool = [sum(near) / len(near), max(near), min(near), same / len(near)] if near else [0.0] * 4
        return torch.tensor(words + pool) / math.sqrt(self.size)


@dataclass(frozen=True)
class Encoded:
    """The frozen encoder's mean vector of the texts that `of` gives, as a unit vector."""

    name: str
    encoder: TextEncoder
    of: Callable[[DemonstrationSet], list[str]]

    @property
    def size(self) -> int:
        """The encoder's."""
        return self.encoder.dim

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """Those it means over."""
        return self.of(candidates)

    def read(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        """A unit vector [d]."""
        mean = torch.from_numpy(np.asarray(self.encoder.encode(self.of(candidates)), dtype=np.float32)).mean(dim=0)
        unit: Tensor = mean / mean.norm().clamp_min(_LEAST)
        return unit


def query_text(candidates: DemonstrationSet) -> list[str]:
    """X, as the policy reads it: the edit's New Fact line and its query."""
    return [query_block(candidates.edit, candidates.edit.query)]


def context_texts(candidates: DemonstrationSet) -> list[str]:
    """The in-context examples: the block of every demonstration dealt.

    Encoded apart, blocks are shared between edits and none is cut off at the encoder's length. All retains of the pool
    count, kept or not, since sigma is what is to be found.
    """
    return [demonstration_block(shown).strip() for shown in candidates.demonstrations]


@dataclass(frozen=True, eq=False)
class Controller:
    """A budget whose sigma a small network predicts from what it `reads`; the module's docstring has the training.

    weights: of the network, flat [P]. moments: Adam's means of gradient and squared gradient, [2, P]. steps: of Adam.
    max_shots: K. quantile: q. learning_rate: the first step's. flip: which retain a fall blames, as in `Threshold`.
    """

    reads: tuple[Reading, ...]
    weights: Tensor
    moments: Tensor
    steps: int = 0
    max_shots: int = 16
    quantile: float = 0.95
    learning_rate: float = 1e-2
    flip: Flip = "offender"

    def __post_init__(self) -> None:
        """Refuse values that could not have come from a run."""
        require_shots(self.max_shots)
        if type(self.quantile) is not float or not 0.0 < self.quantile < 1.0:
            raise ValueError(f"a controller's quantile must lie in (0, 1), not {self.quantile!r}")
        if type(self.learning_rate) not in (int, float) or not 0.0 <= self.learning_rate < math.inf:
            raise ValueError(f"a controller's learning rate must be a number of at least 0, not {self.learning_rate!r}")
        if type(self.steps) is not int or self.steps < 0:
            raise ValueError(f"a controller's steps must be a whole number of at least 0, not {self.steps!r}")
        Threshold(flip=self.flip)
        size = _size(self.reads)
        if self.weights.shape != (size,) or self.moments.shape != (2, size):
            raise ValueError(f"a controller that reads {', '.join(r.name for r in self.reads)} has {size} weights")
        for tensor in (self.weights, self.moments):
            if tensor.dtype != torch.float32 or not torch.isfinite(tensor).all():
                raise ValueError("a controller's weights and moments must be finite numbers in float32")

    @property
    def encoder(self) -> TextEncoder | None:
        """The encoder it reads with, if any."""
        return next((part.encoder for part in self.reads if isinstance(part, Encoded)), None)

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder has to read for an edit."""
        return [text for part in self.reads for text in part.texts(candidates)]

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """min(K, #{p_i > sigma}), at least 1, with the sigma predicted for this edit."""
        return Threshold(self.sigma_for(probs, candidates), self.max_shots).keep(probs)

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """One more than is kept, where there is one: to learn whether the cut could have come later."""
        return min(self.max_shots, len(probs), self.keep(probs, candidates) + 1)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float:
        """The predicted sigma, in (0, 1]."""
        require_candidates(probs)
        with torch.no_grad():
            log_sigma = _log_sigma(self.weights, self._read(probs, candidates), len(probs))
        return math.exp(min(0.0, log_sigma.item()))

    def after(self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet) -> Controller:
        """The controller after an episode: itself where sigma already lies in [low, high), else a step of Adam on."""
        low, high = bracket(probs, rewards, self.flip)
        sigma = self.sigma_for(probs, candidates)
        if low <= sigma < high:
            return self
        slope = -self.quantile if sigma < low else 1.0 - self.quantile  # of the loss in log sigma
        weights = self.weights.clone().requires_grad_()
        with torch.enable_grad():
            log_sigma = _log_sigma(weights, self._read(probs, candidates), len(probs))
            [gradient] = torch.autograd.grad(slope * log_sigma, weights)
        steps = self.steps + 1
        mean = _BETA1 * self.moments[0] + (1 - _BETA1) * gradient
        square = _BETA2 * self.moments[1] + (1 - _BETA2) * gradient.square()
        step = mean / (1 - _BETA1**steps) / ((square / (1 - _BETA2**steps)).sqrt() + _EPS)
        rate = self.learning_rate / math.sqrt(1 + self.steps / SETTLE)
        moved = self.weights - rate * step
        return replace(self, weights=moved, moments=torch.stack([mean, square]), steps=steps)

    def _read(self, probs: Sequence[float], candidates: DemonstrationSet) -> Tensor:
        return torch.cat([part.read(probs, candidates) for part in self.reads])


def bracket(probs: Sequence[float], rewards: Sequence[float], flip: Flip = "offender") -> tuple[float, float]:
    """[low, high): the sigmas that cut the retains an episode blames and keep the others it tried.

    low is 0 where nothing fell; high is 1 where nothing may be kept above low.
    """
    low = Threshold(flip=flip).after(probs, rewards).sigma
    return low, min((p for p in probs[: len(rewards)] if p > low), default=1.0)


def untrained(
    kind: str,
    encoder: TextEncoder,
    *,
    max_shots: int = 16,
    quantile: float = 0.95,
    learning_rate: float = 1e-2,
    flip: Flip = "offender",
    seed: int = 0,
) -> Controller:
    """A controller of one of the paper's four kinds with the first weights of `seed`. Raises ValueError for others."""
    if kind not in KINDS:
        raise ValueError(f"there is no controller {kind!r}: choose of {', '.join(KINDS)}")
    reads = tuple(reading(name, encoder) for name in KINDS[kind])
    width = sum(part.size for part in reads)
    weights = torch.zeros(_size(reads))
    # What is read has length 1 or so: weights of variance 1 put the hidden units where tanh bends.
    weights[: HIDDEN * width] = torch.randn(HIDDEN * width, generator=torch.Generator().manual_seed(seed))
    moments = torch.zeros(2, len(weights))
    return Controller(reads, weights, moments, 0, max_shots, quantile, learning_rate, flip)


def reading(name: str, encoder: TextEncoder) -> Reading:
    """A part by its name. Raises ValueError for a name that is none."""
    match name:
        case "scores":
            return Scores()
        case "traits":
            return Traits()
        case "query":
            return Encoded(name, encoder, query_text)
        case "context":
            return Encoded(name, encoder, context_texts)
    raise ValueError(f"a controller reads no {name!r}")


def _size(reads: Sequence[Reading]) -> int:
    """Weights of the network: hidden layer, its bias, output layer, its bias."""
    return HIDDEN * (sum(part.size for part in reads) + 2) + 1


def _log_sigma(weights: Tensor, x: Tensor, n: int) -> Tensor:
    """Log(START / n) + w2 . tanh(W1 x + b1) + b2, a scalar."""
    first = weights[: HIDDEN * len(x)].view(HIDDEN, len(x))
    bias, last = weights[HIDDEN * len(x) : -1].view(2, HIDDEN)
    log_sigma: Tensor = math.log(START / n) + last @ torch.tanh(first @ x + bias) + weights[-1]
    return log_sigma
