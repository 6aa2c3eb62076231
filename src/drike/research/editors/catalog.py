"""What an editor is, editors without and with demonstrations, and all of them by their names on the command line."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeGuard, TypeVar

from drike.edits.edit import Edit, Key, trained_on
from drike.errors import UsageError
from drike.prompts import FACT_CHANGED, Demonstration, Prompt, PromptStyle, Role, facts_of
from drike.research.editors import selectors
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import (
    Budget,
    Fraction,
    RankAndCut,
    RoleCounts,
    SameCount,
    Selection,
    Selector,
    Similarity,
)
from drike.support.table import Table

if TYPE_CHECKING:
    from drike.research.editors.retriever import Retriever

ANSWER_CUE = "Answer:"
UNTRAINED = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")
PER_QUERY, SAME_SIZE = "dr-ike-q", "nearest-same-size"
BY_NAME, OR_ALONE = "by-name", "by-name-or-alone"
NO_RETAINS = "no-retains"
SAME_K, NEAREST = "nearest-same-k", "nearest@"
NEED_TRAINING = (*TRAINED, PER_QUERY, SAME_SIZE, SAME_K)
NAMES = (
    *UNTRAINED,
    BY_NAME,
    OR_ALONE,
    NO_RETAINS,
    *TRAINED,
    PER_QUERY,
    SAME_SIZE,
    SAME_K,
    f"{NEAREST}K",
)

SelectorT_co = TypeVar("SelectorT_co", bound=Selector, covariant=True)


class Editor(Protocol):
    """Turns the edits in force and queries into prompts; if it was trained, its `trained_on` are the edits' keys."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, each under all of the edits."""


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
    before: str = field(default="", repr=False)  # the query

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Each fact on a line of its own, then the query. Raises ValueError for no edits."""
        imagined = "".join(map(self.line.format, facts_of(edits)))
        return [Prompt(imagined + self.before + query) for query in queries]


@dataclass(frozen=True)
class EditCoT:
    """States the facts and asks for reasoning and, after a cue, an answer: in one call, by the paper's timing."""

    name: str = "EditCoT"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One instruction per query: does it depend on the facts, and what follows? Raises ValueError for no edits."""
        facts = facts_of(edits)
        these, changed = (
            ("this fact", "the changed fact")
            if len(facts) == 1
            else ("these facts", "a changed fact")
        )
        before = "".join(f"{FACT_CHANGED}{fact}.\n" for fact in facts)
        before += (
            f"Everything that does not depend on {these} is as it was.\nComplete this sentence: "
        )
        after = (
            f"First think step by step: does the sentence depend on {changed}? If so, what follows from the change?\n"
            f'Then write "{ANSWER_CUE}" and the shortest completion of the sentence, nothing else.\nReasoning:'
        )
        return [Prompt(f"{before}{query}\n{after}", cue=ANSWER_CUE) for query in queries]


@dataclass(frozen=True)
class TokenLimit:
    """A limit of tokens in a prompt, as a model's `count_tokens` counts them; selections are pruned until they fit."""

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(
                f"a prompt has at least one token; it cannot be limited to {self.tokens}"
            )

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
        of_each = [
            self.selector.select(candidates, queries) for candidates in self.pool.together(edits)
        ]
        # Queries that share the selections of every edit share theirs.
        rows = {tuple(map(id, row)): row for row in zip(*of_each, strict=True)}
        merged = {ids: selectors.merge(row) for ids, row in rows.items()}
        return [merged[tuple(map(id, row))] for row in zip(*of_each, strict=True)]

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the demonstrations that would make a prompt longer than the limit."""
        most = selection.prunable
        if self.limit is None or not most or not queries:
            return selection
        kept = self.limit.fitting(
            most, lambda j: self.show(selection.without_last(most - j), queries)
        )
        return selection.without_last(most - kept) if kept < most else selection

    def show(self, selection: Selection, queries: Sequence[str]) -> list[Prompt]:
        """The prompt of each query with this selection; the style arranges a ranked one."""
        candidates, shown = selection.candidates, selection.shown
        if selection.alone:
            return [Prompt(query) for query in queries]
        if selection.ranking is not None:
            shown = self.style.arrange(candidates, selection.kept)
        prompts = self.style.write(candidates.edits, shown, queries)
        return (
            [replace(prompt, pruned=selection.pruned) for prompt in prompts]
            if selection.pruned
            else prompts
        )

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order. Raises ValueError for no edits."""
        selections = self.select(edits, queries)
        sharing: dict[
            int, tuple[Selection, list[str]]
        ] = {}  # a selection object, with the queries that share it
        for selection, query in zip(selections, queries, strict=True):
            sharing.setdefault(id(selection), (selection, []))[1].append(query)
        written = {
            of: iter(self.show(self.fit(shared, asked), asked))
            for of, (shared, asked) in sharing.items()
        }
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


def column_of(
    editor: InContextEditor[RankAndCut], selection: Selection, prompt: Prompt
) -> EditorColumn:
    """An editor's column for a selection and the prompt that it gave."""
    similarities, ranking, budget = (
        selection.candidates.retain_similarities,
        selection.ranking,
        editor.selector.budget,
    )
    assert ranking is not None  # noqa: S101 - the selector ranks
    ranked = enumerate(zip(ranking.order, ranking.retains, ranking.probs, strict=True))
    retains = tuple(
        Retain(j + 1, i + 1, p, similarities[i], j < selection.k, retain)
        for j, (i, retain, p) in ranked
    )
    sigma = budget.sigma_for(ranking.probs, selection.candidates)
    return EditorColumn(
        editor.name, prompt, retains, sigma, budget.share if isinstance(budget, Fraction) else None
    )


@dataclass(frozen=True)
class Trained:
    """What training leaves: the ranking, its budget, the style of its prompts, and a policy per query if asked for."""

    retriever: Retriever
    budget: Budget
    style: PromptStyle = PromptStyle()
    per_query: Selector | None = field(default=None, kw_only=True)


def usual(trained: Trained | None) -> list[str]:
    """The names of the editors that are compared if none are named: those that what was trained allows."""
    names = [*UNTRAINED, *((*TRAINED, SAME_K) if trained else ())]
    return names + (
        [PER_QUERY, BY_NAME, OR_ALONE, SAME_SIZE]
        if trained and trained.per_query is not None
        else []
    )


def require_editor(name: str, *, trained: bool) -> None:
    """Raises UsageError for a name that `make` does not know, and for one that needs training if nothing is trained."""
    count = name.removeprefix(NEAREST)
    if name not in NAMES[:-1] and (count == name or not count.isdecimal() or int(count) < 1):
        raise UsageError(f"there is no editor {name!r}: choose from {', '.join(NAMES)}")
    if name in NEED_TRAINING and not trained:
        remedy = "run `drike train` first and give its folder as `run`, or in Python its checkpoint as `trained`"
        raise UsageError(f"{name} needs a trained retriever: {remedy}")


def make(
    name: str, *, pool: Pool, trained: Trained | None = None, limit: TokenLimit | None = None
) -> Editor:
    """An editor by its name in NAMES; its prompts have the style of what is `trained`, those of "ike" their own.

    "nearest@4" shows the 4 retains nearest to the edit, "nearest-same-k" as many of the nearest as DR-IKE would show;
    "by-name", "by-name-or-alone" and "nearest-same-size" are controls of "dr-ike-q"; "no-retains" is best behind a
    gate. Raises UsageError for an unknown name or a missing checkpoint.
    """
    require_editor(name, trained=trained is not None)
    style = PromptStyle() if trained is None else trained.style

    def in_context(title: str, selector: Selector, style: PromptStyle = style) -> Editor:
        return InContextEditor(title, pool, selector, style, limit)

    if name.startswith(NEAREST):
        k = int(name.removeprefix(NEAREST))
        return in_context(f"Nearest, k={k}", RankAndCut(Similarity(), Fraction(1.0, max_shots=k)))
    no_retains, retains = (
        selectors.copies_and_updates(pool.roles),
        RoleCounts(0, 0, pool.roles.count(Role.RETAIN)),
    )
    editors: dict[str, Editor] = {
        "unedited": Unedited(), "factprompt": FactPrompt(), "editcot": EditCoT(),
        "ike": in_context("IKE", RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")),
        BY_NAME: in_context("Switch by name", selectors.SubjectSwitch(no_retains, retains)),
        OR_ALONE: in_context("By name, else left alone", selectors.SubjectSwitch(no_retains)),
        NO_RETAINS: in_context("Copies and updates", no_retains),
    }  # fmt: skip
    if trained is not None:
        retriever, budget, policy = trained.retriever, trained.budget, trained.per_query
        editors |= {
            "rank-all": in_context("Rank-All", RankAndCut(retriever, Fraction(1.0))),
            "rank-50": in_context("Rank-50%", RankAndCut(retriever, Fraction(0.5))),
            "dr-ike": in_context("DR-IKE", RankAndCut(retriever, budget)),
            SAME_K: in_context(
                "Nearest (k of DR-IKE)", RankAndCut(Similarity(), SameCount(retriever, budget))
            ),
        }
        if policy is not None:
            editors[PER_QUERY] = in_context("DR-IKE-Q", policy)
            editors[SAME_SIZE] = in_context(
                "Nearest (size of DR-IKE-Q)", selectors.SameSize(policy)
            )
    if name not in editors:
        raise UsageError(
            f"{name} needs a policy per query: train with `objective` s, or resume that training"
        )
    return editors[name]
