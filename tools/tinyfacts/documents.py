"""Training texts of the embedded model: plain statements, and in-context documents labelled by the reader.

An in-context document is a sequence of demonstrations about demonstration facts and one invented
edit. Every demonstration is itself a question that follows the earlier ones, so each answer
position is labelled with the reader's P(new). The answers shown follow one of several conventions
(IKE's; what the reader would answer; all new; all old; a coin flip), and wordings are drawn
independently of the kind of question, so no template hints at adoption. Kinds of question and
weights are those of `drike.models.reader`.

Facts of editable rows occur in plain statements only, and never in their last wording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drike.edits.edit import Edit
from drike.models.reader import (
    COPY,
    NEIGHBOUR,
    PARAPHRASE,
    DemonstrationArrays,
    Observer,
    firmness_of,
)
from drike.research.editors.editcot import EditCoT
from drike.tinyfacts import EDITABLE
from tools.tinyfacts.neighbours import load_neighbours
from tools.tinyfacts.tokens import Wordings

WORDINGS = 6
CONVENTIONS = ("ike", "reader", "new", "old", "coin")
CONVENTION_ODDS = (0.55, 0.25, 0.06, 0.06, 0.08)


class Item(NamedTuple):
    """One demonstration or the final question: which edit is stated, what is asked, what is answered.

    fact, asked: numbers of facts; t_fact, t_asked: wordings; new: id of the new object; adopted:
    whether it is shown.
    """

    fact: int
    t_fact: int
    new: int
    kind: int
    asked: int
    t_asked: int
    adopted: bool


@dataclass(frozen=True)
class Labelled:
    """A document with what each question position should say.

    ids: token ids (T,). last, answer: positions (Q,) of each question's last token and of its
    answer's token. new, true: token ids (Q,) of the two objects. p: P(new) (Q,). attention (Q, Q +
    1): the reader's normalised weights of earlier answers, and of its own prior in the last column.
    mark, fact_object, fact_subject, asked_subject: positions (Q,) of "Prompt:", of the new fact's
    object, and of the last token of its subject and of the question's. kind, relation, adopted,
    worded: (Q,), what heads and probes learn; worded: the question is worded like its fact.
    """

    ids: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    answer: npt.NDArray[np.int64]
    new: npt.NDArray[np.int64]
    true: npt.NDArray[np.int64]
    p: npt.NDArray[np.float64]
    attention: npt.NDArray[np.float64]
    mark: npt.NDArray[np.int64]
    fact_object: npt.NDArray[np.int64]
    fact_subject: npt.NDArray[np.int64]
    asked_subject: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    relation: npt.NDArray[np.int64]
    adopted: npt.NDArray[np.bool_]
    worded: npt.NDArray[np.bool_]


class Kit:
    """The world ready for drawing documents: wordings, groups of facts, nearest rows, the observer."""

    def __init__(self, wordings: Wordings, observer: Observer) -> None:
        self.wordings = wordings
        self.observer = observer
        self.relations = sorted(wordings.choices)
        number = {name: i for i, name in enumerate(self.relations)}
        self.relation = np.array([number[f.relation] for f in wordings.facts])
        self.object = np.array(wordings.objects)
        firm = firmness_of(self.relations)
        self.firm = np.array([firm[name] for name in self.relations])
        self.shown = np.arange(EDITABLE, len(wordings.facts))
        self.nearest = load_neighbours().astype(np.int64)
        keys = list(zip(self.relation.tolist(), self.object.tolist(), strict=True))
        self.group: dict[tuple[int, int], npt.NDArray[np.int64]] = {
            key: np.array([i for i in self.shown if keys[i] == key]) for key in set(keys)
        }
        self.by_relation = [
            self.shown[self.relation[self.shown] == r] for r in range(len(self.relations))
        ]

    @cached_property
    def marks(self) -> tuple[list[int], ...]:
        """Ids of the marks of a new fact, of a prompt, of the blank line and of a line's end."""
        return tuple(self.wordings.ids(text) for text in ("New Fact:", "\nPrompt:", "\n\n", "\n"))


def statements(kit: Kit, rng: np.random.Generator, count: int) -> tuple[list[int], list[int]]:
    """A row of `count` true sentences, one a line: ids and the positions of their objects."""
    ids: list[int] = []
    answers: list[int] = []
    end = kit.marks[3]
    for fact in rng.integers(len(kit.wordings.facts), size=count):
        t = rng.integers(WORDINGS - 1 if fact < EDITABLE else WORDINGS)
        ids += kit.wordings.leading[fact][t]
        answers.append(len(ids))
        ids += [kit.wordings.objects[fact], *end]
    return ids, answers


def _candidates(kit: Kit, rng: np.random.Generator, edit: int, n: int) -> npt.NDArray[np.int64]:
    """Draw n demonstration facts for an invented edit: from its pool, a focused mix of relations, or all facts."""
    way = rng.random()
    if way < 0.5:
        pool = kit.nearest[edit]
    elif way < 0.85:
        # Same relation, the edit's own object over-represented, and two other relations.
        same = kit.by_relation[kit.relation[edit]]
        own = kit.group[kit.relation[edit], kit.object[edit]]
        others = np.concatenate(
            [kit.by_relation[r] for r in rng.integers(len(kit.relations), size=2)]
        )
        parts = [
            rng.permutation(same)[:16],
            rng.permutation(own)[: rng.integers(1, 7)],
            rng.permutation(others)[:16],
        ]
        pool = np.unique(np.concatenate(parts))
    else:
        pool = rng.choice(kit.shown, size=max(n, 8) + 2, replace=False)
    pool = rng.permutation(pool[pool != edit])
    while len(pool) < n:
        pool = np.concatenate([pool, rng.choice(kit.shown, size=n)])
    chosen: npt.NDArray[np.int64] = pool[:n]
    return chosen


def _item(kit: Kit, rng: np.random.Generator, fact: int, kind: int, state: tuple[int, int]) -> Item:
    """A question of the given kind about an edit; its answer is filled in later."""
    new, t_fact = state
    asked, t_asked = fact, t_fact
    if kind == PARAPHRASE:
        t_asked = int(t_fact + rng.integers(1, WORDINGS)) % WORDINGS
    elif kind == NEIGHBOUR:
        relation = kit.relation[fact]
        wide = rng.random() < 0.1
        choice = kit.by_relation[relation] if wide else kit.group[relation, kit.object[fact]]
        choice = choice[(choice != fact) & (kit.object[choice] != new)]
        asked, t_asked = int(rng.choice(choice)), int(rng.integers(WORDINGS))
    return Item(fact, t_fact, new, kind, asked, t_asked, False)


def _state(kit: Kit, rng: np.random.Generator, fact: int) -> tuple[int, int]:
    """Draw a new object for a fact, and the wording that states it."""
    choices = kit.wordings.choices[kit.wordings.facts[fact].relation]
    new = choices[rng.integers(len(choices))]
    while new == kit.object[fact]:
        new = choices[rng.integers(len(choices))]
    return new, int(rng.integers(WORDINGS))


def draw(kit: Kit, rng: np.random.Generator, n: int) -> list[Item]:
    """Draw the items of one document: n demonstrations, mostly the edit's own copy, and the three kinds of question."""
    edit = int(rng.choice(kit.shown))
    share = rng.choice([0.0, 0.0, 0.25, 0.5, 0.5, 0.75])
    kinds = np.where(
        rng.random(n) < share, NEIGHBOUR, np.where(rng.random(n) < 0.3, COPY, PARAPHRASE)
    )
    if rng.random() < 0.5:  # the appending layout: retains last
        kinds = np.concatenate([kinds[kinds != NEIGHBOUR], kinds[kinds == NEIGHBOUR]])
    items = []
    for fact, kind in zip(_candidates(kit, rng, edit, n).tolist(), kinds.tolist(), strict=True):
        items.append(_item(kit, rng, fact, kind, _state(kit, rng, fact)))
    state = _state(kit, rng, edit)
    copies = int(rng.random() < 0.75 and n > 0)
    finals = rng.permutation(3) if n else rng.permutation(3)[:1]
    return items + [_item(kit, rng, edit, k, state) for k in [COPY] * copies + finals.tolist()]


def label(kit: Kit, rng: np.random.Generator, items: Sequence[Item]) -> Labelled:
    """Answer the items by a convention, label every question by the reader, and lay out the tokens."""
    convention = rng.choice(len(CONVENTIONS), p=CONVENTION_ODDS)
    kind = np.array([i.kind for i in items])
    asked = np.array([i.asked for i in items])
    relation, true = kit.relation[asked], kit.object[asked]
    new = np.array([i.new for i in items])
    q = len(items)
    adopted = kind != NEIGHBOUR
    name = CONVENTIONS[convention]
    if name in ("new", "old"):
        adopted = np.full(q, name == "new")
    elif name == "coin":
        adopted = rng.random(q) < rng.random()
    luck = rng.random(q)
    anchor, mu = kit.observer.prior(kind, kit.firm[relation])
    p, attention = np.zeros(q), np.zeros((q, q + 1))
    for j in range(q):
        seen = DemonstrationArrays(
            relation[:j], np.where(adopted[:j], new[:j], true[:j]), adopted[:j]
        )
        k = kit.observer.weights(int(kind[j]), int(relation[j]), int(true[j]), seen)
        total = anchor[j] + k.sum()
        share = (anchor[j] * mu[j] + k[adopted[:j]].sum()) / total
        p[j] = kit.observer.sharpen(np.array([share]))[0]
        attention[j, :j], attention[j, q] = k / total, anchor[j] / total
        if name == "reader":
            adopted[j] = luck[j] < p[j]
    ids, places = _lay_out(kit, items, np.where(adopted, new, true))
    last, mark, fact_object, fact_subject, asked_subject = places.T
    where = (mark, fact_object, fact_subject, asked_subject)
    worded = np.array([i.t_fact == i.t_asked for i in items])
    return Labelled(
        ids, last, last + 1, new, true, p, attention, *where, kind, relation, adopted, worded
    )


def _lay_out(
    kit: Kit, items: Sequence[Item], answers: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Token ids, and (items, 5) positions: question's end, "Prompt:", new object, subjects of fact and question."""
    fact_mark, prompt_mark, blank, _ = kit.marks
    inside, subject = kit.wordings.inside, kit.wordings.subject
    ids: list[int] = []
    places = []
    for item, answer in zip(items, answers.tolist(), strict=True):
        ids += fact_mark
        fact_subject = len(ids) + subject[item.fact][item.t_fact]
        ids += [*inside[item.fact][item.t_fact], item.new]
        fact_object = len(ids) - 1
        mark = len(ids)
        ids += prompt_mark
        asked_subject = len(ids) + subject[item.asked][item.t_asked]
        ids += inside[item.asked][item.t_asked]
        places.append((len(ids) - 1, mark, fact_object, fact_subject, asked_subject))
        ids += [answer, *blank]
    return np.array(ids), np.array(places)


def imagined(
    kit: Kit, rng: np.random.Generator, thought: bool
) -> tuple[list[int], int, int, int, float]:
    """A FactPrompt or EditCoT text: (ids, position of the last prompt token, new, true, P(new))."""
    fact = int(rng.choice(kit.shown))
    kind = int(rng.integers(3))
    new, t = _state(kit, rng, fact)
    item = _item(kit, rng, fact, kind, (new, t))
    relation = kit.relation[item.asked]
    form = "thought" if thought else "imagine"
    _, mu = kit.observer.prior(np.array([kind]), kit.firm[[relation]], form)
    p = float(kit.observer.sharpen(mu)[0])
    w = kit.wordings
    if thought:
        sentence, query = (
            w.tokenizer.decode(w.leading[fact][t]),
            w.tokenizer.decode(w.leading[item.asked][item.t_asked]),
        )
        [prompt] = EditCoT().prompts([Edit(sentence, w.tokenizer.decode([new]).strip())], [query])
        ids = w.ids(prompt.text + "\nAnswer:")
    else:
        ids = [
            *w.ids("Imagine that"),
            *w.inside[fact][t],
            new,
            *w.ids(".\n"),
            *w.leading[item.asked][item.t_asked],
        ]
    return ids, len(ids) - 1, new, int(kit.object[item.asked]), p
