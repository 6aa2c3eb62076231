"""Ways of editing a model by its prompt; one editor a file, all behind one method.

`unedited` asks the bare query; `factprompt` and `editcot` state the edit and nothing else; `ike` shows demonstrations:
IKE, DR-IKE and the rankings of the paper's ablation are that one editor with other parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drike.edits import Edit
from drike.prompts import Prompt


class Editor(Protocol):
    """Turns an edit and queries into prompts. What it shows is chosen once per edit, not per query."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """One prompt a query, in order."""
        ...
