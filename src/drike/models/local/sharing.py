"""Prompts that begin alike: what they share is read once, also to be completed, and kept.

Before prompts are completed so, the first token that would be written after some of them is
compared with a plain forward's, as deep as no prompts were checked before (`reach`). If one is off,
prompts are completed without sharing from then on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel

from drike.models.local.architecture import takes_positions
from drike.models.local.attention import tree_inputs
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.reach import Ahead, Reach, ahead, none_ahead, reach_of
from drike.models.local.scoring import forward
from drike.models.local.self_check import UNSUPPORTED, tolerance
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Tokens

PAD = 0  # any token will do: padding is masked before a prompt and cut off after an answer
_LIKELY = 5  # tokens whose log-probabilities are compared


class _Kind(NamedTuple):
    """Readings that are checked apart: those that continue a cached prefix, and single prompts."""

    is_continued: bool
    is_single: bool


class CheckedSharing:
    """Says which prompts may be completed from shared keys and values."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model: Any = model
        self._reach_by_kind: dict[_Kind, Reach] = {}
        self._looks_ahead = True
        self._is_exact = True

    def allows(self, prompts: Sequence[Tokens], prefixes: PrefixCache) -> bool:
        """Whether these prompts may be completed together; checks it unless that is known."""
        if not self._is_exact:
            return False
        texts = [prompt[:-1] for prompt in prompts]
        tree = build_tree(texts)
        is_continued = prefixes.has_beginning(tree.ids[: tree.trunk])
        kind = _Kind(is_continued, len(prompts) == 1)
        known = self._reach_by_kind.get(kind, Reach())
        if known.covers(reach_of(tree)):
            return True
        used = prefixes if is_continued else PrefixCache(0)
        further = none_ahead(tree)
        off = math.inf
        if self._looks_ahead:
            further = ahead(texts, tree, self._model.config)
            off = self._largest_error(prompts, further, used)
        if math.isinf(off):
            # The texts that look ahead may be the only ones that the model cannot read.
            self._looks_ahead = False
            further = none_ahead(tree)
            off = self._largest_error(prompts, further, used)
        if off > tolerance(self._model):
            self._give_up(off)
            return False
        checked = further.reach_in(build_tree([*texts, *further.texts]))
        self._reach_by_kind[kind] = known.including(checked)
        return True

    def _largest_error(
        self, prompts: Sequence[Tokens], further: Ahead, prefixes: PrefixCache
    ) -> float:
        """How much what may follow prompts is off, in nats, if what they share is read once.

        Infinity if the model raises an error.
        """
        # The last token of a prompt is read with its answer.
        texts = [*prompts, *((*text, text[-1]) for text in further.texts)]
        rows = [*further.sample, *(len(prompts) + i for i in further.compared)]
        try:
            with torch.inference_mode():
                cache, _ = shared_cache(self._model, texts, prefixes, rows)
                shared = self._first_logits([texts[i] for i in rows], cache)
                plain = [self._first_logits([texts[i]], None) for i in rows]
        except torch.OutOfMemoryError:
            if further.texts:
                return math.inf
            raise
        except UNSUPPORTED:
            return math.inf
        return _largest_difference(shared, torch.cat(plain))

    def _first_logits(self, prompts: Sequence[Tokens], cache: DynamicCache | None) -> torch.Tensor:
        """Logits [B, V] of the first token after each prompt, as `generate` computes them."""
        ids, mask = padded(prompts)
        output = self._model.generate(
            ids.to(self._model.device),
            attention_mask=mask.to(self._model.device),
            past_key_values=cache,
            max_new_tokens=1,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=PAD,
        )
        logits: torch.Tensor = output.logits[0]
        return logits.float()

    def _give_up(self, off: float) -> None:
        self._is_exact = False
        name = type(self._model).__name__
        warnings.warn(
            f"{name}: completing prompts from shared beginnings is not exact for this model"
            f" (log-probabilities were off by {off:.2g}); going on, more slowly, without",
            stacklevel=6,
        )


def padded(prompts: Sequence[Tokens]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of prompts [B, longest].

    Padded on the left, so that all answers begin in the same column.
    """
    texts = [torch.tensor(prompt) for prompt in prompts]
    is_token = [torch.ones_like(text) for text in texts]
    ids = pad_sequence(texts, batch_first=True, padding_value=PAD, padding_side="left")
    mask = pad_sequence(is_token, batch_first=True, padding_side="left")
    return ids, mask


def shared_cache(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    prefixes: PrefixCache,
    rows: Sequence[int] | None = None,
) -> tuple[DynamicCache, int]:
    """Keys and values of prompts but their last tokens, and the number of tokens computed for all.

    Those are [batch, heads, longest - 1, size of a head] in each layer, padded left. The last
    tokens are left to be read, and counted. What the prompts share is read once, or taken from
    `prefixes` if they have it. rows: the prompts that the batch is for; None: all.
    """
    tree = build_tree([prompt[:-1] for prompt in prompts])
    trunk = tree.ids[: tree.trunk]
    first, packed = prefixes.recall(trunk)
    if first < len(tree):
        inputs = tree_inputs(model, tree, first)
        if takes_positions(model):
            # As `generate` counts them: models of RoBERTa's kind count otherwise if none are given.
            depth = torch.from_numpy(tree.depth[first:])[None].to(model.device)
            inputs.setdefault("position_ids", depth)
        forward(model, np.array([0]), use_cache=True, past_key_values=packed, **inputs)
        prefixes.keep(trunk, packed)
    # Each prompt's keys and values are those at its path; what stands in the padding is masked.
    paths = [tree.paths[i] for i in (range(len(prompts)) if rows is None else rows)]
    longest = max(map(len, paths))
    padded_paths = np.zeros((len(paths), longest), dtype=np.int64)
    for row, path in enumerate(paths):
        padded_paths[row, longest - len(path) :] = path
    places = torch.from_numpy(padded_paths).to(model.device)
    unpacked = DynamicCache()
    for i, layer in enumerate(cast("Any", packed.layers)):
        keys = layer.keys[0][:, places].transpose(0, 1)
        values = layer.values[0][:, places].transpose(0, 1)
        unpacked.update(keys, values, i)
    return unpacked, len(tree) - first + len(prompts)


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of the log-probabilities of the tokens that are likely by `b` [B, V]."""
    likely = b.topk(_LIKELY, dim=-1).indices
    off = (a.log_softmax(-1) - b.log_softmax(-1)).gather(-1, likely).abs().max()
    return float(off.nan_to_num(1e9))
