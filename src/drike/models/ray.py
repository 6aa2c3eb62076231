"""Replicas of a local model as Ray actors: on this machine's cores and cards, or on a cluster's.

Each actor is a process that opens the model by its name or path, with a card of its own where there are cards, else
with one core. Only texts and numbers travel: requests there, scores back. `load` gives them as one model (see
`replicas`).

RAY_ADDRESS in the environment says which cluster (docs/scaling.md); without it a private one is started on this machine
and ends with this process. Nothing is reported to Ray's makers, and no dashboard is opened.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from drike.errors import ModelError
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, Request, Score, Usage
from drike.models.replicas import Replicas

if TYPE_CHECKING:
    import torch

    from drike.models.local.huggingface import HuggingFaceModel, Identity
    from drike.models.local.tokens import Template

_STORE = 256 << 20  # bytes of Ray's object store here: texts and scores are small, its default is a third of the memory
_REACH_SECONDS = 5.0
_RESTARTS = 3  # of an actor that died; a model that needs more memory than there is would go on dying
_PATIENCE = 20.0  # seconds in which actors that were just let go give back what they held


@dataclass(frozen=True)
class _Refusal:
    """A ModelError's sentence on its way back: raised in an actor, it would come wrapped in a traceback."""

    sentence: str


class _Worker:
    """What runs in an actor: one model, asked one call at a time, opened when it is first asked.

    So that an actor which Ray has started again, with nothing but these arguments, has its model again.
    """

    def __init__(self, name_or_path: str, options: dict[str, Any]) -> None:
        self._name_or_path = name_or_path
        self._options = options
        self._model: HuggingFaceModel | None = None

    def ask(self, method: str, *arguments: object) -> tuple[Any, Usage]:
        """What a method of the model returns, and what the model did for it."""
        from drike.models.local.huggingface import load as load_here

        try:
            self._model = self._model or load_here(self._name_or_path, **self._options)
            before = self._model.usage
            return getattr(self._model, method)(*arguments), self._model.usage - before
        except ModelError as error:
            return _Refusal(str(error)), Usage()


class RemoteModel:
    """The model in an actor. It computes one call at a time; a second may wait at its door, so that it never idles.

    Every method raises ModelError if the actor is gone for good.
    """

    parallel = 2

    def __init__(self, actor: Any, identity: Identity, who: str) -> None:
        self.name = identity.name
        self._actor = actor
        self._identity = identity
        self._who = who
        self._usage = Usage()
        self._counting = Lock()

    @property
    def usage(self) -> Usage:
        """What the model has done for this caller."""
        return self._usage

    def forget(self) -> None:
        """Drop what the model remembers."""
        self._ask("forget")

    def describe(self) -> Identity:
        """What a run's folder records of the model."""
        return self._identity

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """As `HuggingFaceModel.count_tokens`."""
        return self._ask("count_tokens", list(prompts))  # type: ignore[no-any-return]

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """As `HuggingFaceModel.generate`."""
        return self._ask("generate", list(prompts), max_tokens, stop)  # type: ignore[no-any-return]

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """As `HuggingFaceModel.score`."""
        return self._ask("score", list(requests))  # type: ignore[no-any-return]

    def _ask(self, method: str, *arguments: object) -> Any:
        answer, used = _received(self._actor.ask.remote(method, *arguments), self._who)
        with self._counting:
            self._usage += used
        return answer


def load(
    name_or_path: str,
    *,
    replicas: int,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    template: Template = "plain",
    remember: bool = True,
    keep: int | None = None,
    name: str | None = None,
    gpus: float | None = None,
) -> Replicas:
    """`replicas` actors that each hold the model, as one model; all else as `huggingface.load`.

    gpus: of a replica; None is one where the cluster has any and `device` does not say "cpu", else none. A share such
    as 0.5 puts several on a card, whose memory they then divide. Raises ModelError if Ray is not installed or not
    reached, if there is no room, if the model cannot be opened, or if the nodes hold different weights.
    """
    if replicas < 1:
        raise ValueError(f"a model is loaded at least once, not {replicas} times")
    ray = _connect()
    cards = ray.cluster_resources().get("GPU", 0.0)
    share = float(cards > 0 and device != "cpu") if gpus is None else gpus
    _require_room(ray, replicas, {"CPU": 1.0, "GPU": share})
    where = str(Path(name_or_path).resolve()) if Path(name_or_path).is_dir() else name_or_path
    options = {"device": device, "dtype": dtype, "template": template, "remember": remember, "keep": keep}
    options["name"] = name or name_or_path
    actor = ray.remote(num_cpus=1, num_gpus=share, max_restarts=_RESTARTS, max_task_retries=1)(_Worker)
    actors = [actor.remote(where, options) for _ in range(replicas)]
    opening = [one.ask.remote("describe") for one in actors]
    called = [f"replica {i} of {replicas}" for i in range(1, replicas + 1)]
    identities: list[Identity] = [_received(one, who)[0] for one, who in zip(opening, called, strict=True)]
    if len({(one.config_sha256, one.weights_sha256, one.dtype) for one in identities}) > 1:
        raise ModelError(f"the nodes hold different weights of {name_or_path}: copy the same folder to all of them")
    return Replicas([RemoteModel(*parts) for parts in zip(actors, identities, called, strict=True)])


def _connect() -> Any:
    """Ray, connected to the cluster of RAY_ADDRESS or to one of its own."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
    try:
        import ray
    except ImportError as error:
        raise ModelError("replicas are Ray actors, and Ray is not installed: pip install -e '.[ray]'") from error
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "local")
        own: dict[str, Any] = {"object_store_memory": _STORE, "include_dashboard": False} if address == "local" else {}
        try:
            _knock(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, RuntimeError, ValueError) as error:
            what = (
                f"the Ray cluster at {address} cannot be reached" if address != "local" else "Ray does not start here"
            )
            raise ModelError(
                f"{what} ({_first_line(error)}): check `ray status`, RAY_ADDRESS and, where the cluster wants a token, "
                "RAY_AUTH_MODE=token; or leave replicas out"
            ) from error
    return ray


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT; Ray would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()


def _require_room(ray: Any, replicas: int, each: dict[str, float]) -> None:
    """Raise ModelError where actors would wait for ever for cores or cards that are not there."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        total, free = ray.cluster_resources(), ray.available_resources()
        for what, share in each.items():
            has = total.get(what, 0.0) if time.monotonic() < deadline else free.get(what, 0.0)
            if has < replicas * share:
                room = int(has / share)
                raise ModelError(
                    f"{share:g} {what} for each of {replicas} replicas is more than the {has:g} that Ray has to give: "
                    + (f"ask for {room} at most, or add nodes" if room else "add nodes, or leave replicas out")
                )
        if all(free.get(what, 0.0) >= replicas * share for what, share in each.items()):
            return
        time.sleep(0.2)


def _received(reference: Any, who: str) -> tuple[Any, Usage]:
    """What an actor returns, or its failure as a ModelError."""
    import ray
    from ray import exceptions

    try:
        answer, used = ray.get(reference)
    except exceptions.RayTaskError as error:
        raise ModelError(
            f"{who} failed with {type(error.cause).__name__} ({_first_line(error.cause)}): "
            "run the same without replicas to see where"
        ) from error
    except exceptions.RayError as error:
        raise ModelError(
            f"{who} is gone ({type(error).__name__}), for want of memory or with its node: "
            "ask for fewer replicas or a smaller model; every node needs the same Python, Ray and drike"
        ) from error
    if isinstance(answer, _Refusal):
        raise ModelError(answer.sentence)
    return answer, used


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
