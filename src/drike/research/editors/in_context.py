"""The editor with demonstrations: IKE, DR-IKE and their ablations are this with other parts."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

from drike.edits.edit import Edit, Key, trained_on
from drike.prompts import Prompt, PromptStyle
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RankAndCut, Selection, Selector, merge

SelectorT_co = TypeVar("SelectorT_co", bound=Selector, covariant=True)


@dataclass(frozen=True)
class TokenLimit:
    """The most tokens that a prompt may have; selections are pruned until their prompts fit.

    count: the tokens of each text, as a model's `count_tokens` gives them. Raises ValueError for a
    limit below 1.
    """

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(
                f"a prompt has at least one token; it cannot be limited to {self.tokens}"
            )

    def fitting(self, most: int, prompts: Callable[[int], Sequence[Prompt]]) -> int:
        """The largest number of demonstrations, from 1 to `most`, with which all prompts fit.

        `prompts` writes them with a given number; they get longer with it. If not even one
        demonstration fits, the result is 1, and the model will refuse the prompt.
        """

        def are_too_long(number: int) -> bool:
            lengths = self.count([prompt.text for prompt in prompts(number)])
            return max(lengths) > self.tokens

        # Nearly always everything fits, so that is tried first.
        if most == 1 or not are_too_long(most):
            return most
        fitting_beyond_one = bisect(range(2, most), False, key=are_too_long)
        return 1 + fitting_beyond_one


@dataclass(frozen=True)
class InContextEditor(Generic[SelectorT_co]):
    """Shows each query the demonstrations that `selector` chooses from `pool` (paper, section 4).

    style: their layout in the prompt. limit: of the tokens in a prompt, if there is one.
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

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order. Raises ValueError for no edits."""
        selections = self.select(edits, queries)

        # Queries that share a selection object are pruned together, and their prompts written at
        # once, so that what is built of the demonstrations is built only once.
        queries_by_selection: dict[int, list[str]] = defaultdict(list)
        for selection, query in zip(selections, queries, strict=True):
            queries_by_selection[id(selection)].append(query)

        prompts_by_selection: dict[int, Iterator[Prompt]] = {}
        for selection in selections:
            if id(selection) not in prompts_by_selection:
                sharing_queries = queries_by_selection[id(selection)]
                fitting = self.fit(selection, sharing_queries)
                prompts = self.show(fitting, sharing_queries)
                prompts_by_selection[id(selection)] = iter(prompts)

        # Back into the order of the queries: each takes its selection's next prompt.
        return [next(prompts_by_selection[id(selection)]) for selection in selections]

    def select(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Selection]:
        """The selection for each query under all edits in force, before the limit.

        Raises ValueError for no edits.
        """
        selections_by_edit = [
            self.selector.select(candidates, queries) for candidates in self.pool.together(edits)
        ]

        # Queries for which every edit has the same selection objects share the merged one, too.
        merged_by_ids: dict[tuple[int, ...], Selection] = {}
        merged_selections = []
        for selections in zip(*selections_by_edit, strict=True):
            ids = tuple(id(selection) for selection in selections)
            if ids not in merged_by_ids:
                merged_by_ids[ids] = merge(selections)
            merged_selections.append(merged_by_ids[ids])
        return merged_selections

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the demonstrations that would make a prompt exceed the limit."""
        prunable = selection.prunable
        if self.limit is None or prunable == 0 or not queries:
            return selection

        def prompts_with(number: int) -> list[Prompt]:
            return self.show(selection.without_last(prunable - number), queries)

        fitting = self.limit.fitting(prunable, prompts_with)
        if fitting == prunable:
            return selection
        return selection.without_last(prunable - fitting)

    def show(self, selection: Selection, queries: Sequence[str]) -> list[Prompt]:
        """The prompt of each query with this selection; the style arranges a ranked one."""
        if selection.alone:
            return [Prompt(query) for query in queries]

        edits = selection.candidates.edits
        if selection.fact == "imagined":
            return FactPrompt().prompts(edits, queries)

        if selection.ranking is None:
            demonstrations = selection.shown
        else:
            demonstrations = self.style.arrange(selection.candidates, selection.kept)
        style = self.style
        if selection.fact == "line":
            style = replace(style, own_copy=False)
        prompts = style.write(edits, demonstrations, queries)

        if selection.pruned == 0:
            return prompts
        return [replace(prompt, pruned=selection.pruned) for prompt in prompts]


def ranks_retains(editor: object) -> TypeGuard[InContextEditor[RankAndCut]]:
    """Whether an editor ranks the retains of an edit and shows the best of them."""
    return isinstance(editor, InContextEditor) and isinstance(editor.selector, RankAndCut)
