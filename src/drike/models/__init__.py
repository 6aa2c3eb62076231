"""Frozen language models (`protocols.LanguageModel`): weights here, behind an API, or in replicas.

`load` opens any of them by its name.
"""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from drike.errors import ModelError, UsageError
from drike.models import named
from drike.models.named import NAMED_MODELS, SMOLLM2
from drike.models.protocols import LanguageModel, Template, Usage
from drike.models.served import SERVICES, ApiOptions, is_served

__all__ = [
    "EMBEDDED",
    "READER",
    "SERVICES",
    "ApiOptions",
    "LanguageModel",
    "Template",
    "Usage",
    "load",
    "local_default",
    "template_for",
]

EMBEDDED, READER = "embedded", "reader"
_SHORT_NAMES = (EMBEDDED, READER, *NAMED_MODELS)

# How the names of a service's models begin, which people write without the service.
_BEGINNINGS_BY_SERVICE = {
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"),
    "gemini": ("gemini-",),
}


def load(
    name: str | Path,
    *,
    template: Template | None = None,
    device: str | None = None,
    replicas: int = 1,
    api: ApiOptions | None = None,
    cache: bool = True,
) -> LanguageModel:
    """Open any model by its name.

    name: "embedded" (a small model that comes with drike), "reader" (the closed-form observer of
    TinyFacts), "smollm2" or "gemma-270m" (small real models, from their packages or the hub), a
    folder or hub name (NAME or NAME@REVISION) of a causal language model, a GGUF file or a folder
    that holds one (converted once, into the cache), or SERVICE:MODEL[@ADDRESS] of a model behind an
    API, such as "openai:gpt-4o-mini" or "vllm:my-model@http://localhost:8000/v1". template: "plain"
    passes prompts on as they are, "chat" as a user's turn; None: chat behind an API, else plain.
    device: "cuda", "cpu", "mps"; None is the best available. replicas: copies, which run as Ray
    actors if several. api: options of a model behind an API, whose answers are cached on disk.
    cache: let a local model keep scores and prefixes between calls: faster if edits recur, but the
    last digits of a score then depend on earlier calls. Raises ModelError, or UsageError for
    arguments that do not go together.
    """
    name = str(name)
    template = template_for(name, template)
    if name == READER:
        if replicas > 1:
            raise UsageError(
                "`replicas` copies a model with weights; the reader answers in microseconds: leave"
                " it out"
            )
        return _open_reader()

    if is_served(name):
        if replicas > 1:
            raise UsageError(f"{name} is not loaded here: give `concurrency` instead of `replicas`")
        return _open_served(name, template, api or ApiOptions())

    if name == EMBEDDED:
        from drike.tinyfacts import MODEL

        return _open_weights(str(MODEL), name, template, device, replicas, cache=cache)

    if name not in NAMED_MODELS:
        _refuse_misspelled(name)
    return _open_weights(name, name, template, device, replicas, cache=cache)


def local_default() -> str:
    """The name of the model that answers here where none is named.

    It is a real chat model, if one is here.
    """
    return SMOLLM2 if named.is_here(SMOLLM2) else EMBEDDED


def template_for(name: str, template: str | None) -> Template:
    """The template asked for, or the default: chat behind an API, else plain. Raises UsageError."""
    if template not in (None, "plain", "chat"):
        raise UsageError(f"`template` must be plain or chat, not {template}")
    if template is None:
        return "chat" if is_served(name) else "plain"
    return template  # type: ignore[return-value]


def _open_reader() -> LanguageModel:
    """Open the reader of TinyFacts."""
    from drike.models.reader import BayesianReader
    from drike.tinyfacts import TEMPLATES, facts

    return BayesianReader(facts(), TEMPLATES)


def _open_served(name: str, template: Template, options: ApiOptions) -> LanguageModel:
    """Open a served model, behind the answer cache unless that is off."""
    from drike.models.served.cache import AnswerCache, CachedModel
    from drike.models.served.openai import ServedModel
    from drike.prompts import chat_messages

    model = ServedModel(name, options, template=template)
    if options.no_cache:
        return model
    # Everything besides its prompt that affects an answer, the wording of a chat included.
    parts = ("server", "name", "template", "thinking_tokens", "effort")
    settings = [model.info.identity[part] for part in parts]
    empty_chat = chat_messages("") if template == "chat" else None
    identity = json.dumps([*settings, empty_chat])
    return CachedModel(model, identity, AnswerCache())


def _open_weights(
    path: str, name: str, template: Template, device: str | None, replicas: int, *, cache: bool
) -> LanguageModel:
    """Open a model from a folder or the hub, here or in replicas.

    name: what it is called in results.
    """
    options: dict[str, Any] = {
        "template": template,
        "device": device,
        "name": name,
        "remember": cache,
        "keep": None if cache else 0,
    }
    if replicas == 1:
        from drike.models.local import huggingface

        return huggingface.load(path, **options)

    from drike.models import ray

    return ray.load(path, replicas=replicas, **options)


def _refuse_misspelled(name: str) -> None:
    """Raise ModelError for what looks like a misspelled name of a built-in or served model."""
    if Path(name).exists():
        return
    if ":" in name:
        written_service, _, rest = name.partition(":")
        nearest = get_close_matches(written_service.casefold(), SERVICES, n=1)
        hint = f" (did you mean {nearest[0]}:{rest}?)" if nearest else ""
        services = ", ".join(SERVICES)
        form = f"SERVICE:MODEL, or SERVICE:MODEL@https://host/v1, with SERVICE one of {services}"
        raise ModelError(f"{name} is no folder{hint}: a model behind an API is {form}")

    meant = get_close_matches(name.casefold(), _SHORT_NAMES, n=1, cutoff=0.8)
    if "/" not in name:
        for service, beginnings in _BEGINNINGS_BY_SERVICE.items():
            if name.casefold().startswith(beginnings):
                meant.append(f"{service}:{name}")
    if meant:
        raise ModelError(f"there is no model {name!r}: did you mean {meant[0]}?")
