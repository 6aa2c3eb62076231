"""What an editor is, and what training leaves for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from drike.edits import Edit
from drike.prompts import Prompt, PromptStyle

if TYPE_CHECKING:
    from drike.editors.budgets import Budget
    from drike.editors.retriever import Retriever
    from drike.editors.selectors import Selector


class Editor(Protocol):
    """Turns the edits in force and queries into prompts.

    One that was trained on edits has `trained_on`, the keys of these edits, so that it is not tested on them.
    """

    @property
    def name(self) -> str:
        """Its name in tables."""

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, each under all of the edits."""


@dataclass(frozen=True)
class Trained:
    """What training leaves: the ranking, its budget, the style of its prompts, and a policy per query if asked for."""

    retriever: Retriever
    budget: Budget
    style: PromptStyle = PromptStyle()
    per_query: Selector | None = field(default=None, kw_only=True)
