"""Checkpoints of causal language models: opened, or refused in one sentence.

They come from a folder, the local cache, or the hub.

Only safetensors are read, and code that comes with a checkpoint is never run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi, errors
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.errors import ModelError, reason
from drike.support.huggingface import like, pinned, quiet

_REACH_SECONDS = 10.0
_MOST_LAYERS = 10_000  # more would take hours to build, before their weights are missed

# The files of a model's folder, and the names under which they may be there.
_NAMES_BY_FILE = {
    "config.json": ("config.json",),
    "tokenizer.json": ("tokenizer*", "vocab.*", "*.model"),
    # Pickled weights have their own message.
    "model.safetensors": ("*.safetensors", "*.bin", "*.pt", "*.pth"),
}


class _Opened(NamedTuple):
    """A model, its tokenizer, and the names of the weights that its files lack."""

    model: PreTrainedModel
    tokenizer: Tokenizer
    missing: list[str]


def open_checkpoint(
    name_or_path: str, dtype: torch.dtype | None
) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a causal language model and its tokenizer; dtype None: the stored one.

    Raises ModelError, or almost anything that transformers raises, which `refusal` explains.
    """
    with quiet():
        try:  # the local cache first, so that a downloaded model works, and works the same, offline
            opened = _read(name_or_path, dtype, local=True)
        except OSError:
            if Path(name_or_path).is_dir():
                raise
            _ask_hub(name_or_path)
            opened = _read(name_or_path, dtype, local=False)
        if opened.missing:
            lacking = f"no weights for {opened.missing[0]} ({len(opened.missing)} missing)"
            raise ModelError(
                f"{name_or_path} holds {lacking}: it is not a complete causal language model"
            )
        _require_causal(opened.model, name_or_path)
    return opened.model, opened.tokenizer


def refusal(name_or_path: str, error: Exception) -> ModelError:
    """Say in one sentence why a model cannot be used, given what transformers raised."""
    text = str(error)
    model = name_or_path
    if lacking := _lacking_file(Path(model)):
        files = "config.json, tokenizer.json and model.safetensors, as save_pretrained writes it"
        sentence = f"{model} holds no {lacking}: give a folder with {files}"
    elif isinstance(error, SafetensorError):
        sentence = f"the weights of {model} are damaged or cut short: download or copy them again"
    elif "trust_remote_code" in text:
        sentence = f"{model} needs code of its own, which is never run here: choose another model"
    elif "Unrecognized configuration class" in text:
        sentence = f"{model} is not a causal language model: choose one that completes text"
    elif "safetensors" in text and isinstance(error, OSError):
        remedy = "convert it with save_pretrained, or choose another model"
        sentence = (
            f"{model} has no safetensors weights, and pickled ones are never opened: {remedy}"
        )
    elif "ignore_mismatched_sizes" in text:
        sentence = (
            f"the weights of {model} do not have the shapes that its config.json gives: download"
            " both again"
        )
    else:
        why = (
            "its config.json or tokenizer files are damaged, or need another version of"
            " transformers"
        )
        sentence = f"{model} cannot be opened ({reason(error)}): {why}"
    return ModelError(sentence)


def _read(name_or_path: str, dtype: torch.dtype | None, *, local: bool) -> _Opened:
    """Read a model. local: only from folders and the cache, or OSError.

    Raises as `open_checkpoint`.
    """
    name, revision = pinned(name_or_path)
    source: dict[str, Any] = {
        "trust_remote_code": False,
        "local_files_only": local,
        "revision": revision or "main",
    }
    config = AutoConfig.from_pretrained(name, **source).get_text_config()
    layers = getattr(config, "num_hidden_layers", 0)
    if layers > _MOST_LAYERS:
        raise ModelError(
            f"{name_or_path} has {layers} layers by its config.json, which must be damaged:"
            " download it again"
        )
    tokenizer = AutoTokenizer.from_pretrained(name, **source)
    opened: Any = AutoModelForCausalLM.from_pretrained(
        name, **source, dtype=dtype or "auto", use_safetensors=True, output_loading_info=True
    )
    model, loading_info = opened
    return _Opened(model, tokenizer, sorted(loading_info["missing_keys"]))


def _ask_hub(name: str) -> None:
    """Raise ModelError unless the hub has this model.

    One short request: loaders would retry for half a minute.
    """
    local = "give the path of a local folder with config.json, tokenizer.json and model.safetensors"
    repository, revision = pinned(name)
    try:
        HfApi().model_info(repository, revision=revision, timeout=_REACH_SECONDS)
    except errors.HFValidationError as error:
        raise ModelError(
            f"there is no model folder {name!r}{like(name)}: {local}, or a hub name"
        ) from error
    except errors.GatedRepoError as error:
        remedy = "log in with `hf auth login`"
        raise ModelError(
            f"{name} can be downloaded only after accepting its licence: {remedy}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        remedy = f"correct the name, or {local}"
        raise ModelError(
            f"{name} is neither a folder nor a model on the hub{like(name)}: {remedy}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"{repository} has no revision {revision} on the hub: correct it, or leave it out"
        ) from error
    # The errors of the HTTP library that the hub uses.
    except (errors.HTTPError, OSError) as error:  # type: ignore[attr-defined]
        what = f"{name} is not a folder or in the cache{like(name)}"
        raise ModelError(f"{what}, and the hub cannot be reached: {local}") from error


def _lacking_file(folder: Path) -> str | None:
    """The first file that a model's folder lacks; None if it has all, or is no folder."""
    if not folder.is_dir():
        return None
    for file, names in _NAMES_BY_FILE.items():
        if not any(any(folder.glob(name)) for name in names):
            return file
    return None


def _require_causal(model: PreTrainedModel, name_or_path: str) -> None:
    """Raise ModelError unless a token's logits are finite, and do not depend on the next token."""
    with torch.inference_mode():
        before_2 = _first_logits(model, [1, 2])
        before_3 = _first_logits(model, [1, 3])
    if not before_2.isfinite().any():
        remedy = "its weights or config.json are damaged, download them again"
        raise ModelError(f"{name_or_path} computes no finite number: {remedy}")
    if not torch.allclose(before_2, before_3, rtol=1e-2, atol=1e-2, equal_nan=True):
        remedy = "it is an encoder, choose a causal language model"
        raise ModelError(f"{name_or_path} ({type(model).__name__}) looks ahead: {remedy}")


def _first_logits(model: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    """The logits [V] at the first of these tokens."""
    logits: torch.Tensor = model(input_ids=torch.tensor([ids])).logits
    return logits[0, 0].float()
