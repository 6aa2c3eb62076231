"""A query policy as tensors: the features of probes, its weights, and pi of them.

d is the number of features of the gate, one for a query that is a text of the edit, and the bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drike.gates.calibrated import LogisticHead
from drike.gates.comparison import Features
from drike.gates.decision import EQUAL, Candidate
from drike.research.editors.query_policy import QueryPolicy, Shown

_CERTAIN = 100.0  # a logit beyond doubt


@dataclass(frozen=True)
class Inputs:
    """What the policy's probabilities depend on.

    phi: the features of each probe, with a 1 for the bias at the end [probes, d]. certain: what is
    added to the logit that the edit applies, far from 0 where that is certain [probes].
    """

    phi: Tensor
    certain: Tensor


def inputs_of(policy: QueryPolicy, candidates: Sequence[Candidate | None]) -> Inputs:
    """The features of probes by their candidates; None is that of a probe without one."""
    names = _feature_names(policy)
    features_by_probe: list[Features] = [
        candidate.features if candidate is not None else {} for candidate in candidates
    ]
    phi = [[*(features.get(name, 0.0) for name in names), 1.0] for features in features_by_probe]
    certain = [_certain_logit(features) for features in features_by_probe]
    return Inputs(
        torch.tensor(phi, dtype=torch.float64), torch.tensor(certain, dtype=torch.float64)
    )


def _certain_logit(features: Features) -> float:
    """Without features the edit does not apply, and to one of its own texts it does."""
    if not features:
        return -_CERTAIN
    return _CERTAIN if EQUAL in features else 0.0


def _feature_names(policy: QueryPolicy) -> list[str]:
    return [*policy.gate.named.weights, EQUAL]


def weights_of(policy: QueryPolicy) -> Tensor:
    """The weights of the gate and of each mix, with the bias at the end [1 + mixes, d]."""
    names = _feature_names(policy)
    heads = [policy.gate.named, *(shown.head for shown in policy.shown)]
    rows = [[*(head.weights.get(name, 0.0) for name in names), head.bias] for head in heads]
    return torch.tensor(rows, dtype=torch.float64)


def with_weights(policy: QueryPolicy, weights: Tensor) -> QueryPolicy:
    """The policy with other weights, as `weights_of` gives them."""
    names = _feature_names(policy)
    gate_head, *mix_heads = [
        LogisticHead(dict(zip(names, row[:-1], strict=True)), bias=row[-1])
        for row in weights.tolist()
    ]

    # The gate has no weight of EQUAL: such a query concerns the edit whatever the weights are.
    gate_weights = {name: gate_head.weights[name] for name in policy.gate.named.weights}
    gate = replace(policy.gate, named=LogisticHead(gate_weights, gate_head.bias))

    shown = [Shown(mix, head) for mix, head in zip(policy.mixes, mix_heads, strict=True)]
    return replace(policy, gate=gate, shown=tuple(shown))


def probabilities(inputs: Inputs, weights: Tensor) -> Tensor:
    """Pi over the actions [probes, actions]: leave the query alone, or show one of the mixes."""
    applies = torch.sigmoid(inputs.phi @ weights[0] + inputs.certain)[:, None]
    mixes = (inputs.phi @ weights[1:].T).softmax(dim=1)
    return torch.cat([1 - applies, applies * mixes], dim=1)
