"""Rankings of a retain pool: by similarity, or by the learned policy (paper, section 4.2).

The policy is a frozen text encoder with a linear head S_theta that gives every retain e of an edit x a score z, and
p = softmax(z) over the pool. Two forms of S_theta fit the paper's text:

    dot:   z = (W f(x) + b) . (W f(e) + b) / sqrt(h)     the parent method's; x and e are encoded apart
    cross: z = w . f(x, e)                               the pair is encoded as one text

f scales the encoder's vector to unit root mean square, so that a learning rate means the same whatever the encoder.
Only the head learns; features are computed once per text and kept by the encoder's cache.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.encoders import TextEncoder, load_encoder
from drike.errors import CheckpointError
from drike.files import checksum_ok, with_checksum, write_bytes
from drike.prompts import demonstration_block, query_block

Form = Literal["dot", "cross"]

FORMS: tuple[Form, ...] = ("dot", "cross")
HIDDEN = 128
WEIGHTS = "head.safetensors"
DESCRIPTION = "retriever.json"


@dataclass(frozen=True)
class Ranking:
    """A pool in policy order, best first: `order[j]` is the pool index of the j-th retain, `probs[j]` its p."""

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retain pool of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Every retain of the pool, best first."""
        ...


def best_first(probs: Sequence[float]) -> list[int]:
    """Pool indices in descending probability; ties keep pool order, so that a ranking is reproducible."""
    return sorted(range(len(probs)), key=lambda i: -probs[i])


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability, each with its own."""
    probs = [math.exp(log_p) for log_p in log_probs]
    order = best_first(probs)
    return Ranking(tuple(retains[i] for i in order), tuple(order), tuple(probs[i] for i in order))


@dataclass(frozen=True)
class Similarity:
    """Nearest record first: IKE's order. Probabilities are the softmax of cosine / temperature."""

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine the pool was chosen with."""
        scores = torch.tensor(candidates.retain_similarities, dtype=torch.float64) / self.temperature
        return ranking_of(candidates.retains, torch.log_softmax(scores, dim=0).tolist())


class Retriever:
    """The learned policy: a frozen encoder and a trainable head.

    Args:
        encoder: the frozen text encoder f.
        form: which S_theta, "dot" or "cross".
        seed: of the head's initial weights.

    `trained_on` holds the key (query, new object) of every edit the head was trained on.
    """

    def __init__(self, encoder: TextEncoder, *, form: Form = "dot", seed: int = 0) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.encoder = encoder
        self.form: Form = form
        self.head = _new_head(form, encoder.dim, seed)
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    @property
    def parameters(self) -> int:
        """How many numbers are learned."""
        return sum(weight.numel() for weight in self.head.parameters())

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder reads for an edit: x and each e for "dot", each pair for "cross"."""
        x = query_block(candidates.edit, candidates.edit.query)
        blocks = [demonstration_block(retain).strip() for retain in candidates.retains]
        return [x, *blocks] if self.form == "dot" else [f"{x}\n\n{block}" for block in blocks]

    def features(self, candidates: DemonstrationSet) -> Tensor:
        """F of `texts`: [1 + n, d] for "dot", [n, d] for "cross"; float32, no gradient."""
        vectors = torch.from_numpy(np.asarray(self.encoder.encode(self.texts(candidates)), dtype=np.float32))
        rms = vectors.square().mean(dim=1, keepdim=True).sqrt()
        return vectors / rms.clamp_min(1e-12)

    def log_probs(self, features: Tensor) -> Tensor:
        """Log p over the pool [n], differentiable in the head (Algorithm 1, lines 6-7)."""
        if self.form == "cross":
            scores = self.head(features).squeeze(1)
        else:
            hidden = self.head(features)
            scores = hidden[1:] @ hidden[0] / math.sqrt(hidden.shape[1])
        return torch.log_softmax(scores, dim=0)

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """The pool in the policy's order."""
        with torch.no_grad():
            return ranking_of(candidates.retains, self.log_probs(self.features(candidates)).tolist())

    def packed(self) -> dict[str, bytes]:
        """Head and description as files by name (safetensors and JSON); the description names the head's hash."""
        weights = save({name: tensor.detach().contiguous() for name, tensor in self.head.state_dict().items()})
        description = {"format": 1, "form": self.form, "encoder": self.encoder.name, "dim": self.encoder.dim}
        told = with_checksum(description | {"head_sha256": hashlib.sha256(weights).hexdigest()})
        return {WEIGHTS: weights, DESCRIPTION: (json.dumps(told, indent=2) + "\n").encode()}

    def save(self, folder: str | Path) -> None:
        """Write head and description into `folder`."""
        for name, content in self.packed().items():
            write_bytes(Path(folder) / name, content)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: TextEncoder | None = None) -> Retriever:
        """Read what `save` wrote; the encoder is loaded by its recorded name unless one is given.

        Raises CheckpointError if the folder is not a retriever's, is damaged, or belongs to another encoder.
        """
        folder = Path(folder)
        return cls.unpack({name: read_file(folder / name) for name in (WEIGHTS, DESCRIPTION)}, folder, encoder=encoder)

    @classmethod
    def unpack(cls, files: Mapping[str, bytes], folder: Path, *, encoder: TextEncoder | None = None) -> Retriever:
        """What `packed` gave, read from `folder`. Raises CheckpointError as `load`."""
        description, weights = parse_description(files[DESCRIPTION], folder / DESCRIPTION), files[WEIGHTS]
        try:
            form, name, dim = description["form"], description["encoder"], description["dim"]
        except KeyError as missing:
            raise CheckpointError(f"{folder / DESCRIPTION} lacks {missing}: save the retriever again") from missing
        if form not in FORMS:
            raise CheckpointError(f"{folder / DESCRIPTION} names the form {form!r}; this version reads {FORMS}")
        if description.get("head_sha256", digest := hashlib.sha256(weights).hexdigest()) != digest:
            raise CheckpointError(f"{folder / WEIGHTS} is not the head that was saved: train or copy it again")
        encoder = encoder if encoder is not None else load_encoder(str(name))
        if (encoder.name, encoder.dim) != (name, dim):
            raise CheckpointError(
                f"{folder} was trained on features of {name} ({dim} numbers), not of {encoder.name} ({encoder.dim}): "
                "load it with that encoder"
            )
        retriever = cls(encoder, form=form)
        try:
            retriever.head.load_state_dict(load(weights))
        except (SafetensorError, RuntimeError) as problem:
            raise CheckpointError(f"{folder / WEIGHTS} cannot be read ({problem}): train or copy it again") from problem
        if not all(torch.isfinite(weight).all() for weight in retriever.head.parameters()):
            raise CheckpointError(f"{folder / WEIGHTS} holds numbers that are not finite: train it again")
        return retriever

    @classmethod
    def from_pretrained(
        cls, name_or_path: str, *, encoder: TextEncoder | None = None, revision: str | None = None
    ) -> Retriever:
        """`load` from a folder, or from a model repository of the Hugging Face hub."""
        if Path(name_or_path).is_dir():
            return cls.load(name_or_path, encoder=encoder)
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

        try:
            folder = snapshot_download(name_or_path, revision=revision, allow_patterns=[WEIGHTS, "*.json"])
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as problem:
            raise CheckpointError(
                f"{name_or_path!r} is neither a folder nor a hub repository in reach ({type(problem).__name__}): "
                "give the path of a saved retriever"
            ) from problem
        return cls.load(folder, encoder=encoder)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload what `save` writes to a hub repository, made if missing; returns its address."""
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            api.create_repo(repository, private=private, exist_ok=True)
            return str(
                api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload retriever head")
            )


def read_file(path: Path) -> bytes:
    """A checkpoint's file. Raises CheckpointError with the path and the remedy."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} holds no {path.name}: give a folder that `drike train` wrote") from None
    except OSError as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): train or copy it again") from problem


def parse_description(content: bytes, path: Path) -> dict[str, object]:
    """A checkpoint's JSON object, read from `path`. Raises CheckpointError with the path and the remedy."""
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path} cannot be read ({problem}): train or copy it again") from problem
    if not isinstance(description, dict):
        raise CheckpointError(f"{path} is not a JSON object: train or copy it again")
    if not checksum_ok(description):
        raise CheckpointError(f"{path} is not as it was saved: copy it again, or train again (--resume asks no model)")
    return description


def _new_head(form: Form, dim: int, seed: int) -> nn.Linear:
    """PyTorch's default initialisation drawn from its own generator, so that global seeds are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(dim, HIDDEN) if form == "dot" else nn.Linear(dim, 1, bias=False)
