"""GGUF files, converted to what transformers opens in a second.

transformers takes half a minute or more to read a GGUF file, most of it for the vocabulary. What it
has read is saved as safetensors with config and tokenizer. A model that then computes other logits,
or a tokenizer that then splits otherwise, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.errors import ModelError, reason
from drike.models.local.conversions import require_room
from drike.models.local.gguf_header import GgufHeader, read_header
from drike.support import progress
from drike.support.huggingface import quiet

_STEPS = 5
_TEXT = "The 3 capitals: Lima, Zürich\n\n  and 東京 (2024) don't end.\t"  # to compare tokenizers
_COMPARED_TOKENS = 24
_TOLERANCE = 1e-5
_MARGIN = 64 << 20  # bytes for what is not weights
_ROPE_FACTORS = "rope_freqs.weight"
_PACKAGES = ("gguf", "accelerate")
_TOKEN_FIELDS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


def gguf_in(name_or_path: str) -> Path | None:
    """The GGUF file that a name means: itself, or the only one in a folder without safetensors.

    None if it means something else. Raises ModelError for a file that is not there, and for a
    folder with several.
    """
    path = Path(name_or_path).expanduser()
    if path.suffix.lower() == ".gguf" and not path.is_dir():
        if not path.is_file():
            raise ModelError(f"there is no file {name_or_path}: give the path of a GGUF file")
        return path
    if not path.is_dir() or any(path.glob("*.safetensors")):
        return None
    # A projector (mmproj) reads pictures, and is no language model.
    files = [file for file in sorted(path.glob("*.gguf")) if "mmproj" not in file.name.lower()]
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelError(f"{name_or_path} holds several models: give the path of one of {names}")
    return files[0] if files else None


def convert(file: Path, folder: Path, name: str) -> None:
    """Write a GGUF file's model and tokenizer into an empty folder in the cache.

    name: of the model in messages. Raises ModelError if the file is no whole language model that
    transformers reads, or if there is no room; SafetensorError or OSError if it cannot be written.
    """
    _require_packages(name)
    header = read_header(file, name)
    _require_model(header, name)
    require_room(header.numbers * torch.float32.itemsize + _MARGIN, name)
    with quiet(), _unreadable(header, name):
        _tell(name, 1, "reading its config")
        source = {"gguf_file": file.name, "local_files_only": True}
        config = AutoConfig.from_pretrained(file.parent, **source)
        _tell(name, 2, "reading its weights")
        model = _read_model(file, config, name)
        _tell(name, 3, "reading its tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)

    with quiet(), _unsaved(name):
        _tell(name, 4, "writing")
        logits = _logits(model)
        _save(model, tokenizer, header, folder)
        del model
        _tell(name, 5, "checking what was written")
        _require_same(folder, tokenizer, logits)
    if _ROPE_FACTORS in header.tensors:
        progress.tell(
            f"Note: transformers leaves out the frequency factors in {name}, so that answers may"
            " differ from llama.cpp's; a folder of safetensors has them in its config.json"
        )


def _tell(name: str, step: int, what: str) -> None:
    progress.tell(f"Converting {name}, which is done once ({step} of {_STEPS}): {what}")


def _require_packages(name: str) -> None:
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        needs = f"needs {' and '.join(missing)}: pip install 'drike[local]'"
        raise ModelError(f"{name} is a GGUF file, which {needs}")


def _require_model(header: GgufHeader, name: str) -> None:
    """Raise ModelError for a GGUF file that is no whole language model."""
    if header.parts > 1:
        raise ModelError(
            f"{name} is part {header.part} of {header.parts} of a model: join the parts with"
            " llama-gguf-split --merge, and give the file that this makes"
        )
    if header.kind != "model":
        raise ModelError(f"{name} is a GGUF file of the kind {header.kind}: give that of a model")


@contextmanager
def _unreadable(header: GgufHeader, name: str) -> Iterator[None]:
    """Say in one sentence why transformers cannot read a file. Raises ModelError."""
    try:
        yield
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # transformers raises almost anything for unusual files
        text = str(error)
        if "not supported" in text or isinstance(error, NotImplementedError):
            sentence = (
                f"{name} has the architecture {header.architecture}, which transformers"
                f" {transformers.__version__} does not read from GGUF: give a folder of safetensors"
            )
        elif "ignore_mismatched_sizes" in text:
            sentence = (
                f"the weights in {name} do not have the shapes that transformers"
                f" {transformers.__version__} reads from it: give a folder of safetensors"
            )
        elif "Unrecognized configuration class" in text:
            sentence = f"{name} is not a causal language model: choose one that completes text"
        else:
            sentence = (
                f"{name} cannot be read ({reason(error)}): it is damaged, or needs another version"
                " of transformers; download it again, or give a folder of safetensors"
            )
        raise ModelError(sentence) from error


def _read_model(file: Path, config: Any, name: str) -> PreTrainedModel:
    """The model that transformers reads, in float32.

    Raises ModelError unless the file holds all its weights, and only numbers.
    """
    opened: Any
    with redirect_stderr(StringIO()):  # it draws a bar that nothing else switches off
        opened = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            config=config,
            local_files_only=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    model, loading_info = opened
    missing = sorted(loading_info["missing_keys"])
    if missing:  # transformers would make them up
        lacking = f"no weights for {missing[0]} ({len(missing)} missing)"
        raise ModelError(f"{name} holds {lacking}: it is not a complete causal language model")
    if not all(tensor.isfinite().all() for tensor in model.state_dict().values()):
        raise ModelError(f"{name} holds weights that are no numbers: download or copy it again")
    model.train(False)
    return model  # type: ignore[no-any-return]


def _save(model: Any, tokenizer: Tokenizer, header: GgufHeader, folder: Path) -> None:
    """Save a model as safetensors, which one that was read from GGUF refuses itself."""
    config = deepcopy(model.config)
    del config.quantization_config
    with torch.device("meta"):
        unquantized = type(model)(config)
    unquantized.load_state_dict(model.state_dict(), assign=True)
    unquantized.tie_weights()
    if header.end_tokens:
        unquantized.generation_config.eos_token_id = list(header.end_tokens)
    unquantized.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if _only_builds_tables(tokenizer):
        _save_for_quick_opening(tokenizer, folder / "tokenizer_config.json")


def _only_builds_tables(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer's class adds nothing to transformers' general one but how it is made."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return False
    kinds = type(tokenizer).__mro__
    further = kinds[: kinds.index(PreTrainedTokenizerFast)]
    functions = {name for kind in further for name, value in vars(kind).items() if callable(value)}
    return functions <= {"__init__", "model"}


def _save_for_quick_opening(tokenizer: Tokenizer, config_file: Path) -> None:
    """Let transformers take a tokenizer from its file, as it is.

    Otherwise it reads a large vocabulary three times, and makes its tables anew, in seconds.
    """
    config = json.loads(config_file.read_text("utf-8"))
    config["tokenizer_class"] = PreTrainedTokenizerFast.__name__
    config["padding_side"] = tokenizer.padding_side
    config["added_tokens_decoder"] = {
        number: {name: getattr(token, name) for name in _TOKEN_FIELDS}
        for number, token in tokenizer.added_tokens_decoder.items()
    }
    config_file.write_text(json.dumps(config, ensure_ascii=False), "utf-8")


@contextmanager
def _unsaved(name: str) -> Iterator[None]:
    """Say in one sentence that transformers does not save a model as it has read it.

    Raises ModelError; what the disk refuses stays as it is.
    """
    try:
        yield
    except (OSError, SafetensorError, MemoryError):
        raise
    except Exception as error:  # transformers raises almost anything for unusual files
        raise ModelError(
            f"transformers {transformers.__version__} reads {name}, but does not save it as it was"
            f" read ({reason(error)}): give a folder of safetensors, or another model"
        ) from error


def _require_same(folder: Path, tokenizer: Tokenizer, logits: torch.Tensor) -> None:
    """Raise ValueError unless a saved model computes, and splits texts, as the one that was read.

    logits: of the latter.
    """
    saved: Any = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    )
    if not torch.allclose(_logits(saved.train(False)), logits, rtol=0, atol=_TOLERANCE):
        raise ValueError("other logits")
    saved_tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if _splits(saved_tokenizer) != _splits(tokenizer):
        raise ValueError("other tokens")


@torch.inference_mode()
def _logits(model: PreTrainedModel) -> torch.Tensor:
    """The logits [tokens, V] after each of some tokens from all of the vocabulary."""
    size = model.config.get_text_config().vocab_size
    ids = torch.linspace(0, size - 1, _COMPARED_TOKENS).long()
    logits: torch.Tensor = model(input_ids=ids[None]).logits
    return logits[0].float()


def _splits(tokenizer: Tokenizer) -> tuple[object, ...]:
    """What a tokenizer makes of a text without and with special tokens, and its settings."""
    special = "".join(map(str, tokenizer.all_special_tokens))
    ids = [tokenizer(text)["input_ids"] for text in (_TEXT, f"{_TEXT}{special}{_TEXT}")]
    settings = (tokenizer.chat_template, tokenizer.padding_side, tokenizer.special_tokens_map)
    return ids, tokenizer.decode(ids[0]), settings
