"""What every editor is."""

from collections.abc import Sequence
from typing import Protocol

from drike.edits.edit import Edit
from drike.prompts import Prompt


class Editor(Protocol):
    """Turns the edits in force and queries into prompts.

    An editor that was trained also has `trained_on`: the keys of the edits it was trained on.
    """

    @property
    def name(self) -> str:
        """Its name in tables."""

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, each under all of the edits."""
