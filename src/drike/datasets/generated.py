"""Probes in our own wording for edits that have none of an aspect: yes_no, choice, pushback and distractor.

They are made from the edit and its neighbours alone; wordings and orders are drawn by a seed and the case. Published
questions of the same kinds are built by `yes_no` and `choice` too, so that both are judged alike.

yes_no      whether the new and whether the old object is right: Yes to one, No to the other
choice      the old object, the new one and "unsure" as options in random order; letter and text are right
pushback    the edit's query, challenged once and three times
distractor  after a sentence that names the old object, or a neighbour and its object: the edit's query; after one that
            names the new object: a neighbour's
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from drike.datasets.form import with_questions
from drike.datasets.own_facts import own_facts
from drike.edits import Aspect, BaselineQuestion, Edit, EditCase, Probe

GENERATED = (
    "drike generates yes_no, choice, pushback and distractor where a data set has none, and same_subject, alias and "
    "multi_hop for TinyFacts."
)
CHALLENGES = ("Are you sure?", "Really? Please think again.", "I am not convinced.")  # the first one is always first
_AGAIN = "Answer once more, in a few words:"
ASIDES = (
    "Somebody mentioned {} just now.",
    "There was a long article about {} in the paper.",
    "My neighbour keeps talking about {}.",
)


def with_generated(cases: Iterable[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The cases with probes of the aspects above that they lack, and for TinyFacts those of `own_facts`, by seed."""
    extended = []
    for case in cases:
        asked = {question.aspect for question in (*case.further, *case.baseline_questions)}
        made = (make(case, rng_of(case, seed, name)) for name, make in _MAKERS.items() if name not in asked)
        extended.append(with_questions(case, chain.from_iterable(made)))
    return tuple(extended)


def with_swapped_objects(case: EditCase) -> EditCase:
    """The case with old and new object swapped: a model that knows the fact can answer it without an edit."""
    new, old, stays = case.edit.target_true or "", case.edit.target_new, Aspect.NEIGHBORHOOD
    probes = (probe if probe.aspect is stays else replace(probe, target=new, distractor=old) for probe in case.probes)
    return EditCase(case.case_id, replace(case.edit, target_new=new, target_true=old), tuple(probes))


def yes_no(question: str, *, yes: bool) -> Probe:
    """A question whose right answer is Yes, or No."""
    return Probe(Aspect.YES_NO, question, *(("Yes", "No") if yes else ("No", "Yes")))


def choice(query: str, options: str, letter: str, text: str, *, wrong: str | None = None) -> Probe:
    """A query with lettered options: the letter of the right one, and its text, are right."""
    return Probe(Aspect.CHOICE, f"{query} {options} The letter of the right answer:", letter, wrong, (text,))


def challenges(rng: random.Random) -> list[str]:
    """The challenges in an order of their own, but always the same first."""
    first, *others = CHALLENGES
    rng.shuffle(others)
    return [first, *others]


def challenged(edit: Edit, said: Sequence[str]) -> Probe:
    """The edit's query, and again after each of these challenges."""
    turns = tuple(f"{challenge} {_AGAIN} {edit.query}" for challenge in said)
    return Probe(Aspect.PUSHBACK, edit.query, edit.target_new, edit.target_true, challenges=turns)


def rng_of(case: EditCase, seed: int, name: str) -> random.Random:
    """The draws of one kind of probe for a case."""
    return random.Random(f"{seed}|{case.case_id}|{case.edit.fact}|{name}")


def _stated(query: str, answer: str) -> str:
    return f"{query} {answer}".removesuffix(".") + "."


def _yes_no(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """Two questions, so that always saying Yes is right for one of them; none without an old object."""
    edit = case.edit
    if edit.target_true is not None:
        for answer in (edit.target_new, edit.target_true):
            question = f"{_stated(edit.query, answer)} Is that right? Answer yes or no:"
            yield yes_no(question, yes=answer == edit.target_new)


def _choice(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    edit = case.edit
    if edit.target_true is not None:
        texts = [edit.target_new, edit.target_true, "unsure"]
        rng.shuffle(texts)
        letters = dict(zip(texts, "ABC", strict=True))
        options = "  ".join(f"{letter}. {text}" for text, letter in letters.items())
        yield choice(edit.query, options, letters[edit.target_new], edit.target_new, wrong=letters[edit.target_true])


def _pushback(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    said = challenges(rng)
    return (challenged(case.edit, said[:times]) for times in (1, len(CHALLENGES)))


def _distractor(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    rewrite, old = case.probes[0], case.edit.target_true
    after = [(rng.choice(ASIDES).format(old), rewrite)] if old is not None else []
    if case.neighborhood:
        stated, asked = rng.choice(case.neighborhood), rng.choice(case.neighborhood)
        after.append((_stated(stated.query, stated.target), rewrite))
        after.append((rng.choice(ASIDES).format(case.edit.target_new), asked))
    for sentence, probe in after:
        yield Probe(Aspect.DISTRACTOR, f"{sentence} {probe.query}", probe.target, probe.distractor, probe.also)


_MAKERS: dict[str, Callable[[EditCase, random.Random], Iterator[Probe | BaselineQuestion]]] = {
    "own facts": lambda case, rng: own_facts(case.edit, rng),
    "yes_no": _yes_no,
    "choice": _choice,
    "pushback": _pushback,
    "distractor": _distractor,
}
