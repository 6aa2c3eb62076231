"""What an editor is, what training leaves for one, and the editors that show no demonstrations.

`EditCoT` takes one call, as the paper's timing implies (2.02 s against FactPrompt's 1.99 s). The words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from drike.edits import Edit
from drike.prompts import FACT_CHANGED, Prompt, PromptStyle, facts_of

if TYPE_CHECKING:
    from drike.editors.budgets import Budget
    from drike.editors.retriever import Retriever
    from drike.editors.selectors import Selector

ANSWER_CUE = "Answer:"


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


def reasoning_prompt(facts: Sequence[str], query: str) -> Prompt:
    """State the facts, have the model reason whether the query depends on them, and answer after a cue."""
    these, changed = ("this fact", "the changed fact") if len(facts) == 1 else ("these facts", "a changed fact")
    return Prompt(
        "".join(f"{FACT_CHANGED}{fact}.\n" for fact in facts)
        + f"Everything that does not depend on {these} is as it was.\n"
        f"Complete this sentence: {query}\n"
        f"First think step by step: does the sentence depend on {changed}? If so, what follows from the change?\n"
        f'Then write "{ANSWER_CUE}" and the shortest completion of the sentence, nothing else.\n'
        "Reasoning:",
        cue=ANSWER_CUE,
    )


@dataclass(frozen=True)
class Unedited:
    """Asks the query alone, without an edit: the model with which every editor is compared."""

    name: str = "Unedited"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The queries themselves."""
        return [Prompt(query) for query in queries]


@dataclass(frozen=True)
class FactPrompt:
    """States the new facts after "Imagine that" (the in-context baseline of RippleEdits)."""

    name: str = "FactPrompt"
    line: str = field(default="Imagine that {}.\n", repr=False)  # of each fact

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Each fact on a line of its own, then the query. Raises ValueError for no edits."""
        imagined = "".join(map(self.line.format, facts_of(edits)))
        return [Prompt(imagined + query) for query in queries]


@dataclass(frozen=True)
class EditCoT:
    """States the facts and asks for reasoning and, after a cue, an answer, in one call."""

    name: str = "EditCoT"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One instruction per query. Raises ValueError for no edits."""
        return [reasoning_prompt(facts_of(edits), query) for query in queries]
