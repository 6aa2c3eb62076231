"""Save and load a trained policy in one file: its tensors, and all else as JSON with the SHA-256 of the file."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor

from drike.encoders import TextEncoder, load_encoder
from drike.errors import CheckpointError
from drike.gates.calibrated import Calibrated
from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.dr_ike import Trained
from drike.research.editors.query_policy import QueryPolicy, Shown
from drike.research.editors.retriever import Form, Retriever
from drike.research.evaluation.risk_control import CertifiedGuarantee
from drike.support.files import write_bytes
from drike.support.records import read

_LOG = logging.getLogger(__name__)
FILE = "checkpoint.safetensors"
_KEY, _ZEROS = "drike", "0" * 64  # the latter stands for the digest while it is computed
_BUDGETS: Mapping[str, type[Threshold | Fraction]] = {"threshold": Threshold, "fraction": Fraction}
_AGAIN = "train or copy it again"
_LARGEST_WEIGHT = 1e9  # sums of products of two such weights stay far below the largest float32


@dataclass(frozen=True)
class _Encoder:
    name: str
    dim: int
    sha256: str | None


@dataclass(frozen=True)
class _PerQuery:
    gate: Calibrated
    shown: tuple[Shown, ...]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Described:
    """The JSON in a checkpoint's metadata."""

    format: Literal[2]
    form: Form
    encoder: _Encoder
    budget: Mapping[str, object]
    style: PromptStyle
    training: Mapping[str, object]
    facts: tuple[tuple[str, str], ...]
    per_query: _PerQuery | None
    promise: CertifiedGuarantee | None
    sha256: str


@dataclass(frozen=True)
class Checkpoint(Trained):
    """What training leaves. training: model, data and settings, for people. promise: the guarantee of `per_query`."""

    training: Mapping[str, object] = field(default_factory=dict)
    promise: CertifiedGuarantee | None = None
    per_query: QueryPolicy | None = field(default=None, kw_only=True)

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of all edits that it was trained or calibrated on."""
        return self.retriever.trained_on | (
            self.per_query.trained_on if self.per_query else frozenset()
        )


def save(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write a checkpoint to a file or folder, whole or not at all. Raises OSError, TypeError for a learned budget."""
    retriever, budget, policy = checkpoint.retriever, checkpoint.budget, checkpoint.per_query
    if not isinstance(budget, Threshold | Fraction):
        raise TypeError(f"a {type(budget).__name__} cannot be saved")
    encoder = retriever.encoder
    described = _Described(
        format=2, form=retriever.form, encoder=_Encoder(encoder.name, encoder.dim, encoder.identity.get("sha256")),
        budget={"kind": type(budget).__name__.lower(), **asdict(budget)}, style=checkpoint.style,
        training=dict(checkpoint.training), facts=tuple(sorted(retriever.trained_on)),
        per_query=_PerQuery(policy.gate, policy.shown, tuple(sorted(policy.trained_on))) if policy else None,
        promise=checkpoint.promise, sha256=_ZEROS,
    )  # fmt: skip
    head = {f"head.{name}": weight.detach() for name, weight in retriever.head.state_dict().items()}
    write_bytes(_file(Path(path)), _sealed(asdict(described), head))


def load(path: str | Path, *, encoder: TextEncoder | None = None) -> Checkpoint:
    """Read a checkpoint from its file or folder; its encoder is loaded by name unless given. Raises CheckpointError."""
    path = _file(Path(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(
            f"{path.parent} holds no {path.name}: give a folder that `drike train` wrote"
        ) from None
    except OSError as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): {_AGAIN}") from problem
    try:
        described = _verified(content)
        # Copied, since in the file's memory they are aligned differently, and then a product is rounded differently.
        tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load(content).items()}
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        safetensors.SafetensorError,
    ) as problem:
        raise CheckpointError(
            f"{path} is damaged, or no checkpoint ({problem}): {_AGAIN}"
        ) from problem
    try:
        if "mixes" in (described["per_query"] or {}):
            _LOG.warning(
                "%s holds dr-ike-q of an earlier version, which is left out: train it again", path
            )
            described |= {"per_query": None, "promise": None}
        policy = read(
            _Described, {"promise": None} | described
        )  # files of early versions have none
        retriever = _retriever(policy, tensors, path, encoder)
        if (kind := _BUDGETS.get(str(policy.budget.get("kind")))) is None:
            raise ValueError(
                f"this version has no budget {policy.budget.get('kind')!r}"
            )  # a learned one
        budget = read(
            kind, {name: value for name, value in policy.budget.items() if name != "kind"}
        )
        trained = Checkpoint(retriever, budget, policy.style, policy.training, policy.promise)
        if (of := policy.per_query) is None:
            return trained
        if not of.shown or of.gate.encoder != retriever.encoder.name:
            raise ValueError("its policy per query has no mix, or the gate of another encoder")
        return replace(
            trained,
            per_query=QueryPolicy(of.gate, of.shown, retriever.encoder, frozenset(of.facts)),
        )
    except (ValueError, KeyError, TypeError, RuntimeError) as problem:
        raise CheckpointError(f"{path} holds no valid policy ({problem}): {_AGAIN}") from problem


def _file(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / FILE


def _sealed(described: Mapping[str, object], tensors: Mapping[str, Tensor]) -> bytes:
    metadata = {_KEY: json.dumps({**described, "sha256": _ZEROS})}
    content = safetensors.torch.save(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata
    )
    return content.replace(_ZEROS.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def _verified(content: bytes) -> dict[str, Any]:
    """The JSON object of a checkpoint. Raises ValueError, KeyError or TypeError if any byte has changed."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    described: dict[str, Any] = json.loads(header["__metadata__"][_KEY])
    digest: str = described["sha256"]
    if hashlib.sha256(content.replace(digest.encode(), _ZEROS.encode(), 1)).hexdigest() != digest:
        raise ValueError("SHA-256 differs")
    return described


def _retriever(
    policy: _Described, tensors: Mapping[str, Tensor], path: Path, encoder: TextEncoder | None
) -> Retriever:
    """The saved retriever. Raises CheckpointError for another encoder, ValueError for weights that could overflow."""
    for name, tensor in tensors.items():
        if (
            tensor.dtype != torch.float32 or not (tensor.abs() <= _LARGEST_WEIGHT).all()
        ):  # nan is not
            raise ValueError(
                f"{name} has numbers that are not float32, not finite or above {_LARGEST_WEIGHT:g}"
            )
    encoder, saved = (
        load_encoder(policy.encoder.name) if encoder is None else encoder,
        policy.encoder,
    )
    now = _Encoder(encoder.name, encoder.dim, encoder.identity.get("sha256"))
    if now != saved and (now.sha256 is None or now.sha256 != saved.sha256):
        if (now.name, now.dim) == (saved.name, saved.dim):
            changed = f"encoder {saved.name} has changed since {path} was trained with it"
            raise CheckpointError(f"{changed}: restore its files, or train again")
        features = f"{saved.name} ({saved.dim} numbers), not of {now.name} ({now.dim})"
        raise CheckpointError(
            f"{path} was trained on features of {features}: load it with that encoder"
        )
    retriever = Retriever(encoder, form=policy.form)
    weights = {
        name: tensor
        for name, tensor in tensors.items()
        if not name.startswith(("budget.", "per_query."))
    }
    retriever.head.load_state_dict(
        {name.removeprefix("head."): tensor for name, tensor in weights.items()}
    )
    retriever.trained_on = frozenset(policy.facts)
    return retriever
