"""What becomes of reports of wrong answers: groups of those about the same, and drafts of edits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import regex

from drike.answers.matching import normalise
from drike.answers.statements import Stated
from drike.answers.thoughts import without_thoughts
from drike.edits.record import EditRecord, EditVersion, RecordError, Status
from drike.edits.record_checks import checked
from drike.encoders.base import FloatArray
from drike.errors import DrikeError
from drike.gates.index import EditIndex
from drike.gates.relations import relation_features
from drike.live.report_texts import EDGES, objects_of, statement_of, subject_of
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE
from drike.stores import moves
from drike.stores.approvals import drafted_author
from drike.stores.authorship import changeable
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.inbox import Inbox, Report, ReportState
from drike.text.masking import masked
from drike.text.words import mentions, words

_SAME_WORDS = 0.5  # share of the words of two questions from which on they ask for the same
_SAME_EDIT = 0.6  # cosine from which on a question that names no subject is about the nearest edit
_TOKENS = 1_000  # of what a model writes, with its thoughts
_LAST_JSON_OBJECT = regex.compile(r"\{[^{}]*\}\s*(?:```)?\s*$")


class DraftError(DrikeError):
    """No edit can be drafted from a report."""


@dataclass(frozen=True)
class ReportGroup:
    """Reports of the same, and the edit in use that they may be about."""

    edit: EditVersion | None
    reports: tuple[Report, ...]


def grouped(reports: Sequence[Report], index: EditIndex) -> list[ReportGroup]:
    """Reports in groups, in their order, by the nearest edit and by their words.

    index: of the edits in use.
    """
    edits = nearest([report.question for report in reports], index)
    groups: list[_OpenGroup] = []
    for report, edit in zip(reports, edits, strict=True):
        question_words = frozenset(words(report.question))
        group = next((group for group in groups if group.takes(edit, question_words)), None)
        if group is None:
            group = _OpenGroup(edit, question_words, [])
            groups.append(group)
        group.reports.append(report)
    return [ReportGroup(group.edit, tuple(group.reports)) for group in groups]


@dataclass(frozen=True)
class _OpenGroup:
    """A group that may get more reports. question_words: of its first report's question."""

    edit: EditVersion | None
    question_words: frozenset[str]
    reports: list[Report]

    def takes(self, edit: EditVersion | None, question_words: frozenset[str]) -> bool:
        """Whether a report about an edit, with a question of these words, belongs here."""
        if edit is not self.edit:
            return False
        shared = question_words & self.question_words
        return len(shared) >= _SAME_WORDS * len(question_words | self.question_words)


def nearest(questions: Sequence[str], index: EditIndex) -> list[EditVersion | None]:
    """The edit that each question may be about: one it names, else that of the nearest text."""
    edits = [_named_edit(question, index) for question in questions]
    unnamed = [place for place, edit in enumerate(edits) if edit is None]
    if unnamed and index.encoder is not None and index.edits:
        vectors = index.embed([questions[place] for place in unnamed])
        for place, vector in zip(unnamed, vectors, strict=True):
            edits[place] = _nearest_edit(vector, index)
    return edits


def _nearest_edit(vector: FloatArray, index: EditIndex) -> EditVersion | None:
    """The edit with the text nearest to a question's vector, if that is near enough."""
    cosine_by_edit = index.nearest(vector)
    if not cosine_by_edit:
        return None
    edit_id, cosine = next(iter(cosine_by_edit.items()))  # the nearest comes first
    return index.edits[edit_id] if cosine >= _SAME_EDIT else None


def _named_edit(question: str, index: EditIndex) -> EditVersion | None:
    """Of the edits that a question names, the one whose query shares the most words with it."""
    question_words = set(words(question))
    named = [index.edits[edit_id] for edit_id in sorted(index.named(question))]
    return max(
        named,
        key=lambda edit: len(question_words.intersection(words(edit.record.query))),
        default=None,
    )


def draft(
    store: EditStore,
    numbers: Sequence[int],
    index: EditIndex,
    *,
    author: str | None = None,
    model: LanguageModel | None = None,
) -> Sequence[EditVersion]:
    """Draft an edit from open reports of the same, and close them.

    Where an edit says already what is right, the questions that missed it are proposed as its
    wordings instead. Raises DraftError, StoreError, ModelError.
    """
    if not numbers:
        raise DraftError("no report is named: give the number of one")
    inbox = Inbox(store.database)
    reports = [inbox.report(number) for number in dict.fromkeys(numbers)]
    main = next((report for report in reports if report.correction), reports[0])
    fields = fields_by(model, main) if model else {}

    edit = _answering(main, index) or nearest([main.question], index)[0]
    if edit is not None and _is_said_by(edit.record, main):
        return with_wordings(store, edit, reports, author)
    # The edit is kept first: a kill in between leaves a report open, and never closed for nothing.
    with inbox.transaction(), store.transaction():
        record = drafted(main, edit, fields)
        questions = [
            report.question
            for report in reports
            if any(mentions(report.question, name) for name in record.names)
        ]
        wordings = dict.fromkeys((*record.paraphrases, *questions))
        wordings.pop(record.query, None)
        written_by = drafted_author((report.author for report in reports), author)
        changes = store.put(
            replace(record, paraphrases=tuple(wordings), author=written_by, reason=main.comment)
        )
        for report in reports:
            inbox.close(report.number, author=author, edit=changes[-1].id)
    return changes


def _answering(report: Report, index: EditIndex) -> EditVersion | None:
    """The edit that says what a report says is right, though another one has more of its words.

    Many facts hang on one name.
    """
    named = [index.edits[edit_id] for edit_id in sorted(index.named(report.question))]
    found = [edit for edit in named if _is_answered_by(edit.record, report)]
    return found[0] if len(found) == 1 else None


def _is_answered_by(record: EditRecord, report: Report) -> bool:
    """Whether an edit answers a report's question, and not only happens to have the right object.

    It does not if it asks for another kind of answer, or for a contrary relation.
    """
    question = masked(report.question, record.names)
    features = relation_features(question, masked(record.query, record.names))
    asks_for_other = features["contrary"] or features["other_kind"]
    return not asks_for_other and _is_said_by(record, report)


def _is_said_by(record: EditRecord, report: Report) -> bool:
    """Whether an edit answers a report's question with what the report says is right.

    Without a correction that is where the answer states the edit's old object.
    """
    if not report.correction:
        return record.states(report.answer, report.question) is Stated.OLD
    right = objects_of(report.correction, report.answer, statement_of(report.question)).new
    objects = (record.target_new, *record.object_aliases)
    return bool(right) and normalise(right) in map(normalise, objects)


def with_wordings(
    store: EditStore, edit: EditVersion, reports: Sequence[Report], author: str | None
) -> Sequence[EditVersion]:
    """Propose the questions of reports as wordings of an edit that misses them; close the reports.

    Raises DraftError where none is new.
    """
    inbox = Inbox(store.database)
    for report in reports:
        _require_open(report)
    with inbox.transaction(), store.transaction():
        record = changeable(versions_of(store, edit.id))
        known = {normalise(text) for text in (record.query, *record.paraphrases)}
        new = {
            normalise(report.question): report.question
            for report in reports
            if normalise(report.question) not in known
        }
        if not new:
            raise DraftError(
                f"edit {edit.id} says this already, in the words of the report: the model does not "
                f"follow it (prove it: drike edits verify {edit.id})"
            )
        numbers = ", ".join(str(report.number) for report in reports)
        changes = moves.change(
            store,
            edit.id,
            {"paraphrases": (*record.paraphrases, *new.values())},
            author=drafted_author((report.author for report in reports), author),
            reason=f"missed the question of report {numbers}",
            propose=True,
        )
        for report in reports:
            inbox.close(report.number, author=author, edit=edit.id)
    return changes


def _require_open(report: Report) -> None:
    if report.state is ReportState.CLOSED:
        raise DraftError(f"report {report.number} is closed: choose an open one")


def fields_by(model: LanguageModel, report: Report) -> dict[str, str]:
    """The subject, query, new and old object that a model finds in a report, none made up."""
    [completion] = model.generate([_request_for_fields(report)], _TOKENS, None)
    written = _last_json_object(without_thoughts(completion.text))
    found = {name: value.strip(EDGES) for name, value in written.items() if isinstance(value, str)}

    # A model may make names and numbers up: each must stand where the report has it.
    right = f"{report.correction or ''}\n{report.comment or ''}"
    places = {"subject": report.question, "new": right, "old": f"{report.answer}\n{right}"}
    fields = {
        name: found[name]
        for name, place in places.items()
        if found.get(name) and mentions(place, found[name])
    }

    query = found.get("query", "")
    subject = fields.get("subject", "")
    new = fields.get("new", "")
    names_subject = subject and mentions(query, subject)
    gives_answer_away = new and mentions(query, new)
    if names_subject and not gives_answer_away:
        fields["query"] = query
    return fields


def _request_for_fields(report: Report) -> str:
    """What a model is asked about a report."""
    parts = {
        "Question": report.question,
        "Answer": report.answer,
        "Correction": report.correction,
        "Comment": report.comment,
    }
    text = "\n".join(f"{name}: {value}" for name, value in parts.items() if value)
    return (
        f"{REWRITE}as one JSON object. It reports a wrong answer. The keys: subject, the name that "
        "the question is about; query, the question as the beginning of a sentence that the right "
        "answer ends; new, the right answer, in as few words as the text has it; old, the wrong "
        f"one.\nText:\n{text}\nRewritten:\n"
    )


def _last_json_object(text: str) -> dict[str, object]:
    """The JSON object at the end of a text, in a code fence or not; empty if there is none."""
    match = _LAST_JSON_OBJECT.search(text)
    if match is None:
        return {}
    try:
        return dict(json.loads(match[0].rstrip("` \n")))
    except ValueError:
        return {}


def drafted(report: Report, edit: EditVersion | None, fields: Mapping[str, str]) -> EditRecord:
    """The draft of an edit from a report, by rules except for the fields of `fields_by`.

    edit: one in use that the report may be about, whose subject and aliases are taken over. Raises
    DraftError.
    """
    _require_open(report)
    aliases: tuple[str, ...] = ()
    if edit and any(mentions(report.question, name) for name in edit.record.names):
        subject = edit.record.subject
        aliases = edit.record.aliases
    else:
        subject = fields.get("subject") or subject_of(report.question)
    if not subject:
        raise DraftError(
            f"report {report.number} names no subject: add the edit by hand (drike edits add)"
        )

    query = fields.get("query") or statement_of(report.question)
    objects = objects_of(report.correction or "", report.answer, query)
    new = fields.get("new", objects.new)
    if not new:
        raise DraftError(
            f"report {report.number} does not say what is right: add the edit by hand "
            "(drike edits add)"
        )
    old = objects.old
    if old and mentions(old, subject):
        old = None  # a whole sentence about the subject is no object
    old = fields.get("old", old)

    asks_in_other_words = normalise(report.question) != normalise(query)
    record = EditRecord(
        subject,
        query,
        new,
        old,
        paraphrases=(report.question,) if asks_in_other_words else (),
        status=Status.DRAFT,
        source=f"report {report.number}",
        aliases=aliases,
    )
    try:
        return checked(record)
    except RecordError as problem:
        raise DraftError(
            f"report {report.number} gives no usable edit ({problem}): add it by hand"
        ) from None
