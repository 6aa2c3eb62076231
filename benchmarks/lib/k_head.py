"""The k head, after AICL: a policy that predicts under which mixes of demonstrations an answer is right."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lib.pair_policy import Masks


def right_with_each(logits: Tensor, right: Tensor, masks: Masks) -> Tensor:
    """Cross-entropy of "right under this mix", for all mixes at once, the aspects weighted by 1 / m^2.

    logits, right: [probes, mixes]; sigmoid(logit) becomes P(right). m is an aspect's mean under the mix that is most
    probably right. A loss of `train_pair_policy`.
    """
    losses = functional.binary_cross_entropy_with_logits(logits, right, reduction="none").mean(
        dim=1
    )
    chosen = right.gather(1, logits.detach().argmax(dim=1, keepdim=True)).squeeze(1)
    weights = [chosen[mask].mean().clamp_min(0.1) ** -2 for mask in masks.values()]
    weighted = [
        weight * losses[mask].mean() for weight, mask in zip(weights, masks.values(), strict=True)
    ]
    return torch.stack(weighted).sum() / torch.stack(weights).sum()
