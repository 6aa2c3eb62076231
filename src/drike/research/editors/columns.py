"""Why a prompt holds the retains it does: an editor's column in an explanation."""

from __future__ import annotations

from dataclasses import dataclass

from drike.prompts import Demonstration, Prompt
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.selectors import RankAndCut, Selection
from drike.support.table import Table


@dataclass(frozen=True)
class Retain:
    """A retain of the pool: `rank` is the editor's, `nearness` the rank by similarity, both from 1.

    similarity: the cosine of its record to the edit. kept: whether the prompt shows it.
    """

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
    """An editor's prompt of a query, with its retains, best first, if it ranks them.

    sigma, share: of its budget, if that has one.
    """

    editor: str
    prompt: Prompt
    retains: tuple[Retain, ...] = ()
    sigma: float | None = None
    share: float | None = None

    def table(self) -> Table:
        """Its retains in the editor's order: kept, pruned (by a limit of tokens) or cut."""
        kept = sum(retain.kept for retain in self.retains)
        within_budget = kept + self.prompt.pruned
        rule = self._rule(within_budget)
        return Table(
            title=f"{self.editor}: {kept} of {len(self.retains)} retains{rule}",
            header=("retain", "", "rank", "near", "p", "cosine"),
            rows=tuple(_row(retain, within_budget) for retain in self.retains),
        )

    def _rule(self, within_budget: int) -> str:
        """The budget's rule as the end of a sentence; nothing without a budget of these kinds."""
        if self.share is not None:
            return f", a fixed share of {self.share:.0%}"
        if self.sigma is None:
            return ""

        above_sigma = sum(retain.probability > self.sigma for retain in self.retains)
        if above_sigma == 0:
            note = " (none exceeds it, so the best one is kept)"
        elif above_sigma > within_budget:
            note = f" (at most {within_budget})"
        else:
            note = ""
        return f", kept where p > sigma = {self.sigma:.4f}{note}"


def _row(retain: Retain, within_budget: int) -> tuple[str, ...]:
    if retain.kept:
        fate = "kept"
    elif retain.rank <= within_budget:
        fate = "pruned"
    else:
        fate = "cut"
    return (
        retain.text,
        fate,
        str(retain.rank),
        str(retain.nearness),
        f"{retain.probability:.4f}",
        f"{retain.similarity:.3f}",
    )


def column_of(
    editor: InContextEditor[RankAndCut], selection: Selection, prompt: Prompt
) -> EditorColumn:
    """An editor's column for a selection and the prompt that it gave."""
    candidates = selection.candidates
    similarities = candidates.retain_similarities
    budget = editor.selector.budget
    ranking = selection.ranking
    assert ranking is not None  # noqa: S101 - the selector ranks

    retains = []
    for place, index in enumerate(ranking.order):
        retain = Retain(
            rank=place + 1,
            nearness=index + 1,  # the candidates stand nearest first
            probability=ranking.probs[place],
            similarity=similarities[index],
            kept=place < selection.k,
            demonstration=ranking.retains[place],
        )
        retains.append(retain)

    return EditorColumn(
        editor=editor.name,
        prompt=prompt,
        retains=tuple(retains),
        sigma=budget.sigma_for(ranking.probs, candidates),
        share=budget.share if isinstance(budget, Fraction) else None,
    )
