"""FactPrompt: "Imagine that", the new fact, then the query (the in-context baseline of RippleEdits)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits import Edit
from drike.prompts import Prompt, facts_of


@dataclass(frozen=True)
class FactPrompt:
    """States the new facts and shows no demonstrations."""

    name: str = "FactPrompt"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Each fact on a line of its own, then the query. Raises ValueError for no edits."""
        imagined = "".join(f"Imagine that {fact}.\n" for fact in facts_of(edits))
        return [Prompt(imagined + query) for query in queries]
