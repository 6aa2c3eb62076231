"""Probes in our own wording, drawn by a seed, for edits that have none: yes_no, choice, pushback and distractor.

For TinyFacts, same_subject, alias and multi_hop too: few of its subjects have two facts, and the embedded model was
never asked to follow two, so most of these are put to the unedited model first (`BaselineQuestion`). Another relation
counts where the model names an object of it (other than the edit's old object, from which it may have inferred it), a
short name and two hops where it gives the answer that follows from its facts.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

from drike.edits.edit import Aspect, BaselineQuestion, Edit, EditCase, Probe
from drike.research.datasets.form import with_questions
from drike.tinyfacts import KINDS, TEMPLATES, facts

GENERATED = (
    "drike generates yes_no, choice, pushback and distractor where a data set has none, and same_subject, alias and "
    "multi_hop for TinyFacts."
)
CHALLENGES = (
    "Are you sure?",
    "Really? Please think again.",
    "I am not convinced.",
)  # the first one is always first
ASIDES = (
    "Somebody mentioned {} just now.",
    "There was a long article about {} in the paper.",
    "My neighbour keeps talking about {}.",
)
OTHERS, CHAINS = (
    2,
    2,
)  # other relations asked of each subject, and two-hop questions through a fact about it
# "The birthplace of {} is" describes an object: the birthplace of {}.
DESCRIPTIONS = {
    relation: template[4:-3]
    for relation, wordings in TEMPLATES.items()
    for template in reversed(wordings)  # of several, the first
    if template.startswith("The ") and template.endswith(" is")
}


def with_generated(cases: Iterable[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The cases with probes of the aspects above that they lack, and for TinyFacts those of its own facts, by seed."""
    extended = []
    for case in cases:
        asked = {probe.aspect for probe in case.further} | {
            question.aspect for question in case.baseline_questions
        }
        made = (
            make(case, rng_of(case, seed, name))
            for name, make in _MAKERS.items()
            if name not in asked
        )
        extended.append(with_questions(case, chain.from_iterable(made)))
    return tuple(extended)


def with_swapped_objects(case: EditCase) -> EditCase:
    """The case with old and new object swapped: a model that knows the fact can answer it without an edit."""
    new, old, stays = case.edit.target_true or "", case.edit.target_new, Aspect.NEIGHBORHOOD
    probes = (
        probe if probe.aspect is stays else replace(probe, target=new, distractor=old)
        for probe in case.probes
    )
    return EditCase(
        case.case_id, replace(case.edit, target_new=new, target_true=old), tuple(probes)
    )


def yes_no(question: str, *, yes: bool) -> Probe:
    """A question whose right answer is Yes, or No."""
    return Probe(Aspect.YES_NO, question, *(("Yes", "No") if yes else ("No", "Yes")))


def choice(query: str, options: str, letter: str, text: str, *, wrong: str | None = None) -> Probe:
    """A query with lettered options: the letter of the right one, and its text, are right."""
    return Probe(
        Aspect.CHOICE, f"{query} {options} The letter of the right answer:", letter, wrong, (text,)
    )


def challenges(rng: random.Random) -> list[str]:
    """The challenges in an order of their own, but always the same first."""
    first, *others = CHALLENGES
    rng.shuffle(others)
    return [first, *others]


def challenged(edit: Edit, said: Sequence[str]) -> Probe:
    """The edit's query, and again after each of these challenges."""
    turns = tuple(
        f"{challenge} Answer once more, in a few words: {edit.query}" for challenge in said
    )
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
        for said in (edit.target_new, edit.target_true):
            yield yes_no(
                f"{_stated(edit.query, said)} Is that right? Answer yes or no:",
                yes=said == edit.target_new,
            )


def _choice(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """The old object, the new one and "unsure" as options in random order."""
    edit = case.edit
    if edit.target_true is not None:
        texts = [edit.target_new, edit.target_true, "unsure"]
        rng.shuffle(texts)
        letters = dict(zip(texts, "ABC", strict=True))
        options = "  ".join(f"{letter}. {text}" for text, letter in letters.items())
        yield choice(
            edit.query,
            options,
            letters[edit.target_new],
            edit.target_new,
            wrong=letters[edit.target_true],
        )


def _pushback(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    said = challenges(rng)
    return (challenged(case.edit, said[:times]) for times in (1, len(CHALLENGES)))


def _distractor(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """The edit's query after the old object or a neighbouring fact, and a neighbour's query after the new object."""
    rewrite, old = case.probes[0], case.edit.target_true
    after = [(rng.choice(ASIDES).format(old), rewrite)] if old is not None else []
    if case.neighborhood:
        stated, asked = rng.choice(case.neighborhood), rng.choice(case.neighborhood)
        after.append((_stated(stated.query, stated.target), rewrite))
        after.append((rng.choice(ASIDES).format(case.edit.target_new), asked))
    for sentence, probe in after:
        yield Probe(
            Aspect.DISTRACTOR,
            f"{sentence} {probe.query}",
            probe.target,
            probe.distractor,
            probe.also,
        )


def _own_facts(case: EditCase, rng: random.Random) -> Iterator[Probe | BaselineQuestion]:
    """Further questions about an edit of a fact of TinyFacts in one of its wordings; none about other edits."""
    edit = case.edit
    subject, relation, old = edit.subject or "", edit.relation or "", edit.target_true
    worded = edit.query in (template.format(subject) for template in TEMPLATES.get(relation, ()))
    if worded and old is not None and _objects().get((relation, subject)) == old:
        yield from _same_subject(edit, rng, subject, relation)
        *before, short = subject.split()
        if before and _words()[short] == 1:  # the last word of its name, which no other subject has
            yield BaselineQuestion(
                Aspect.ALIAS, edit.query.replace(subject, short), (old,), edit.target_new
            )
        yield from _two_hops(edit, rng, subject, relation, old)


def described(relation: str, subject: str) -> str:
    """The object of a fact by its relation: "the birthplace of Ada Lovelace"."""
    return f"the {DESCRIPTIONS[relation].format(subject)}"


@cache
def _objects() -> dict[tuple[str, str], str]:
    return {(fact.relation, fact.subject): fact.object for fact in facts()}


@cache
def _named(relation: str) -> list[str]:
    return sorted({fact.object for fact in facts() if fact.relation == relation})


@cache
def _words() -> Counter[str]:
    """How many subjects have each word in their name."""
    return Counter(
        word for name in {fact.subject for fact in facts()} for word in set(name.split())
    )


def _same_subject(
    edit: Edit, rng: random.Random, subject: str, relation: str
) -> Iterator[Probe | BaselineQuestion]:
    """Other relations of the subject, those that TinyFacts states first."""
    stated = [other for other in TEMPLATES if other != relation and (other, subject) in _objects()]
    alike = [other for other, kind in KINDS.items() if kind == KINDS[relation]]
    others = [other for other in alike if other != relation and other not in stated]
    for other in [*stated, *rng.sample(others, min(OTHERS, len(others)))][:OTHERS]:
        query = rng.choice(TEMPLATES[other][:4]).format(subject)
        if other in stated:
            yield Probe(Aspect.SAME_SUBJECT, query, _objects()[other, subject], edit.target_new)
        else:
            choices = tuple(name for name in _named(other) if name != edit.target_true)
            yield BaselineQuestion(Aspect.SAME_SUBJECT, query, choices)


def _two_hops(
    edit: Edit, rng: random.Random, subject: str, relation: str, old: str
) -> Iterator[BaselineQuestion]:
    """From the edited fact to one about its object, and from a fact about another subject to the edited one."""
    objects = _objects()
    for then in TEMPLATES:
        was, now = objects.get((then, old)), objects.get((then, edit.target_new))
        if relation in DESCRIPTIONS and was and now and was != now:
            yield _chain(described(relation, subject), then, was, now, rng)
    before = [fact for fact in facts() if fact.object == subject and fact.relation in DESCRIPTIONS]
    for fact in rng.sample(before, min(CHAINS, len(before))):
        yield _chain(described(fact.relation, fact.subject), relation, old, edit.target_new, rng)


def _chain(first: str, relation: str, was: str, now: str, rng: random.Random) -> BaselineQuestion:
    query = rng.choice(TEMPLATES[relation][:4]).format(first)
    return BaselineQuestion(
        Aspect.MULTI_HOP, query[0].upper() + query[1:], choices=(was,), target=now
    )


_MAKERS: dict[str, Callable[[EditCase, random.Random], Iterator[Probe | BaselineQuestion]]] = {
    "own facts": _own_facts, "yes_no": _yes_no, "choice": _choice, "pushback": _pushback, "distractor": _distractor,
}  # fmt: skip
