"""Edits in requests without a gateway: `Corrections`, for programs that send the requests themselves."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drike.conversations.following import Follower, Memory
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, JsonPath, UnreadError, read
from drike.edits.record import EditVersion
from drike.errors import UsageError
from drike.gates.decision import Gate
from drike.live.store_gate import StoreView, encoder_of, stored_gate, usual_gate
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT, open_store


@dataclass(frozen=True)
class Corrected:
    """A copy of a request with its facts; the request itself if it concerns no edit.

    edits: those stated, of later turns first. conflicts: ids of edits whose old object a tool or document states.
    """

    request: Mapping[str, Any]
    edits: tuple[EditVersion, ...]
    reason: str
    conflicts: tuple[int, ...] = ()


class Corrections:
    """The edits of a store, to be put into requests as `drike serve` does before an upstream, always the latest.

    store: a file or address, or an open store. gate: None for the one calibrated for the store, else the default
    one, or `Named` where no encoder is installed. tenant: whose edits of the address. tool_results: state facts behind
    these and documents, too. Threads may share it. Raises StoreError for a store that is missing or cannot be read.
    """

    def __init__(
        self, store: str | Path | EditStore, *,
        gate: Gate | None = None, tenant: str = TENANT, tool_results: bool = True,
    ) -> None:  # fmt: skip
        self._owned, self._follows = isinstance(store, str | Path), gate is None
        self._store = (
            open_store(store, tenant=tenant, create=False)
            if isinstance(store, str | Path)
            else store
        )
        self._number, self._gate = (
            (0, gate) if gate else stored_gate(self._store) or (0, usual_gate())
        )
        self._encoder = encoder_of(self._gate)
        self._tenant, self._sources = tenant, tool_results
        self._lock = threading.Lock()
        self._view = StoreView()
        self._memory = Memory()

    def apply(self, request: Mapping[str, Any], api: str = "chat") -> Corrected:
        """A request with the facts that it concerns; itself, if it concerns none.

        request: JSON, not changed. api: chat, completions, responses or messages. Raises UsageError, StoreError.
        """
        if api not in set(Api):
            raise UsageError(f"api is one of {', '.join(Api)}, not {api!r}")
        try:
            conversation = read(Api(api), _plain(request))
        except (
            UnreadError,
            ValueError,
        ) as problem:  # whoever gets the request may be able to read it
            return Corrected(request, (), str(problem))
        with self._lock:
            follower = self._current(str(request.get("model") or ""))
        followed = follower.follow(conversation)
        reason = followed.decision.reason if followed.decision else "the last turn is no user's"
        for path, text in followed.texts(conversation).items():
            request = _with_text(request, path, text)
        return Corrected(request, followed.edits, reason, followed.contradicted)

    def close(self) -> None:
        """Let go of a store that was opened by name."""
        if self._owned:
            self._store.close()

    def __enter__(self) -> Corrections:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _current(self, model: str) -> Follower:
        if self._follows and (newer := stored_gate(self._store, self._number)):
            (self._number, self._gate), self._view = newer, StoreView()
            self._encoder = encoder_of(self._gate)
        view = self._view.at(datetime.now(UTC), self._store, self._encoder)
        if view is not self._view:
            self._view, self._memory = view, Memory()
        decide, index = self._gate.decide, view.index.applying({"model": model})
        return Follower(
            lambda query: decide(query, index),
            index,
            AsBlock(),
            self._tenant,
            self._sources,
            self._memory,
        )


def _plain(value: Any) -> Any:
    """A JSON value of dicts and lists, also of a client's objects, such as an answer that was put into `messages`."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.model_dump() if hasattr(value, "model_dump") else value


def _with_text(value: Any, path: JsonPath, text: str) -> Any:
    """A copy of a JSON value with another text at a path; what is not on this is shared."""
    if not path:
        return text
    plain = isinstance(value, Mapping)
    copied = (
        list(value)
        if isinstance(value, list | tuple)
        else dict(value if plain else value.model_dump())
    )
    copied[path[0]] = _with_text(copied[path[0]], path[1:], text)  # type: ignore[index]
    return copied
