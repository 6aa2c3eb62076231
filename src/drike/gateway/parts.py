"""What a gateway is given by the command line, which builds it with the research bench."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drike.conversations.rendering import Placement, PromptEditor
from drike.gates.decision import Gate


@dataclass(frozen=True)
class OpenedEditor:
    """What writes prompts and chooses demonstrations.

    gate: of its query policy, if it was trained with one.
    """

    editor: PromptEditor
    gate: Gate | None = None


@dataclass(frozen=True)
class GatewayParts:
    """How to open these parts, once the store and the keys are known to be in order.

    open_editor: of the folder of a training run (None: without one), with at most so many
    demonstrations (None: all); raises DrikeError. placements: of facts, by name, for a model that
    chats, or (False) that only completes.
    """

    open_editor: Callable[[str | None, int | None], OpenedEditor]
    placements: Callable[[bool], Mapping[str, Placement]]
