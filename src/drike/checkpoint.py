"""A trained policy on disk: head, budget, and what they were trained on, in one folder of safetensors and JSON.

head.safetensors, retriever.json   the policy
budget.json                        the budget, and what it was trained with
budget.safetensors                 weights and moments, of a learned budget only
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as packed

from drike.budget import Budget, Fraction, Threshold
from drike.controllers import Controller, reading
from drike.encoder import TextEncoder, load_encoder
from drike.files import sha256, write_bytes, write_text
from drike.retriever import WEIGHTS, CheckpointError, Retriever, read_description

_BUDGET, _BUDGET_WEIGHTS = "budget.json", "budget.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A retriever, the budget that was learned with it, and where both come from (model, data, seed, versions)."""

    retriever: Retriever
    budget: Budget
    trained_on: Mapping[str, object] = field(default_factory=dict)


def save(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write a checkpoint; each file replaces its old self at once or not at all.

    The budget names the head it was learned with and its own weights, so that files torn apart by a crash are noticed
    when they are loaded. Raises TypeError for a budget that has no form on disk.
    """
    folder, budget = Path(folder), checkpoint.budget
    described: dict[str, object] = {"format": 1, "budget": _describe(budget)}
    checkpoint.retriever.save(folder)
    described["head_sha256"] = sha256(folder / WEIGHTS)
    if isinstance(budget, Controller):
        write_bytes(folder / _BUDGET_WEIGHTS, packed({"weights": budget.weights, "moments": budget.moments}))
        described["budget_sha256"] = sha256(folder / _BUDGET_WEIGHTS)
    described["trained_on"] = dict(checkpoint.trained_on)
    write_text(folder / _BUDGET, json.dumps(described, indent=2, ensure_ascii=False) + "\n")
    if not isinstance(budget, Controller):
        (folder / _BUDGET_WEIGHTS).unlink(missing_ok=True)  # another budget's, saved here before


def load(folder: str | Path, *, encoder: TextEncoder | None = None) -> Checkpoint:
    """Read what `save` wrote. Raises CheckpointError, one sentence with file and remedy."""
    folder = Path(folder)
    described = read_description(folder / _BUDGET)
    budget, trained_on = described.get("budget"), described.get("trained_on")
    if not isinstance(budget, dict) or not isinstance(trained_on, dict):
        raise CheckpointError(f"{folder / _BUDGET} lacks its budget or trained_on: train or copy it again")
    retriever = Retriever.load(folder, encoder=encoder)
    if described.get("head_sha256") != sha256(folder / WEIGHTS):
        raise CheckpointError(f"{folder} holds a head and a budget of different moments: train again, or copy it whole")
    if budget.get("kind") == "controller":
        return Checkpoint(retriever, _controller(folder, described, budget, retriever.encoder), trained_on)
    return Checkpoint(retriever, _budget(budget, folder / _BUDGET), trained_on)


def fingerprint(folder: str | Path) -> str:
    """SHA-256 of a saved checkpoint: of its budget's file, which names the others' hashes. Raises OSError."""
    return sha256(Path(folder) / _BUDGET)


def _describe(budget: Budget) -> dict[str, object]:
    match budget:
        case Threshold(sigma, max_shots, flip):
            return {"kind": "threshold", "sigma": sigma, "max_shots": max_shots, "flip": flip}
        case Fraction(share, max_shots):
            return {"kind": "fraction", "share": share, "max_shots": max_shots}
        case Controller():
            encoder = budget.encoder
            return {
                "kind": "controller",
                "reads": [part.name for part in budget.reads],
                "encoder": None if encoder is None else encoder.name,
                "dim": None if encoder is None else encoder.dim,
                "steps": budget.steps,
                "max_shots": budget.max_shots,
                "quantile": budget.quantile,
                "learning_rate": budget.learning_rate,
                "flip": budget.flip,
            }
    raise TypeError(f"a {type(budget).__name__} cannot be saved")


def _budget(described: dict[str, object], path: Path) -> Budget:
    values = {name: value for name, value in described.items() if name != "kind"}
    try:
        match described.get("kind"):
            case "threshold":
                return Threshold(**values)  # type: ignore[arg-type]
            case "fraction":
                return Fraction(**values)  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        raise CheckpointError(f"{path} holds no valid budget ({problem}): train or copy it again") from problem
    raise CheckpointError(f"{path} names the budget {described.get('kind')!r}, which this version does not know")


def _controller(
    folder: Path, described: Mapping[str, object], budget: Mapping[str, object], encoder: TextEncoder
) -> Controller:
    """A learned budget; `encoder` is the head's, and the budget's too unless it names another one."""
    path = folder / _BUDGET_WEIGHTS
    try:
        # Copied, since in the file's memory they are aligned otherwise, and then a product rounds otherwise.
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): train or copy it again") from problem
    if described.get("budget_sha256") != sha256(path):
        raise CheckpointError(f"{path} is not the file its {_BUDGET} was saved with: train again, or copy it whole")
    values = {name: value for name, value in budget.items() if name not in ("kind", "reads", "encoder", "dim")}
    name, dim, reads = budget.get("encoder"), budget.get("dim"), budget.get("reads")
    if name is not None and name != encoder.name:
        encoder = load_encoder(str(name))
    if name is not None and dim != encoder.dim:
        raise CheckpointError(f"{folder / _BUDGET} reads {dim} numbers of {name}, which has {encoder.dim}: train again")
    try:
        parts = tuple(reading(part, encoder) for part in reads)  # type: ignore[attr-defined]
        return Controller(parts, tensors["weights"], tensors["moments"], **values)  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError) as problem:
        raise CheckpointError(
            f"{folder / _BUDGET} holds no valid budget ({problem}): train or copy it again"
        ) from problem
