"""In-context editing with demonstrations: IKE, DR-IKE, DR-IKE-Q and their controls are this editor with other parts.

A selector chooses among the demonstrations that the pool has for an edit; a style makes a prompt of them (paper,
sections 4 and 5.3). `catalog.make` lists the editors by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

from drike.editors.budgets import TokenLimit
from drike.editors.pool import Pool
from drike.editors.selectors import RankAndCut, Selection, Selector, select_for
from drike.edits import Edit, Key, trained_on
from drike.prompts import Prompt, PromptStyle

SelectorT_co = TypeVar("SelectorT_co", bound=Selector, covariant=True)


@dataclass(frozen=True)
class InContextEditor(Generic[SelectorT_co]):
    """Shows each query the demonstrations that `selector` chooses from `pool`, laid out by `style`.

    limit: of tokens in a prompt; demonstrations are pruned from the end of a selection until its prompts fit.
    """

    name: str
    pool: Pool
    selector: SelectorT_co
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that its selector was trained on."""
        return trained_on(self.selector)

    def select(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Selection]:
        """The selection for each query under the edits in force, before the limit. Raises ValueError for no edits."""
        return select_for(self.selector, self.pool.together(edits), queries)

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the demonstrations that would make the prompt of a query longer than the limit."""
        most = selection.prunable
        if self.limit is None or not most or not queries:
            return selection
        kept = self.limit.fitting(most, lambda j: self.show(selection.without_last(most - j), queries))
        return selection.without_last(most - kept) if kept < most else selection

    def show(self, selection: Selection, queries: Sequence[str]) -> list[Prompt]:
        """The prompt of each query with this selection; the style arranges a ranked one."""
        candidates, shown = selection.candidates, selection.shown
        if selection.alone:
            return [Prompt(query) for query in queries]
        if selection.ranking is not None:
            shown = self.style.arrange(candidates, selection.kept)
        prompts = self.style.write(candidates.edits, shown, queries)
        return [replace(prompt, pruned=selection.pruned) for prompt in prompts] if selection.pruned else prompts

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order. Raises ValueError for no edits."""
        selections = self.select(edits, queries)
        sharing: dict[int, list[str]] = defaultdict(list)  # queries by the selection object that they share
        for selection, query in zip(selections, queries, strict=True):
            sharing[id(selection)].append(query)
        written = {
            number: iter(self.show(self.fit(selection, sharing[number]), sharing[number]))
            for number, selection in {id(selection): selection for selection in selections}.items()
        }
        return [next(written[id(selection)]) for selection in selections]


def ranks_retains(editor: object) -> TypeGuard[InContextEditor[RankAndCut]]:
    """Whether an editor ranks the retains of an edit and shows the best of them."""
    return isinstance(editor, InContextEditor) and isinstance(editor.selector, RankAndCut)
