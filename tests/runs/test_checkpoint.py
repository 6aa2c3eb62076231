import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

import drike
from drike.cli import main
from drike.encoders import HashingEncoder
from drike.errors import CheckpointError, DrikeError
from drike.gates.inventory import Relation
from drike.prompts import PromptStyle
from drike.research.datasets.dataset import SplitIds
from drike.research.editors import catalog
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import FORMS, Retriever
from drike.research.runs import checkpoint
from drike.research.runs.checkpoint import Checkpoint
from tests.fakes.capitals import CAPITALS
from tests.fakes.suggestible_task import trained

ENCODER = HashingEncoder()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "budget", [Threshold(0.07, 12, "algorithm1"), Fraction(0.5), Fraction(1.0, 4)]
)
def test_a_loaded_checkpoint_equals_the_saved_one(tmp_path: Path, form, budget: Budget) -> None:  # type: ignore[no-untyped-def]
    retriever, style = (
        Retriever(ENCODER, form=form, seed=3),
        PromptStyle("ike", own_copy=False, retain="bare"),
    )
    retriever.trained_on = frozenset(case.edit.key for case in CAPITALS[:3])
    checkpoint.save(Checkpoint(retriever, budget, style, {"model": "m", "seed": 3}), tmp_path)
    loaded = checkpoint.load(tmp_path)
    assert (loaded.budget, loaded.style, loaded.training) == (
        budget,
        style,
        {"model": "m", "seed": 3},
    )
    assert loaded.retriever.trained_on == retriever.trained_on
    [candidates] = Pool(CAPITALS, ENCODER).candidates([CAPITALS[0].edit])
    assert loaded.retriever.rank(candidates) == retriever.rank(candidates)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]


def test_a_policy_that_decides_for_each_query_is_saved_beside_the_retriever(tmp_path: Path) -> None:
    policy = trained().with_relations([Relation("capital", (("The capital of it is",),))])
    saved = Checkpoint(Retriever(ENCODER, seed=3), Threshold(), per_query=policy)
    checkpoint.save(saved, tmp_path)
    loaded = checkpoint.load(tmp_path).per_query
    assert loaded is not None
    assert (loaded.gate, loaded.shown, loaded.trained_on) == (
        policy.gate,
        policy.shown,
        policy.trained_on,
    )
    for case in CAPITALS[:5]:
        queries = [probe.query for probe in case.probes]
        assert loaded.choose(case.edits, queries) == policy.choose(case.edits, queries)
    checkpoint.save(Checkpoint(saved.retriever, Threshold()), tmp_path)
    assert checkpoint.load(tmp_path).per_query is None


def test_a_policy_with_the_gate_of_another_encoder_is_refused(tmp_path: Path) -> None:
    policy = replace(trained(), gate=replace(trained().gate, encoder="other"))
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold(), per_query=policy), tmp_path)
    with pytest.raises(CheckpointError, match="the gate of another encoder"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("budget", [Threshold(), Fraction(0.5)])
def test_equal_checkpoints_have_equal_bytes_and_different_ones_different_bytes(
    tmp_path: Path, budget: Budget
) -> None:
    for name, sigma in (("a", budget), ("b", budget), ("c", Fraction(0.25))):
        checkpoint.save(Checkpoint(Retriever(ENCODER, seed=1), sigma), tmp_path / name)
    a, b, c = ((tmp_path / name / checkpoint.FILE).read_bytes() for name in "abc")
    assert a == b != c


def test_a_checkpoint_loads_from_its_file_its_folder_or_its_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1",
              "--out", str(tmp_path / "run")])  # fmt: skip
    for place in (tmp_path / "run", tmp_path / "run" / checkpoint.FILE, str(tmp_path / "run")):
        loaded = drike.load_checkpoint(place)
        assert loaded.training["episodes"] == 4
        ids = SplitIds.load(tmp_path / "run" / "split.json")
        split = drike.load_dataset("tinyfacts").restore(ids)
        assert loaded.retriever.trained_on == {case.edit.key for case in split.train}


@pytest.mark.parametrize("form", FORMS)
def test_the_policy_is_a_distribution_and_only_its_head_is_trained(form) -> None:  # type: ignore[no-untyped-def]
    retriever = Retriever(ENCODER, form=form)
    [candidates] = Pool(CAPITALS, ENCODER).candidates([CAPITALS[0].edit])
    features = retriever.features(candidates)
    log_p = retriever.log_probs(features)
    assert log_p.shape == (16,)
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert torch.allclose(features.square().mean(dim=1), torch.ones(len(features)), atol=1e-4)
    log_p[0].backward()
    assert not features.requires_grad
    assert all(weight.grad is not None for weight in retriever.head.parameters())


def resave(
    folder: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], object]
) -> None:
    """Change the JSON object and tensors of a checkpoint, and update its checksum."""
    content = (folder / checkpoint.FILE).read_bytes()
    described, tensors = checkpoint._verified(content), unpacked(content)
    change(described, tensors)
    (folder / checkpoint.FILE).write_bytes(checkpoint._sealed(described, tensors))


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="give a folder that `drike train` wrote"):
        checkpoint.load(tmp_path)


WRONG: dict[str, Callable[[dict[str, Any], dict[str, torch.Tensor]], object]] = {
    "unknown form": lambda described, tensors: described.update(form="maze"),
    "head of another shape": lambda described, tensors: tensors.update({"head.weight": torch.zeros(3, 3)}),
    "no head": lambda described, tensors: tensors.pop("head.weight"),
    "weights that are not finite": lambda described, tensors: tensors["head.weight"].fill_(float("nan")),
    "sigma out of range": lambda described, tensors: described.update(budget={"kind": "threshold", "sigma": 7}),
    "fractional max_shots": lambda described, tensors: described["budget"].update(max_shots=2.5),
    "unknown budget": lambda described, tensors: described.update(budget={"kind": "mood"}),
    "no budget": lambda described, tensors: described.pop("budget"),
    "unknown style": lambda described, tensors: described.update(style={"layout": "maze"}),
    "facts that are no pairs": lambda described, tensors: described.update(facts=[1, 2]),
    "training that is no object": lambda described, tensors: described.update(training=3),
    "weights that overflow": lambda described, tensors: tensors["head.weight"].fill_(1e25),
    "a bias that overflows": lambda described, tensors: tensors["head.bias"].fill_(-1e25),
    "another format": lambda described, tensors: described.update(format=3),
    "an unknown field": lambda described, tensors: described.update(more=1),
} | {
    f"weights of {dtype}": lambda described, tensors, dtype=dtype: tensors.update(  # type: ignore[misc]
        {"head.weight": tensors["head.weight"].to(dtype)}
    )
    for dtype in (torch.int8, torch.bool, torch.float16, torch.float64)
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_checkpoint_content_is_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold()), tmp_path)
    resave(tmp_path, WRONG[kind])
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        checkpoint.load(tmp_path)


def test_a_checkpoint_without_its_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / checkpoint.FILE
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold()), tmp_path)
    described, tensors = checkpoint._verified(path.read_bytes()), unpacked(path.read_bytes())
    for wrong in (None, "", [], "0" * 64):
        metadata = {"drike": json.dumps({**described, "sha256": wrong})}
        path.write_bytes(packed(tensors, metadata))
        with pytest.raises(CheckpointError, match="damaged, or no checkpoint"):
            checkpoint.load(tmp_path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_weights_that_are_read_rank_every_pool_with_finite_numbers(
    tmp_path: Path, form, seed: int
) -> None:  # type: ignore[no-untyped-def]
    retriever, signs = Retriever(ENCODER, form=form), torch.Generator().manual_seed(seed)
    for weight in retriever.head.parameters():
        sign = (
            torch.randint(0, 2, weight.shape, generator=signs) * 2.0 - 1
            if seed
            else torch.ones(weight.shape)
        )
        weight.data = sign * checkpoint._LARGEST_WEIGHT
    checkpoint.save(Checkpoint(retriever, Threshold()), tmp_path)
    loaded = checkpoint.load(tmp_path)
    for candidates in Pool(CAPITALS[3:], ENCODER).candidates([case.edit for case in CAPITALS[:3]]):
        ranking = loaded.retriever.rank(candidates)
        assert sum(ranking.probs) == pytest.approx(1, abs=1e-4)
        assert 1 <= loaded.budget.keep(ranking.probs, candidates) <= 16


def test_a_checkpoint_refuses_a_different_encoder(tmp_path: Path) -> None:
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold()), tmp_path)
    with pytest.raises(CheckpointError, match="trained on features of"):
        checkpoint.load(tmp_path, encoder=HashingEncoder(64))


def test_evaluating_a_checkpoint_on_edits_it_was_trained_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1",
              "--out", str(tmp_path / "run")])  # fmt: skip
    trained, data = drike.load_checkpoint(tmp_path / "run"), drike.load_dataset("tinyfacts")
    split = data.split(seed=0, train=4, test=2)
    editor = catalog.make("dr-ike", pool=Pool(split.demonstrations, ENCODER), trained=trained)
    model = drike.load_model("reader")
    assert list(drike.evaluate(editor, model, split.test))
    with pytest.raises(DrikeError, match="trained on"):
        list(drike.evaluate(editor, model, [*split.test, split.train[0]]))
    assert list(drike.evaluate(editor, model, split.train[:1], allow_trained=True))
