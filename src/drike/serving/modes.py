"""Whether edits are on for a tenant's requests, as people have switched it while gateways run.

The switches are kept in the store, the last ones with who made them and why; all gateways over it follow the last one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from drike.conversations.turns import Conversation, Speaker
from drike.serving.options import Mode
from drike.stores.log import EditStore
from drike.stores.records import EditVersion, damaged
from drike.support.records import read

_SETTING = "modes"


@dataclass(frozen=True)
class Switch:
    """A mode for all requests from a time on; None is that with which each gateway was started.

    share: of conversations for which edits are on, if the mode is on; for others it is shadow. author, reason: who
    switched, and why.
    """

    mode: Mode | None = None
    share: float = 1.0
    author: str | None = None
    reason: str | None = None
    at: str = ""

    def mode_of(self, conversation: Conversation | None, otherwise: Mode) -> Mode:
        """The mode for a conversation, by its id or first question; None for a request that is not read."""
        mode = self.mode or otherwise
        if mode is not Mode.ON or self.share >= 1 or conversation is None:
            return mode
        kept = conversation.before or "resp"  # an id of a conversation stays, one of a response is of its last turn
        asked = (turn.said for turn in conversation.turns if turn.speaker is Speaker.USER)
        first = next(asked, "") if kept.startswith("resp") else kept
        digest = hashlib.blake2b(first.encode("utf-8", "surrogatepass"), digest_size=6).digest()
        return Mode.ON if int.from_bytes(digest) < self.share * 2**48 else Mode.SHADOW


def switches(store: EditStore) -> Sequence[Switch]:
    """The last switches of a store, the one in force last. Raises StoreError."""
    try:
        return [read(Switch, values) for values in store.history(_SETTING)]
    except ValueError as problem:
        raise damaged(store.name, f"its modes: {problem}") from None


def switch(store: EditStore, new: Switch) -> Sequence[EditVersion]:
    """Put a switch in force, from now on, which changes no edit. Raises StoreError."""
    store.add_to_history(_SETTING, asdict(new))
    return ()
