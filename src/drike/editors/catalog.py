"""What an editor is, the editors that show no demonstrations, and all of them by their names on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from drike.editors.in_context import InContextEditor, TokenLimit
from drike.editors.pool import Pool
from drike.editors.selectors import (
    Budget,
    Fraction,
    RankAndCut,
    RoleCounts,
    SameCount,
    SameSize,
    Selector,
    Similarity,
    SubjectSwitch,
    copies_and_updates,
)
from drike.edits import Edit
from drike.errors import UsageError
from drike.prompts import FACT_CHANGED, Prompt, PromptStyle, Role, facts_of

if TYPE_CHECKING:
    from drike.editors.retriever import Retriever

ANSWER_CUE = "Answer:"
UNTRAINED = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")
PER_QUERY, SAME_SIZE = "dr-ike-q", "nearest-same-size"
BY_NAME, OR_ALONE = "by-name", "by-name-or-alone"
NO_RETAINS = "no-retains"
SAME_K, NEAREST = "nearest-same-k", "nearest@"
NEED_TRAINING = (*TRAINED, PER_QUERY, SAME_SIZE, SAME_K)
NAMES = (*UNTRAINED, BY_NAME, OR_ALONE, NO_RETAINS, *TRAINED, PER_QUERY, SAME_SIZE, SAME_K, f"{NEAREST}K")


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
        these, changed = ("this fact", "the changed fact") if len(facts) == 1 else ("these facts", "a changed fact")
        before = "".join(f"{FACT_CHANGED}{fact}.\n" for fact in facts)
        before += f"Everything that does not depend on {these} is as it was.\nComplete this sentence: "
        after = (
            f"First think step by step: does the sentence depend on {changed}? If so, what follows from the change?\n"
            f'Then write "{ANSWER_CUE}" and the shortest completion of the sentence, nothing else.\nReasoning:'
        )
        return [Prompt(f"{before}{query}\n{after}", cue=ANSWER_CUE) for query in queries]


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
    return names + ([PER_QUERY, BY_NAME, OR_ALONE, SAME_SIZE] if trained and trained.per_query is not None else [])


def require_editor(name: str, *, trained: bool) -> None:
    """Raises UsageError for a name that `make` does not know, and for one that needs training if nothing is trained."""
    count = name.removeprefix(NEAREST)
    if name not in NAMES[:-1] and (count == name or not count.isdecimal() or int(count) < 1):
        raise UsageError(f"there is no editor {name!r}: choose from {', '.join(NAMES)}")
    if name in NEED_TRAINING and not trained:
        remedy = "run `drike train` first and give its folder as `run`, or in Python its checkpoint as `trained`"
        raise UsageError(f"{name} needs a trained retriever: {remedy}")


def make(name: str, *, pool: Pool, trained: Trained | None = None, limit: TokenLimit | None = None) -> Editor:
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
    no_retains, retains = copies_and_updates(pool.roles), RoleCounts(0, 0, pool.roles.count(Role.RETAIN))
    editors: dict[str, Editor] = {
        "unedited": Unedited(), "factprompt": FactPrompt(), "editcot": EditCoT(),
        "ike": in_context("IKE", RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")),
        BY_NAME: in_context("Switch by name", SubjectSwitch(no_retains, retains)),
        OR_ALONE: in_context("By name, else left alone", SubjectSwitch(no_retains)),
        NO_RETAINS: in_context("Copies and updates", no_retains),
    }  # fmt: skip
    if trained is not None:
        retriever, budget, policy = trained.retriever, trained.budget, trained.per_query
        editors |= {
            "rank-all": in_context("Rank-All", RankAndCut(retriever, Fraction(1.0))),
            "rank-50": in_context("Rank-50%", RankAndCut(retriever, Fraction(0.5))),
            "dr-ike": in_context("DR-IKE", RankAndCut(retriever, budget)),
            SAME_K: in_context("Nearest (k of DR-IKE)", RankAndCut(Similarity(), SameCount(retriever, budget))),
        }
        if policy is not None:
            editors[PER_QUERY] = in_context("DR-IKE-Q", policy)
            editors[SAME_SIZE] = in_context("Nearest (size of DR-IKE-Q)", SameSize(policy))
    if name not in editors:
        raise UsageError(f"{name} needs a policy per query: train with `objective` s, or resume that training")
    return editors[name]
