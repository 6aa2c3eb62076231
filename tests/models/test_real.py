"""Real language models, from packages: what is read of them, how fast they open, and what they answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import drike
from drike.models import named
from drike.models.local import conversions, huggingface, sources
from drike.models.protocols import Request


def need(name: str) -> named.NamedModel:
    model = named.NAMED_MODELS[name]
    is_converted = conversions.is_whole(conversions.folder_for(model.sha256))
    if not is_converted and not named.packaged_parts(model):
        pytest.skip(f"{name} is not installed: {model.installation}")
    return model


def test_a_real_chat_model_answers() -> None:
    need(named.SMOLLM2)
    model = huggingface.load(named.SMOLLM2, device="cpu")
    assert model.chats and model.info.identity["parameters"] == 134_515_008
    question = {"role": "user", "content": "What is the capital of Peru?"}
    assert model.reply([question], 12).text == "The capital of Peru is Lima."


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (named.SMOLLM2, "The capital of Peru is Lima"),
        (named.GEMMA, "The capital of France is Paris"),
    ],
)
def test_a_named_model_scores_exactly_as_transformers_reads_its_file(
    name: str, text: str, tmp_path: Path
) -> None:
    model = need(name)
    began = time.perf_counter()
    drike.load_model(name)
    print(f"{name}: opened (and converted, unless it was) in {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    opened = huggingface.load(name, device="cpu")
    print(f"{name}: opened again in {time.perf_counter() - began:.1f} s")

    parts = named.packaged_parts(model)
    if not parts:
        pytest.skip(f"{name} is converted, but its package is gone")
    file = tmp_path / model.file
    file.write_bytes(b"".join(part.read_bytes() for part in parts))
    expected = logprobs_of(text, tmp_path, gguf_file=file.name)
    assert logprobs_of(text, Path(sources.source_of(name))) == pytest.approx(expected, abs=1e-5)
    prompt, _, last = text.rpartition(" ")
    [score] = opened.score([Request(prompt, f" {last}")])
    # drike computes in another order, and Gemma's float32 numbers are exact to some 4e-5.
    assert score.logprobs == pytest.approx(expected[-len(score.logprobs) :], abs=1e-4)


def logprobs_of(text: str, folder: Path, **source: str) -> list[float]:
    """The log-probability of each token of a text but the first, as transformers computes it."""
    model = AutoModelForCausalLM.from_pretrained(folder, **source, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, **source)
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        logprobs = model(ids).logits[0].log_softmax(-1)
    return [logprobs[i - 1, ids[0, i]].item() for i in range(1, ids.shape[1])]
