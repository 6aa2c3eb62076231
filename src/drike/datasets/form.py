"""How rows of a published form become cases: a `Form` reads the fields, `read_cases` drops what measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.datasets.paraphrases import Templates, query_template
from drike.datasets.rows import ReadLog, Row
from drike.edits import ASPECTS_OF_S, Aspect, BaselineQuestion, Edit, EditCase, Probe, rewrite_probe
from drike.matching import normalise
from drike.words import mentions

Target = Literal["alt", "answers"]  # the new object of zsRE's edits: the made-up one, or the first true answer
Paraphrases = Literal["keep", "screen"]  # of EasyEdit's flat form: as published, or known wordings only
Asked = Iterator[Probe | BaselineQuestion]
_NAMES = {Aspect.PARAPHRASE: "paraphrase", Aspect.NEIGHBORHOOD: "neighbour"}  # of what is dropped; others: "X probe"


@dataclass(frozen=True)
class Entry:
    """A row with its edits, the first the case's own, from which questions are read; what is left out goes to `log`."""

    row: Row
    edits: Sequence[Edit]
    log: ReadLog

    @property
    def edit(self) -> Edit:
        """The case's own edit."""
        return self.edits[0]

    def drop(self, what: str, reason: str) -> None:
        """Record that the row, or a probe of it, is left out."""
        self.log.drop(what, reason, self.row)


@dataclass(frozen=True)
class Form:
    """A published form of a data set. Every function raises DataError for a field that is missing or unusable.

    Attributes:
        name: the form with its fields, as messages show it.
        recognises: whether a row has this form.
        edits: the edits of a row, all in force at once; `Target` chooses zsRE's.
        asked: paraphrases, neighbours, and probes of the aspects that S does not count, in this order; the known
            wordings are None without cleaning.
        case_id: the id of a row in its file, or None if the row is to be numbered; default: its field, if it has one.
        answers: all known answers before the edit. A new object among them makes the row useless.
        learn: the known wordings, learned from all rows of the form; paraphrases are cut to them.
    """

    name: str
    recognises: Callable[[Row], bool]
    edits: Callable[[Row, Target], Sequence[Edit]]
    asked: Callable[[Entry, Templates | None], Asked] = lambda entry, known: iter(())
    case_id: Callable[[Row], str | None] = lambda row: row.case_id() if "case_id" in row.values else None
    answers: Callable[[Row], Sequence[str]] = lambda row: ()
    learn: Callable[[Sequence[Entry]], Templates] = lambda entries: {}


def read_cases(
    form: Form, rows: Iterable[Row], log: ReadLog, *, cleaning: bool, target: Target
) -> Iterator[tuple[Row, EditCase]]:
    """Yield each usable row with its case: the rewrite probe of each edit, then what else the row asks."""
    entries = [Entry(row, form.edits(row, target), log) for row in rows]
    known = form.learn(entries) if cleaning else None
    for entry in entries:
        if defect := _defect(entry.edits, form.answers(entry.row)):
            entry.drop("row", defect)
            continue
        asked = list(_measuring(entry, form.asked(entry, known)))
        probes = (probe for probe in asked if isinstance(probe, Probe) and probe.aspect in ASPECTS_OF_S)
        all_probes = (*map(rewrite_probe, entry.edits), *probes)
        case = EditCase(entry.row.case_id(), entry.edit, all_probes, other_edits=tuple(entry.edits[1:]))
        yield entry.row, with_questions(case, (one for one in asked if one.aspect not in ASPECTS_OF_S))


def with_questions(case: EditCase, questions: Iterable[Probe | BaselineQuestion]) -> EditCase:
    """The case with further probes, and questions that the unedited model answers first."""
    made = list(questions)
    probes = (question for question in made if isinstance(question, Probe))
    unanswered = (question for question in made if isinstance(question, BaselineQuestion))
    return replace(case, further=(*case.further, *probes), baseline_questions=(*case.baseline_questions, *unanswered))


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
    return f"{text.removesuffix('?').rstrip()}?" if text else ""


def is_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text is one of the known answers, as answers are compared everywhere."""
    return normalise(text) in map(normalise, answers)


def _defect(edits: Sequence[Edit], answers: Sequence[str]) -> str | None:
    """Why edits cannot be judged (together), or None. An unknown old object (None) is fine, a blank one is not."""
    for edit in edits:
        if not edit.query:
            return "query is blank"
        if edit.subject == "":
            return "subject is blank"
        if not edit.target_new or edit.target_true == "":
            return "an object is blank"
        if edit.target_true is not None and is_answer(edit.target_new, [edit.target_true]):
            return "new and old object are the same"
        if edit.target_true is not None and is_answer(edit.target_new, answers):
            return "new object is one of the answers already"
    return None if len({edit.query for edit in edits}) == len(edits) else "two of its edits have the same query"


def _measuring(entry: Entry, asked: Asked) -> Asked:
    """The questions without those that measure nothing, which are dropped."""
    seen = {(aspect, edit.query): "is the edit's own query" for edit in entry.edits for aspect in Aspect}
    for one in asked:
        right = one.target if isinstance(one, Probe) else None
        stays = one.aspect in (Aspect.NEIGHBORHOOD, Aspect.SAME_SUBJECT)
        why = "is blank" if not one.query else seen.get((one.aspect, one.query))
        if not why and right == "":
            why = "has no answer"
        elif not why and right and stays and is_answer(right, [entry.edit.target_new]):
            why = "its answer is the new object"
        elif not why and right and one.aspect is Aspect.REVERSE and mentions(one.query, right):
            why = "names its own answer"
        if why:
            entry.drop(_NAMES.get(one.aspect, f"{one.aspect} probe"), why)
        if not why or one.aspect is Aspect.NEIGHBORHOOD:  # of a repeated neighbour only the first answer counts
            seen.setdefault((one.aspect, one.query), "is repeated in its row")
        if not why:
            yield one
