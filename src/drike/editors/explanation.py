"""Why a prompt holds the retains it does: an editor's ranking of the pool, its rule, and what the rule kept."""

from __future__ import annotations

from dataclasses import dataclass

from drike.demonstrations import Demonstration
from drike.editors.budgets import Fraction
from drike.editors.in_context import InContextEditor
from drike.editors.selectors import RankAndCut, Selection
from drike.prompts import Prompt
from drike.support.table import Table


@dataclass(frozen=True)
class Retain:
    """A retain of the pool: `rank` is the editor's, `nearness` the rank by similarity, both from 1."""

    rank: int
    nearness: int
    probability: float
    similarity: float
    kept: bool
    demonstration: Demonstration

    @property
    def text(self) -> str:
        """The question and its answer, on one line."""
        return f"{self.demonstration.query} {self.demonstration.answer}"


@dataclass(frozen=True)
class EditorColumn:
    """An editor's prompt of a query, with its retains if it ranks them; sigma, share: of its budget, if it has one."""

    editor: str
    prompt: Prompt
    retains: tuple[Retain, ...] = ()
    sigma: float | None = None
    share: float | None = None

    def table(self) -> Table:
        """Its retains in the editor's order: kept, pruned (by a limit of tokens) or cut."""
        kept = sum(retain.kept for retain in self.retains)
        shown = kept + self.prompt.pruned
        rows = tuple(
            (
                retain.text, "kept" if retain.kept else "pruned" if retain.rank <= shown else "cut", str(retain.rank),
                str(retain.nearness), f"{retain.probability:.4f}", f"{retain.similarity:.3f}",
            ) for retain in self.retains
        )  # fmt: skip
        title = f"{self.editor}: {kept} of {len(self.retains)} retains{self._rule(shown)}"
        return Table(title, ("retain", "", "rank", "near", "p", "cosine"), rows)

    def _rule(self, shown: int) -> str:
        if self.share is not None:
            return f", a fixed share of {self.share:.0%}"
        if self.sigma is None:
            return ""
        above = sum(retain.probability > self.sigma for retain in self.retains)
        note = f" (at most {shown})" if above > shown else ""
        if not above:
            note = " (none exceeds it, so the best one is kept)"
        return f", kept where p > sigma = {self.sigma:.4f}{note}"


def column_of(editor: InContextEditor[RankAndCut], selection: Selection, prompt: Prompt) -> EditorColumn:
    """An editor's column for a selection and the prompt that it gave."""
    similarities, ranking, budget = selection.candidates.retain_similarities, selection.ranking, editor.selector.budget
    assert ranking is not None  # noqa: S101 - the selector ranks
    ranked = enumerate(zip(ranking.order, ranking.retains, ranking.probs, strict=True))
    retains = tuple(Retain(j + 1, i + 1, p, similarities[i], j < selection.k, retain) for j, (i, retain, p) in ranked)
    sigma = budget.sigma_for(ranking.probs, selection.candidates)
    share = budget.share if isinstance(budget, Fraction) else None
    return EditorColumn(editor.name, prompt, retains, sigma, share)
