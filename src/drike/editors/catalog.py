"""All editors by their names on the command line."""

from __future__ import annotations

from drike.editors.budgets import Fraction, TokenLimit
from drike.editors.editor import EditCoT, Editor, FactPrompt, Trained, Unedited
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.selectors import (
    RankAndCut,
    RoleCounts,
    SameCount,
    SameSize,
    Selector,
    Similarity,
    SubjectSwitch,
    copies_and_updates,
)
from drike.errors import UsageError
from drike.prompts import PromptStyle, Role

UNTRAINED = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")
PER_QUERY, SAME_SIZE = "dr-ike-q", "nearest-same-size"
BY_NAME, OR_ALONE = "by-name", "by-name-or-alone"
NO_RETAINS = "no-retains"
SAME_K, NEAREST = "nearest-same-k", "nearest@"
NEED_TRAINING = (*TRAINED, PER_QUERY, SAME_SIZE, SAME_K)
NAMES = (
    *UNTRAINED, BY_NAME, OR_ALONE, NO_RETAINS, *TRAINED, PER_QUERY, SAME_SIZE, SAME_K, f"{NEAREST}K",
)  # fmt: skip


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
        raise UsageError(
            f"{name} needs a trained retriever: run `drike train` first and give its folder as `run`, or in Python its "
            "checkpoint as `trained`"
        )


def make(name: str, *, pool: Pool, trained: Trained | None = None, limit: TokenLimit | None = None) -> Editor:
    """An editor by its name: one of NAMES.

    "nearest@4" shows the 4 retains nearest to the edit, "nearest-same-k" as many of the nearest as DR-IKE would show;
    "by-name", "by-name-or-alone" and "nearest-same-size" are controls of "dr-ike-q"; "no-retains" shows all copies and
    updates, which is best behind a gate. trained: for editors with a learned part; its prompt style is that of all but
    "ike". limit: of tokens in a prompt. Raises UsageError for an unknown name or a missing checkpoint.
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
        same_k = RankAndCut(Similarity(), SameCount(retriever, budget))
        editors |= {
            "rank-all": in_context("Rank-All", RankAndCut(retriever, Fraction(1.0))),
            "rank-50": in_context("Rank-50%", RankAndCut(retriever, Fraction(0.5))),
            "dr-ike": in_context("DR-IKE", RankAndCut(retriever, budget)),
            SAME_K: in_context("Nearest (k of DR-IKE)", same_k),
        }
        if policy is not None:
            editors[PER_QUERY] = in_context("DR-IKE-Q", policy)
            editors[SAME_SIZE] = in_context("Nearest (size of DR-IKE-Q)", SameSize(policy))
    if name not in editors:
        raise UsageError(f"{name} needs a policy per query: train with `objective` s, or resume that training")
    return editors[name]
