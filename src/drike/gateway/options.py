"""The options of `drike serve`, and how people switch its mode while gateways run.

The switches of a tenant are kept in its store, with who made them and why; all gateways over it
follow the last one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from drike.conversations.turns import Conversation, Speaker
from drike.stores.edit_store import EditStore
from drike.stores.failures import damaged
from drike.support.records import read

_ADDRESSES = ("upstream", "store", "notify", "traces")
_SETTING = "modes"
_BYTES_OF_PLACE = 6  # of a hash, which divide conversations evenly


class Mode(StrEnum):
    """What a gateway does with edits."""

    SHADOW = "shadow"  # decide and count, change nothing
    ON = "on"
    OFF = "off"  # pass everything on


@dataclass(frozen=True, repr=False)
class GatewayOptions:
    """The options of a gateway, each named as its flag; None is the default.

    upstream, model: one of the two, or neither for `models.local_default`. demonstrations: None is
    none for a model that chats, all for a local one that only completes. gate: a name or a file;
    None is the store's own if it has one, else "calibrated", or "named" where no encoder is
    installed. mode: a `Mode`; None is "on" over a local model, else "shadow". deadline_ms: to
    decide on and edit a request; None is 50, 250 where the gate asks an encoder, 5000 over a
    local model. retry_slips: ask again where an answer states an old
    object. keep_samples: of each edit and outcome. contrast: alpha of `Contrast`, for a local
    model. timeout: in seconds. traces: the address
    of a collector, or None for no traces.
    """

    upstream: str | None = None
    allow_http: str | None = None
    model: str | None = None
    device: str | None = None
    store: str | None = None
    create: bool = False
    keys: str | None = None
    require_keys: bool = False
    run: str | None = None
    demonstrations: int | None = None
    tool_results: Literal["on", "off"] = "on"
    gate: str | None = None
    gate_threshold: float | None = None
    relations: list[Path] | None = None
    contrast: float = 0.0
    retry_slips: bool = False
    notify: str | None = None
    traces: str | None = None
    trace_texts: bool = False
    keep_samples: int = 0
    redact: bool = True
    mode: str | None = None
    deadline_ms: float | None = None
    host: str = "127.0.0.1"
    port: int = 8800
    admin_host: str = "127.0.0.1"
    admin_port: int = 8801
    timeout: float = 600.0
    reuse_port: bool = False

    def __repr__(self) -> str:
        """The options but for addresses, which may hold passwords."""
        shown = {name: value for name, value in vars(self).items() if name not in _ADDRESSES}
        return f"{type(self).__name__}({shown})"

    @property
    def most_demonstrations(self) -> int | None:
        """How many demonstrations an edit gets at most, in chats and completions alike.

        None: all, or as the training run says.
        """
        is_usual = self.demonstrations is None and self.run is None
        return 0 if self.upstream and is_usual else self.demonstrations


@dataclass(frozen=True)
class Switch:
    """A mode for all requests from a time on; None is that with which each gateway was started.

    share: of conversations for which edits are on, in mode on; others are in shadow. author,
    reason: who switched, why.
    """

    mode: Mode | None = None
    share: float = 1.0
    author: str | None = None
    reason: str | None = None
    at: str = ""

    def mode_of(self, conversation: Conversation | None, otherwise: Mode) -> Mode:
        """The mode for a conversation, by its id or first question.

        None: for a request that is not read.
        """
        mode = self.mode or otherwise
        if mode is not Mode.ON or self.share >= 1 or conversation is None:
            return mode
        return Mode.ON if _place_of(conversation) < self.share else Mode.SHADOW


def _place_of(conversation: Conversation) -> float:
    """A conversation's place from 0 to 1, by a hash of what all its requests have in common."""
    if conversation.stays:
        name = conversation.before or ""
    else:
        questions = (
            turn.said
            for turn in conversation.turns
            if turn.speaker in (Speaker.USER, Speaker.BESIDE)
        )
        name = next(questions, "")
    digest = hashlib.blake2b(
        name.encode("utf-8", "surrogatepass"), digest_size=_BYTES_OF_PLACE
    ).digest()
    return int.from_bytes(digest) / (1 << 8 * _BYTES_OF_PLACE)


def switches(store: EditStore) -> Sequence[Switch]:
    """The last switches of a store, the one in force last. Raises StoreError."""
    try:
        return [read(Switch, values) for values in store.settings.history(_SETTING)]
    except ValueError as problem:
        raise damaged(store.name, f"its modes: {problem}") from None


def switch(store: EditStore, new: Switch) -> None:
    """Put a switch in force, from now on. Raises StoreError."""
    store.settings.add_to_history(_SETTING, asdict(new))
