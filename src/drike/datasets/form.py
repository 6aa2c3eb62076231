"""How rows of a published form become cases: a `Form` reads the fields, `read_cases` drops what measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.datasets.paraphrases import Templates, query_template
from drike.datasets.rows import Cut, ReadLog, Row
from drike.edits import Aspect, BaselineQuestion, Edit, EditCase, Probe, rewrite_probe
from drike.matching import normalise
from drike.words import mentions

Target = Literal["alt", "answers"]  # the new object of zsRE's edits: the made-up one, or the first true answer
Paraphrases = Literal["keep", "screen"]  # of EasyEdit's flat form: as published, or known wordings only


@dataclass(frozen=True)
class Entry:
    """A row with its edit, from which probes are read; what is dropped and cut goes to `log`."""

    row: Row
    edit: Edit
    log: ReadLog

    def drop(self, what: str, reason: str) -> None:
        """Record that the row, or a probe of it, is left out."""
        self.log.drop(what, reason, self.row)

    def cut(self, cut: Cut) -> str:
        """Record how a paraphrase was cut, and return the text that is kept."""
        self.log.cuts.append(cut)
        return cut.after


@dataclass(frozen=True)
class Form:
    """A published form of a data set. Every function raises DataError for a field that is missing or unusable.

    Attributes:
        name: the form with its fields, as messages show it.
        recognises: whether a row has this form.
        edit: the edit of a row; `Target` chooses zsRE's.
        case_id: the id of a row in its file, or None if the row is to be numbered; default: its field, if it has one.
        answers: all known answers before the edit. A new object among them makes the row useless.
        learn: the known wordings, learned from all rows of the form; paraphrases are cut to them.
        paraphrases: texts that ask for the edit's object; the known wordings are None without cleaning.
        neighbours: queries that the edit must not change, with their answers.
        others: further edits of a row, in force at the same time as its own, each with its paraphrases.
        further: probes of the aspects that S does not count, and questions without a published answer.
    """

    name: str
    recognises: Callable[[Row], bool]
    edit: Callable[[Row, Target], Edit]
    case_id: Callable[[Row], str | None] = lambda row: row.case_id() if "case_id" in row.values else None
    answers: Callable[[Row], Sequence[str]] = lambda row: ()
    learn: Callable[[Sequence[Entry]], Templates] = lambda entries: {}
    paraphrases: Callable[[Entry, Templates | None], Iterable[str]] = lambda entry, known: ()
    neighbours: Callable[[Entry], Iterable[tuple[str, str]]] = lambda entry: ()
    others: Callable[[Row], Sequence[tuple[Edit, Sequence[str]]]] = lambda row: ()
    further: Callable[[Entry], Iterable[Probe | BaselineQuestion]] = lambda entry: ()


def read_cases(
    form: Form, rows: Iterable[Row], log: ReadLog, *, cleaning: bool, target: Target
) -> Iterator[tuple[Row, EditCase]]:
    """Yield each usable row with its case: the rewrite probe of each edit, then paraphrases, then neighbours."""
    entries = [Entry(row, form.edit(row, target), log) for row in rows]
    known = form.learn(entries) if cleaning else None
    for entry in entries:
        row, edit = entry.row, entry.edit
        others = form.others(row)
        edits = (edit, *(other for other, _ in others))
        if defect := _defect(edit, form.answers(row)) or _defect_together(edits):
            entry.drop("row", defect)
            continue
        worded = [(edit, form.paraphrases(entry, known)), *others]
        paraphrases = (probe for other, texts in worded for probe in _paraphrases(replace(entry, edit=other), texts))
        probes = (*map(rewrite_probe, edits), *paraphrases, *_neighbours(entry, list(form.neighbours(entry))))
        case = EditCase(row.case_id(), edit, probes, other_edits=edits[1:])
        yield row, with_questions(case, _further(entry, form.further(entry)))


def with_questions(case: EditCase, questions: Iterable[Probe | BaselineQuestion]) -> EditCase:
    """The case with further probes, and questions that the unedited model answers first."""
    made = list(questions)
    probes = (question for question in made if isinstance(question, Probe))
    unanswered = (question for question in made if isinstance(question, BaselineQuestion))
    return replace(case, further=(*case.further, *probes), baseline_questions=(*case.baseline_questions, *unanswered))


def edit_about(row: Row, field: str) -> Callable[[str, str | None], Edit]:
    """From new and old object to the edit of a row that names its subject; its relation is the query around that."""
    query, subject = row.text(field), row.text("subject")
    return lambda new, true: Edit(query, new, true, subject, query_template(query, subject))


def question(text: str) -> str:
    """A text with a question mark; "" for a blank one."""
    return f"{text.removesuffix('?').rstrip()}?" if text else ""


def is_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text is one of the known answers, as answers are compared everywhere."""
    return normalise(text) in map(normalise, answers)


def _defect(edit: Edit, answers: Sequence[str]) -> str | None:
    """Why an edit cannot be judged, or None. An unknown old object (None) is fine, a blank one is not."""
    if not edit.query:
        return "query is blank"
    if edit.subject == "":
        return "subject is blank"
    if not edit.target_new or edit.target_true == "":
        return "an object is blank"
    if edit.target_true is None:
        return None
    if is_answer(edit.target_new, [edit.target_true]):
        return "new and old object are the same"
    return "new object is one of the answers already" if is_answer(edit.target_new, answers) else None


def _defect_together(edits: Sequence[Edit]) -> str | None:
    """Why the other edits of a row cannot be judged together with the first, or None."""
    if len({edit.query for edit in edits}) < len(edits):
        return "two of its edits have the same query"
    return next(filter(None, (_defect(edit, ()) for edit in edits[1:])), None)


def _paraphrases(entry: Entry, texts: Iterable[str]) -> Iterator[Probe]:
    new, true = entry.edit.target_new, entry.edit.target_true
    return (Probe(Aspect.PARAPHRASE, text, new, true) for text in _distinct(entry, "paraphrase", texts))


def _distinct(entry: Entry, what: str, texts: Iterable[str]) -> Iterator[str]:
    """The texts without blanks, repeats and the edit's own query, which are dropped."""
    seen: set[str] = set()
    for text in texts:
        if not text:
            entry.drop(what, "is blank")
        elif text == entry.edit.query:
            entry.drop(what, "is the edit's own query")
        elif text in seen:
            entry.drop(what, "is repeated in its row")
        else:
            seen.add(text)
            yield text


def _neighbours(entry: Entry, pairs: Sequence[tuple[str, str]]) -> Iterator[Probe]:
    """Neighbourhood probes from (query, answer); one whose answer is the new object measures nothing and is dropped."""
    answers = dict(reversed(pairs))  # of a repeated query, the first answer
    for text in _distinct(entry, "neighbour", (text for text, _ in pairs)):
        if not answers[text]:
            entry.drop("neighbour", "has no answer")
        elif is_answer(answers[text], [entry.edit.target_new]):
            entry.drop("neighbour", "its answer is the new object")
        else:
            yield Probe(Aspect.NEIGHBORHOOD, text, answers[text], entry.edit.target_new)


def _further(entry: Entry, questions: Iterable[Probe | BaselineQuestion]) -> Iterator[Probe | BaselineQuestion]:
    """Probes and questions without those that measure nothing, which are dropped."""
    seen: set[tuple[Aspect, str]] = set()
    for question in questions:
        what, right = f"{question.aspect} probe", question.target if isinstance(question, Probe) else None
        if not question.query:
            entry.drop(what, "is blank")
        elif right == "":
            entry.drop(what, "has no answer")
        elif question.query == entry.edit.query:
            entry.drop(what, "is the edit's own query")
        elif (question.aspect, question.query) in seen:
            entry.drop(what, "is repeated in its row")
        elif question.aspect is Aspect.SAME_SUBJECT and right and is_answer(right, [entry.edit.target_new]):
            entry.drop(what, "its answer is the new object")
        elif question.aspect is Aspect.REVERSE and right and mentions(question.query, right):
            entry.drop(what, "names its own answer")
        else:
            seen.add((question.aspect, question.query))
            yield question
