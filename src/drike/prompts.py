"""Prompts, and the demonstrations in them: questions about other edits with the answers we want.

The layout is IKE's. A demonstration (paper, definition 3.3) is two lines and a blank one:

    New Fact: {its edit's query} {its edit's new object}
    Prompt: {query} {answer}

Then come each edit as one more copy, a line `New Fact: {edit}` for each, and `Prompt: {query}`. A
prompt ends where the model is to continue, without a trailing space; a target is scored as
" " + target after it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, islice, zip_longest
from typing import Literal, get_args

from drike.edits.edit import Edit, EditCase, Probe, rewrite_probe
from drike.text.words import mentions

Layout = Literal["append", "ike"]
RetainForm = Literal["headed", "bare"]
OrderName = Literal["policy", "similarity", "reversed", "shuffled"]

# Prompts that begin with one of these are instructions already, so a chat model gets no
# CHAT_INSTRUCTION before them.
FACT_CHANGED = "A fact has changed: "
SENTENCE = "Sentence: "
TO_COMPLETE = "Sentence to complete: "
WORLD_CHANGED = "The world has changed: "
YES_OR_NO = "Answer yes or no: "
REWRITE = "Rewrite the text below "
_INSTRUCTIONS = (FACT_CHANGED, SENTENCE, TO_COMPLETE, WORLD_CHANGED, REWRITE, YES_OR_NO)

CHAT_INSTRUCTION = (
    "Continue the text below. Reply with the completion of its last line only, in a few words."
)


# Below a tenth of the best probability a token is noise, whose rise says nothing (as in contrastive
# decoding, arXiv 2210.15097).
PLAUSIBLE = 0.1
MOST_CONTRAST = 10.0


class Role(StrEnum):
    """What a demonstration shows."""

    COPY = "copy"  # an edit's own query, with the new object
    UPDATE = "update"  # a paraphrase, with the new object
    RETAIN = "retain"  # a neighbouring fact, with its old object


@dataclass(frozen=True)
class Demonstration:
    """A question about another edit with the answer we want.

    fact: that edit's new fact. case_id: of its record.
    """

    role: Role
    fact: str
    query: str
    answer: str
    case_id: str


@dataclass(frozen=True)
class DemonstrationSet:
    """The demonstrations that an edit may be shown with, nearest record first."""

    edit: Edit
    demonstrations: tuple[Demonstration, ...]
    similarities: tuple[float, ...]  # their cosines to the edit
    excluded: int = 0  # how many nearer records contradict or repeat an edit
    other_edits: tuple[Edit, ...] = ()  # in force at the same time

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits in force."""
        return (self.edit, *self.other_edits)

    @property
    def fixed(self) -> tuple[Demonstration, ...]:
        """Copies, then updates, nearest first in each role.

        The paper shows them in every prompt of the edit.
        """
        return (*self._of(Role.COPY), *self._of(Role.UPDATE))

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The n retain candidates C, nearest first."""
        return self._of(Role.RETAIN)

    @property
    def retain_similarities(self) -> tuple[float, ...]:
        """The similarities of `retains`."""
        pairs = zip(self.demonstrations, self.similarities, strict=True)
        return tuple(
            similarity for demonstration, similarity in pairs if demonstration.role is Role.RETAIN
        )

    def _of(self, role: Role) -> tuple[Demonstration, ...]:
        return tuple(
            demonstration for demonstration in self.demonstrations if demonstration.role is role
        )


@dataclass(frozen=True)
class Contrast:
    """Contrastive decoding: how far an answer is pushed away from the one without edits.

    A token's score is (1 + alpha) log p(token | prompt) - alpha log p(token | bare question), among
    tokens with at least `plausible` times the best one's probability under the prompt. adaptive:
    alpha is multiplied at each token by how much the two distributions differ (their Jensen-Shannon
    divergence in bits, from 0 to 1), so that it acts only where the edits change something. Raises
    ValueError for numbers that mean nothing.
    """

    alpha: float
    plausible: float = PLAUSIBLE
    adaptive: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= MOST_CONTRAST:
            raise ValueError(f"alpha is a number from 0 to {MOST_CONTRAST}, not {self.alpha}")
        if not 0 <= self.plausible <= 1:
            raise ValueError(f"plausible is a share from 0 to 1, not {self.plausible}")


NO_CONTRAST = Contrast(0.0)


@dataclass(frozen=True)
class Against:
    """What an answer is contrasted with: the same conversation without edits, its question last."""

    turns: tuple[str, ...]
    contrast: Contrast


@dataclass(frozen=True)
class Prompt:
    """Everything that a model is given for one query.

    It is a text that the model continues, or the last turn of a conversation. against: with what
    the answer is contrasted, if it is.
    """

    text: str
    demonstrations: tuple[Demonstration, ...] = ()  # those in the text
    # If any, the model reasons first, and the answer follows the last `cue` in its reply.
    cue: str | None = None
    calls: int = 1  # of the model for this prompt, those to write it included
    pruned: int = 0  # how many chosen demonstrations the token limit left out
    earlier: tuple[str, ...] = ()  # the turns before, user's first
    against: Against | None = None

    @property
    def turns(self) -> tuple[str, ...]:
        """All turns of the conversation."""
        return (*self.earlier, self.text)

    @property
    def conversation(self) -> str:
        """All turns as one text, for models without turns.

        A reply follows its turn on the same line.
        """
        turns_and_replies = zip(self.earlier[::2], self.earlier[1::2], strict=True)
        earlier_lines = [f"{turn} {reply}\n" for turn, reply in turns_and_replies]
        return "".join(earlier_lines) + self.text

    def followed(self, reply: str, text: str) -> Prompt:
        """The conversation after the model's reply and the user's next turn, `text`."""
        against = self.against
        if against is not None:
            against = replace(against, turns=(*against.turns, reply, text))
        return replace(
            self,
            text=text,
            earlier=(*self.turns, reply),
            cue=None,
            calls=self.calls + 1,
            against=against,
        )

    @property
    def shots(self) -> int:
        """The number of retains in the prompt."""
        return sum(demonstration.role is Role.RETAIN for demonstration in self.demonstrations)

    @property
    def blocks(self) -> tuple[tuple[str, str], ...]:
        """The blocks of the text with the role of each.

        Those after the demonstrations have the role "edit".
        """
        roles = [demonstration.role.value for demonstration in self.demonstrations]
        return tuple(zip_longest(roles, self.text.split("\n\n"), fillvalue="edit"))


@dataclass(frozen=True)
class PromptStyle:
    """How demonstrations are laid out in a prompt. Raises ValueError for an unknown value.

    layout: "append" shows copies and updates first and then the retains, best first, so that the
    prompts of growing prefixes share their beginning; "ike" is the published one, with the roles
    mixed, farthest record first. order: of the retains (paper, appendix "Sensitivity of Reward
    Function"): "policy" is best first, "reversed" best last, "similarity" nearest record first,
    "shuffled" random, by the edit, the retains and `order_seed`.
    """

    layout: Layout = "append"
    own_copy: bool = True  # whether the edit is repeated as a copy right before the question
    retain: RetainForm = "headed"  # a retain has its New Fact line; "bare": it has none
    order: OrderName | None = None  # None: that of the layout
    order_seed: int = 0

    def __post_init__(self) -> None:
        choices = {
            "layout": get_args(Layout),
            "retain": get_args(RetainForm),
            "order": (None, *get_args(OrderName)),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                names = " or ".join(str(choice) for choice in allowed if choice is not None)
                raise ValueError(f"{name} must be {names}, not {value!r}")
        for name, kind in (("own_copy", bool), ("order_seed", int)):
            value = getattr(self, name)
            if type(value) is not kind:
                raise ValueError(f"{name} must be a {kind.__name__}, not {value!r}")

    def show(
        self, candidates: DemonstrationSet, kept: Sequence[Demonstration], queries: Iterable[str]
    ) -> list[Prompt]:
        """One prompt per query, with all copies and updates and the kept retains (best first)."""
        return self.write(candidates.edits, self.arrange(candidates, kept), queries)

    def arrange(
        self, candidates: DemonstrationSet, kept: Sequence[Demonstration]
    ) -> tuple[Demonstration, ...]:
        """All copies and updates and the kept retains (best first), in the order of the prompt."""
        ordered = self._ordered_retains(candidates, kept)
        if self.layout == "append":
            return (*candidates.fixed, *ordered)

        # IKE's layout: farthest record first, with the kept retains in the places of these.
        retains = iter(ordered)
        shown = [
            demonstration
            for demonstration in reversed(candidates.demonstrations)
            if demonstration.role is not Role.RETAIN or demonstration in kept
        ]
        return tuple(
            next(retains) if demonstration.role is Role.RETAIN else demonstration
            for demonstration in shown
        )

    def _ordered_retains(
        self, candidates: DemonstrationSet, kept: Sequence[Demonstration]
    ) -> list[Demonstration]:
        """The kept retains, which are given best first, in the order of the prompt."""
        order = self.order or ("policy" if self.layout == "append" else "nearest last")
        if order in ("policy", "reversed"):
            ordered = list(kept)
        else:
            ordered = [retain for retain in candidates.retains if retain in kept]

        if order == "shuffled":
            random.Random(f"{self.order_seed}|{candidates.edit.fact}").shuffle(ordered)
        elif order in ("reversed", "nearest last"):
            ordered.reverse()
        return ordered

    def write(
        self, edits: Sequence[Edit], shown: Sequence[Demonstration], queries: Iterable[str]
    ) -> list[Prompt]:
        """One prompt per query.

        It shows the demonstrations in this order, a copy of each edit, the new facts and the query.
        """
        blocks = [demonstration_block(demonstration, self.retain) for demonstration in shown]
        if self.own_copy:
            blocks += [f"{query_block(edit, edit.query)} {edit.target_new}\n\n" for edit in edits]
        facts = [f"New Fact: {fact}\n" for fact in facts_of(edits)]
        before_query = "".join((*blocks, *facts))
        return [Prompt(f"{before_query}Prompt: {query}", tuple(shown)) for query in queries]


def probes_for(case: EditCase, role: Role, edits: Sequence[Edit]) -> tuple[Probe, ...]:
    """The probes of a case that can be demonstrated in a role while `edits` are in force.

    They are those of its first edit.

    Those about the subject of such an edit are left out: as a retain, one could state the very fact
    that it replaces.
    """
    if role is Role.COPY:
        return (rewrite_probe(case.edit),)
    if role is Role.UPDATE:
        probes = case.paraphrases
        other_targets = {edit.target_new for edit in case.other_edits}
    else:
        probes = case.neighborhood
        other_targets = set()
    queries = [edit.query for edit in edits]
    subjects = [edit.subject for edit in edits if edit.subject is not None]
    return tuple(
        probe
        for probe in probes
        if probe.target not in other_targets
        and probe.query not in queries
        and not any(mentions(probe.query, subject) for subject in subjects)
    )


def interleave(lists: Sequence[Sequence[Demonstration]]) -> tuple[Demonstration, ...]:
    """Combine the demonstrations of several edits into one list, ordered by role.

    Of each role it has as many as an edit has on average, rounded up, so that the prompt stays as
    long as for one edit, for which policies and token limits are made; they are taken from the
    edits in turn, without repeats and without retains of a fact that one of the copies or updates
    rewrites. A single list is returned unchanged.
    """
    if len(lists) == 1:
        return tuple(lists[0])
    taken: list[Demonstration] = []
    for role in Role:
        of_role = [
            [demonstration for demonstration in demonstrations if demonstration.role is role]
            for demonstrations in lists
        ]
        count = _mean_rounded_up([len(demonstrations) for demonstrations in of_role])
        rewritten = [demonstration.fact for demonstration in taken] if role is Role.RETAIN else []
        usable = [_not_rewritten(demonstrations, rewritten) for demonstrations in of_role]
        taken += islice(_in_turn(usable), count)
    return tuple(taken)


def _mean_rounded_up(numbers: Sequence[int]) -> int:
    return -(-sum(numbers) // len(numbers))


def _not_rewritten(
    demonstrations: Sequence[Demonstration], facts: Sequence[str]
) -> list[Demonstration]:
    """The demonstrations whose query none of some new facts answers."""
    return [
        demonstration
        for demonstration in demonstrations
        if not any(fact.startswith(f"{demonstration.query} ") for fact in facts)
    ]


def _in_turn(lists: Sequence[Sequence[Demonstration]]) -> list[Demonstration]:
    """The first of each list, then the second, and so on, without repeats."""
    turns = zip_longest(*lists)
    in_turn = [
        demonstration for turn in turns for demonstration in turn if demonstration is not None
    ]
    return list(dict.fromkeys(in_turn))


def facts_of(edits: Sequence[Edit]) -> list[str]:
    """The new fact of each edit, as prompts state it. Raises ValueError for no edits."""
    if not edits:
        raise ValueError(
            "an editor needs at least one edit: ask the model itself where none is in force"
        )
    return [edit.fact for edit in edits]


def query_block(edit: Edit, query: str) -> str:
    """The last two lines of a prompt: the edit and a question. The retriever reads them as x."""
    return f"New Fact: {edit.fact}\nPrompt: {query}"


def demonstration_block(demonstration: Demonstration, retain: RetainForm = "headed") -> str:
    """The lines of a demonstration and a blank line.

    With `retain="bare"` a retain has no New Fact line.
    """
    without_fact = retain == "bare" and demonstration.role is Role.RETAIN
    head = "" if without_fact else f"New Fact: {demonstration.fact}\n"
    return f"{head}Prompt: {demonstration.query} {demonstration.answer}\n\n"


def chat_messages(prompt: str | tuple[str, ...]) -> list[dict[str, str]]:
    """A prompt, or the turns of a conversation, for a chat model.

    An instruction comes first unless the text is one.
    """
    turns = (prompt,) if isinstance(prompt, str) else prompt
    first, *later = turns
    if not first.startswith(_INSTRUCTIONS):
        first = f"{CHAT_INSTRUCTION}\n\n{first}"
    roles = cycle(("user", "assistant"))
    return [
        {"role": role, "content": text} for role, text in zip(roles, (first, *later), strict=False)
    ]
