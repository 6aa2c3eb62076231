"""Prompts read together in a padded batch, with nothing shared: what scoring with a tree is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from drike.models.local import scoring
from drike.models.local.token_trees import Ids
from drike.models.local.tokens import Encoded


def padded_logits(model: PreTrainedModel, requests: Sequence[Encoded]) -> tuple[torch.Tensor, Ids]:
    """Logits [n, len(columns), V] of requests, padded on the right, and the columns, which are all that one needs."""
    ids = pad_sequence([torch.tensor(request.ids) for request in requests], batch_first=True)
    real = pad_sequence(
        [torch.ones(len(request.ids), dtype=torch.long) for request in requests], batch_first=True
    )
    columns = np.unique(
        np.concatenate([np.arange(request.start - 1, len(request.ids)) for request in requests])
    )
    output = scoring.forward(
        model, columns, input_ids=ids.to(model.device), attention_mask=real.to(model.device)
    )
    return output.logits, columns
