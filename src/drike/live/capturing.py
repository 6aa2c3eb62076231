"""What a person changed in a draft: kept as a report, and proposed as an edit or a wording of one.

Nothing of it is in force before somebody approves it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.edits.record import EditRecord, EditVersion, Status
from drike.edits.record_checks import checked
from drike.errors import DrikeError
from drike.gates.index import EditIndex
from drike.live import drafts
from drike.live.captures import CaptureKind, Draft, DraftChange, changes_in
from drike.models.protocols import LanguageModel
from drike.stores import moves
from drike.stores.approvals import drafted_author
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, LargeReportError, Report, report_of
from drike.text.words import mentions

_GREETING = re.compile(
    r"^\W*(?:(?i:hi|hello|hey|good (?:morning|afternoon|evening|day)|dear|greetings|hallo|moin"
    r"|guten (?:morgen|tag|abend)|liebe[rns]?|sehr geehrte[rn]?|bonjour|bonsoir|salut|hola"
    r"|buen[oa]s (?:días|tardes|noches)))(?![\w’'-])"
    r"(?: (?:there|all|team|everyone|zusammen|(?:Mr|Mrs|Ms|Dr|Herr|Frau)\.?|[A-Z][\w'’-]+)){0,3}"
    r"\s*[,!.:–—-]+\s*(?=\w)"
)
FIELDS = ("draft", "sent", "question", "context", "reason")
LONGEST = 8_000  # characters of a draft, or of what was sent
_LONGEST_BESIDE = 1_000  # of a question, a context or a reason
_SHOWN = 1_500  # of what was sent, in a report


@dataclass(frozen=True)
class GivenDraft:
    """A draft as somebody gives it. reason: why it was changed."""

    draft: Draft
    reason: str = ""


@dataclass(frozen=True)
class Captured:
    """What was decided about a draft.

    report: what is kept of it; None where only the style differs. edits: the versions that were
    proposed.
    """

    decided: Sequence[DraftChange]
    report: Report | None = None
    edits: Sequence[EditVersion] = ()

    def values(self) -> dict[str, object]:
        """As JSON."""
        return {
            "report": self.report and self.report.number,
            "decided": [_values_of(change) for change in self.decided],
            "edits": [edit.id for edit in self.edits],
        }


def _values_of(change: DraftChange) -> dict[str, object]:
    values = {
        "kind": change.kind.value,
        "why": change.why,
        "subject": change.subject,
        "query": change.query,
        "old": change.old,
        "new": change.new,
        "edit": change.edit and change.edit.id,
    }
    return {name: value for name, value in values.items() if value}


def draft_of(values: object) -> GivenDraft:
    """A draft from the fields that a program gives. Raises ValueError, LargeReportError."""
    if not isinstance(values, Mapping):
        raise ValueError("a capture is a JSON object: give draft and sent")
    unknown = values.keys() - set(FIELDS)
    if unknown:
        raise ValueError(f"a capture has no field {min(unknown)!r}: it has {', '.join(FIELDS)}")
    texts = {name: values.get(name) or "" for name in FIELDS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a text")
    for name in ("draft", "sent"):
        if not texts[name].strip():
            raise ValueError(f"{name} is missing: give the draft and what was sent instead")
        if len(texts[name]) > LONGEST:
            raise LargeReportError(
                f"{name} has more than {LONGEST:,} characters: give the part that differs"
            )
    beside = {name: texts[name].strip()[:_LONGEST_BESIDE] for name in FIELDS[2:]}
    question = _without_greeting(beside["question"])
    draft = Draft(texts["draft"], texts["sent"], question, beside["context"])
    return GivenDraft(draft, beside["reason"])


def _without_greeting(question: str) -> str:
    """A question without "Hi Mara," before it, which would become a part of an edit."""
    rest = _GREETING.sub("", question, count=1)
    return rest[:1].upper() + rest[1:] if rest and rest != question else question


def capture(
    store: EditStore,
    given: GivenDraft,
    index: EditIndex,
    *,
    author: str | None = None,
    model: LanguageModel | None = None,
    is_of_key: bool = False,
) -> Captured:
    """Decide what a draft's change is, keep it as a report, and propose what it says.

    index: of the edits in use. model: asked where the rules find nothing. is_of_key: whether the
    report counts against what a key may have open. Raises StoreError, FullInboxError, ModelError.
    """
    decided = changes_in(given.draft, index)
    if model is not None and all(change.kind is CaptureKind.NOTHING for change in decided):
        decided = _found_by(model, given.draft) or decided
    first = next((change for change in decided if change.kind is not CaptureKind.NOTHING), None)
    if first is None:
        return Captured(decided)

    inbox = Inbox(store.database)
    report = _report(given, first)
    if is_of_key:
        report = inbox.take(report, author)
    else:
        [report] = inbox.add([report], author)
    try:
        edits = _proposed(store, decided, report, given)
    except DrikeError as problem:  # a person decides: the report stays open
        why = f"report {report.number} waits for a person: {problem}"
        return Captured([replace(first, kind=CaptureKind.NOTHING, why=why)], report)
    return Captured(decided, inbox.report(report.number), edits)


def marks_of_kept(reports: Iterable[Report]) -> frozenset[tuple[object, ...]]:
    """What tells the drafts of which reports are kept, for `is_kept`."""
    return frozenset(_mark_of(report) for report in reports)


def is_kept(given: GivenDraft, marks: Collection[tuple[object, ...]]) -> bool:
    """Whether a report of this draft is kept: exports of two weeks may share rows."""
    report = _report(given, DraftChange(CaptureKind.NOTHING, "", query=given.draft.draft))
    return _mark_of(report) in marks


def _mark_of(report: Report) -> tuple[object, ...]:
    return report.answer, report.comment, report.conversation


def _report(given: GivenDraft, change: DraftChange) -> Report:
    """What is kept of a draft: the inbox reads the correction as it reads those of people."""
    sent = given.draft.sent[:_SHOWN]
    return report_of(
        {
            "question": given.draft.question or change.query,
            "answer": given.draft.draft,
            "correction": f"{change.new}, not {change.old}" if change.old else change.new,
            "comment": f'{given.reason or "a draft was changed"}; sent: "{sent}"',
            "conversation": given.draft.context,
        }
    )


def _proposed(
    store: EditStore, decided: Sequence[DraftChange], report: Report, given: GivenDraft
) -> list[EditVersion]:
    """Propose what was decided, all or none, and close the report with the first edit."""
    inbox = Inbox(store.database)
    author = drafted_author((report.author,), report.author)
    proposed: list[EditVersion] = []
    with inbox.transaction(), store.transaction():
        for change in decided:
            if change.kind is CaptureKind.WORDING:
                assert change.edit is not None  # noqa: S101 - wordings are of an edit
                versions = drafts.with_wordings(store, change.edit, [report], author)
                proposed.append(versions[-1])
            elif change.edit is not None:
                objects = {"target_new": change.new, "target_true": change.old}
                reason = f"report {report.number}: {given.reason or change.why}"
                versions = moves.change(
                    store, change.edit.id, objects, author=author, reason=reason, propose=True
                )
                proposed.append(versions[-1])
            elif change.kind is CaptureKind.EDIT:
                record = replace(_record(change, report, given), author=author)
                versions = store.put(moves.entering(store, record, decides=False))
                proposed.append(versions[-1])
        if inbox.report(report.number).state is report.state:
            inbox.close(report.number, author=report.author, edit=proposed[0].id)
    return proposed


def _record(change: DraftChange, report: Report, given: GivenDraft) -> EditRecord:
    """The edit that a change proposes."""
    question = given.draft.question
    is_wording = question and question != change.query and mentions(question, change.subject)
    return checked(
        EditRecord(
            change.subject,
            change.query,
            change.new,
            change.old or None,
            paraphrases=(question,) if is_wording else (),
            status=Status.ACTIVE,
            source=f"report {report.number}",
            reason=given.reason or change.why,
        )
    )


def _found_by(model: LanguageModel, draft: Draft) -> list[DraftChange]:
    """A change that a model finds, if its objects stand where they must."""
    report = Report(draft.question or draft.sent, draft.draft, correction=draft.sent)
    fields = drafts.fields_by(model, report)
    old, new = fields.get("old", ""), fields.get("new", "")
    subject, query = fields.get("subject", ""), fields.get("query", "") or draft.question
    stands_right = (
        mentions(draft.draft, old)
        and not mentions(draft.sent, old)
        and mentions(draft.sent, new)
        and not mentions(draft.draft, new)
    )
    if not (old and new and subject and query and stands_right):
        return []
    why = f'by the model, "{new}" took the place of "{old}"'
    return [DraftChange(CaptureKind.EDIT, why, old, new, subject, query)]
