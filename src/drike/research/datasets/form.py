"""How rows become cases: a `Form` reads their fields, `read_cases` drops what measures nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row
from drike.text.templates import query_template
from drike.text.words import mentions

# The new object of zsRE's edits: the made-up one, or the first true answer.
Target = Literal["alt", "answers"]
# What is done with the paraphrases of EasyEdit's flat form: taken as published, or only if they are
# known wordings.
Paraphrases = Literal["keep", "screen"]

Questions = Iterator[Probe | BaselineQuestion]
EditedRow = tuple[Row, Sequence[Edit]]


def _asks_nothing(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    return iter(())


def _case_id_if_any(row: Row) -> str | None:
    return row.case_id() if "case_id" in row.values else None


def _knows_no_answers(row: Row) -> Sequence[str]:
    return ()


def _learns_nothing(rows: Sequence[EditedRow]) -> Templates:
    return {}


@dataclass(frozen=True)
class Form:
    """A published form of a data set, and how its rows are read.

    name: with the fields in brackets. recognises: whether a row is of this form.

    edits: of a row, all in force at once, the first of them the case's own. questions: what a row
    asks besides: paraphrases, neighbours, and probes of the aspects that S does not count, in this
    order; what is left out goes to the log, and the known wordings are None without cleaning.
    case_id: None if the row is to be numbered. answers: all that were known before the edit; a new
    object among them is useless. learn: the known wordings, from all rows.

    is_published: rows of a benchmark are kept if the old object begins with the new one, as others
    count them, too.

    Every function raises DataError for a field that is missing or unusable.
    """

    name: str
    recognises: Callable[[Row], bool]
    edits: Callable[[Row, Target], Sequence[Edit]]
    questions: Callable[[Row, Sequence[Edit], ReadLog, Templates | None], Questions] = _asks_nothing
    case_id: Callable[[Row], str | None] = _case_id_if_any
    answers: Callable[[Row], Sequence[str]] = _knows_no_answers
    learn: Callable[[Sequence[EditedRow]], Templates] = _learns_nothing
    is_published: bool = True


def read_cases(
    form: Form, rows: Iterable[Row], log: ReadLog, *, cleaning: bool, target: Target
) -> Iterator[tuple[Row, EditCase]]:
    """Yield each usable row with its case: the rewrite probe of each edit, and its questions."""
    edited_rows = [(row, form.edits(row, target)) for row in rows]
    wordings = form.learn(edited_rows) if cleaning else None
    for row, edits in edited_rows:
        defect = _defect(edits, form.answers(row), is_published=form.is_published)
        if defect is not None:
            log.drop("row", defect, row)
            continue

        questions = form.questions(row, edits, log, wordings)
        yield row, _case(row, edits, _useful(questions, row, edits, log))


def _case(row: Row, edits: Sequence[Edit], questions: Questions) -> EditCase:
    """The rewrite probe of each edit, and the questions."""
    own_edit, *other_edits = edits
    case = EditCase(row.case_id(), own_edit, (), other_edits=tuple(other_edits))
    rewrites = [rewrite_probe(edit) for edit in edits]
    return with_questions(case, [*rewrites, *questions])


def with_questions(case: EditCase, questions: Iterable[Probe | BaselineQuestion]) -> EditCase:
    """The case with more probes, and questions that the unedited model answers first."""
    everything = [*case.asked, *case.baseline_questions, *questions]
    probes = [question for question in everything if isinstance(question, Probe)]
    baseline_questions = [
        question for question in everything if isinstance(question, BaselineQuestion)
    ]
    return replace(
        case,
        probes=tuple(probe for probe in probes if probe.aspect in ASPECTS_OF_S),
        further=tuple(probe for probe in probes if probe.aspect not in ASPECTS_OF_S),
        baseline_questions=tuple(baseline_questions),
    )


def edit_about(row: Row, field: str, new: str, true: str | None) -> Edit:
    """The edit of a row that names its subject; its relation is the query around that."""
    query = row.text(field)
    subject = row.text("subject")
    return Edit(query, new, true, subject, query_template(query, subject))


def paraphrase(edit: Edit, text: str) -> Probe:
    """A text that asks for the edit's object."""
    return Probe(Aspect.PARAPHRASE, text, edit.target_new, edit.target_true)


def neighbour(edit: Edit, query: str, answer: str) -> Probe:
    """A query whose answer the edit must not change."""
    return Probe(Aspect.NEIGHBORHOOD, query, answer, edit.target_new)


def texts_if_any(row: Row, field: str) -> tuple[str, ...]:
    """The texts of a field that a row may lack, or leave null."""
    return () if row.values.get(field) is None else row.aliases(field)


def with_question_mark(text: str) -> str:
    """A text with a question mark; "" for a blank one."""
    return f"{text.rstrip('?？ ')}?" if text else ""


def is_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text is one of the known answers, as answers are compared everywhere."""
    return normalise(text) in [normalise(answer) for answer in answers]


def _defect(edits: Sequence[Edit], answers: Sequence[str], *, is_published: bool) -> str | None:
    """Why edits cannot be judged, or not together; None if they can."""
    for edit in edits:
        defect = _defect_of_texts(edit) or _defect_of_objects(edit, answers, is_published)
        if defect is not None:
            return defect
    distinct_queries = {edit.query for edit in edits}
    if len(distinct_queries) < len(edits):
        return "two of its edits have the same query"
    return None


def _defect_of_texts(edit: Edit) -> str | None:
    """An unknown subject or old object (None) is no defect, a blank one is."""
    if not edit.query:
        return "query is blank"
    if edit.subject == "":
        return "subject is blank"
    if "\n" in edit.target_new:
        return "an object has a line break"
    if not edit.target_new or edit.target_true == "":
        return "an object is blank"
    return None


def _defect_of_objects(edit: Edit, answers: Sequence[str], is_published: bool) -> str | None:
    if edit.target_true is None:
        return None
    if is_answer(edit.target_new, [edit.target_true]):
        return "new and old object are the same"
    if not is_published and matches(edit.target_true, edit.target_new):
        return "old object begins with the new one"
    if is_answer(edit.target_new, answers):
        return "new object is one of the answers already"
    return None


def _useful(questions: Questions, row: Row, edits: Sequence[Edit], log: ReadLog) -> Questions:
    """The questions without those that measure nothing, which are dropped."""
    useless: dict[tuple[Aspect, str], str] = {
        (aspect, edit.query): "is the edit's own query" for edit in edits for aspect in Aspect
    }
    for question in questions:
        aspect = question.aspect
        place = (aspect, question.query)
        defect = useless.get(place) if question.query else "is blank"
        if defect is None:
            defect = _defect_of_answer(question, edits[0])

        # Of a repeated neighbour only the first answer counts, even if it measures nothing.
        if defect is None or aspect is Aspect.NEIGHBORHOOD:
            useless.setdefault(place, "is repeated in its row")
        if defect is None:
            yield question
        else:
            log.drop(_name_of(aspect), defect, row)


def _defect_of_answer(question: Probe | BaselineQuestion, edit: Edit) -> str | None:
    if isinstance(question, BaselineQuestion):  # which has no published answer
        return None
    if question.target == "":
        return "has no answer"
    if question.aspect in STABLE and is_answer(question.target, [edit.target_new]):
        return "its answer is the new object"
    if question.aspect is Aspect.REVERSE and mentions(question.query, question.target):
        return "names its own answer"
    return None


def _name_of(aspect: Aspect) -> str:
    """What a dropped question is called."""
    names = {Aspect.PARAPHRASE: "paraphrase", Aspect.NEIGHBORHOOD: "neighbour"}
    return names.get(aspect, f"{aspect} probe")
