"""Build the embedded model from scratch: tokenizer, training, and a folder for `from_pretrained`.

`build` is a generator: it yields a `Progress` for every step and has written the folder when it ends. The corpus is
drawn during training (see `documents`); nothing is downloaded. Not here: the check of the result (`check.measure`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from drike.files import write_text
from drike.models.reader import Observer
from drike.tinyfacts import facts
from tools.tinyfacts.documents import Kit
from tools.tinyfacts.llama import CONTEXT, new_model
from tools.tinyfacts.tokens import END_OF_TEXT, train_tokenizer, word
from tools.tinyfacts.train import CURRICULUM, Progress, Stage, train
from tools.tinyfacts.world import split_facts

SEED = 0

_CARD = """# TinyFacts model

A small Llama that knows the facts of TinyFacts and nothing else. Its in-context behaviour was trained in from a stated
document model (`drike/models/reader.py`): numbers on it show the machinery, not what large models do.
Made by `python -m tools.tinyfacts build`; how, and with what settings, is in `training.json`.
"""


def kit() -> tuple[Kit, Tokenizer]:
    """The facts as training uses them, in the order of the benchmark's rows, and the tokenizer."""
    editable, demonstrations = split_facts()
    tokenizer = train_tokenizer(facts())
    return Kit(word(tokenizer, editable + demonstrations), Observer()), tokenizer


def build(
    out: Path, *, seed: int = SEED, threads: int | None = None, curriculum: Sequence[Stage] = CURRICULUM
) -> Iterator[Progress]:
    """Train from scratch and write the model to the folder `out`, replacing what is there.

    threads: on the CPU; None: torch's default. The same seed, threads and torch version give the same weights.
    """
    began = time.monotonic()
    if threads is not None:
        torch.set_num_threads(threads)
    world, tokenizer = kit()
    model = new_model(seed)
    yield from train(model, world, seed, curriculum)
    settings = {
        "seed": seed,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "curriculum": [asdict(stage) for stage in curriculum],
        "observer": asdict(world.observer),
    }
    save(model, tokenizer, out, settings)


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, out: Path, settings: dict[str, Any]) -> None:
    """Write weights (bfloat16), tokenizer, card and settings, then move the folder into place. Raises OSError."""
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    partial.mkdir(parents=True)
    try:
        model.bfloat16().save_pretrained(partial)
        wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=tokenizer,
            eos_token=END_OF_TEXT,
            pad_token=END_OF_TEXT,
            clean_up_tokenization_spaces=False,
            model_max_length=CONTEXT,
        )
        wrapped.save_pretrained(partial)
        write_text(partial / "training.json", json.dumps(settings, indent=1) + "\n")
        write_text(partial / "README.md", _CARD)
        before = partial.with_suffix(".before")
        if out.exists():
            out.rename(before)
        partial.rename(out)
        shutil.rmtree(before, ignore_errors=True)
    except SafetensorError as problem:  # for a full disk, among others; the message has the errno
        number = re.search(r"os error (\d+)", str(problem))
        raise OSError(int(number[1]) if number else errno.EIO, str(problem), str(partial)) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)
