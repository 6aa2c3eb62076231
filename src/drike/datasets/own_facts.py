"""Further questions about TinyFacts from its own facts: same_subject, alias and multi_hop.

Few subjects have two facts, and the embedded model was never asked to follow two, so most questions are put to the
unedited model first (`BaselineQuestion`): another relation of the subject counts where the model names an object of
that relation (other than the edit's old object, from which it may have inferred it), a short name and two hops where
it gives the answer that follows from its facts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

from drike.edits import Aspect, BaselineQuestion, Edit, Probe
from drike.tinyfacts import TEMPLATES, facts

# Relations that can be asked of the same subject: of people, places, works, products and organisations.
KINDS = (
    "P103 P1412 P27 P106 P19 P20 P937 P413 P1303 P136 P140 P108 P101 P641 P39",
    "P17 P30 P190 P37",
    "P364 P407 P495 P449",
    "P178 P176",
    "P159 P740",
)
OTHERS, CHAINS = 2, 2  # other relations asked of each subject, and two-hop questions through a fact about it
# "The birthplace of {} is" describes an object: the birthplace of {}.
DESCRIPTIONS = {
    relation: template[4:-3]
    for relation, wordings in TEMPLATES.items()
    for template in reversed(wordings)  # of several, the first
    if template.startswith("The ") and template.endswith(" is")
}


def own_facts(edit: Edit, rng: random.Random) -> Iterator[Probe | BaselineQuestion]:
    """Further questions about an edit of a fact of TinyFacts in one of its wordings; none about other edits."""
    subject, relation, old = edit.subject or "", edit.relation or "", edit.target_true
    worded = edit.query in (template.format(subject) for template in TEMPLATES.get(relation, ()))
    if worded and old is not None and _objects().get((relation, subject)) == old:
        yield from _same_subject(edit, rng, subject, relation)
        *before, short = subject.split()
        if before and _words()[short] == 1:  # the last word of its name, which no other subject has
            yield BaselineQuestion(Aspect.ALIAS, edit.query.replace(subject, short), (old,), edit.target_new)
        yield from _two_hops(edit, rng, subject, relation, old)


def described(relation: str, subject: str) -> str:
    """The object of a fact by its relation: "the birthplace of Ada Lovelace"."""
    return f"the {DESCRIPTIONS[relation].format(subject)}"


@cache
def _objects() -> dict[tuple[str, str], str]:
    """The object of each (relation, subject)."""
    return {(fact.relation, fact.subject): fact.object for fact in facts()}


@cache
def _named(relation: str) -> list[str]:
    return sorted({fact.object for fact in facts() if fact.relation == relation})


@cache
def _words() -> Counter[str]:
    """How many subjects have each word in their name."""
    return Counter(word for name in {fact.subject for fact in facts()} for word in set(name.split()))


def _same_subject(edit: Edit, rng: random.Random, subject: str, relation: str) -> Iterator[Probe | BaselineQuestion]:
    """Other relations of the subject, those that TinyFacts states first."""
    stated = [other for other in TEMPLATES if other != relation and (other, subject) in _objects()]
    kind = next(kind.split() for kind in KINDS if relation in kind.split())
    others = [other for other in kind if other != relation and other not in stated]
    for other in [*stated, *rng.sample(others, min(OTHERS, len(others)))][:OTHERS]:
        query = rng.choice(TEMPLATES[other][:4]).format(subject)
        if other in stated:
            yield Probe(Aspect.SAME_SUBJECT, query, _objects()[other, subject], edit.target_new)
        else:
            choices = tuple(name for name in _named(other) if name != edit.target_true)
            yield BaselineQuestion(Aspect.SAME_SUBJECT, query, choices)


def _two_hops(edit: Edit, rng: random.Random, subject: str, relation: str, old: str) -> Iterator[BaselineQuestion]:
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
    return BaselineQuestion(Aspect.MULTI_HOP, query[0].upper() + query[1:], choices=(was,), target=now)
