"""Read texts with shared prefixes together: packed trees of tokens, their attention masks, and models that allow it.

In a packed tree, or a forest of them, one forward reads every distinct token once. Tokens are laid out depth first, the
branch that reaches deepest before its siblings, so that the subtree of token k is the range k .. end[k] - 1: token q
attends to token k iff k <= q < end[k]. A token's depth is its position in every sequence that it belongs to; windows
and chunks of attention are measured in depth, never in packed indices.

A packed tree is silently wrong if attention or positions depend on the index in the row (ALiBi, fixed local windows),
if layers carry a state, or if positions are encoded by the text's length (dynamic rope). `plan` recognises these by the
config. transformers passes a 4-D mask on unchanged, so windows, chunks and causality are put in here, per layer type.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Ids = NDArray[np.int64]
Strategy = Literal["tree", "fork", "naive"]  # fastest first; each is exact for more models
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_SPLIT = "drike_split"  # the name of our attention function among those of transformers
# Given a state and several tokens, these ignore the state (measured: errors of 1 to 20 nats), or return none.
_NO_CONTINUATION = ("mamba", "falcon_mamba", "jamba", "recurrent_gemma")
_ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Packed token sequences.

    ids, depth, end: [N] int64; token id, position in its sequences, one past the last token of its subtree. paths: the
    packed indices of each sequence's tokens. trunk: length of the longest path, which comes first and is causal.
    """

    ids: Ids
    depth: Ids
    end: Ids
    paths: tuple[Ids, ...]
    trunk: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """The runs (branches without forks), depth first: packed begin and end, and which run it continues, or -1."""
        ends = (np.flatnonzero(np.append(self.end[1:] != self.end[:-1], True)) + 1).tolist()
        runs: list[tuple[int, int, int]] = []
        open_runs: list[int] = []
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            while open_runs and self.end[runs[open_runs[-1]][0]] <= begin:
                open_runs.pop()
            runs.append((begin, end, open_runs[-1] if open_runs else -1))
            open_runs.append(len(runs) - 1)
        return runs

    def mask(
        self, *, window: int | None = None, chunk: int | None = None, first: int = 0
    ) -> NDArray[np.bool_]:
        """Where rows from `first` on attend [N - first, N]: to `window` tokens with their own, within a `chunk`."""
        index = np.arange(len(self))
        rows, depth = index[first:, None], self.depth[first:, None]
        seen = (index <= rows) & (rows < self.end)
        if window is not None:
            seen &= depth - self.depth < window
        if chunk is not None:
            seen &= depth // chunk == self.depth // chunk
        return seen


def build_tree(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """Pack `sequences`, none of which is empty; equal ones share all their tokens."""
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    runs: list[Ids] = []
    depths: list[Ids] = []
    paths: dict[int, Ids] = {}
    end = np.zeros(sum(map(len, tokens)), dtype=np.int64)
    size = 0
    path = previous = np.zeros(0, dtype=np.int64)
    for i in _depth_first(tokens):
        sequence = tokens[i]
        common = shared_prefix(previous, sequence)
        if common == len(
            sequence
        ):  # a prefix of its predecessor: no new tokens, and no subtree ends here
            paths[i] = path[:common]
            continue
        end[path[common:]] = size  # these subtrees of the last path are complete
        runs.append(sequence[common:])
        depths.append(np.arange(common, len(sequence)))
        path = np.concatenate([path[:common], np.arange(size, size + len(sequence) - common)])
        size, previous, paths[i] = size + len(sequence) - common, sequence, path
    end[path] = size
    ids, depth, trunk = (
        np.concatenate(runs),
        np.concatenate(depths),
        len(runs[0]),
    )  # the deepest branch comes first
    return TokenTree(ids, depth, end[:size], tuple(paths[i] for i in range(len(tokens))), trunk)


def packs(sequences: Sequence[Sequence[int]], budget: int, unrelated: int) -> list[list[int]]:
    """Group `sequences`, by index, so that each group is one packing and shares as much as possible.

    budget: most tokens in a packing; a family that needs more is split between its leaves, and its trunk read again (a
    longer sequence is a group of its own). unrelated: most tokens in a packing of sequences that share little, which
    only gain fewer forwards, while attention is quadratic.
    """
    tokens = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    groups: list[list[int]] = []
    size, forest = 0, False
    previous = np.zeros(0, dtype=np.int64)
    for i in _sorted(tokens):
        common = shared_prefix(previous, tokens[i])
        kin = 2 * common >= min(len(previous), len(tokens[i]))
        limit = budget if kin and not forest else min(budget, unrelated)
        if groups and size + len(tokens[i]) - common <= limit:
            groups[-1].append(i)
            size += len(tokens[i]) - common
            forest = forest or not kin
        else:
            groups.append([i])
            size, forest = len(tokens[i]), False
        previous = tokens[i]
    return groups


def shared_prefix(a: Ids, b: Ids) -> int:
    """Length of the common prefix of two sequences."""
    short = min(len(a), len(b))
    differ = np.flatnonzero(a[:short] != b[:short])
    return int(differ[0]) if len(differ) else short


def _sorted(tokens: Sequence[Ids]) -> list[int]:
    """Indices in lexicographic order: sequences with a common prefix are neighbours, the shortest first."""
    return sorted(range(len(tokens)), key=lambda i: tokens[i].astype(">i8").tobytes())


def _depth_first(tokens: Sequence[Ids]) -> list[int]:
    """Indices in the order of a depth-first walk that takes the deepest branch first at every fork."""
    ordered = _sorted(tokens)
    lengths = [len(tokens[i]) for i in ordered]
    shared = [0] + [shared_prefix(tokens[a], tokens[b]) for a, b in pairwise(ordered)]
    result: list[int] = []
    stack = [(0, len(ordered))]  # instead of recursion: k nested prompts are k forks deep
    while stack:
        low, high = stack.pop()
        if high - low <= 1:
            result += ordered[low:high]
            continue
        fork = min(shared[low + 1 : high])
        cuts = [low, *(i for i in range(low + 1, high) if shared[i] == fork), high]
        stack += sorted(pairwise(cuts), key=lambda branch: max(lengths[branch[0] : branch[1]]))
    return result


@dataclass(frozen=True)
class Plan:
    """A scoring strategy, and the reason for it.

    tree: one forward over a packed tree reads shared prefixes once. fork: so do a forward per branch of the tree and a
    copy of the model's own cache at every fork. naive: one forward per request, possible with any model.
    """

    strategy: Strategy
    reason: str


def plan(model: PreTrainedModel) -> Plan:
    """The fastest strategy that is exact for the model, by its config."""
    config = model.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False) or getattr(
        config, "use_bidirectional_attention", False
    ):
        return Plan("naive", "attention is not causal throughout")
    if config.model_type in _NO_CONTINUATION:
        return Plan("naive", "layers carry a state that cannot be continued")
    if obstacle := _obstacle(model, config):
        return Plan("fork", obstacle)
    kind = {_SPLIT: "sdpa, causal kernel on the trunk"}.get(
        config._attn_implementation, config._attn_implementation
    )
    return Plan("tree", f"attention ({kind}) follows the given mask and position_ids")


def _obstacle(model: PreTrainedModel, config: PreTrainedConfig) -> str | None:
    """Why a packed tree would be wrong for a causal model; None if no reason is known."""
    own_mask = any(
        buffer.ndim == 4 and buffer.shape[-1] == buffer.shape[-2] > 1 for buffer in model.buffers()
    )
    local = "local" in (getattr(config, "attention_layers", None) or ())
    obstacles = {
        "layers carry a state along the text": _carries_state(model),
        "ALiBi measures distance by index in the row, not by position_ids": _uses_alibi(config),
        "the model takes no position_ids": not takes_positions(model),
        "local attention is measured by index in the row, not by position_ids": local,
        "the model keeps a causal mask of its own": own_mask,
    }
    return next((obstacle for obstacle, found in obstacles.items() if found), None)


def encoding_of(config: PreTrainedConfig, length: int) -> int:
    """Which position encoding a text of `length` tokens has (0: the usual); texts read together must have the same."""
    config = config.get_text_config()
    if keeps_length(config):  # one per length
        return length if length > config.max_position_embeddings else 0
    if "longrope" in _rope_kinds(config):  # another one beyond the original training length
        key = "original_max_position_embeddings"
        usual = getattr(config, key, config.max_position_embeddings)
        return int(length > next((rope[key] for rope in _ropes(config) if key in rope), usual))
    return 0


def context_window(config: PreTrainedConfig) -> int | None:
    """Most tokens of a text for this model; None if its config states no limit."""
    config = config.get_text_config()
    if keeps_length(config):
        return None
    limits = (
        getattr(config, name, None)
        for name in ("max_position_embeddings", "n_positions", "max_seq_len")
    )
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


def tolerates_padding(model: PreTrainedModel) -> bool:
    """Whether a model's answers do not depend on left padding; if they do, only prompts of one length go together."""
    exact = not _carries_state(model) and one_encoding(model.config)
    return exact and (_uses_alibi(model.config.get_text_config()) or takes_positions(model))


def keeps_length(config: PreTrainedConfig) -> bool:
    """Whether the model is affected by the longest text read before (dynamic rope)."""
    return "dynamic" in _rope_kinds(config)


def one_encoding(config: PreTrainedConfig) -> bool:
    """Whether the encoding of a position is the same for texts of any length."""
    return not _rope_kinds(config) & {"dynamic", "longrope"}


def takes_positions(model: PreTrainedModel) -> bool:
    """Whether a model accepts `position_ids`."""
    return all(
        "position_ids" in inspect.signature(part.forward).parameters
        for part in (model, model.base_model)
    )


def forget_length(model: PreTrainedModel) -> None:
    """Reset the state that long texts leave in a model with dynamic rope, by reading a text of one token."""
    if keeps_length(model.config):
        with torch.inference_mode():
            model(
                input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device),
                use_cache=False,
            )


def use_given_masks(model: PreTrainedModel) -> None:
    """Switch to the fastest attention that a model supports and that takes custom masks (flash kernels take none)."""
    config = model.config.get_text_config()
    if config._attn_implementation not in ("sdpa", "eager", _SPLIT):
        try:
            model.set_attn_implementation("sdpa")
        except ValueError:
            model.set_attn_implementation("eager")
    if (
        config._attn_implementation == "sdpa"
        and model._supports_attention_backend
        and not _obstacle(model, config)
    ):
        AttentionInterface.register(_SPLIT, _split_attention)
        AttentionMaskInterface.register(_SPLIT, sdpa_mask)
        model.set_attn_implementation(_SPLIT)


def _split_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Call sdpa; a mask with fewer rows than queries applies to the last queries, and those before are causal."""
    trunk = 0 if attention_mask is None else query.shape[2] - attention_mask.shape[-2]
    if trunk <= 0:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    q, k, v = (states[:, :, :trunk] for states in (query, key, value))
    causal, _ = sdpa_attention_forward(module, q, k, v, None, **options | {"is_causal": True})
    masked, _ = sdpa_attention_forward(
        module, query[:, :, trunk:], key, value, attention_mask, **options
    )
    return torch.cat([causal, masked], dim=1), None


def tree_inputs(model: PreTrainedModel, tree: TokenTree, first: int = 0) -> dict[str, Any]:
    """A model's inputs to read a packed tree: ids and positions [1, N - first], and the mask [1, 1, rows, N].

    first: number of the trunk's tokens that are in the model's cache already. The rows are those from `first` on or,
    with split attention, those after a trunk that no window cuts; a model with several layer types gets a mask for
    each. Boolean for sdpa; for eager, which adds the mask, 0 or the smallest number of the model's dtype.
    """
    ids = torch.from_numpy(tree.ids[first:])[None].to(model.device)
    if tree.trunk == len(tree) and not first:
        return {
            "input_ids": ids
        }  # a single path: the model's own causal attention is exact and fast
    depth = torch.from_numpy(tree.depth[first:])[None].to(model.device)
    config = model.config.get_text_config()
    types = sorted(set(getattr(config, "layer_types", None) or ()))
    masks = {}
    for kind in types or [""]:
        masks[kind] = seen = torch.from_numpy(_seen(config, kind, tree, first)).to(model.device)[
            None, None
        ]
        if config._attn_implementation == "eager":
            masks[kind] = torch.zeros_like(seen, dtype=model.dtype).masked_fill_(
                ~seen, torch.finfo(model.dtype).min
            )
    # Only models with several layer types accept a dict; all accept a single mask.
    attention = masks if len(types) > 1 else next(iter(masks.values()))
    return {"input_ids": ids, "position_ids": depth, "attention_mask": attention}


def _seen(
    config: PreTrainedConfig, layer_type: str, tree: TokenTree, first: int
) -> NDArray[np.bool_]:
    """The tree's mask in layers of this type; "" stands for all layers of a model without named types."""
    window, chunk = (
        getattr(config, "sliding_window", None),
        getattr(config, "attention_chunk_size", None),
    )
    slides = layer_type == "sliding_attention" or (not layer_type and window is not None)
    window = window if slides else None
    chunk = None if slides or layer_type == "full_attention" else chunk
    cut = any(limit and limit < tree.trunk for limit in (window, chunk))
    split = config._attn_implementation == _SPLIT and not cut and not first
    return tree.mask(window=window, chunk=chunk, first=tree.trunk if split else first)


def _carries_state(model: PreTrainedModel) -> bool:
    types = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    return bool(types - _ATTENTION_LAYERS or getattr(model, "_is_stateful", False))


def _uses_alibi(config: PreTrainedConfig) -> bool:
    return any(
        getattr(part, "alibi", False) for part in (config, getattr(config, "attn_config", None))
    )


def _rope_kinds(config: PreTrainedConfig) -> set[str]:
    return {
        rope.get("rope_type") or rope.get("type") or "default"
        for rope in _ropes(config.get_text_config())
    }


def _ropes(config: PreTrainedConfig) -> list[dict[str, Any]]:
    """Rope settings of a config, one dict per layer type."""
    settings = (
        getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    )
    return [value for value in settings.values() if isinstance(value, dict)] or [settings]
