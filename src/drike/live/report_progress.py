"""What became of a report, as its reporter may read it.

It is worked out from the inbox, the edit that came of the report, what was proven of that edit, and
what live answers have stated since.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from drike.answers.statements import Stated
from drike.edits.record import EditVersion, Status, effect
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.inbox import Report, ReportState
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import TrafficCounts
from drike.stores.verifications import Verifications

_SECRET = "report links"  # noqa: S105 - the setting with the key of links
_CHARACTERS = 32  # of the part of a link that nobody can guess
_RUNS = 10  # the last verifications that are looked through
_IN_FORCE = "on"  # the mode of requests whose answers count


class Stage(StrEnum):
    """How far a report has come."""

    RECEIVED = "received"
    DRAFTED = "drafted"
    PROPOSED = "proposed"
    IN_FORCE = "in force"
    PROVEN = "proven"
    RECURRED = "recurred"
    CLOSED = "closed"


# Those of reports whose edit is not in force, by its status.
_STAGES = {
    Status.DRAFT: Stage.DRAFTED,
    Status.PROPOSED: Stage.PROPOSED,
    Status.SHADOW: Stage.PROPOSED,
}


@dataclass(frozen=True)
class ReportProgress:
    """What became of a report.

    since: when its edit came in force. models: on which the edit is proven. recurred, answers: how
    many live answers stated the old object since, of how many. because: why it was closed.
    """

    report: int
    stage: Stage
    since: str | None = None
    models: tuple[str, ...] = ()
    recurred: int = 0
    answers: int = 0
    because: str | None = None

    @property
    def sentence(self) -> str:
        """It in words."""
        match self.stage:
            case Stage.RECEIVED:
                return "It was received, and waits for somebody to look at it."
            case Stage.DRAFTED:
                return "A correction was drafted from it."
            case Stage.PROPOSED:
                return "A correction is proposed, and waits for its approval."
            case Stage.CLOSED:
                return f"It was closed: {self.because or 'no reason was given'}."
        told = f"The correction is in force since {self.since}."
        if self.models:
            told += f" It is proven on {', '.join(self.models)}."
        if self.recurred:
            told += (
                f" {self.recurred:,} of {self.answers:,} later answers stated the old one again."
            )
        return told

    def values(self) -> dict[str, object]:
        """As JSON, without what is not known."""
        values = {
            "report": self.report,
            "state": self.stage.value,
            "since": self.since,
            "proven_on": list(self.models),
            "recurred": self.recurred,
            "answers": self.answers,
            "because": self.because,
            "sentence": self.sentence,
        }
        return {name: value for name, value in values.items() if value or name == "recurred"}

    def email(self, report: Report, link: str) -> dict[str, str]:
        """What its reporter may be sent. link: where the state stands."""
        lines = [f"You reported: {report.question}"]
        if report.answer:
            lines.append(f"The answer was: {report.answer}")
        if report.correction:
            lines.append(f"You said that this is right: {report.correction}")
        lines += ["", self.sentence, "", f"What became of it: {link}"]
        return {
            "subject": f"Your report {self.report}: {self.stage.value}",
            "text": "\n".join(lines),
        }


@dataclass(frozen=True)
class EditEvidence:
    """What a store says of its edits. proofs: by edit and model, the version that was proven."""

    edits: Snapshot
    proofs: Mapping[tuple[int, str], int]
    stated: Mapping[tuple[int, str], int]

    @classmethod
    def of(cls, store: EditStore, edits: Snapshot) -> EditEvidence:
        """Read it. Raises StoreError."""
        return cls(edits, _proofs(store), _stated(store, edits))


def _proofs(store: EditStore) -> dict[tuple[int, str], int]:
    """For each edit and model the version of the last run that asked about it, if all held."""
    runs = Verifications(store.database)
    last = runs.last_number()
    proofs: dict[tuple[int, str], int] = {}
    for number in range(max(1, last - _RUNS + 1), last + 1):
        run = runs.load(number)
        held: dict[tuple[int, int], bool] = {}
        for answer in run.questions:
            key = (answer.edit, answer.version)
            held[key] = held.get(key, True) and answer.holds
        for (edit, version), all_held in held.items():
            proofs.pop((edit, run.model), None)
            if all_held:
                proofs[edit, run.model] = version
    return proofs


def _stated(store: EditStore, edits: Snapshot) -> Mapping[tuple[int, str], int]:
    """How often answers stated what, by edit, since the edit says what it says."""
    stated: Counter[tuple[int, str]] = Counter()
    for counted, number in TrafficCounts(store.database).since(date.min).items():
        is_current = counted.version >= edits.unchanged.get(counted.edit, 0)
        if counted.mode == _IN_FORCE and is_current and counted.what in frozenset(Stated):
            stated[counted.edit, counted.what] += number
    return stated


def progress_of(report: Report, store: EditStore, evidence: EditEvidence) -> ReportProgress:
    """What became of a report. Raises StoreError."""
    if report.state is not ReportState.CLOSED:
        return ReportProgress(report.number, Stage.RECEIVED)
    edit = None if report.edit is None else evidence.edits.edits.get(report.edit)
    if edit is None:
        return ReportProgress(report.number, Stage.CLOSED, because=report.reason)

    proposal = evidence.edits.proposals.get(edit.id)
    if proposal is not None and _is_of_report(proposal, report):
        return ReportProgress(report.number, Stage.PROPOSED)
    if edit.record.status in _STAGES:
        return ReportProgress(report.number, _STAGES[edit.record.status])
    if edit.record.status is Status.ACTIVE:
        return _in_force(report, edit, store, evidence)
    because = edit.record.reason or f"its correction is {edit.record.status}"
    return ReportProgress(report.number, Stage.CLOSED, because=because)


def _is_of_report(edit: EditVersion, report: Report) -> bool:
    """Whether a proposal was made from a report, as its reason or its source says."""
    said = f"{edit.record.source or ''} {edit.record.reason or ''} "
    return any(f"report {report.number}{end}" in said for end in " :,")


def _in_force(
    report: Report, edit: EditVersion, store: EditStore, evidence: EditEvidence
) -> ReportProgress:
    versions = versions_of(store, edit.id)
    active = [version for version in versions if version.record.status is Status.ACTIVE]
    since = next((each.created_at for each in active if each.created_at >= report.at), None)
    since = max(since or edit.created_at, edit.record.valid_from or "")
    # What was proven as a draft or a proposal is proven once it is approved as it stood.
    saying_this = {
        version.version for version in versions if effect(version.record) == effect(edit.record)
    }
    models = tuple(
        sorted(
            model
            for (edit_id, model), version in evidence.proofs.items()
            if edit_id == edit.id and version in saying_this
        )
    )
    old = evidence.stated.get((edit.id, Stated.OLD), 0)
    answers = sum(n for (edit_id, _), n in evidence.stated.items() if edit_id == edit.id)
    stage = Stage.RECURRED if old else Stage.PROVEN if models else Stage.IN_FORCE
    return ReportProgress(report.number, stage, since, models, old, answers)


def link_of(store: EditStore, tenant: str, number: int) -> str:
    """The path under which anyone may read what became of a report. Raises StoreError."""
    return f"/feedback/{tenant}.{number}.{_token(store, tenant, number)}"


def is_link(store: EditStore, tenant: str, number: int, token: str) -> bool:
    """Whether a link was given for a report. Raises StoreError."""
    return hmac.compare_digest(_token(store, tenant, number).encode(), token.encode())


def _token(store: EditStore, tenant: str, number: int) -> str:
    key = store.settings.get(_SECRET)
    if key is None:
        with store.transaction():
            key = store.settings.get(_SECRET) or secrets.token_hex(32)
            store.settings.save(_SECRET, key)
    message = f"{tenant}.{number}".encode()
    return hmac.new(bytes.fromhex(key), message, "sha256").hexdigest()[:_CHARACTERS]
