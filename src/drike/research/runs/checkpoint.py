"""Save and load a trained policy in one file.

It holds the tensors, and all else as JSON with the SHA-256 of the file.
"""

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
_KEY = "drike"  # of the JSON in the metadata
_ZEROS = "0" * 64  # stands for the digest while it is computed
_HEAD = "head."  # before the names of the head's tensors
_BUDGETS: Mapping[str, type[Threshold | Fraction]] = {"threshold": Threshold, "fraction": Fraction}
_AGAIN = "train or copy it again"
_LARGEST_WEIGHT = 1e9  # sums of products of two such weights stay far below the largest float32


@dataclass(frozen=True)
class _Encoder:
    """An encoder as a checkpoint names it. sha256: of its files, None if it has none."""

    name: str
    dim: int
    sha256: str | None

    @classmethod
    def of(cls, encoder: TextEncoder) -> _Encoder:
        return cls(encoder.name, encoder.dim, encoder.identity.get("sha256"))

    def is_same_as(self, other: _Encoder) -> bool:
        """Whether two give the same features; the same files may have two names."""
        return self == other or (self.sha256 is not None and self.sha256 == other.sha256)


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
    """What training leaves.

    training: model, data and settings, for people. promise: the guarantee of `per_query`.
    """

    training: Mapping[str, object] = field(default_factory=dict)
    promise: CertifiedGuarantee | None = None
    per_query: QueryPolicy | None = field(default=None, kw_only=True)

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of all edits that it was trained or calibrated on."""
        if self.per_query is None:
            return self.retriever.trained_on
        return self.retriever.trained_on | self.per_query.trained_on


# Saving.


def save(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write a checkpoint to a file or folder, whole or not at all.

    Raises OSError, TypeError for a learned budget.
    """
    retriever = checkpoint.retriever
    budget = checkpoint.budget
    if not isinstance(budget, Threshold | Fraction):
        raise TypeError(f"a {type(budget).__name__} cannot be saved")
    described = _Described(
        format=2,
        form=retriever.form,
        encoder=_Encoder.of(retriever.encoder),
        budget={"kind": type(budget).__name__.lower(), **asdict(budget)},
        style=checkpoint.style,
        training=dict(checkpoint.training),
        facts=tuple(sorted(retriever.trained_on)),
        per_query=_saved_policy(checkpoint.per_query),
        promise=checkpoint.promise,
        sha256=_ZEROS,
    )
    tensors = {}
    for name, weight in retriever.head.state_dict().items():
        tensors[_HEAD + name] = weight.detach()
    write_bytes(_file(Path(path)), _sealed(asdict(described), tensors))


def _saved_policy(policy: QueryPolicy | None) -> _PerQuery | None:
    if policy is None:
        return None
    return _PerQuery(policy.gate, policy.shown, tuple(sorted(policy.trained_on)))


def _sealed(described: Mapping[str, object], tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a checkpoint, with their own digest, computed as if that were zeros."""
    metadata = {_KEY: json.dumps({**described, "sha256": _ZEROS})}
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(contiguous, metadata)
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(_ZEROS.encode(), digest.encode(), 1)


# Loading.


def load(path: str | Path, *, encoder: TextEncoder | None = None) -> Checkpoint:
    """Read a checkpoint from its file or folder. Raises CheckpointError.

    encoder: default: the one that it names, which is loaded.
    """
    path = _file(Path(path))
    content = _content(path)
    try:
        described = _verified(content)
        tensors = _tensors(content)
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
        return _restored(described, tensors, path, encoder)
    except (ValueError, KeyError, TypeError, RuntimeError) as problem:
        raise CheckpointError(f"{path} holds no valid policy ({problem}): {_AGAIN}") from problem


def _file(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / FILE


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(
            f"{path.parent} holds no {path.name}: give a folder that `drike train` wrote"
        ) from None
    except OSError as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): {_AGAIN}") from problem


def _verified(content: bytes) -> dict[str, Any]:
    """The JSON object of a checkpoint.

    Raises ValueError, KeyError or TypeError if any byte has changed.
    """
    header_length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + header_length])
    described: dict[str, Any] = json.loads(header["__metadata__"][_KEY])
    digest: str = described["sha256"]
    as_hashed = content.replace(digest.encode(), _ZEROS.encode(), 1)
    if hashlib.sha256(as_hashed).hexdigest() != digest:
        raise ValueError("SHA-256 differs")
    return described


def _tensors(content: bytes) -> dict[str, Tensor]:
    # Copied, since in the file's memory they are aligned differently, and then a product is
    # rounded differently.
    return {name: tensor.clone() for name, tensor in safetensors.torch.load(content).items()}


def _restored(
    described: dict[str, Any],
    tensors: Mapping[str, Tensor],
    path: Path,
    encoder: TextEncoder | None,
) -> Checkpoint:
    """The checkpoint of a file.

    Raises CheckpointError for another encoder; ValueError, KeyError, TypeError or RuntimeError
    for what is no policy of this version.
    """
    if "mixes" in (described["per_query"] or {}):
        _LOG.warning(
            "%s holds dr-ike-q of an earlier version, which is left out: train it again", path
        )
        described = described | {"per_query": None, "promise": None}
    saved = read(_Described, {"promise": None} | described)  # files of early versions have none
    retriever = _retriever(saved, tensors, path, encoder)
    trained = Checkpoint(
        retriever, _budget(saved.budget), saved.style, saved.training, saved.promise
    )
    if saved.per_query is None:
        return trained
    return replace(trained, per_query=_query_policy(saved.per_query, retriever.encoder))


def _budget(saved: Mapping[str, object]) -> Threshold | Fraction:
    """The saved budget. Raises ValueError for one that this version does not have."""
    kind = _BUDGETS.get(str(saved.get("kind")))
    if kind is None:  # a learned one
        raise ValueError(f"this version has no budget {saved.get('kind')!r}")
    values = {name: value for name, value in saved.items() if name != "kind"}
    return read(kind, values)


def _query_policy(saved: _PerQuery, encoder: TextEncoder) -> QueryPolicy:
    if not saved.shown or saved.gate.encoder != encoder.name:
        raise ValueError("its policy per query has no mix, or the gate of another encoder")
    return QueryPolicy(saved.gate, saved.shown, encoder, frozenset(saved.facts))


def _retriever(
    saved: _Described, tensors: Mapping[str, Tensor], path: Path, encoder: TextEncoder | None
) -> Retriever:
    """The saved retriever.

    Raises CheckpointError for another encoder, ValueError for weights that could overflow.
    """
    for name, tensor in tensors.items():
        # No comparison holds for nan.
        if tensor.dtype != torch.float32 or not (tensor.abs() <= _LARGEST_WEIGHT).all():
            raise ValueError(
                f"{name} has numbers that are not float32, not finite or above {_LARGEST_WEIGHT:g}"
            )
    if encoder is None:
        encoder = load_encoder(saved.encoder.name)
    _require_encoder(saved.encoder, _Encoder.of(encoder), path)

    weights = {}
    for name, tensor in tensors.items():
        # Files of early versions hold the weights of other policies, too.
        if not name.startswith(("budget.", "per_query.")):
            weights[name.removeprefix(_HEAD)] = tensor
    retriever = Retriever(encoder, form=saved.form)
    retriever.head.load_state_dict(weights)
    retriever.trained_on = frozenset(saved.facts)
    return retriever


def _require_encoder(saved: _Encoder, now: _Encoder, path: Path) -> None:
    """Raise CheckpointError unless an encoder gives the features that a policy was trained on."""
    if now.is_same_as(saved):
        return
    if (now.name, now.dim) == (saved.name, saved.dim):
        raise CheckpointError(
            f"encoder {saved.name} has changed since {path} was trained with it: "
            "restore its files, or train again"
        )
    raise CheckpointError(
        f"{path} was trained on features of {saved.name} ({saved.dim} numbers), "
        f"not of {now.name} ({now.dim}): load it with that encoder"
    )
