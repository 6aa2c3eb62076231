"""A trained policy on disk: head, budget, and what they were trained on, in one folder of safetensors and JSON.

head.safetensors, retriever.json   the policy
budget.json                        the budget, what it was trained with, and the sha256 of every file and of itself
budget.safetensors                 weights and moments, of a learned budget only

budget.json is what counts. A new checkpoint's other files are written beside the old ones, budget.json then takes the
old one's place, and they theirs: at every moment one whole checkpoint can be read, the old or the new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from drike.encoders import TextEncoder, load_encoder
from drike.errors import CheckpointError
from drike.files import sha256, with_checksum, write_bytes, write_text
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.learned_budget import Controller, reading
from drike.retrieval.retriever import DESCRIPTION, WEIGHTS, Retriever, parse_description, read_file

_BUDGET, _BUDGET_WEIGHTS = "budget.json", "budget.safetensors"
_HASHES = {WEIGHTS: "head_sha256", DESCRIPTION: "retriever_sha256", _BUDGET_WEIGHTS: "budget_sha256"}  # in budget.json


@dataclass(frozen=True)
class Checkpoint:
    """A retriever, the budget that was learned with it, and where both come from (model, data, seed, versions)."""

    retriever: Retriever
    budget: Budget
    trained_on: Mapping[str, object] = field(default_factory=dict)


def save(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write a checkpoint: whatever happens meanwhile, `load` reads the old one or this one.

    Raises TypeError for a budget that has no form on disk, OSError where the disk is full.
    """
    folder, budget = Path(folder), checkpoint.budget
    described: dict[str, object] = {"format": 1, "budget": _describe(budget)}
    files = checkpoint.retriever.packed()
    if isinstance(budget, Controller):
        files[_BUDGET_WEIGHTS] = packed({"weights": budget.weights, "moments": budget.moments})
    described |= {_HASHES[name]: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    described["trained_on"] = dict(checkpoint.trained_on)
    _settle(folder)
    try:
        for name, content in files.items():
            write_bytes(_coming(folder, name), content)
        write_text(folder / _BUDGET, json.dumps(with_checksum(described), indent=2, ensure_ascii=False) + "\n")
    finally:
        _settle(folder)


def load(folder: str | Path, *, encoder: TextEncoder | None = None) -> Checkpoint:
    """Read what `save` wrote. Raises CheckpointError, one sentence with file and remedy."""
    folder = Path(folder)
    described = parse_description(read_file(folder / _BUDGET), folder / _BUDGET)
    budget, trained_on = described.get("budget"), described.get("trained_on")
    if not isinstance(budget, dict) or not isinstance(trained_on, dict) or _HASHES[WEIGHTS] not in described:
        raise CheckpointError(f"{folder / _BUDGET} lacks its budget, trained_on or hashes: train or copy it again")
    files = {name: _content(folder, name, described.get(_HASHES[name])) for name in (WEIGHTS, DESCRIPTION)}
    retriever = Retriever.unpack(files, folder, encoder=encoder)
    if budget.get("kind") == "controller":
        return Checkpoint(retriever, _controller(folder, described, budget, retriever.encoder), trained_on)
    return Checkpoint(retriever, _budget(budget, folder / _BUDGET), trained_on)


def fingerprint(folder: str | Path) -> str:
    """SHA-256 of a saved checkpoint: of its budget's file, which names the others' hashes. Raises OSError."""
    return sha256(Path(folder) / _BUDGET)


def _coming(folder: Path, name: str) -> Path:
    """Where a file of the next checkpoint waits for its budget.json."""
    return folder / f".{name}.next"


def _settle(folder: Path) -> None:
    """Bring what a save left on its way to its end: files that budget.json names to their places, others out of it."""
    try:
        described = parse_description(read_file(folder / _BUDGET), folder / _BUDGET)
    except CheckpointError:
        described = {}
    for name, key in _HASHES.items():
        coming = _coming(folder, name)
        if coming.exists() and sha256(coming) == described.get(key):
            coming.replace(folder / name)
        coming.unlink(missing_ok=True)
    if described and _HASHES[_BUDGET_WEIGHTS] not in described:
        (folder / _BUDGET_WEIGHTS).unlink(missing_ok=True)  # another budget's, saved here before


def _content(folder: Path, name: str, expected: object) -> bytes:
    """A file with the hash that budget.json has of it (None: an older version had none), also where it is on its way.

    Raises CheckpointError.
    """
    coming = _coming(folder, name)
    if expected is not None and coming.exists() and sha256(coming) == expected:
        return read_file(coming)
    content = read_file(folder / name)
    if expected not in (None, hashlib.sha256(content).hexdigest()):
        raise CheckpointError(
            f"{folder / name} is not the file that {_BUDGET} was saved with: copy the folder whole, or train again "
            "(--resume asks no model)"
        )
    return content


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
    content = _content(folder, _BUDGET_WEIGHTS, described.get(_HASHES[_BUDGET_WEIGHTS]))
    try:
        # Copied, since in the file's memory they are aligned otherwise, and then a product rounds otherwise.
        tensors = {name: tensor.clone() for name, tensor in unpacked(content).items()}
    except SafetensorError as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): train or copy it again") from problem
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
