"""Reports of wrong answers, and samples of answers: list them, show one, draft an edit from one, close it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import FILE, Reason, Store, author, open_writer, print_changes
from drike.cli.options import DATA, METHOD, MODEL, OUTPUT, ModelOptions, command, flag, option
from drike.datasets.rows import shown
from drike.errors import UsageError
from drike.models import ApiOptions
from drike.stores import log as stores
from drike.stores import reports
from drike.stores.opening import open_store
from drike.stores.reports import Report, ReportState
from drike.support.table import counted

if TYPE_CHECKING:  # listing edits needs no gate
    from drike.gates.index import EditIndex

_FIELDS = ("question", "answer", "correction", "comment", "conversation", "model", "author", "edit", "reason")


@command()
def inbox(
    report: Annotated[int | None, typer.Argument(help="As the list shows it", metavar="[ID]", min=1,
                                                 hidden=True)] = None, *,
    draft: Annotated[list[int] | None, option("ID", "Draft an edit from this report; repeatable for reports of the "
                                              "same", METHOD)] = None,
    model: Annotated[str | None, option("MODEL", "Reads the report for --draft; what it finds must "
                                        "stand there", MODEL)] = None,
    close: Annotated[list[int] | None, option("ID", "Close this report; repeatable", METHOD)] = None,
    reason: Reason = None,
    import_: Annotated[Path | None, option("FILE", "Add the reports of a file: of Langfuse, Open WebUI, or our own",
                                           DATA, "--import")] = None,
    wrong: Annotated[list[int] | None, option("ID", "Make a report of this sample; repeatable", METHOD)] = None,
    samples: Annotated[bool, flag("--samples", "List the answers that serve --keep-samples kept", OUTPUT)] = False,
    forget: Annotated[bool, flag("--forget-samples", "Delete all samples", METHOD)] = False,
    closed: Annotated[bool, flag("--all", "Closed reports too", OUTPUT)] = False, store: Store = FILE,
) -> None:  # fmt: skip
    """List reports of wrong answers, or show one; draft an edit from one, or close it."""
    if sum(map(bool, (report, draft, close, import_, wrong, forget))) > 1:
        raise UsageError("one thing at a time: give ID, --draft, --close, --import, --wrong or --forget-samples")
    if model and not draft:
        raise UsageError("--model reads a report for a draft: give --draft, too")
    if reason and not close:
        raise UsageError("--reason says why reports are closed: give --close, too")
    with closing(open_store(store, create=import_ is not None)) as opened:
        if import_:
            _import(opened, import_)
        elif report:
            _show(reports.report(opened, report))
        elif close or wrong:
            with opened.transaction():
                for number in close or ():
                    reports.close(opened, number, author=author(), reason=reason)
                for number in wrong or ():
                    reports.mark_wrong(opened, number, author())
            say(f"{counted(len(close or wrong or ()), 'report')} {'closed' if close else 'opened'}")
        elif forget:
            say(f"{counted(reports.forget_samples(opened), 'sample')} deleted")
        elif draft:
            _draft(opened, draft, model)
        else:
            _list(opened, ReportState.SAMPLE if samples else None if closed else ReportState.OPEN)


def _draft(store: stores.EditStore, numbers: list[int], model: str | None) -> None:
    from drike.gates import drafting

    reader = open_writer(ModelOptions(model), ApiOptions(), ask=False) if model else None
    changes = drafting.draft(store, numbers, _index(store), author=author(), model=reader)
    print_changes(changes)
    id = changes[-1].id
    say(f"Prove it (drike edits verify {id}), then propose it (drike edits propose {id})")


def _list(store: stores.EditStore, state: ReportState | None) -> None:
    from drike.gates import drafting

    found = reports.reports(store, state)
    for group in drafting.grouped(found[: drafting.MOST_SHOWN], _index(store)):
        say(f"About edit {group.edit.id}: {group.edit.record.fact}" if group.edit else "About no edit in force")
        for each in group.reports:
            say(f"  {_line(each)}")
    if len(found) > drafting.MOST_SHOWN:
        note(f"the first {drafting.MOST_SHOWN} are listed: close some to see the others")
    say(f"{store.name}: {counted(len(found), 'sample' if state is ReportState.SAMPLE else 'report')}")


def _index(store: stores.EditStore) -> EditIndex:
    from drike.gates.index import EditIndex

    return EditIndex.of(stores.snapshot(store).in_force(datetime.now(UTC)))


def _line(report: Report) -> str:
    right = f" (right: {shown(report.correction)})" if report.correction else ""
    became = f"{report.state}, edit {report.edit}" if report.edit else report.state
    about = report.comment if report.state is ReportState.SAMPLE else became
    state = "" if report.state is ReportState.OPEN else f" [{about}]"
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
