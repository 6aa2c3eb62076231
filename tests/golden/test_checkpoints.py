"""Checkpoints that version 0.1.0 wrote: what is read from them, and that they are written again as they were."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path

import pytest
from safetensors.torch import load

import drike
from drike.errors import CheckpointError
from tests.golden.compare import DATA, differences, digest, matches_golden, rounded, schema

NAMES, LEARNED = ("threshold", "fraction"), ("scores-query", "query-context")
PLAIN = ("sigma", "share", "max_shots", "flip", "steps", "quantile", "learning_rate")


def file(name: str) -> Path:
    return DATA / "checkpoints" / f"{name}.safetensors"


def header(path: Path) -> dict[str, dict]:
    """The header of a safetensors file: its tensors' types, shapes and places, and metadata."""
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def described(path: Path) -> dict[str, object]:
    """The JSON object in a checkpoint's metadata."""
    return json.loads(header(path)["__metadata__"]["drike"])


def held(checkpoint: drike.Checkpoint) -> dict[str, object]:
    """What a checkpoint holds, as it is used."""
    policy, budget = checkpoint.per_query, checkpoint.budget
    return {
        "form": checkpoint.retriever.form,
        "encoder": [checkpoint.retriever.encoder.name, checkpoint.retriever.encoder.dim],
        "parameters": checkpoint.retriever.parameters,
        "head": {name: [list(one.shape), rounded(one.flatten()[:4].tolist())]
                 for name, one in checkpoint.retriever.head.state_dict().items()},
        "trained_on": sorted(checkpoint.trained_on),
        "budget": [type(budget).__name__, {one: getattr(budget, one) for one in PLAIN if hasattr(budget, one)}],
        "style": asdict(checkpoint.style),
        "training": dict(checkpoint.training),
        "per_query": policy,  # that of version 0.1.0 is left out
        "promise": asdict(checkpoint.promise) if is_dataclass(checkpoint.promise) else None,
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_old_checkpoint_holds_what_was_saved(name: str) -> None:
    matches_golden(f"checkpoint_{name}", held(drike.load_checkpoint(file(name))))


@pytest.mark.parametrize("name", LEARNED)
def test_an_old_checkpoint_with_a_learned_budget_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"this version has no budget 'controller'.*train"):
        drike.load_checkpoint(file(name))


@pytest.mark.parametrize("name", NAMES)
def test_an_old_checkpoint_is_saved_as_it_was(name: str, tmp_path: Path) -> None:
    drike.save_checkpoint(drike.load_checkpoint(file(name)), tmp_path)
    [again] = tmp_path.iterdir()
    assert again.name == "checkpoint.safetensors"
    old, new = header(file(name)), header(again)
    kept = {
        key: one for key, one in old.items() if not key.startswith(("__metadata__", "per_query."))
    }
    assert {key: (one["dtype"], one["shape"]) for key, one in kept.items()} == {
        key: (one["dtype"], one["shape"]) for key, one in new.items() if key != "__metadata__"
    }
    assert set(old["__metadata__"]) == set(new["__metadata__"])
    before, after = described(file(name)), described(again)
    gone = {"sha256": "", "per_query": None} | ({"promise": None} if before["per_query"] else {})
    assert differences({**after, "sha256": ""}, before | gone) == []
    matches_golden(f"checkpoint_{name}_fields", schema(after))
    tensors, others = load(file(name).read_bytes()), load(again.read_bytes())
    assert {key: digest(one.tolist()) for key, one in tensors.items() if key in kept} == {
        key: digest(one.tolist()) for key, one in others.items()
    }


def test_the_checkpoint_of_an_old_run_is_found_by_folder_and_file() -> None:
    folder = DATA / "runs" / "trained"
    found = [drike.load_checkpoint(one) for one in (folder, folder / "checkpoint.safetensors")]
    matches_golden("checkpoint_trained", held(found[0]))
    assert held(found[0]) == held(found[1])


def test_a_checkpoint_from_before_promises_has_none() -> None:
    old = drike.load_checkpoint(file("before-promises"))
    assert "promise" not in described(file("before-promises"))
    assert held(old) == {**held(drike.load_checkpoint(file("threshold"))), "promise": None}
