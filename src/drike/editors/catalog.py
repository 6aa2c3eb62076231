"""Ways of editing a model by its prompt; one editor per file, all behind one method, and `make` as their one list.

`unedited` asks the bare query; `factprompt` and `editcot` state the edit and nothing else; `ike` shows demonstrations:
IKE, DR-IKE, the rankings of the paper's ablation and the nearest-record controls are that one editor with other parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from drike.editors.budgets import Budget, Fraction, SameCount, TokenLimit
from drike.editors.editcot import EditCoT, EditCoTFull
from drike.editors.factprompt import FactPrompt
from drike.editors.in_context import IKE
from drike.editors.per_query import PerQuery
from drike.editors.pool import Pool
from drike.editors.query_policy import QueryPolicy
from drike.editors.rankers import Retriever, Similarity
from drike.editors.role_counts import RoleCounts, SameMix, SameSize, SubjectSwitch, mixes_of
from drike.editors.unedited import Unedited
from drike.edits import Edit
from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt, PromptStyle

UNTRAINED = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")
PER_QUERY, BY_NAME, SAME_SIZE = "dr-ike-q", "by-name", "nearest-same-size"
NO_RETAINS = "no-retains"
SAME_K, NEAREST = "nearest-same-k", "nearest@"
NAMES = (*UNTRAINED, "editcot-full", BY_NAME, NO_RETAINS, *TRAINED, PER_QUERY, SAME_SIZE, SAME_K, f"{NEAREST}K")


class Editor(Protocol):
    """Turns the edits in force and queries into prompts.

    One that was trained on edits also has the property `trained_on` (`drike.edits.TrainedOnEdits`), so that evaluation
    refuses to test it on them.
    """

    @property
    def name(self) -> str:
        """Its name in tables."""

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, each under all of the edits."""


class Trained(Protocol):
    """What training leaves, as a checkpoint has it."""

    @property
    def retriever(self) -> Retriever:
        """The learned ranking."""

    @property
    def budget(self) -> Budget:
        """The learned cut."""

    @property
    def style(self) -> PromptStyle:
        """The style of its prompts."""

    @property
    def per_query(self) -> QueryPolicy | None:
        """The policy that decides for each query, if one was trained."""


def require_editor(name: str, *, trained: bool) -> None:
    """Refuse a name that `make` does not know, or one that needs a trained retriever. Raises UsageError."""
    count = name.removeprefix(NEAREST)
    if name not in NAMES[:-1] and (count == name or not count.isdecimal() or int(count) < 1):
        raise UsageError(f"there is no editor {name!r}: choose from {', '.join(NAMES)}")
    if name in (*TRAINED, PER_QUERY, SAME_SIZE, SAME_K) and not trained:
        raise UsageError(f"{name} needs a trained retriever: run `drike train` first and give its folder as --run")


def make(
    name: str,
    *,
    pool: Pool,
    model: LanguageModel | None = None,
    trained: Trained | None = None,
    limit: TokenLimit | None = None,
) -> Editor:
    """An editor by its name: one of NAMES, where "nearest@4" shows the 4 retains nearest to the edit.

    model: for "editcot-full", which calls it to write its prompts. trained: a checkpoint, for the editors of TRAINED,
    for "dr-ike-q", whose policy `--objective balanced` trains, and for "nearest-same-k", which shows as many retains as
    DR-IKE would, but the nearest ones; all of these write prompts in the style of the training. "by-name" and
    "nearest-same-size" are controls of "dr-ike-q". "no-retains" shows all copies and updates: the best behind a gate,
    where every query that it sees concerns the edit. limit: of prompt tokens, for editors that show demonstrations.

    Raises UsageError for an unknown name, a missing model or a missing checkpoint.
    """
    require_editor(name, trained=trained is not None)
    ike = IKE("IKE", pool, Similarity(), Fraction(1.0), PromptStyle("ike"), limit)
    nearest = replace(ike, style=PromptStyle() if trained is None else trained.style)
    if name.startswith(NEAREST):
        k = int(name.removeprefix(NEAREST))
        return replace(nearest, name=f"Nearest, k={k}", budget=Fraction(1.0, max_shots=k))
    everything = mixes_of(pool.roles)[-1]
    no_retains = replace(everything, retains=0)
    switch = SubjectSwitch(named=no_retains, other=RoleCounts(0, 0, everything.retains))
    by_name = PerQuery("Switch by name", pool, switch, nearest.style, limit)
    editors: dict[str, Editor] = {
        "unedited": Unedited(), "factprompt": FactPrompt(), "editcot": EditCoT(), "ike": ike, BY_NAME: by_name,
        NO_RETAINS: replace(by_name, name="Copies and updates", policy=SameMix(no_retains)),
    }  # fmt: skip
    if model is not None:
        editors["editcot-full"] = EditCoTFull(model)
    if trained is not None:
        ranked = replace(nearest, ranker=trained.retriever)
        same_k = SameCount(trained.retriever, trained.budget)
        editors |= {
            "rank-all": replace(ranked, name="Rank-All"),
            "rank-50": replace(ranked, name="Rank-50%", budget=Fraction(0.5)),
            "dr-ike": replace(ranked, name="DR-IKE", budget=trained.budget),
            SAME_K: replace(nearest, name="Nearest (k of DR-IKE)", budget=same_k),
        }
        if trained.per_query is not None:
            editors[PER_QUERY] = replace(by_name, name="DR-IKE-Q", policy=trained.per_query)
            same_size = SameSize(trained.per_query, pool)
            editors[SAME_SIZE] = replace(by_name, name="Nearest (size of DR-IKE-Q)", policy=same_size)
    if name in (PER_QUERY, SAME_SIZE) and name not in editors:
        raise UsageError(f"{name} needs a policy per query: train with --objective balanced, or resume that training")
    if name not in editors:
        raise UsageError(f"{name} asks the model while it writes prompts: give it the model")
    return editors[name]
