"""A model with edits in force: ask it, see its prompt, and see why it got that prompt.

The weights do not change; an edited model is a model, an editor and the edits to apply. With several edits, a query
gets one whose subject it names, and among those (or all, if it names none) the one that shares most words with it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drike.answers import first_line
from drike.casestudy import Retain, Side, side_of
from drike.demonstrations import Demonstration, Role
from drike.editors import Editor
from drike.editors.ike import IKE
from drike.edits import Edit, mentions
from drike.judging import complete
from drike.models.protocols import MAX_ANSWER_TOKENS, LanguageModel
from drike.prompts import Prompt
from drike.table import Table
from drike.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Explanation:
    """Why a query got its prompt: the edit that applies, if any, and one side of a case study."""

    query: str
    edit: Edit | None
    answer: str
    prompt_tokens: int | None
    side: Side

    @property
    def prompt(self) -> str:
        """All that the model was given."""
        return self.side.prompt.text

    @property
    def choices(self) -> tuple[Retain, ...]:
        """The retains of the pool in the editor's order."""
        return self.side.retains

    @property
    def fixed(self) -> tuple[Demonstration, ...]:
        """The copies and updates, which are always shown."""
        return tuple(d for d in self.side.prompt.demonstrations if d.role is not Role.RETAIN)

    def __rich__(self) -> RenderableType:
        """For `rich.print` and the command line."""
        from rich.console import Group
        from rich.text import Text

        return Group(*map(Text, map(visible, self._lines())), *self._tables())

    def _repr_html_(self) -> str:
        """For notebooks."""
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._lines())
        return lines + "".join(table._repr_html_() for table in self._tables())

    def __str__(self) -> str:
        """The same as plain text."""
        return "\n".join([*map(visible, self._lines()), *map(str, self._tables())])

    def _tables(self) -> list[Table]:
        if not self.choices:
            return []
        fixed = tuple((f"{d.query} {d.answer}", d.role.value) for d in self.fixed)
        return [Table("Always shown", ("demonstration", "role"), fixed, wide=True), self.side.table()]

    def _lines(self) -> list[str]:
        if self.edit is None:
            return [f"{self.query} -> {self.answer}", "No edit applies: the model gets the query alone."]
        kept = sum(choice.kept for choice in self.choices)
        tokens = "" if self.prompt_tokens is None else f", {self.prompt_tokens} tokens"
        shown = f"{len(self.fixed)} copies and updates, {kept} of {len(self.choices)} retains{tokens}"
        return [f"{self.query} -> {self.answer}", f"Edit: {self.edit.fact}", f"Prompt: {shown}"]


class EditedModel:
    """A frozen model that answers under edits.

    Args:
        model: anything that completes prompts.
        editor: how edits become prompts.
        edits: one or several; where two share a query the later one holds.
        gate: leave queries that name no edited subject to the unedited model. Off by default: the paper puts every
            query under the edit. Needs edits with a subject.

    Raises ValueError without edits, or for a gate over an edit that has no subject.
    """

    def __init__(
        self, model: LanguageModel, editor: Editor, edits: Edit | Sequence[Edit], *, gate: bool = False
    ) -> None:
        given = [edits] if isinstance(edits, Edit) else list(edits)
        if not given:
            raise ValueError("an edited model needs at least one edit")
        if gate and any(edit.subject is None for edit in given):
            raise ValueError("a gate works on subjects: give every edit its subject")
        self.model = model
        self.editor = editor
        self.edits = tuple({edit.query: edit for edit in given}.values())
        self.gate = gate

    def edit_for(self, query: str) -> Edit | None:
        """The edit a query is put under; None where the gate leaves it alone."""
        named = [edit for edit in self.edits if edit.subject is not None and mentions(query, edit.subject)]
        if not named and self.gate:
            return None
        words = _words(query)

        def shared(edit: Edit) -> float:
            return len(words & _words(edit.query)) / max(1, len(words | _words(edit.query)))

        return max(named or self.edits, key=shared)

    def prompt(self, query: str) -> Prompt:
        """Everything the model is given for a query."""
        edit = self.edit_for(query)
        return Prompt(query) if edit is None else self.editor.prompts([edit], [query])[0]

    def ask(self, query: str, *, max_tokens: int = MAX_ANSWER_TOKENS) -> str:
        """The model's answer under the edits: the first line it writes."""
        [(text, _)] = complete(self.model, [self.prompt(query)], max_tokens)
        return first_line(text)

    def explain(self, query: str) -> Explanation:
        """The answer, and why its prompt looks as it does."""
        edit = self.edit_for(query)
        if edit is not None and isinstance(self.editor, IKE):
            selection = self.editor.fit(self.editor.select([edit]), [query])
            [prompt] = self.editor.show(selection, [query])
            side = side_of(self.editor, selection, prompt)
        else:
            side = Side(self.editor.name, self.prompt(query), (), (), None, None)
        [(text, tokens)] = complete(self.model, [side.prompt])
        return Explanation(query, edit, first_line(text), tokens, side)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
