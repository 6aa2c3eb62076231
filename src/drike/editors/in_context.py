"""In-context editing with demonstrations: IKE, DR-IKE, DR-IKE-Q and their controls are this editor with other parts."""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

from drike.editors.pool import Pool
from drike.editors.selectors import Fraction, RankAndCut, Selection, Selector, merge
from drike.edits import Edit, Key, trained_on
from drike.prompts import Demonstration, Prompt, PromptStyle
from drike.support.table import Table

SelectorT_co = TypeVar("SelectorT_co", bound=Selector, covariant=True)


@dataclass(frozen=True)
class TokenLimit:
    """A limit of tokens in a prompt, as a model's `count_tokens` counts them; selections are pruned until they fit."""

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a prompt has at least one token; it cannot be limited to {self.tokens}")

    def fitting(self, k: int, prompts: Callable[[int], Sequence[Prompt]]) -> int:
        """The largest j from 1 to k with which all prompts fit, which get longer with j; 1, to be refused, if none."""

        def too_long(j: int) -> bool:
            return max(self.count([prompt.text for prompt in prompts(j)])) > self.tokens

        if k == 1 or not too_long(k):  # nearly always all fit
            return k
        return 1 + bisect(range(2, k), False, key=too_long)


@dataclass(frozen=True)
class InContextEditor(Generic[SelectorT_co]):
    """Shows each query the demonstrations that `selector` chooses from `pool`, laid out by `style` (section 4)."""

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
        """The selection for each query under all edits in force, before the limit. Raises ValueError for no edits."""
        of_each = [self.selector.select(candidates, queries) for candidates in self.pool.together(edits)]
        # Queries that share the selections of every edit share theirs.
        rows = {tuple(map(id, row)): row for row in zip(*of_each, strict=True)}
        merged = {ids: merge(row) for ids, row in rows.items()}
        return [merged[tuple(map(id, row))] for row in zip(*of_each, strict=True)]

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the demonstrations that would make a prompt longer than the limit."""
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
        sharing: dict[int, tuple[Selection, list[str]]] = {}  # a selection object, with the queries that share it
        for selection, query in zip(selections, queries, strict=True):
            sharing.setdefault(id(selection), (selection, []))[1].append(query)
        written = {of: iter(self.show(self.fit(shared, asked), asked)) for of, (shared, asked) in sharing.items()}
        return [next(written[id(selection)]) for selection in selections]


def ranks_retains(editor: object) -> TypeGuard[InContextEditor[RankAndCut]]:
    """Whether an editor ranks the retains of an edit and shows the best of them."""
    return isinstance(editor, InContextEditor) and isinstance(editor.selector, RankAndCut)


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
        at_most = f" (at most {shown})" if above > shown else ""
        note = at_most if above else " (none exceeds it, so the best one is kept)"
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
