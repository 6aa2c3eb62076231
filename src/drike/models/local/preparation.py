"""What is changed in a model before it answers: greedy decoding, and logits in full precision."""

from typing import Any

import torch
import transformers
from torch.nn.functional import linear
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

_HEAD_ROWS = 16384


def decode_greedily(model: PreTrainedModel, tokenizer: Tokenizer) -> None:
    """Drop a checkpoint's settings for generation but the tokens that end a text.

    Others are penalties and sampling.
    """
    end_tokens = getattr(model.generation_config, "eos_token_id", None)
    if end_tokens is None:
        end_tokens = tokenizer.eos_token_id
    if isinstance(end_tokens, int):
        end_tokens = [end_tokens]
    settings: Any = transformers.GenerationConfig
    model.generation_config = settings(eos_token_id=end_tokens)


def head_in_float32(model: Any) -> None:
    """Compute the logits of half-precision weights in float32.

    The model still applies its own caps and scales.
    """
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.weight.dtype == torch.float32:
        return  # a quantised head has its own arithmetic

    def precisely(
        module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        hidden = inputs[0].float()
        # In slices of the vocabulary, so that no float32 copy of the whole matrix is ever held.
        slices = module.weight.split(_HEAD_ROWS)
        logits = torch.cat([linear(hidden, rows.float()) for rows in slices], dim=-1)
        return logits if module.bias is None else logits + module.bias.float()

    head.register_forward_hook(precisely)
