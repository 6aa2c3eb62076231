"""Prompt wording and the style in which demonstrations become a prompt.

The in-context layout is IKE's: a demonstration is two lines and a blank one,

    New Fact: {its fact} {its new object}
    Prompt: {query} {answer}

and a prompt ends with the edit itself as a last copy demonstration and `New Fact: {edit}` / `Prompt: {query}`, without
a trailing space. Where several edits are in force, each is a copy of its own and has its own New Fact line. FactPrompt
and EditCoT keep their wording in their own files under `editors`. Every text ends where the model has to continue; a
target is scored as " " + target after it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, zip_longest
from typing import Literal, get_args

from drike.demonstrations import Demonstration, DemonstrationSet, Role
from drike.edits import Edit

Layout = Literal["append", "ike"]
RetainForm = Literal["headed", "bare"]
OrderName = Literal["policy", "similarity", "reversed", "shuffled"]

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
ORDERS: tuple[OrderName, ...] = get_args(OrderName)

# Prompts with these openings are instructions already: a chat model gets them without CHAT_INSTRUCTION.
FACT_CHANGED, SENTENCE, TO_COMPLETE = "A fact has changed: ", "Sentence: ", "Sentence to complete: "
WORLD_CHANGED, YES_OR_NO, REWRITE = "The world has changed: ", "Answer yes or no: ", "Rewrite the text below "
_INSTRUCTIONS = (FACT_CHANGED, SENTENCE, TO_COMPLETE, WORLD_CHANGED, YES_OR_NO, REWRITE)

CHAT_INSTRUCTION = "Continue the text below. Reply with the completion of its last line only, in a few words."


@dataclass(frozen=True)
class Prompt:
    """Everything a model is given for one query.

    `cue`: None where the answer follows the text directly; otherwise the model reasons first and the answer follows the
    last `cue` in its reply. `calls`: model calls this prompt stands for, its own included. `pruned`: retains the budget
    kept that did not fit into the token limit. `earlier`: the turns before the text, if that is the last turn of a
    conversation: user, model, user, ...
    """

    text: str
    demonstrations: tuple[Demonstration, ...] = ()
    cue: str | None = None
    calls: int = 1
    pruned: int = 0
    earlier: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[str, ...]:
        """All turns, of which a prompt by itself has one."""
        return (*self.earlier, self.text)

    @property
    def conversation(self) -> str:
        """All turns as one text, for models that take no turns: each reply behind the user's turn, then a new line."""
        asked = zip(self.earlier[::2], self.earlier[1::2], strict=True)
        return "".join(f"{text} {reply}\n" for text, reply in asked) + self.text

    def followed(self, reply: str, text: str) -> Prompt:
        """The conversation in which the model has replied and the user goes on with `text`."""
        return replace(self, text=text, earlier=(*self.turns, reply), cue=None, calls=self.calls + 1)

    @property
    def shots(self) -> int:
        """Retain demonstrations in the prompt."""
        return sum(demonstration.role is Role.RETAIN for demonstration in self.demonstrations)

    @property
    def blocks(self) -> tuple[tuple[str, str], ...]:
        """The blocks of the text, each with the role of its demonstration; what follows them has the role "edit"."""
        roles = [demonstration.role.value for demonstration in self.demonstrations]
        return tuple(zip_longest(roles, self.text.split("\n\n"), fillvalue="edit"))


@dataclass(frozen=True)
class PromptStyle:
    """How the demonstrations of an edit are laid out in a prompt; training, evaluation and explanations share one.

    layout: "append" puts copies and updates first and then the kept retains, best first, so that nested prompts share
    their beginning; "ike" is the published one: all roles shuffled, farthest record first, nearest last.
    own_copy: repeat the edit as a copy demonstration right before the question.
    retain: "headed" shows a retain with its New Fact line, "bare" without.
    order: of the kept retains, within the places that the layout has for them (paper, appendix "Sensitivity of Reward
    Function"); None is the layout's own. "policy" is best first, "reversed" best last, "similarity" nearest record
    first, "shuffled" random, the same for the same `order_seed`, edit and retains.
    """

    layout: Layout = "append"
    own_copy: bool = True
    retain: RetainForm = "headed"
    order: OrderName | None = None
    order_seed: int = 0

    def __post_init__(self) -> None:
        """Refuse unknown values. Raises ValueError."""
        for name, allowed in (("layout", LAYOUTS), ("retain", get_args(RetainForm)), ("order", (None, *ORDERS))):
            if (value := getattr(self, name)) not in allowed:
                names = " or ".join(str(one) for one in allowed if one is not None)
                raise ValueError(f"{name} must be {names}, not {value!r}")
        for name, kind in (("own_copy", bool), ("order_seed", int)):
            if type(value := getattr(self, name)) is not kind:
                raise ValueError(f"{name} must be a {kind.__name__}, not {value!r}")

    def show(
        self, demonstrations: DemonstrationSet, kept: Sequence[Demonstration], queries: Iterable[str]
    ) -> list[Prompt]:
        """One prompt per query about the edit, under its copies, updates and the kept retains (best first)."""
        return self.write(demonstrations.edits, self.arrange(demonstrations, kept), queries)

    def arrange(self, demonstrations: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
        """Copies, updates and the kept retains in the order in which they are shown."""
        if self.layout == "append":
            return (*demonstrations.fixed, *self._ordered(demonstrations, kept))
        retains = iter(self._ordered(demonstrations, kept))
        shown = [d for d in reversed(demonstrations.demonstrations) if d.role is not Role.RETAIN or d in kept]
        return tuple(next(retains) if d.role is Role.RETAIN else d for d in shown)

    def _ordered(self, demonstrations: DemonstrationSet, kept: Sequence[Demonstration]) -> list[Demonstration]:
        """The kept retains, first shown first."""
        order = self.order or ("policy" if self.layout == "append" else "nearest last")
        if order in ("policy", "reversed"):
            return list(kept) if order == "policy" else list(reversed(kept))
        nearest_first = [retain for retain in demonstrations.retains if retain in kept]
        if order == "shuffled":
            random.Random(f"{self.order_seed}|{demonstrations.edit.fact}").shuffle(nearest_first)
        return nearest_first[::-1] if order == "nearest last" else nearest_first

    def write(self, edits: Sequence[Edit], shown: Sequence[Demonstration], queries: Iterable[str]) -> list[Prompt]:
        """Demonstrations in the given order, each edit as its own copy, then each question (IKE's layout)."""
        text = "".join(demonstration_block(demonstration, self.retain) for demonstration in shown)
        if self.own_copy:
            text += "".join(f"{query_block(edit, edit.query)} {edit.target_new}\n\n" for edit in edits)
        facts = "".join(f"New Fact: {fact}\n" for fact in facts_of(edits))
        return [Prompt(f"{text}{facts}Prompt: {query}", tuple(shown)) for query in queries]


def facts_of(edits: Sequence[Edit]) -> list[str]:
    """The new facts, as prompts state them. Raises ValueError for no edits."""
    if not edits:
        raise ValueError("an editor needs at least one edit: ask the model itself where none is in force")
    return [edit.fact for edit in edits]


def query_block(edit: Edit, query: str) -> str:
    """The edit and a question about it, as the last two lines of a prompt; also the retriever's text of x."""
    return f"New Fact: {edit.fact}\nPrompt: {query}"


def demonstration_block(demonstration: Demonstration, retain: RetainForm = "headed") -> str:
    """A demonstration's lines and the blank line after them; `retain="bare"` drops the header of a retain."""
    shown = f"Prompt: {demonstration.query} {demonstration.answer}\n\n"
    if retain == "bare" and demonstration.role is Role.RETAIN:
        return shown
    return f"New Fact: {demonstration.fact}\n{shown}"


def chat_messages(prompt: str | tuple[str, ...]) -> list[dict[str, str]]:
    """A prompt, or the turns of a conversation, as messages for models with a chat template.

    The first turn gets an instruction if it is a text to be continued.
    """
    first, *others = [prompt] if isinstance(prompt, str) else prompt
    content = first if first.startswith(_INSTRUCTIONS) else f"{CHAT_INSTRUCTION}\n\n{first}"
    roles = cycle(("user", "assistant"))
    return [{"role": role, "content": text} for role, text in zip(roles, [content, *others], strict=False)]
