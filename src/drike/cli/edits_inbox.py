"""`drike edits inbox`: reports of wrong answers, and samples that a gateway kept."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from drike.cli.commands import DATA, METHOD, MODEL, OUTPUT, argument, command, flag, option
from drike.cli.console import note, say, say_lines
from drike.cli.options import FILE, ModelOptions, Reason, Store
from drike.cli.stored_edits import author, in_force, print_changes, store_at
from drike.edits.record import Status
from drike.errors import DataError, UsageError
from drike.gates.index import EditIndex
from drike.live import drafts
from drike.live.captures import CaptureKind
from drike.live.capturing import Captured, capture
from drike.live.draft_files import DRAFTS_LOOKED_FOR, read_drafts
from drike.live.report_progress import EditEvidence, link_of, progress_of
from drike.models import ApiOptions
from drike.models.protocols import LanguageModel
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report, ReportState
from drike.stores.opening import TENANT
from drike.stores.report_files import KEPT, LOOKED_FOR, read_reports
from drike.stores.snapshots import snapshot
from drike.support.rows import shown
from drike.support.table import counted

_FIELDS = (
    "question", "answer", "correction", "comment", "conversation", "model", "author", "edit",
    "reason",
)  # fmt: skip

Numbers = list[int] | None


@dataclass(frozen=True)
class ReportActions:
    """Options that do something with reports and samples."""

    close: Annotated[Numbers, option("--close", "ID", METHOD, "Close this report; repeatable")] = (
        None
    )
    wrong: Annotated[
        Numbers, option("--wrong", "ID", METHOD, "Make a report of this sample; repeatable")
    ] = None
    forget: Annotated[bool, flag("--forget-samples", METHOD, "Delete all samples")] = False
    draft: Annotated[
        Numbers,
        option(
            "--draft",
            "ID",
            METHOD,
            "Draft an edit from this report; repeatable for reports of the same",
        ),
    ] = None

    from_drafts: Annotated[
        Path | None,
        option(
            "--from-drafts",
            "FILE",
            DATA,
            "Propose what people changed in drafts: of help desks, Langfuse, or CSV",
        ),
    ] = None


@command()
def inbox(
    report: Annotated[int | None, argument("[ID]", "As the list shows it", min=1)] = None,
    *,
    import_: Annotated[
        Path | None,
        option(
            "--import",
            "FILE",
            DATA,
            "Add the reports of a file: of Langfuse, Open WebUI, or our own",
        ),
    ] = None,
    store: Store = FILE,
    model: Annotated[
        str | None,
        option(
            "--model",
            "MODEL",
            MODEL,
            "Reads the report for --draft, or drafts; what it finds must stand there",
        ),
    ] = None,
    actions: ReportActions,
    samples: Annotated[
        bool, flag("--samples", OUTPUT, "List the answers that serve --keep-samples kept")
    ] = False,
    reason: Reason = None,
    closed: Annotated[bool, flag("--all", OUTPUT, "Closed reports too")] = False,
    after: Annotated[
        int, option("--after", "ID", OUTPUT, "List what came after this one", min=0)
    ] = 0,
) -> None:
    """List reports of wrong answers, or do something with them."""
    if sum(map(bool, (report, import_, *vars(actions).values()))) > 1:
        raise UsageError(
            "one thing at a time: give ID, --draft, --close, --import, --from-drafts, --wrong or "
            "--forget-samples"
        )
    if model and not (actions.draft or actions.from_drafts):
        raise UsageError("--model reads a report for a draft: give --draft or --from-drafts, too")
    if reason and not actions.close:
        raise UsageError("--reason says why reports are closed: give --close, too")
    with store_at(store, create=bool(import_ or actions.from_drafts)) as opened:
        if import_:
            _import(opened, import_)
        elif actions.from_drafts:
            _capture(opened, actions.from_drafts, model)
        elif report:
            _show(opened, Inbox(opened.database).report(report))
        elif actions.close:
            _close(opened, actions.close, reason)
        elif actions.wrong:
            _open_samples(opened, actions.wrong)
        elif actions.forget:
            say(f"{counted(Inbox(opened.database).forget_samples(), 'sample')} deleted")
        elif actions.draft:
            _draft(opened, actions.draft, model)
        elif samples:
            _list(opened, ReportState.SAMPLE, after)
        else:
            _list(opened, None if closed else ReportState.OPEN, after)


def _import(store: EditStore, file: Path) -> None:
    inbox = Inbox(store.database)
    read, refused = read_reports(file, inbox.reports(None))
    say_lines(f"Left out: {problem}" for problem in refused)
    if not read and not any(problem.endswith(KEPT) for problem in refused):
        raise DataError(f"{file}: no report was found: {LOOKED_FOR}")
    added = inbox.add(read, author()) if read else ()
    say(f"{file}: {counted(len(added), 'report')} added, {len(refused):,} left out")


def _capture(store: EditStore, file: Path, model: str | None) -> None:
    """Propose what people changed in the drafts of a file; say what was decided, and why."""
    given, refused = read_drafts(file, Inbox(store.database).reports(None))
    say_lines(f"Left out: {problem}" for problem in refused)
    if not given and not any(problem.endswith(KEPT) for problem in refused):
        raise DataError(f"{file}: no draft was found: {DRAFTS_LOOKED_FOR}")
    reader = _reader(model)
    counts: Counter[str] = Counter()
    index = EditIndex.of(in_force(store))  # nothing that is proposed changes it
    for each in given:
        captured = capture(store, each, index, author=author(), model=reader)
        counts[captured.decided[0].kind.value] += 1
        _say_decided(captured, about=each.draft.question or each.draft.draft)
        print_changes(captured.edits)
    found = ", ".join(f"{counts[kind]:,} {kind}" for kind in map(str, CaptureKind))
    say(f"{file}: {counted(len(given), 'draft')}: {found}; {len(refused):,} left out")
    if counts[CaptureKind.EDIT] or counts[CaptureKind.WORDING]:
        say("Nothing is in force: prove what is proposed (drike edits verify), then approve it")


def _say_decided(captured: Captured, about: str) -> None:
    """Say what became of a draft and why. about: its question, or the draft itself."""
    number = f"report {captured.report.number}" if captured.report else "no report"
    for change in captured.decided:
        objects = f" ({shown(change.old)} -> {shown(change.new)})" if change.new else ""
        say(f"{change.kind}, {number}: {change.why}{objects} [{shown(about)}]")


def _reader(model: str | None) -> LanguageModel | None:
    if model is None:
        return None
    from drike.cli.suggesting import open_writer

    return open_writer(ModelOptions(model), ApiOptions(), ask=False).model


def _show(store: EditStore, report: Report) -> None:
    is_sample = report.state is ReportState.SAMPLE
    evidence = None if is_sample else EditEvidence.of(store, snapshot(store))
    progress = progress_of(report, store, evidence) if evidence else None
    say(f"Report {report.number}, {report.at}: {progress.stage if progress else report.state}")
    if progress:
        say(progress.sentence)
    values = {name: getattr(report, name) for name in _FIELDS}
    say_lines(f"{name}: {value}" for name, value in values.items() if value)
    if progress:
        link = link_of(store, TENANT, report.number)
        say(f"for its reporter, behind the gateway's address: {link}")


def _close(store: EditStore, numbers: Sequence[int], reason: str | None) -> None:
    inbox = Inbox(store.database)
    with inbox.transaction():
        for number in numbers:
            inbox.close(number, author=author(), reason=reason)
    say(f"{counted(len(numbers), 'report')} closed")


def _open_samples(store: EditStore, numbers: Sequence[int]) -> None:
    inbox = Inbox(store.database)
    with inbox.transaction():
        for number in numbers:
            inbox.mark_wrong(number, author())
    say(f"{counted(len(numbers), 'report')} opened")


def _draft(store: EditStore, numbers: Sequence[int], model: str | None) -> None:
    reader = _reader(model)
    index = EditIndex.of(in_force(store))
    changes = drafts.draft(store, numbers, index, author=author(), model=reader)
    print_changes(changes)
    edit_id = changes[-1].id
    if changes[-1].record.status is Status.PROPOSED:
        say(
            f"Edit {edit_id} says this already: the question is proposed as a wording of it. Prove "
            f"it (drike edits verify {edit_id}), then approve it (drike edits approve {edit_id})"
        )
        return
    say(f"Prove it (drike edits verify {edit_id}), then propose it (drike edits propose {edit_id})")


def _list(store: EditStore, state: ReportState | None, after: int) -> None:
    """List reports with a state, or all that are no samples, in groups about the same edit."""
    page = Inbox(store.database).page(state, after=after)
    for group in drafts.grouped(page.reports, EditIndex.of(in_force(store))):
        if group.edit:
            say(f"About edit {group.edit.id}: {group.edit.record.fact}")
        else:
            say("About no edit in force")
        say_lines(f"  {_line_of(report)}" for report in group.reports)
    if page.next is not None:
        note(f"{len(page.reports):,} are listed: give --after {page.next} to see the next ones")
    kind = "sample" if state is ReportState.SAMPLE else "report"
    say(f"{store.name}: {counted(page.total, kind)}")


def _line_of(report: Report) -> str:
    right = f" (right: {shown(report.correction)})" if report.correction else ""
    answered = f"{shown(report.question)} -> {shown(report.answer)}{right}"
    return f"{report.number} {report.at}: {answered}{_state_of(report)}"


def _state_of(report: Report) -> str:
    if report.state is ReportState.OPEN:
        return ""
    if report.state is ReportState.SAMPLE:
        return f" [{report.comment}]"
    if report.edit:
        return f" [{report.state}, edit {report.edit}]"
    return f" [{report.state}]"
