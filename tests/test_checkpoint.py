import json
from pathlib import Path

import pytest
import torch

from drike.encoders import HashingEncoder
from drike.errors import CheckpointError
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.learned_budget import KINDS, Controller, untrained
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import FORMS, Retriever
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from worlds import CAPITALS

ENCODER = HashingEncoder()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("budget", [Threshold(0.07, 12, "algorithm1"), Fraction(0.5), Fraction(1.0, 4)])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, form, budget: Budget) -> None:  # type: ignore[no-untyped-def]
    retriever = Retriever(ENCODER, form=form, seed=3)
    checkpoint.save(Checkpoint(retriever, budget, {"model": "m", "seed": 3}), tmp_path / "c")
    loaded = checkpoint.load(tmp_path / "c")
    assert loaded.budget == budget and loaded.trained_on == {"model": "m", "seed": 3}
    [candidates] = Pool(CAPITALS, ENCODER).candidates([CAPITALS[0].edit])
    assert loaded.retriever.rank(candidates) == retriever.rank(candidates)
    assert not [path for path in (tmp_path / "c").iterdir() if path.suffix not in (".json", ".safetensors")]


@pytest.mark.parametrize("form", FORMS)
def test_the_policy_is_a_distribution_and_only_its_head_learns(form) -> None:  # type: ignore[no-untyped-def]
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


def test_a_retriever_alone_goes_to_disk_and_back(tmp_path: Path) -> None:
    retriever = Retriever(ENCODER, form="cross", seed=9)
    retriever.save(tmp_path)
    loaded = Retriever.from_pretrained(str(tmp_path))
    assert torch.equal(loaded.head.weight, retriever.head.weight)


def damage(folder: Path, kind: str) -> None:
    weights, budget, description = (folder / name for name in ("head.safetensors", "budget.json", "retriever.json"))
    match kind:
        case "no budget":
            budget.unlink()
        case "no description":
            description.unlink()
        case "no weights":
            weights.unlink()
        case "torn weights":
            weights.write_bytes(weights.read_bytes()[:-40])
        case "torn json":
            budget.write_text(budget.read_text()[:20])
        case "not an object":
            description.write_text("[1]")
        case "another form":
            description.write_text(json.dumps(json.loads(description.read_text()) | {"form": "maze"}))
        case "another shape":
            Retriever(HashingEncoder(64)).save(folder / "other")
            (folder / "other" / "head.safetensors").replace(weights)
        case "no sigma of this world":
            budget.write_text(json.dumps({"budget": {"kind": "threshold", "sigma": 7}, "trained_on": {}}))
        case "half a shot":
            budget.write_text(
                json.dumps(json.loads(budget.read_text()) | {"budget": {"kind": "threshold", "max_shots": 2.5}})
            )
        case "another moment":
            Retriever(HashingEncoder(), seed=8).save(folder)
        case "no number":
            broken = Retriever(HashingEncoder())
            torch.nn.init.constant_(broken.head.weight, float("nan"))
            broken.save(folder)
        case "unknown budget":
            budget.write_text(json.dumps({"budget": {"kind": "mood"}, "trained_on": {}}))


@pytest.mark.parametrize(
    "kind",
    [
        "no budget", "no description", "no weights", "torn weights", "torn json", "not an object", "another form",
        "another shape", "no sigma of this world", "unknown budget", "half a shot",
        "another moment", "no number",
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_told_in_a_sentence(tmp_path: Path, kind: str) -> None:
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold(), {}), tmp_path)
    damage(tmp_path, kind)
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        checkpoint.load(tmp_path)


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold(), {}), tmp_path)
    with pytest.raises(CheckpointError, match="trained on features of"):
        checkpoint.load(tmp_path, encoder=HashingEncoder(64))


# -- learned budgets -------------------------------------------------------------------------------------------------

POOLS = Pool(CAPITALS[10:], ENCODER).candidates([case.edit for case in CAPITALS[:10]])


def learned(kind: str) -> Controller:
    """A controller that a few episodes have moved, with switches of its own."""
    budget = untrained(kind, ENCODER, max_shots=9, quantile=0.8, learning_rate=0.3, flip="algorithm1", seed=4)
    for candidates in POOLS:
        budget = budget.after(Retriever(ENCODER).rank(candidates).probs, [1, 1, -1, -1, 1, -1], candidates)
    assert budget.steps > 0
    return budget


@pytest.mark.parametrize("kind", KINDS)
def test_a_learned_budget_keeps_the_same_and_goes_on_learning_the_same(tmp_path: Path, kind: str) -> None:
    budget, retriever = learned(kind), Retriever(ENCODER)
    checkpoint.save(Checkpoint(retriever, budget), tmp_path)
    loaded = checkpoint.load(tmp_path).budget
    assert isinstance(loaded, Controller)
    for name in ("steps", "max_shots", "quantile", "learning_rate", "flip"):
        assert getattr(loaded, name) == getattr(budget, name)
    for candidates in POOLS:
        probs = retriever.rank(candidates).probs
        assert loaded.sigma_for(probs, candidates) == budget.sigma_for(probs, candidates)
        assert loaded.keep(probs, candidates) == budget.keep(probs, candidates)
        loaded, budget = (one.after(probs, [1, -1], candidates) for one in (loaded, budget))
        assert torch.equal(loaded.weights, budget.weights) and torch.equal(loaded.moments, budget.moments)


def test_a_budget_without_weights_leaves_none_of_an_earlier_one(tmp_path: Path) -> None:
    checkpoint.save(Checkpoint(Retriever(ENCODER), learned("scores")), tmp_path)
    checkpoint.save(Checkpoint(Retriever(ENCODER), Threshold()), tmp_path)
    assert checkpoint.load(tmp_path).budget == Threshold()
    assert not list(tmp_path.glob("budget.safetensors"))


def test_a_learned_budget_may_have_an_encoder_of_its_own(tmp_path: Path) -> None:
    other = HashingEncoder(64)
    budget = untrained("query", other)
    checkpoint.save(Checkpoint(Retriever(ENCODER), budget), tmp_path)
    loaded = checkpoint.load(tmp_path).budget
    assert isinstance(loaded, Controller) and loaded.encoder is not None and loaded.encoder.name == other.name


def hurt(folder: Path, kind: str) -> None:
    weights, budget = folder / "budget.safetensors", folder / "budget.json"
    described = json.loads(budget.read_text())
    match kind:
        case "no weights":
            weights.unlink()
        case "torn weights":
            weights.write_bytes(weights.read_bytes()[:-40])
        case "weights of another moment":
            other = folder.with_name("other")
            checkpoint.save(Checkpoint(Retriever(ENCODER), learned("query")), other)
            (other / "budget.safetensors").replace(weights)
        case "another edit of a byte":
            content = bytearray(weights.read_bytes())
            content[-1] ^= 1
            weights.write_bytes(content)
        case _:
            edits: dict[str, dict[str, object]] = {
                "reads nothing known": {"reads": ["mood"]},
                "reads less": {"reads": ["scores"]},
                "reads no list": {"reads": 3},
                "quantile": {"quantile": 2.0},
                "steps": {"steps": "many"},
                "another size": {"dim": 12},
                "a word too many": {"mood": 1},
            }
            budget.write_text(json.dumps(described | {"budget": described["budget"] | edits[kind]}))


@pytest.mark.parametrize(
    "kind",
    [
        "no weights", "torn weights", "weights of another moment", "another edit of a byte", "reads nothing known",
        "reads less", "reads no list", "quantile", "steps", "another size", "a word too many",
    ],
)  # fmt: skip
def test_a_damaged_learned_budget_is_told_in_a_sentence(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "c"
    checkpoint.save(Checkpoint(Retriever(ENCODER), learned("query-context")), folder)
    checkpoint.load(folder)
    hurt(folder, kind)
    with pytest.raises(CheckpointError, match=str(folder)):
        checkpoint.load(folder)
