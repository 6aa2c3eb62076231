"""Reports of wrong answers on the command line: list them, show one, draft an edit from one, close it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import FILE, Reason, Store, author, print_changes
from drike.cli.options import DATA, METHOD, OUTPUT, command, flag, option
from drike.datasets.rows import shown
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores import reports
from drike.stores.opening import open_store
from drike.stores.reports import Report
from drike.support.table import counted

_FIELDS = ("question", "answer", "correction", "comment", "conversation", "model", "author", "edit", "reason")


@command()
def inbox(
    report: Annotated[int | None, typer.Argument(help="As the list shows it", metavar="[ID]", min=1,
                                                 hidden=True)] = None, *,
    draft: Annotated[list[int] | None, option("ID", "Draft an edit from this report; repeatable for reports of the "
                                              "same", METHOD)] = None,
    close: Annotated[list[int] | None, option("ID", "Close this report; repeatable", METHOD)] = None,
    reason: Reason = None,
    import_: Annotated[Path | None, option("FILE", "Add the reports of a file: of Langfuse, Open WebUI, or our own",
                                           DATA, "--import")] = None,
    closed: Annotated[bool, flag("--all", "Closed reports too", OUTPUT)] = False, store: Store = FILE,
) -> None:  # fmt: skip
    """List reports of wrong answers, or show one; draft an edit from one, or close it."""
    from drike.gates import drafting
    from drike.gates.index import EditIndex

    if sum(map(bool, (report, draft, close, import_))) > 1:
        raise UsageError("one thing at a time: give ID, --draft, --close or --import")
    if reason and not close:
        raise UsageError("--reason says why reports are closed: give --close, too")
    with closing(open_store(store, create=import_ is not None)) as opened:
        if import_:
            return _import(opened, import_)
        if report:
            return _show(reports.report(opened, report))
        if close:
            with opened.transaction():
                for number in close:
                    reports.close(opened, number, author=author(), reason=reason)
            return say(f"{counted(len(close), 'report')} closed")
        index = EditIndex.of(stores.snapshot(opened).in_force(datetime.now(UTC)))
        if draft:
            changes = drafting.draft(opened, draft, index, author=author())
            print_changes(changes)
            id = changes[-1].id
            return say(f"Prove it (drike edits verify {id}), then propose it (drike edits propose {id})")
        found, name = reports.reports(opened, None if closed else reports.ReportState.OPEN), opened.name
    for group in drafting.grouped(found[: drafting.MOST_SHOWN], index):
        say(f"About edit {group.edit.id}: {group.edit.record.fact}" if group.edit else "About no edit in force")
        for each in group.reports:
            say(f"  {_line(each)}")
    if len(found) > drafting.MOST_SHOWN:
        note(f"the first {drafting.MOST_SHOWN} are listed: close some to see the others")
    say(f"{name}: {counted(len(found), 'report')}")


def _line(report: Report) -> str:
    right = f" (right: {shown(report.correction)})" if report.correction else ""
    became = f", edit {report.edit}" if report.edit else ""
    state = "" if report.state is reports.ReportState.OPEN else f" [{report.state}{became}]"
    return f"{report.number} {report.at}: {shown(report.question)} -> {shown(report.answer)}{right}{state}"


def _show(report: Report) -> None:
    say(f"Report {report.number}, {report.at}, {report.state}")
    for name in _FIELDS:
        if value := getattr(report, name):
            say(f"{name}: {value}")


def _import(store: stores.EditStore, path: Path) -> None:
    from drike.stores.report_files import read_reports

    found, refused = read_reports(path)
    for problem in refused:
        say(f"Left out: {problem}")
    added = reports.add(store, found, author()) if found else ()
    say(f"{path}: {counted(len(added), 'report')} added, {len(refused):,} left out")
