"""A trained policy on disk: head, budget, and what they were trained on, in one folder of safetensors and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drike.budget import Budget, Fraction, Threshold
from drike.encoder import TextEncoder
from drike.files import sha256, write_text
from drike.retriever import WEIGHTS, CheckpointError, Retriever, read_description

_BUDGET = "budget.json"


@dataclass(frozen=True)
class Checkpoint:
    """A retriever, the budget that was learned with it, and where both come from (model, data, seed, versions)."""

    retriever: Retriever
    budget: Budget
    trained_on: Mapping[str, object] = field(default_factory=dict)


def save(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write a checkpoint; each file replaces its old self at once or not at all.

    The budget names the head it was learned with, so that a pair torn by a crash is noticed when it is loaded. Raises
    TypeError for a budget that has no form on disk.
    """
    folder = Path(folder)
    described: dict[str, object] = {"format": 1, "budget": _describe(checkpoint.budget)}
    checkpoint.retriever.save(folder)
    described |= {"head_sha256": sha256(folder / WEIGHTS), "trained_on": dict(checkpoint.trained_on)}
    write_text(folder / _BUDGET, json.dumps(described, indent=2, ensure_ascii=False) + "\n")


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
    return Checkpoint(retriever, _budget(budget, folder / _BUDGET), trained_on)


def _describe(budget: Budget) -> dict[str, object]:
    match budget:
        case Threshold(sigma, max_shots, flip):
            return {"kind": "threshold", "sigma": sigma, "max_shots": max_shots, "flip": flip}
        case Fraction(share):
            return {"kind": "fraction", "share": share}
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
