"""Build the embedded model from scratch: tokenizer, training, and a folder for `from_pretrained`.

`build` is a generator: it yields a `Progress` for every step and has written the folder when it
ends. The corpus is drawn during training (see `documents`); nothing is downloaded. Not here: the
check of the result (`check.measure`).
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

from drike.models.reader import Observer
from drike.support.files import write_text
from drike.tinyfacts import TEMPLATES, facts
from tools.tinyfacts.documents import Kit
from tools.tinyfacts.llama import CONTEXT, WIDTH, new_model
from tools.tinyfacts.tokens import END_OF_TEXT, train_tokenizer, word
from tools.tinyfacts.train import CURRICULUM, OTHER_CURRICULUM, Progress, Stage, train
from tools.tinyfacts.world import Templates, other_templates, split_facts, write_rows

SEED = 0
OTHER_WIDTH = 144

_CARD = """# TinyFacts model

A small Llama that knows the facts of TinyFacts and nothing else. Its in-context behaviour was trained in from a stated
document model (`drike/models/reader.py`): numbers on it show the machinery, not what large models do.
Made by `python -m tools.tinyfacts build`; how, and with what settings, is in `training.json`.
"""


def kit(templates: Templates = TEMPLATES) -> tuple[Kit, Tokenizer]:
    """The facts as training uses them, in the order of the benchmark's rows, and the tokenizer."""
    editable, demonstrations = split_facts()
    tokenizer = train_tokenizer(facts(), templates)
    return Kit(word(tokenizer, editable + demonstrations, templates), Observer()), tokenizer


def build(
    out: Path,
    *,
    seed: int = SEED,
    threads: int | None = None,
    curriculum: Sequence[Stage] | None = None,
    other: bool = False,
) -> Iterator[Progress]:
    """Train from scratch and write the model to the folder `out`, replacing what is there.

    threads: on the CPU; None: torch's default. The same seed, threads and torch version give the
    same weights. other: a second model, narrower and trained for less time, that knows the same
    facts in `other_templates`; TinyFacts in these wordings is written to rows.json beside it.
    """
    began = time.monotonic()
    if threads is not None:
        torch.set_num_threads(threads)
    if curriculum is None:
        curriculum = OTHER_CURRICULUM if other else CURRICULUM
    world, tokenizer = kit(other_templates() if other else TEMPLATES)
    model = new_model(seed, OTHER_WIDTH if other else WIDTH)
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
    save(model, tokenizer, out, settings, other_templates() if other else None)


def save(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    out: Path,
    settings: dict[str, Any],
    templates: Templates | None = None,
) -> None:
    """Write weights (bfloat16), tokenizer, card, settings and, with `templates`, the rows in these wordings.

    The folder is moved into place when it is complete. Raises OSError.
    """
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
        if templates is not None:
            write_rows(partial / "rows.json", templates)
        before = partial.with_suffix(".before")
        if out.exists():
            out.rename(before)
        partial.rename(out)
        shutil.rmtree(before, ignore_errors=True)
    except SafetensorError as problem:  # for a full disk, among others; the message has the errno
        number = re.search(r"os error (\d+)", str(problem))
        raise OSError(
            int(number[1]) if number else errno.EIO, str(problem), str(partial)
        ) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)
