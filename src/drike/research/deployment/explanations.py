"""Why a query got its prompt, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drike.gates.decision import Decision
from drike.prompts import Role
from drike.research.editors.columns import EditorColumn
from drike.support.table import Table, as_markdown, markdown_text, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_CANDIDATES = 5  # of the table


@dataclass(frozen=True)
class Explanation:
    """Why a query got its prompt: the gate's decision, and the editor's choice of demonstrations.

    prompt_tokens: None if the model does not count them.
    """

    query: str
    decision: Decision
    answer: str
    prompt_tokens: int | None
    side: EditorColumn

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines = [Text(visible(line)) for line in self._lines()]
        return Group(*lines, *self._tables())

    def _repr_markdown_(self) -> str:
        lines = map(markdown_text, self._lines())
        return "\n\n".join([*lines, *map(as_markdown, self._tables())])

    def __str__(self) -> str:
        lines = map(visible, self._lines())
        return "\n".join([*lines, *map(str, self._tables())])

    def _lines(self) -> list[str]:
        answered = f"{self.query} -> {self.answer}"
        if not self.decision.applied:
            why = f"No edit applies ({self.decision.reason}): the model gets the query alone."
            return [answered, why]
        edits = [f"Edit: {edit.record.edit.fact}" for edit in self.decision.applied]
        return [answered, *edits, f"Why: {self.decision.reason}", f"Prompt: {self._prompt_size()}"]

    def _prompt_size(self) -> str:
        """How many demonstrations the prompt has, and how long it is."""
        prompt = self.side.prompt
        retains = f"{prompt.shots} retains"
        if self.side.retains:
            kept = sum(retain.kept for retain in self.side.retains)
            retains = f"{kept} of {len(self.side.retains)} retains"
        parts = [f"{len(prompt.demonstrations) - prompt.shots} copies and updates", retains]
        if self.prompt_tokens is not None:
            parts.append(f"{self.prompt_tokens} tokens")
        return ", ".join(parts)

    def _tables(self) -> list[Table]:
        tables = []
        if self.decision.candidates:
            tables.append(_candidates_table(self.decision))
        if self.side.retains:
            tables.append(self._always_shown())
            tables.append(self.side.table())
        return tables

    def _always_shown(self) -> Table:
        """The demonstrations that are no retains."""
        rows = []
        for demonstration in self.side.prompt.demonstrations:
            if demonstration.role is not Role.RETAIN:
                text = f"{demonstration.query} {demonstration.answer}"
                rows.append((text, demonstration.role.value))
        return Table("Always shown", ("demonstration", "role"), tuple(rows), wide=True)


def _candidates_table(decision: Decision) -> Table:
    """The edits that the gate considered, the most probable first."""
    matched = {edit.id for edit in decision.matched}
    shown = decision.candidates[:_MAX_CANDIDATES]
    rows = []
    for candidate in shown:
        row = (
            str(candidate.edit.id),
            candidate.edit.record.edit.fact,
            candidate.name or "",
            f"{candidate.probability:.3f}",
            "fires" if candidate.edit.id in matched else "",
        )
        rows.append(row)
    notes = []
    hidden = len(decision.candidates) - len(shown)
    if hidden:
        notes.append(f"{hidden} less probable ones are not shown.")
    header = ("edit", "fact", "named as", "p", "")
    return Table("Edits considered", header, tuple(rows), tuple(notes), wide=True)
