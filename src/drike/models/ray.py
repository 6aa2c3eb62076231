"""Replicas of a local model, for work that is split by edit, and `load`, which runs them as Ray actors.

RAY_ADDRESS in the environment names the cluster (docs/how-to/run-long-jobs.md); without it a private one is started on
this machine and ends with this process. It listens on the loopback interface, demands a token, and inherits no keys.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any
from zlib import crc32

from drike.errors import ModelError, reason
from drike.models.protocols import ModelInfo, Request, Usage
from drike.models.served import is_loopback

if TYPE_CHECKING:
    from drike.models.local.huggingface import HuggingFaceModel

_BEGINNING = (
    200  # characters of a prompt that identify its edit: the first demonstration, or its fact
)
_STORE = (
    256 << 20
)  # bytes of Ray's object store here: texts and scores are small, its default is a third of the memory
_QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}
_REACH_SECONDS = 5.0
_RESTARTS = (
    3  # of an actor that died; a model that needs more memory than there is would go on dying
)
_RELEASE_SECONDS = 20.0  # for actors that have just ended to free their resources
_DEMANDS_TOKEN = (2, 59)  # the first version that does so by default
_SECRET = re.compile(
    r"(key|token|secret|password|passwd|credential)s?(_|$)", re.IGNORECASE
)  # is not inherited


class Replicas:
    """Equal models that score and count, as one; callers beyond `info.calls_at_once` wait. Raises ValueError for none.

    A call has the prompts of one edit and goes to one replica, so that shared prefixes are still read once. A hash of
    the first prompt's beginning chooses it, so that an edit usually returns to the replica that has it cached. The
    answers are those of one model, up to rounding in the last digits.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        if not models:
            raise ValueError("replicas of nothing: give at least one model")
        self.models = tuple(models)
        self._room = [model.info.calls_at_once for model in models]
        self.info: ModelInfo = replace(models[0].info, calls_at_once=sum(self._room))
        self._busy = [0] * len(models)
        self._changed = Condition()

    @property
    def usage(self) -> Usage:
        """The work of all replicas; `seconds` adds up, so it can exceed the clock's."""
        return sum((model.usage for model in self.models), Usage())

    def forget(self) -> None:
        """Clear the caches of all replicas."""
        for model in self.models:
            model.forget()

    def _on_one(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the replica for prompts or requests, which counts as busy until the call is done."""
        asked = (*arguments, *named.values())[0]
        first = asked[0] if asked else ""
        turns = (*first.earlier, first.prompt) if isinstance(first, Request) else first
        home = crc32("".join(turns)[:_BEGINNING].encode(errors="surrogatepass")) % len(self.models)
        with self._changed:
            self._changed.wait_for(lambda: sum(self._busy) < sum(self._room))
            chosen = route(home, self._busy, self._room)
            self._busy[chosen] += 1
        try:
            return getattr(self.models[chosen], method)(*arguments, **named)
        finally:
            with self._changed:
                self._busy[chosen] -= 1
                self._changed.notify()

    generate = partialmethod(_on_one, "generate")
    score = partialmethod(_on_one, "score")
    count_tokens = partialmethod(_on_one, "count_tokens")


def route(home: int, busy: Sequence[int], room: Sequence[int]) -> int:
    """Index of the replica for a call, of those with room: its home unless that is full, or busy and another idle."""
    if busy[home] == 0 or (min(busy) > 0 and busy[home] < room[home]):
        return home
    return min((i for i in range(len(busy)) if busy[i] < room[i]), key=lambda i: busy[i])


class _Worker:
    """Runs in an actor. The model is loaded at the first call, so an actor that Ray has restarted loads it again."""

    def __init__(self, name_or_path: str, options: dict[str, Any], hub_token: str | None) -> None:
        self._name_or_path, self._options, self._hub_token = name_or_path, options, hub_token
        self._model: HuggingFaceModel | None = None

    def ask(self, member: str, *arguments: object, **named: object) -> tuple[Any, Usage]:
        """Get a member of the model, called if it is a method, and the work it took; a ModelError is returned too."""
        from drike.models.local.huggingface import load as load_here

        if self._hub_token:
            os.environ["HF_TOKEN"] = self._hub_token
        try:
            self._model = self._model or load_here(self._name_or_path, **self._options)
            before = self._model.usage
            value = getattr(self._model, member)
            return value(*arguments, **named) if callable(
                value
            ) else value, self._model.usage - before
        except ModelError as error:  # raised in an actor, it would arrive wrapped in a traceback
            return error, Usage()


class RemoteModel:
    """The model in an actor, which ends with it. Every method raises ModelError if the actor is gone for good."""

    def __init__(self, actor: Any, info: ModelInfo, replica: str) -> None:
        self.info = replace(
            info, calls_at_once=2
        )  # it computes one; a second may wait, so that it never idles
        self.usage = Usage()
        self._actor, self._replica = actor, replica
        self._counting = Lock()

    def _ask(self, method: str, *arguments: object, **named: object) -> Any:
        answer, used = _received(self._actor.ask.remote(method, *arguments, **named), self._replica)
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
    """Start `replicas` actors that each hold the model, as one model; `options` are those of `huggingface.load`.

    gpus: per replica, None is one if the cluster has any and `device` is not "cpu"; with 0.5, two share a card. Raises
    ModelError if Ray is missing, cannot be reached or has no room, if the model cannot be opened, or if the nodes hold
    different weights; ValueError for fewer than one replica.
    """
    ray = _connect()
    cards = ray.cluster_resources().get("GPU", 0.0)
    share = float(cards > 0 and options.get("device") != "cpu") if gpus is None else gpus
    _require_room(ray, replicas, {"CPU": 1.0, "GPU": share})
    folder = Path(name_or_path).is_dir()
    where = str(Path(name_or_path).resolve()) if folder else name_or_path
    # Only a gated model needs it, and it is not sent over a network.
    hub_token = (
        os.environ.get("HF_TOKEN")
        if is_loopback(ray.util.get_node_ip_address()) and not folder
        else None
    )
    options["name"] = options.get("name") or name_or_path
    actor = ray.remote(num_cpus=1, num_gpus=share, max_restarts=_RESTARTS, max_task_retries=1)(
        _Worker
    )
    actors = [actor.remote(where, options, hub_token) for _ in range(replicas)]
    opening = [actor.ask.remote("info") for actor in actors]
    names = [f"replica {i} of {replicas}" for i in range(1, replicas + 1)]
    infos: list[ModelInfo] = [
        _received(info, replica)[0] for info, replica in zip(opening, names, strict=True)
    ]
    if (
        len(
            {
                tuple(info.identity[key] for key in ("config_sha256", "weights_sha256", "dtype"))
                for info in infos
            }
        )
        > 1
    ):
        raise ModelError(
            f"the nodes hold different weights of {name_or_path}: copy the same folder to all of them"
        )
    return Replicas([RemoteModel(*parts) for parts in zip(actors, infos, names, strict=True)])


def _connect() -> Any:
    """Connect Ray to the cluster at RAY_ADDRESS, or start a private one, unless this process is connected already."""
    imported: Any = sys.modules.get("ray")
    if imported is not None and imported.is_initialized():
        return imported
    address = os.environ.get("RAY_ADDRESS", "local")
    # Ray reads these when it is imported; without clusters, it listens on the loopback interface only.
    private = (
        {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        if address == "local"
        else {}
    )
    if imported is not None and not private.items() <= os.environ.items():
        raise ModelError(
            "Ray was imported before its ports could be closed: load the model first, or call ray.init"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if private:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ |= private
    try:
        import ray
    except ImportError as error:
        raise ModelError(
            "replicas are Ray actors, and Ray is not installed: pip install 'drike[ray]'"
        ) from error
    if tuple(map(int, ray.__version__.split(".")[:2])) < _DEMANDS_TOKEN:
        raise ModelError(
            f"Ray {ray.__version__} lets anyone join who reaches it: pip install 'drike[ray]'"
        )
    try:
        with chdir(
            sys.prefix
        ):  # Ray's processes take modules from the working folder before all others
            if private:
                _start_private(ray)
            else:
                host, _, port = address.removeprefix("ray://").rpartition(":")
                if port.isdecimal():  # if nothing listens there, Ray would retry for many minutes
                    socket.create_connection((host, int(port)), _REACH_SECONDS).close()
                ray.init(address=address, **_QUIET)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        what = (
            "Ray does not start here"
            if private
            else f"the Ray cluster at {address} cannot be reached"
        )
        remedy = "check `ray status`, RAY_ADDRESS and the cluster's token, or set RAY_AUTH_MODE=disabled for a cluster "
        remedy += "without one; or leave replicas out"
        raise ModelError(f"{what} ({reason(error)}): {remedy}") from error
    return ray


def _start_private(ray: Any) -> None:
    """Start Ray for this process alone: no other user reads its files or environment, no other machine its ports."""
    # Ray makes its own folders writable for everyone, so they are inside one that is not. The names that macOS gives to
    # temporary folders are too long for sockets.
    folder = tempfile.mkdtemp(prefix="drike-", dir="/tmp" if sys.platform == "darwin" else None)  # noqa: S108
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(ray.shutdown)  # called first
    hidden = {
        name: os.environ.pop(name)
        for name in list(os.environ)
        if _SECRET.search(name) and name[:4] != "RAY_"
    }
    try:
        place = str(Path(folder) / "ray")
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_STORE,
            _temp_dir=place,
            **_QUIET,
        )
    finally:
        os.environ.update(hidden)


def _require_room(ray: Any, replicas: int, each: dict[str, float]) -> None:
    """Raise ModelError if actors would wait forever for cores or GPUs that do not exist."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    for what, share in each.items():
        has, wanted = ray.cluster_resources().get(what, 0.0), replicas * share
        while (free := ray.available_resources().get(what, 0.0)) < wanted <= has:
            has = has if time.monotonic() < deadline else free
            gc.collect()  # actors end with their last reference, which a cycle may hold, as those of a traceback do
            time.sleep(0.2)
        if has < wanted:
            room = int(has / share)
            remedy = (
                f"ask for {room} at most, or add nodes"
                if room
                else "add nodes, or leave replicas out"
            )
            raise ModelError(
                f"{share:g} {what} for each of {replicas} replicas is more than Ray's {has:g}: {remedy}"
            )


def _received(reference: Any, replica: str) -> tuple[Any, Usage]:
    """Wait for an actor's answer; its failure becomes a ModelError."""
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
        remedy = "ask for fewer replicas or a smaller model; every node needs the same Python, Ray and drike"
        raise ModelError(f"{gone}: {remedy}") from error
    if isinstance(answer, ModelError):
        raise ModelError(
            str(answer)
        )  # `answer` itself would keep this frame, and so the actors, until a collection
    return answer, used
