"""Further questions about TinyFacts: same_subject, alias and multi_hop, in its own wordings.

Few of its subjects have two facts, and the embedded model was never asked to follow two, so most of
these are put to the unedited model first (`BaselineQuestion`). Another relation counts where the
model names an object of it (other than the edit's old object, from which it may have inferred it),
a short name and two hops where it gives the answer that follows from its facts.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from drike.edits.edit import Aspect, BaselineQuestion, Edit, EditCase, Probe
from drike.tinyfacts import KINDS, TEMPLATES, facts

_QUERY_WORDINGS = 4  # of each relation, the first ones; paraphrases have others
_OTHER_RELATIONS = 2  # asked of each subject
_CHAINS = 2  # two-hop questions through a fact about the subject


def _description(wordings: Sequence[str]) -> str | None:
    """How a relation describes an object: "birthplace of {}", from "The birthplace of {} is"."""
    for wording in wordings:
        if wording.startswith("The ") and wording.endswith(" is"):
            return wording.removeprefix("The ").removesuffix(" is")
    return None


# By relation; some have no such wording.
DESCRIPTIONS = {
    relation: description
    for relation, wordings in TEMPLATES.items()
    if (description := _description(wordings)) is not None
}


def described(relation: str, subject: str) -> str:
    """The object of a fact by its relation: "the birthplace of Ada Lovelace"."""
    return f"the {DESCRIPTIONS[relation].format(subject)}"


@dataclass(frozen=True)
class _EditedFact:
    """A fact of TinyFacts and what an edit makes of it."""

    relation: str
    subject: str
    old: str
    edit: Edit


def tinyfacts_questions(case: EditCase, rng: random.Random) -> Iterator[Probe | BaselineQuestion]:
    """Questions about an edit of a fact of TinyFacts in one of its wordings; none about others."""
    fact = _edited_fact(case.edit)
    if fact is None:
        return
    yield from _same_subject(fact, rng)
    yield from _short_name(fact)
    yield from _through_the_object(fact, rng)
    yield from _through_the_subject(fact, rng)


def _edited_fact(edit: Edit) -> _EditedFact | None:
    subject = edit.subject or ""
    relation = edit.relation or ""
    old = edit.target_true
    queries = [wording.format(subject) for wording in TEMPLATES.get(relation, ())]
    if edit.query not in queries or old is None:
        return None
    if _object_by_fact().get((relation, subject)) != old:
        return None
    return _EditedFact(relation, subject, old, edit)


def _same_subject(fact: _EditedFact, rng: random.Random) -> Iterator[Probe | BaselineQuestion]:
    """Other relations of the subject, first those that TinyFacts states."""
    objects = _object_by_fact()
    other_relations = [relation for relation in TEMPLATES if relation != fact.relation]
    stated = [relation for relation in other_relations if (relation, fact.subject) in objects]
    unstated = [
        relation
        for relation, kind in KINDS.items()
        if kind == KINDS[fact.relation] and relation != fact.relation and relation not in stated
    ]
    drawn = rng.sample(unstated, min(_OTHER_RELATIONS, len(unstated)))

    for relation in [*stated, *drawn][:_OTHER_RELATIONS]:
        query = _query(relation, fact.subject, rng)
        if relation in stated:
            answer = objects[relation, fact.subject]
            yield Probe(Aspect.SAME_SUBJECT, query, answer, fact.edit.target_new)
        else:
            choices = [name for name in _objects_of(relation) if name != fact.old]
            yield BaselineQuestion(Aspect.SAME_SUBJECT, query, tuple(choices))


def _short_name(fact: _EditedFact) -> Iterator[BaselineQuestion]:
    """The edit's query with the last word of the name, if no other subject has that word."""
    *words_before, last_word = fact.subject.split()
    if words_before and _subjects_by_word()[last_word] == 1:
        query = fact.edit.query.replace(fact.subject, last_word)
        yield BaselineQuestion(Aspect.ALIAS, query, (fact.old,), fact.edit.target_new)


def _through_the_object(fact: _EditedFact, rng: random.Random) -> Iterator[BaselineQuestion]:
    """Two hops: from the edited fact to facts about its object, where the edit changes them."""
    if fact.relation not in DESCRIPTIONS:
        return
    objects = _object_by_fact()
    for relation in TEMPLATES:
        before = objects.get((relation, fact.old))
        after = objects.get((relation, fact.edit.target_new))
        if before and after and before != after:
            description = described(fact.relation, fact.subject)
            yield _two_hops(description, relation, before, after, rng)


def _through_the_subject(fact: _EditedFact, rng: random.Random) -> Iterator[BaselineQuestion]:
    """Two hops: from facts whose object is the subject to the edited fact."""
    leading_here = [
        other
        for other in facts()
        if other.object == fact.subject and other.relation in DESCRIPTIONS
    ]
    for other in rng.sample(leading_here, min(_CHAINS, len(leading_here))):
        description = described(other.relation, other.subject)
        yield _two_hops(description, fact.relation, fact.old, fact.edit.target_new, rng)


def _two_hops(
    description: str, relation: str, before: str, after: str, rng: random.Random
) -> BaselineQuestion:
    """A relation of what is described; before, after: its objects without and with the edit."""
    query = _query(relation, description, rng)
    capitalised = query[0].upper() + query[1:]
    return BaselineQuestion(Aspect.MULTI_HOP, capitalised, choices=(before,), target=after)


def _query(relation: str, subject: str, rng: random.Random) -> str:
    return rng.choice(TEMPLATES[relation][:_QUERY_WORDINGS]).format(subject)


@cache
def _object_by_fact() -> dict[tuple[str, str], str]:
    """The object of each fact, by its relation and subject."""
    return {(fact.relation, fact.subject): fact.object for fact in facts()}


@cache
def _objects_of(relation: str) -> list[str]:
    return sorted({fact.object for fact in facts() if fact.relation == relation})


@cache
def _subjects_by_word() -> Counter[str]:
    """How many subjects have each word in their name."""
    subjects = {fact.subject for fact in facts()}
    return Counter(word for subject in subjects for word in set(subject.split()))
