"""`Corrections`: edits in requests without a gateway, for programs that send them themselves."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drike.conversations.following import Followed, Follower
from drike.conversations.memory import Memory
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, Conversation, JsonPath, UnreadError, read
from drike.edits.record import EditVersion, StoreError
from drike.errors import UsageError
from drike.gates.decision import Gate
from drike.live.live_edits import LiveEdits, LiveState
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT, open_store

_SECONDS_TO_WAIT = 3.0  # for others that hold the store, as a gateway waits


@dataclass(frozen=True)
class Corrected:
    """A copy of a request with its facts; the request itself if it concerns no edit.

    edits: those stated, of later turns first. conflicts: ids of edits whose old object a tool or
    document states.
    """

    request: Mapping[str, Any]
    edits: tuple[EditVersion, ...]
    reason: str
    conflicts: tuple[int, ...] = ()


class Corrections:
    """The latest edits of a store, put into requests as `drike serve` does it.

    store: a file or address, or an open store. gate: None for the one calibrated for the store,
    else the default one, or `Named` where no encoder is installed. tenant: whose edits of the
    address. tool_results: state facts behind these and documents, too. traces: make a span of each
    decision, by the OpenTelemetry of the program. Threads may share it. While the store cannot be
    read, the edits that were read last stay in force, and `problem` says why. Raises StoreError for
    a store that is missing or cannot be read at first.
    """

    def __init__(
        self,
        store: str | Path | EditStore,
        *,
        gate: Gate | None = None,
        tenant: str = TENANT,
        tool_results: bool = True,
        traces: bool = False,
    ) -> None:
        self._is_closed = False
        self._closes_store = isinstance(store, str | Path)
        if isinstance(store, str | Path):
            store = open_store(store, tenant=tenant, create=False, wait=_SECONDS_TO_WAIT)
        self._live = LiveEdits(store, gate)
        self._tenant = tenant
        self._tool_results = tool_results
        self._traces = traces
        self._lock = threading.Lock()
        self._memory = Memory()
        self._remembered = self._live.state  # the state that `_memory` holds under

    def apply(self, request: Mapping[str, Any], api: str = "chat") -> Corrected:
        """A request with the facts that it concerns; itself, if it concerns none.

        request: JSON, not changed. api: chat, completions, responses or messages. Raises
        UsageError, and StoreError for a store that was never read, or was closed.
        """
        if api not in set(Api):
            raise UsageError(f"api is one of {', '.join(Api)}, not {api!r}")
        try:
            conversation = read(Api(api), _plain(request))
        except (UnreadError, ValueError) as problem:  # whoever is sent the request may read it
            return Corrected(request, (), str(problem))

        followed = self._followed(conversation, str(request.get("model") or ""))
        decision = followed.decision
        reason = decision.reason if decision else "the last turn is no user's"
        for path, text in followed.texts(conversation, _plain(request)).items():
            request = _with_text(request, path, text)
        return Corrected(request, followed.edits, reason, followed.contradicted)

    @property
    def problem(self) -> str | None:
        """Why the store could not be read when it was last looked at; None if it was read."""
        return self._live.problem

    def close(self) -> None:
        """Let go of a store that was opened by name."""
        self._is_closed = True
        if self._closes_store:
            self._live.store.close()

    def __enter__(self) -> Corrections:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _followed(self, conversation: Conversation, model: str) -> Followed:
        """A conversation with its facts, within a span where decisions are traced."""
        follower = self._follower(model)
        if not self._traces:
            return follower.follow(conversation)
        from drike.live.spans import span_of_decision

        return span_of_decision(lambda: follower.follow(conversation))

    def _follower(self, model: str) -> Follower:
        """What decides by the gate and the edits of this moment that apply to a model."""
        with self._lock:
            state = self._refreshed()
            memory = self._memory
        index = state.view.index.applying({"model": model})
        return Follower(
            decide=lambda query: state.gate.decide(query, index),
            index=index,
            placement=AsBlock(),
            tenant=self._tenant,
            sources=self._tool_results,
            memory=memory,
        )

    def _refreshed(self) -> LiveState:
        """The edits and the gate as last read. What followed under those before is forgotten."""
        if self._is_closed:
            raise StoreError(f"{self._live.store.name} was closed: open it again")
        state = self._live.latest()
        if state is not self._remembered:
            self._remembered = state
            self._memory = Memory()
        return state


def _plain(value: Any) -> Any:
    """A JSON value of dicts and lists, without a client's objects, such as earlier answers."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return value


def _with_text(value: Any, path: JsonPath, text: str) -> Any:
    """A copy of a JSON value with another text at a path; what is not on this path is shared."""
    if not path:
        return text
    copied: Any
    if isinstance(value, list | tuple):
        copied = list(value)
    elif isinstance(value, Mapping):
        copied = dict(value)
    else:
        copied = dict(value.model_dump())
    copied[path[0]] = _with_text(copied[path[0]], path[1:], text)
    return copied
