"""Webhooks about reports of wrong answers: what became of each, with a text for its reporter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from drike.gateway.control.sent import Sent
from drike.live.report_progress import EditEvidence, ReportProgress, Stage, link_of, progress_of
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report
from drike.stores.snapshots import Snapshot

_MOST_WATCHED = 500  # the last reports


@dataclass(frozen=True)
class ReportEvent:
    """That a report has come further. sent: what counts as sent once this event is."""

    report: Report
    progress: ReportProgress
    link: str
    sent: Sent

    @property
    def id(self) -> str:
        """The same however often it is sent."""
        told = sha256(_told(self.progress).encode()).hexdigest()[:8]
        return f"report-{self.report.number}-{told}"

    def body(self, tenant: str) -> bytes:
        """The JSON that is sent, with an e-mail to the reporter."""
        values = {
            "event": "report",
            "tenant": tenant,
            "report": {**asdict(self.report), **self.progress.values(), "link": self.link},
            "email": self.progress.email(self.report, self.link),
        }
        return json.dumps(values).encode()


def report_events(
    tenant: str, store: EditStore, edits: Snapshot, sent: Sent
) -> Iterator[ReportEvent]:
    """An event for each report that has come further since the last one. Raises StoreError.

    Of reports that were there before the first look nothing is told.
    """
    inbox = Inbox(store.database)
    first = max(sent.reports_from, inbox.last_number() - _MOST_WATCHED + 1)
    reports = inbox.page(None, after=first - 1).reports
    if not reports:
        return
    evidence = EditEvidence.of(store, edits)
    # What was told of earlier reports is never looked at again, and would be kept for ever.
    watched = {number: told for number, told in sent.reports.items() if int(number) >= first}
    sent = replace(sent, reports=watched)
    for report in reports:
        progress = progress_of(report, store, evidence)
        told = _told(progress)
        if sent.reports.get(str(report.number), Stage.RECEIVED) == told:
            continue
        sent = replace(sent, reports={**sent.reports, str(report.number): told})
        yield ReportEvent(report, progress, link_of(store, tenant, report.number), sent)


def _told(progress: ReportProgress) -> str:
    """A state as it is compared: another model that proves the edit makes another one."""
    return "-".join((progress.stage.value.replace(" ", "-"), *progress.models))
