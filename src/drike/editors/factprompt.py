"""FactPrompt: "Imagine that" and the new fact before the query (the in-context baseline of RippleEdits)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits import Edit
from drike.prompts import Prompt


@dataclass(frozen=True)
class FactPrompt:
    """No demonstrations, no parameters."""

    name: str = "FactPrompt"

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """The imagined fact on a line of its own, then the query."""
        return [Prompt(f"Imagine that {edit.fact}.\n{query}") for query in queries]
