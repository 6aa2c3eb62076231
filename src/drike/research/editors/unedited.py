"""The unedited model, with which every editor is compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits.edit import Edit
from drike.prompts import Prompt


@dataclass(frozen=True)
class Unedited:
    """Asks the query alone, without an edit."""

    name: str = "Unedited"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The queries themselves."""
        return [Prompt(query) for query in queries]
