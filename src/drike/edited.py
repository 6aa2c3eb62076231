"""A model with edits in force: ask it, see the prompt it is given, and see why that prompt.

The weights stay as they are; an edited model is a model, an editor and the edits to apply. With several edits, a query
gets the edit that it is about: one whose subject it names, and among those (or all, if it names none) the one that
shares most of its words.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drike.answers import first_line
from drike.casestudy import Retain, ranked_retains
from drike.demonstrations import Demonstration, Role
from drike.editors import Editor
from drike.editors.ike import IKE
from drike.edits import Edit, mentions
from drike.judging import complete
from drike.models.protocols import MAX_ANSWER_TOKENS, LanguageModel
from drike.prompts import Prompt, bare
from drike.retrieval.budget import Fraction

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Explanation:
    """Why a query got its prompt: the edit applied, the pool in policy order, the budget's cut, the tokens, the answer.

    `fixed` are the copies and updates, which are always shown; `choices` the retains, kept and cut. The cut is told by
    `sigma` or by `share`; the other is None, and both are where no edit applies.
    """

    query: str
    edit: Edit | None
    prompt: str
    answer: str
    prompt_tokens: int | None
    fixed: tuple[Demonstration, ...]
    choices: tuple[Retain, ...]
    sigma: float | None
    share: float | None = None

    def __rich__(self) -> RenderableType:
        """For `rich.print` and the command line."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self._title(), title_justify="left")
        for heading in ("", "rank", "p", "nearness", "cosine"):
            table.add_column(heading, justify="right")
        table.add_column("retain", overflow="fold")
        for c in self.choices:
            table.add_row(
                _mark(c),
                str(c.rank),
                f"{c.probability:.4f}",
                str(c.nearness),
                f"{c.similarity:.3f}",
                Text(c.text),
                style="" if c.kept else "dim",
            )
        always = Table(title="Always shown", title_justify="left", show_header=False)
        for d in self.fixed:
            always.add_row(d.role.value, Text(f"{d.query} {d.answer}"))
        parts: list[RenderableType] = [Text(line) for line in self._lines()]
        return Group(*parts, always, table) if self.choices else Group(*parts)

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = "".join(
            f"<tr style='opacity:{1 if c.kept else 0.5}'><td>{_mark(c)}</td><td>{c.rank}</td>"
            f"<td>{c.probability:.4f}</td><td>{c.nearness}</td><td>{c.similarity:.3f}</td>"
            f"<td style='text-align:left'>{html.escape(c.text)}</td></tr>"
            for c in self.choices
        )
        head = "".join(f"<th>{name}</th>" for name in ("", "rank", "p", "nearness", "cosine", "retain"))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        shown = "".join(f"<li>{d.role.value}: {html.escape(f'{d.query} {d.answer}')}</li>" for d in self.fixed)
        always = f"<details><summary>Always shown</summary><ul>{shown}</ul></details>" if shown else ""
        title = f"<p>{html.escape(self._title())}</p>" if rows else ""
        return "".join(f"<p>{html.escape(line)}</p>" for line in self._lines()) + always + title + table

    def __str__(self) -> str:
        """The same as plain text."""
        rows = [
            f"{_mark(c):<5}{c.rank:>3}  p={c.probability:.4f}  nearness {c.nearness:>2}  {c.text}" for c in self.choices
        ]
        return "\n".join([*self._lines(), *rows])

    def _title(self) -> str:
        title = "Retains, in the policy's order"
        kept = sum(choice.kept for choice in self.choices)
        if self.share is not None:
            return f"{title}; kept: the first {kept} of {len(self.choices)} (share {self.share:.2f})"
        if self.sigma is None:
            return title
        above = sum(choice.probability > self.sigma for choice in self.choices)
        capped = f" (at most {kept})" if above > kept else ""
        return f"{title}; kept where p > sigma = {self.sigma:.4f}" + (
            capped if above else " (none is: the best one is kept)"
        )

    def _lines(self) -> list[str]:
        if self.edit is None:
            return [f"{self.query} -> {self.answer}", "No edit applies: the model is asked as it is."]
        kept = sum(choice.kept for choice in self.choices)
        tokens = "" if self.prompt_tokens is None else f", {self.prompt_tokens} tokens"
        shown = f"{len(self.fixed)} copies and updates, {kept} of {len(self.choices)} retains{tokens}"
        return [f"{self.query} -> {self.answer}", f"Edit: {self.edit.fact}", f"Prompt: {shown}"]


def _mark(choice: Retain) -> str:
    return "kept" if choice.kept else "cut"


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
        return bare(query) if edit is None else self.editor.prompts(edit, [query])[0]

    def ask(self, query: str, *, max_tokens: int = MAX_ANSWER_TOKENS) -> str:
        """The model's answer under the edits: the first line it writes."""
        [(text, _)] = complete(self.model, [self.prompt(query)], max_tokens)
        return first_line(text)

    def explain(self, query: str) -> Explanation:
        """The answer and why its prompt looks as it does."""
        edit = self.edit_for(query)
        choices: tuple[Retain, ...] = ()
        sigma = share = None
        if edit is not None and isinstance(self.editor, IKE):
            selection = self.editor.fit(self.editor.select(edit), [query])
            [prompt] = self.editor.show(selection, [query])
            pool, ranking = selection.candidates, selection.ranking
            choices = ranked_retains(selection)
            budget = self.editor.budget
            sigma = budget.sigma_for(ranking.probs, pool)
            share = budget.share if isinstance(budget, Fraction) else None
        else:
            prompt = self.prompt(query)
        [(text, tokens)] = complete(self.model, [prompt])
        fixed = tuple(d for d in prompt.demonstrations if d.role is not Role.RETAIN)
        return Explanation(query, edit, prompt.text, first_line(text), tokens, fixed, choices, sigma, share)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
