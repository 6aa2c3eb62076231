"""The files of a BERT, and how its tokens become the vector of a text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}
# Names of ways to make one vector of the tokens' vectors, as older and newer versions write them.
_MEAN_MODES = {"pooling_mode_mean_tokens", "mean"}
_FIRST_TOKEN_MODES = {"pooling_mode_cls_token", "cls"}


@dataclass(frozen=True)
class BertFolder:
    """A BERT and how its tokens become a vector.

    config: the model's; mean: whether the vector is the mean of the tokens' and not the first
    token's; normalised: whether vectors have length 1.
    """

    path: Path
    config: Mapping[str, Any]
    max_tokens: int
    mean: bool
    normalised: bool

    @classmethod
    def read(cls, path: Path) -> BertFolder | None:
        """The BERT in a folder; None for another model, or for files that only torch reads."""
        config = _json(path / "config.json")
        if not _is_plain_bert(config):
            return None
        if not all((path / name).is_file() for name in ("model.safetensors", "tokenizer.json")):
            return None

        max_tokens = _max_tokens(path, config)
        if not (path / "modules.json").is_file():
            return cls(path, config, max_tokens, mean=False, normalised=False)
        modules = {
            str(module["type"]).rpartition(".")[2]: module["path"]
            for module in _json(path / "modules.json")
        }
        if not {"Transformer", "Pooling"} <= set(modules) <= _KNOWN_MODULES:
            return None
        modes = _pooling_modes(path / modules["Pooling"])
        if len(modes) != 1 or not modes <= _MEAN_MODES | _FIRST_TOKEN_MODES:
            return None
        return cls(
            path, config, max_tokens, mean=modes <= _MEAN_MODES, normalised="Normalize" in modules
        )


def _is_plain_bert(config: Mapping[str, Any]) -> bool:
    has_absolute_positions = (config.get("position_embedding_type") or "absolute") == "absolute"
    is_bert = config.get("model_type") == "bert" and config.get("hidden_act") == "gelu"
    return is_bert and has_absolute_positions


def _max_tokens(path: Path, config: Mapping[str, Any]) -> int:
    """How many tokens of a text the model reads."""
    limit = _json(path / "sentence_bert_config.json").get("max_seq_length")
    if limit:
        return int(limit)
    tokenizer = _json(path / "tokenizer_config.json")
    most = min(config["max_position_embeddings"], tokenizer.get("model_max_length", math.inf))
    return int(most)


def _pooling_modes(folder: Path) -> set[str]:
    """The names of the ways in which one vector is made of the tokens' vectors."""
    pooling = _json(folder / "config.json")
    modes = {
        name
        for name, value in pooling.items()
        if name.startswith("pooling_mode_") and value is True
    }
    if "pooling_mode" in pooling:  # as newer versions write it
        modes.add(pooling["pooling_mode"])
    return modes


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
