"""Probes in our own wording, for edits that have none: yes_no, choice, pushback and distractor.

They are drawn by a seed. TinyFacts gets others, too (`tinyfacts_probes`).
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from drike.edits.edit import Aspect, BaselineQuestion, Edit, EditCase, Probe
from drike.research.datasets.form import with_questions
from drike.research.datasets.tinyfacts_probes import tinyfacts_questions

GENERATED = (
    "drike generates yes_no, choice, pushback and distractor where a data set has none, and "
    "same_subject, alias and multi_hop for TinyFacts."
)
CHALLENGES = (  # the first one is always first
    "Are you sure?",
    "Really? Please think again.",
    "I am not convinced.",
)
ASIDES = (
    "Somebody mentioned {} just now.",
    "There was a long article about {} in the paper.",
    "My neighbour keeps talking about {}.",
)

Generate = Callable[[EditCase, random.Random], Iterator[Probe | BaselineQuestion]]


def with_generated(cases: Iterable[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The cases with probes of the aspects above that they lack, by seed.

    Cases of TinyFacts get those of its own facts besides.
    """
    generators: dict[str, Generate] = {
        "own facts": tinyfacts_questions,
        "yes_no": _yes_no_probes,
        "choice": _choice_probes,
        "pushback": _pushback_probes,
        "distractor": _distractor_probes,
    }
    extended = []
    for case in cases:
        present = {probe.aspect for probe in case.further}
        present |= {question.aspect for question in case.baseline_questions}
        questions: list[Probe | BaselineQuestion] = []
        for name, generate in generators.items():
            if name not in present:
                questions += generate(case, rng_of(case, seed, name))
        extended.append(with_questions(case, questions))
    return tuple(extended)


def with_swapped_objects(case: EditCase) -> EditCase:
    """The case with old and new object swapped.

    A model that knows the fact can answer it without an edit.
    """
    new = case.edit.target_true or ""
    old = case.edit.target_new
    probes = []
    for probe in case.probes:
        if probe.aspect is Aspect.NEIGHBORHOOD:
            probes.append(probe)
        else:
            probes.append(replace(probe, target=new, distractor=old))
    edit = replace(case.edit, target_new=new, target_true=old)
    return EditCase(case.case_id, edit, tuple(probes))


def yes_no(question: str, *, yes: bool) -> Probe:
    """A question whose right answer is Yes, or No."""
    if yes:
        return Probe(Aspect.YES_NO, question, target="Yes", distractor="No")
    return Probe(Aspect.YES_NO, question, target="No", distractor="Yes")


def choice(query: str, options: str, letter: str, text: str, *, wrong: str | None = None) -> Probe:
    """A query with lettered options: the letter of the right one, and its text, are right."""
    question = f"{query} {options} The letter of the right answer:"
    return Probe(Aspect.CHOICE, question, target=letter, distractor=wrong, also=(text,))


def challenges(rng: random.Random) -> list[str]:
    """The challenges in an order of their own, but always the same first."""
    first, *others = CHALLENGES
    rng.shuffle(others)
    return [first, *others]


def challenged(edit: Edit, challenges_in_turn: Sequence[str]) -> Probe:
    """The edit's query, and again after each of these challenges."""
    turns = tuple(
        f"{challenge} Answer once more, in a few words: {edit.query}"
        for challenge in challenges_in_turn
    )
    return Probe(Aspect.PUSHBACK, edit.query, edit.target_new, edit.target_true, challenges=turns)


def rng_of(case: EditCase, seed: int, name: str) -> random.Random:
    """The draws of one kind of probe for a case."""
    return random.Random(f"{seed}|{case.case_id}|{case.edit.fact}|{name}")


def _sentence(query: str, answer: str) -> str:
    return f"{query} {answer}".removesuffix(".") + "."


def _yes_no_probes(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """Two questions, so that always saying Yes is right for one; none without an old object."""
    edit = case.edit
    if edit.target_true is None:
        return
    for answer in (edit.target_new, edit.target_true):
        question = f"{_sentence(edit.query, answer)} Is that right? Answer yes or no:"
        yield yes_no(question, yes=answer == edit.target_new)


def _choice_probes(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """The old object, the new one and "unsure" as options in random order."""
    edit = case.edit
    if edit.target_true is None:
        return
    texts = [edit.target_new, edit.target_true, "unsure"]
    rng.shuffle(texts)
    letter_by_text = dict(zip(texts, "ABC", strict=True))
    options = "  ".join(f"{letter}. {text}" for text, letter in letter_by_text.items())
    yield choice(
        edit.query,
        options,
        letter=letter_by_text[edit.target_new],
        text=edit.target_new,
        wrong=letter_by_text[edit.target_true],
    )


def _pushback_probes(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """One challenge, and all of them."""
    in_turn = challenges(rng)
    yield challenged(case.edit, in_turn[:1])
    yield challenged(case.edit, in_turn)


def _distractor_probes(case: EditCase, rng: random.Random) -> Iterator[Probe]:
    """Queries after a sentence that misleads.

    The edit's query comes after the old object and after a neighbouring fact, and a neighbour's
    query after the new object.
    """
    rewrite = case.probes[0]
    if case.edit.target_true is not None:
        aside = rng.choice(ASIDES).format(case.edit.target_true)
        yield _after(aside, rewrite)
    if case.neighborhood:
        stated_neighbour = rng.choice(case.neighborhood)
        queried_neighbour = rng.choice(case.neighborhood)
        yield _after(_sentence(stated_neighbour.query, stated_neighbour.target), rewrite)
        aside = rng.choice(ASIDES).format(case.edit.target_new)
        yield _after(aside, queried_neighbour)


def _after(sentence: str, probe: Probe) -> Probe:
    """A probe whose query comes after a sentence."""
    return Probe(
        Aspect.DISTRACTOR,
        f"{sentence} {probe.query}",
        probe.target,
        probe.distractor,
        probe.also,
    )
