"""How rows of a published form become cases: a `Form` reads the fields, `read_cases` drops what measures nothing.

CounterFact's paraphrases begin with an unrelated sentence, and only their end asks the question: `clean` cuts them to
their longest end that is a known wording of the relation (every prompt, and every text around a subject that recurs
with another one), or else after the last sentence end before the subject, or at the subject if only markup precedes it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.answers.matching import matches, normalise
from drike.edits.edit import (
    ASPECTS_OF_S,
    STABLE,
    Aspect,
    BaselineQuestion,
    Edit,
    EditCase,
    Probe,
    rewrite_probe,
)
from drike.research.datasets.read_log import Cut, How, ReadLog
from drike.support.rows import Row
from drike.text.templates import Template, around, query_template
from drike.text.words import mentions

Target = Literal[
    "alt", "answers"
]  # the new object of zsRE's edits: the made-up one, or the first true answer
Paraphrases = Literal[
    "keep", "screen"
]  # of EasyEdit's flat form: as published, or known wordings only
Templates = Mapping[str, Collection[Template]]  # by relation
Asked = Iterator[Probe | BaselineQuestion]
EditedRow = tuple[Row, Sequence[Edit]]
_NAMES = {
    Aspect.PARAPHRASE: "paraphrase",
    Aspect.NEIGHBORHOOD: "neighbour",
}  # of what is dropped; others: "X probe"
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*|\n\s*")
_MARKUP = re.compile(r"Category:|References|External links|https?:|[|{}<>=]")
_LONG_HEAD = 8  # words: CounterFact's longest wording has seven ahead of the subject


@dataclass(frozen=True)
class Form:
    """A published form of a data set, and its fields. Every function raises DataError for one missing or unusable."""

    name: str
    recognises: Callable[[Row], bool]
    edits: Callable[
        [Row, Target], Sequence[Edit]
    ]  # of a row, all in force at once, the first the case's own
    # Paraphrases, neighbours, and probes of the aspects that S does not count, in this order; what is left out goes to
    # the log; the known wordings are None without cleaning.
    asked: Callable[[Row, Sequence[Edit], ReadLog, Templates | None], Asked] = lambda *row: iter(())
    # None if the row is to be numbered.
    case_id: Callable[[Row], str | None] = lambda row: (
        row.case_id() if "case_id" in row.values else None
    )
    answers: Callable[[Row], Sequence[str]] = (
        lambda row: ()
    )  # all known before; a new object among them is useless
    learn: Callable[[Sequence[EditedRow]], Templates] = (
        lambda rows: {}
    )  # the known wordings, from all rows
    published: bool = True  # a benchmark keeps rows whose old object begins with the new one, as others count them


def read_cases(
    form: Form, rows: Iterable[Row], log: ReadLog, *, cleaning: bool, target: Target
) -> Iterator[tuple[Row, EditCase]]:
    """Yield each usable row with its case: the rewrite probe of each edit, then what else the row asks."""
    edited = [(row, form.edits(row, target)) for row in rows]
    known = form.learn(edited) if cleaning else None
    for row, edits in edited:
        if defect := _defect(edits, form.answers(row), published=form.published):
            log.dropped["row", defect].append(row)
            continue
        asked = _measuring(row, edits, log, form.asked(row, edits, log, known))
        bare = EditCase(row.case_id(), edits[0], (), other_edits=tuple(edits[1:]))
        yield row, with_questions(bare, (*map(rewrite_probe, edits), *asked))


def with_questions(case: EditCase, questions: Iterable[Probe | BaselineQuestion]) -> EditCase:
    """The case with more probes, and questions that the unedited model answers first."""
    made = (*case.asked, *case.baseline_questions, *questions)
    probes = [question for question in made if isinstance(question, Probe)]
    of_s = tuple(probe for probe in probes if probe.aspect in ASPECTS_OF_S)
    further = tuple(probe for probe in probes if probe.aspect not in ASPECTS_OF_S)
    unanswered = tuple(question for question in made if isinstance(question, BaselineQuestion))
    return replace(case, probes=of_s, further=further, baseline_questions=unanswered)


def edit_about(row: Row, field: str, new: str, true: str | None) -> Edit:
    """The edit of a row that names its subject; its relation is the query around that."""
    query, subject = row.text(field), row.text("subject")
    return Edit(query, new, true, subject, query_template(query, subject))


def paraphrase(edit: Edit, text: str) -> Probe:
    """A text that asks for the edit's object."""
    return Probe(Aspect.PARAPHRASE, text, edit.target_new, edit.target_true)


def neighbour(edit: Edit, query: str, answer: str) -> Probe:
    """A query whose answer the edit must not change."""
    return Probe(Aspect.NEIGHBORHOOD, query, answer, edit.target_new)


def question(text: str) -> str:
    """A text with a question mark; "" for a blank one."""
    return f"{text.rstrip('?？ ')}?" if text else ""


def is_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text is one of the known answers, as answers are compared everywhere."""
    return normalise(text) in map(normalise, answers)


def _defect(edits: Sequence[Edit], answers: Sequence[str], *, published: bool) -> str | None:
    """Why edits cannot be judged (together), or None. An unknown old object (None) is fine, a blank one is not."""
    for edit in edits:
        if not edit.query or edit.subject == "":
            return "subject is blank" if edit.query else "query is blank"
        if not edit.target_new or edit.target_true == "" or "\n" in edit.target_new:
            return "an object has a line break" if "\n" in edit.target_new else "an object is blank"
        same = edit.target_true is not None and is_answer(edit.target_new, [edit.target_true])
        if same or (
            edit.target_true and not published and matches(edit.target_true, edit.target_new)
        ):
            return (
                "new and old object are the same" if same else "old object begins with the new one"
            )
        if edit.target_true is not None and is_answer(edit.target_new, answers):
            return "new object is one of the answers already"
    return (
        None
        if len({edit.query for edit in edits}) == len(edits)
        else "two of its edits have the same query"
    )


def _measuring(row: Row, edits: Sequence[Edit], log: ReadLog, asked: Asked) -> Asked:
    """The questions without those that measure nothing, which are dropped."""
    seen = {(aspect, edit.query): "is the edit's own query" for edit in edits for aspect in Aspect}
    for question in asked:
        aspect, query = question.aspect, question.query
        right = question.target if isinstance(question, Probe) else None
        why = "is blank" if not query else seen.get((aspect, query))
        if not why and right == "":
            why = "has no answer"
        elif not why and right and aspect in STABLE and is_answer(right, [edits[0].target_new]):
            why = "its answer is the new object"
        elif not why and right and aspect is Aspect.REVERSE and mentions(query, right):
            why = "names its own answer"
        if why:
            log.dropped[_NAMES.get(aspect, f"{aspect} probe"), why].append(row)
        if (
            not why or aspect is Aspect.NEIGHBORHOOD
        ):  # of a repeated neighbour only the first answer counts
            seen.setdefault((aspect, query), "is repeated in its row")
        if not why:
            yield question


def sentence_start(text: str) -> int:
    """Where the last, unfinished sentence of `text` begins."""
    return max((match.end() for match in _SENTENCE_END.finditer(text)), default=0)


def begins(text: str, start: int) -> bool:
    """Whether something new begins at `start`: it follows nothing, a sentence end or markup."""
    before = text[:start]
    gap = before[sentence_start(before) :]
    return gap == "" or bool(_MARKUP.search(gap))


def learn(published: Iterable[tuple[Edit, Iterable[str]]]) -> Templates:
    """The templates of every relation: all prompts, and what recurs around at least two different subjects."""
    subjects: dict[str, dict[Template, set[str]]] = defaultdict(lambda: defaultdict(set))
    known: dict[str, set[Template]] = defaultdict(set)
    for edit, texts in published:
        relation, subject = edit.relation or "", edit.subject or ""
        if prompt := around(edit.query, subject):
            known[relation].add(prompt)
        for before, after in filter(None, (around(text, subject) for text in texts)):
            # Both the text as it stands (clean files) and its last sentence (published CounterFact).
            subjects[relation][before, after].add(subject)
            subjects[relation][before[sentence_start(before) :], after].add(subject)
    for relation, seen in subjects.items():
        known[relation] |= {template for template in seen if _is_wording(template, seen)}
    return known


def _is_wording(template: Template, seen: Mapping[Template, set[str]]) -> bool:
    """Whether a text around subjects is a way of asking: it recurs, and does not begin with a stock sentence."""
    before, after = template
    start = sentence_start(before)
    question = before[start:], after
    if len(seen[template]) < 2 or _MARKUP.search(before):
        return False
    # Stock sentences recur in CounterFact too, but with few of the subjects that the question is asked about.
    return start == 0 or len(seen[template]) * 3 >= len(seen[question])


def known_end(text: str, subject: str, templates: Iterable[Template]) -> int | None:
    """Where the longest end of `text` that is one of `templates` about `subject` begins; None without one."""
    ends = (before + subject + after for before, after in templates)
    starts = (len(text) - len(end) for end in ends if text.endswith(end))
    # A subject must not be found inside a longer word.
    return min(
        (start for start in starts if start == 0 or not text[start - 1].isalnum()), default=None
    )


def clean(text: str, subject: str, templates: Iterable[Template]) -> Cut:
    """Cut the unrelated start off a paraphrase; `templates` are those of its relation."""
    if (start := known_end(text, subject, templates)) is not None:
        # Not after a sentence or markup: an unknown wording may have been cut down to a shorter, known one.
        return Cut(
            text,
            text[start:],
            "template" if start else "unchanged",
            suspicious=not begins(text, start),
        )
    if (parts := around(text, subject)) is None:
        return Cut(text, text, "unchanged", suspicious=True)
    before, after = parts
    start = sentence_start(before)
    how: How = "sentence" if start else "unchanged"
    if _MARKUP.search(before[start:]):
        start, how = len(before), "subject"
    head = before[start:]
    # A cut at the subject may lose the question's first words, one at a sentence end may leave too many.
    guessed = how == "subject" or (how == "sentence" and head != "")
    first = head.lstrip()[:1]  # of what may be a remnant of something else
    odd = len(head.split()) > _LONG_HEAD or (first != "" and not first.isalpha()) or "\n" in head
    return Cut(text, text[start:], how, suspicious=guessed or odd or not after.strip())
