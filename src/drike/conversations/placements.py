"""The placements of facts that `drike edits tune` chooses from, and the choice that a store keeps.

The paper chooses what a prompt shows by a frozen model's right and wrong answers. Which form of a fact a model obeys is
the same kind of choice, made once for a model and a store. A model that only completes gets other placements than one
that chats. A system turn is none of them, for the reasons that `rendering` gives.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from drike.conversations.rendering import AsBlock, AsPrompt, Placement, Restating
from drike.datasets import TINYFACTS, load
from drike.editors.editor import Editor, FactPrompt
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.selectors import copies_and_updates
from drike.edits import Edit
from drike.encoders import load_encoder
from drike.prompts import Prompt, PromptStyle
from drike.stores.log import EditStore
from drike.stores.records import StoreError
from drike.support.records import parse, read

_SETTING = "placement"  # of a store
REMEMBERED = 1_000  # edits, or sets of them, whose demonstrations are kept
_DEMONSTRATIONS = (2, 4, 16)
PAIRS = FactPrompt("Pairs", "{}\n")  # each query with its new object on a line: no word says what they are


@dataclass(frozen=True)
class NewFacts:
    """The New Fact line of each edit and the query, in the layout of demonstrations, without any of them."""

    name: str = "New facts"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query. Raises ValueError for no edits."""
        return PromptStyle(own_copy=False).write(edits, (), queries)


@dataclass(frozen=True)
class Trial:
    """What a placement achieved. s: S of the rates. tokens: that it adds to a question, on average.

    rates: of right answers to each kind of question. gain: by how much it may be better than the best one, at most, in
    S less the price of tokens; 0 if it is surely not.
    """

    placement: str
    rates: tuple[float, ...]
    asked: int
    tokens: float
    s: float
    gain: float


@dataclass(frozen=True)
class ChosenPlacement:
    """The placement chosen for a store, and what shows that it is the best.

    server: the model's address. chat: whether it answered as one that chats. edits: how many were asked about. calls,
    grid: how many the choice took, and would have without stopping early. better: with probability `confidence`, no
    other placement is better by more than this (`Trial.gain`).
    """

    placement: str
    model: str
    server: str | None
    chat: bool
    chosen_at: str
    edits: int
    kinds: tuple[str, ...]
    trials: tuple[Trial, ...]
    calls: int
    grid: int
    confidence: float
    better: float


def placements(chat: bool) -> dict[str, Placement]:
    """All that are compared, by name, for a model that chats, or that only completes."""
    shown: dict[str, Editor] = {f"demonstrations-{count}": demonstrating(count) for count in _DEMONSTRATIONS}
    if not chat:
        alone: dict[str, Editor] = {"new-fact": NewFacts(), "question-answer": PAIRS, "imagine": FactPrompt()}
        return {name: AsPrompt(editor) for name, editor in (alone | shown).items()}
    pairs = AsBlock(state=lambda edits: [f"Q: {edit.query} A: {edit.target_new}" for edit in edits])
    blocks = {name: AsBlock(editor) for name, editor in shown.items()}
    return {"block": AsBlock(), "question-answer": pairs, "restated": Restating(AsBlock()), **blocks}


@cache
def _pool() -> Pool:
    rows = load(TINYFACTS).split(seed=0, train=0, test=0).demonstrations
    return Pool(rows, load_encoder("hashing"), remembered=REMEMBERED)


def demonstrating(count: int | None = None) -> Editor:
    """Shows the nearest copies and updates of TinyFacts, `count` at most."""
    return InContextEditor("Copies and updates", _pool(), copies_and_updates(_pool().roles, count))


def save_choice(store: EditStore, choice: ChosenPlacement | None) -> None:
    """Give a store another placement; None for the usual one. Raises StoreError."""
    store.save_setting(_SETTING, json.dumps(asdict(choice)) if choice else "")


def stored_choice(store: EditStore) -> ChosenPlacement | None:
    """The choice of a store; None if it has none. Raises StoreError for one that cannot be read."""
    text = store.setting(_SETTING)
    try:
        choice = read(ChosenPlacement, parse(text)) if text else None
        if choice and choice.placement not in placements(choice.chat):
            raise ValueError(f"{choice.placement} is unknown")
    except ValueError as problem:
        remedy = "choose again (drike edits tune), or go back to the usual one (--remove)"
        raise StoreError(f"the placement of {store.name} cannot be read ({problem}): {remedy}") from None
    return choice
