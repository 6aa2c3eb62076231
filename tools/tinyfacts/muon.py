"""Muon: momentum whose steps are orthogonalised, for the matrices of the embedded model.

W <- W - lr * sqrt(max(1, rows / columns)) * NewtonSchulz(momentum). Matrices of one shape are
treated in one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly (singular values in .7 to 1.2), of a stack (n, rows, columns)."""
    a, b, c = _COEFFICIENTS
    x: Tensor = matrices.bfloat16()
    wide = x.size(1) > x.size(2)
    if wide:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if wide else x).float()


class Muon:
    """Nesterov momentum, orthogonalised. `parameters` are two-dimensional; gradients must be set at each `step`."""

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        shapes: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
        for parameter in parameters:
            shapes[parameter.shape].append(parameter)
        self._groups = [(group, torch.zeros(len(group), *shape)) for shape, group in shapes.items()]
        self._momentum = momentum
        self._decay = decay

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update of every matrix; clears the gradients."""
        for group, buffer in self._groups:
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            buffer.lerp_(gradient, 1 - self._momentum)
            update = orthogonalise(gradient.lerp(buffer, self._momentum))
            scale = lr * max(1.0, update.size(1) / update.size(2)) ** 0.5
            for parameter, change in zip(group, update, strict=True):
                parameter.mul_(1 - lr * self._decay).sub_(change, alpha=scale)
                parameter.grad = None
