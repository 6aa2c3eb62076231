"""The Ray cluster that replicas run in: the one at RAY_ADDRESS, or a private one.

RAY_ADDRESS in the environment names the cluster (docs/performance.md); without it a private one is
started on this machine and ends with this process. It listens on the loopback interface, demands a
token, and inherits no keys.
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
from contextlib import chdir
from pathlib import Path
from typing import Any

from drike.errors import ModelError, reason

# Bytes of Ray's object store: texts and scores are small, its default is a third of the memory.
_STORE = 256 << 20
_QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}
_REACH_SECONDS = 5.0
_RELEASE_SECONDS = 20.0  # for actors that have just ended to free their resources
_POLL_SECONDS = 0.2
_DEMANDS_TOKEN = (2, 59)  # the first version that does so by default
# Variables of the environment that Ray's processes do not inherit.
_SECRET = re.compile(r"(key|token|secret|password|passwd|credential)s?(_|$)", re.IGNORECASE)

# Ray reads these when it is imported; without clusters, it listens on the loopback interface only.
_PRIVATE_SETTINGS = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def connect() -> Any:
    """Connect Ray to its cluster, unless this process is connected already.

    Return the module `ray`. Raises ModelError if Ray is missing, too old, or cannot be reached or
    started.
    """
    imported: Any = sys.modules.get("ray")
    if imported is not None and imported.is_initialized():
        return imported
    address = os.environ.get("RAY_ADDRESS", "local")
    is_private = address == "local"
    _prepare_environment(is_private=is_private, is_imported=imported is not None)
    ray = _imported()
    try:
        # Ray's processes take modules from the working folder before all others.
        with chdir(sys.prefix):
            if is_private:
                _start_private(ray)
            else:
                _join(ray, address)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        what = f"the Ray cluster at {address} cannot be reached"
        if is_private:
            what = "Ray does not start here"
        raise ModelError(
            f"{what} ({reason(error)}): check `ray status`, RAY_ADDRESS and the cluster's token, or"
            " set RAY_AUTH_MODE=disabled for a cluster without one; or leave replicas out"
        ) from error
    return ray


def require_room(ray: Any, replicas: int, needs_by_resource: dict[str, float]) -> None:
    """Raise ModelError if actors would wait forever for cores or GPUs that do not exist.

    needs_by_resource: what each replica needs.
    """
    deadline = time.monotonic() + _RELEASE_SECONDS
    for resource, need in needs_by_resource.items():
        has = ray.cluster_resources().get(resource, 0.0)
        wanted = replicas * need
        # Actors that have just ended may still hold some of it.
        while (free := ray.available_resources().get(resource, 0.0)) < wanted <= has:
            if time.monotonic() >= deadline:
                has = free
            # Actors end with their last reference, which a cycle may hold, as those of a traceback
            # do.
            gc.collect()
            time.sleep(_POLL_SECONDS)
        if has < wanted:
            room = int(has / need)
            remedy = "add nodes, or leave replicas out"
            if room:
                remedy = f"ask for {room} at most, or add nodes"
            raise ModelError(
                f"{need:g} {resource} for each of {replicas} replicas is more than Ray's {has:g}:"
                f" {remedy}"
            )


def _prepare_environment(*, is_private: bool, is_imported: bool) -> None:
    """Set the variables that Ray reads when it is imported.

    Raises ModelError if that is too late.
    """
    has_settings = _PRIVATE_SETTINGS.items() <= os.environ.items()
    if is_private and is_imported and not has_settings:
        raise ModelError(
            "Ray was imported before its ports could be closed: load the model first, or call"
            " ray.init"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if is_private:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.update(_PRIVATE_SETTINGS)


def _imported() -> Any:
    """The module `ray`. Raises ModelError if it is missing, or too old to demand a token."""
    try:
        import ray
    except ImportError as error:
        raise ModelError(
            "replicas are Ray actors, and Ray is not installed: pip install 'drike[ray]'"
        ) from error
    major_and_minor = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if major_and_minor < _DEMANDS_TOKEN:
        raise ModelError(
            f"Ray {ray.__version__} lets anyone join who reaches it: pip install 'drike[ray]'"
        )
    return ray


def _join(ray: Any, address: str) -> None:
    """Connect to a cluster that is running. Raises OSError if nothing listens there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # if nothing listens there, Ray would retry for many minutes
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    ray.init(address=address, **_QUIET)


def _start_private(ray: Any) -> None:
    """Start Ray for this process alone.

    No other user reads its files or environment, and no other machine reaches its ports.
    """
    # Ray makes its own folders writable for everyone, so they are inside one that is not. The names
    # that macOS gives to temporary folders are too long for sockets.
    parent = "/tmp" if sys.platform == "darwin" else None  # noqa: S108
    folder = tempfile.mkdtemp(prefix="drike-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(ray.shutdown)  # called first

    secret_names = [
        name for name in os.environ if _SECRET.search(name) and not name.startswith("RAY_")
    ]
    hidden = {name: os.environ.pop(name) for name in secret_names}
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_STORE,
            _temp_dir=str(Path(folder) / "ray"),
            **_QUIET,
        )
    finally:
        os.environ.update(hidden)
