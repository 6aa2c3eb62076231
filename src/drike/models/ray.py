"""Replicas of a local model as Ray actors, in the cluster of `ray_cluster`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from drike.errors import ModelError, reason
from drike.models.named import NAMED_MODELS
from drike.models.protocols import ModelInfo, Usage
from drike.models.ray_cluster import connect, require_room
from drike.models.replicas import Replicas
from drike.models.served import is_loopback

if TYPE_CHECKING:
    from drike.models.local.huggingface import HuggingFaceModel

# Of an actor that died; a model that needs more memory than there is would go on dying.
_RESTARTS = 3
_SAME_WEIGHTS = ("config_sha256", "weights_sha256", "dtype")


class _Worker:
    """Runs in an actor.

    The model is loaded at the first call, so an actor that Ray has restarted loads it again.
    """

    def __init__(self, name_or_path: str, options: dict[str, Any], hub_token: str | None) -> None:
        self._name_or_path = name_or_path
        self._options = options
        self._hub_token = hub_token
        self._model: HuggingFaceModel | None = None

    def ask(self, member: str, *arguments: object, **named: object) -> tuple[Any, Usage]:
        """Get a member of the model, called if it is a method, and the work it took.

        A ModelError is returned, too: raised in an actor, it would arrive wrapped in a traceback.
        """
        from drike.models.local.huggingface import load as load_here

        if self._hub_token:
            os.environ["HF_TOKEN"] = self._hub_token
        try:
            if self._model is None:
                self._model = load_here(self._name_or_path, **self._options)
            before = self._model.usage
            value = getattr(self._model, member)
            answer = value(*arguments, **named) if callable(value) else value
        except ModelError as error:
            return error, Usage()
        return answer, self._model.usage - before


class RemoteModel:
    """The model in an actor, which ends with it.

    Every method raises ModelError if the actor is gone for good.
    """

    def __init__(self, actor: Any, info: ModelInfo, replica: str) -> None:
        # It computes one call; a second one may wait, so that it never idles.
        self.info = replace(info, calls_at_once=2)
        self.usage = Usage()
        self._actor = actor
        self._replica = replica
        self._counting = Lock()

    def _ask(self, method: str, *arguments: object, **named: object) -> Any:
        reference = self._actor.ask.remote(method, *arguments, **named)
        answer, used = _received(reference, self._replica)
        with self._counting:
            self.usage += used
        return answer

    generate = partialmethod(_ask, "generate")
    score = partialmethod(_ask, "score")
    count_tokens = partialmethod(_ask, "count_tokens")
    forget = partialmethod(_ask, "forget")


def load(
    name_or_path: str, *, replicas: int, gpus: float | None = None, **options: Any
) -> Replicas:
    """Start `replicas` actors that each hold the model, as one model.

    `options` are those of `huggingface.load`. gpus: per replica, None is one if the cluster has any
    and `device` is not "cpu"; with 0.5, two share a card. Raises ModelError if Ray is missing,
    cannot be reached or has no room, if the model cannot be opened, or if the nodes hold different
    weights; ValueError for fewer than one replica.
    """
    ray = connect()
    if gpus is None:
        has_cards = ray.cluster_resources().get("GPU", 0.0) > 0
        gpus = float(has_cards and options.get("device") != "cpu")
    require_room(ray, replicas, {"CPU": 1.0, "GPU": gpus})

    # A folder or a GGUF file, unless it only has the name of a model.
    is_path = name_or_path not in NAMED_MODELS and Path(name_or_path).exists()
    source = str(Path(name_or_path).resolve()) if is_path else name_or_path
    # Only a gated model needs it, and it is not sent over a network.
    hub_token = None
    if is_loopback(ray.util.get_node_ip_address()) and not is_path:
        hub_token = os.environ.get("HF_TOKEN")
    options["name"] = options.get("name") or name_or_path
    as_actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=_RESTARTS, max_task_retries=1)
    worker = as_actor(_Worker)
    actors = [worker.remote(source, options, hub_token) for _ in range(replicas)]

    opening = [actor.ask.remote("info") for actor in actors]  # all at the same time
    models = []
    for i, (actor, reference) in enumerate(zip(actors, opening, strict=True), start=1):
        replica = f"replica {i} of {replicas}"
        info, _ = _received(reference, replica)
        models.append(RemoteModel(actor, info, replica))
    _require_same_weights(models, name_or_path)
    return Replicas(models)


def _require_same_weights(models: Sequence[RemoteModel], name_or_path: str) -> None:
    """Raise ModelError if models have different weights, as where nodes hold old folders."""
    weights = {tuple(model.info.identity[part] for part in _SAME_WEIGHTS) for model in models}
    if len(weights) > 1:
        raise ModelError(
            f"the nodes hold different weights of {name_or_path}: copy the same folder to all of"
            " them"
        )


def _received(reference: Any, replica: str) -> tuple[Any, Usage]:
    """Wait for an actor's answer, and the work it took. Its failure becomes a ModelError."""
    import ray

    try:
        answer, used = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        failed = f"{replica} failed with {type(error.cause).__name__} ({reason(error.cause)})"
        raise ModelError(f"{failed}: run the same without replicas to see where") from error
    except ray.exceptions.RayError as error:
        gone = (
            f"{replica} is gone ({type(error).__name__}): it ran out of memory, or its node is down"
        )
        remedy = (
            "ask for fewer replicas or a smaller model; every node needs the same Python, Ray and"
            " drike"
        )
        raise ModelError(f"{gone}: {remedy}") from error
    if isinstance(answer, ModelError):
        # `answer` itself would keep this frame, and so the actors, until a collection.
        raise ModelError(str(answer))
    return answer, used
