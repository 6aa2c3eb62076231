"""How edits fare: in live traffic that gateways have counted, in reports of wrong answers, in a log, with time."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from drike.answers.statements import Stated
from drike.cli.console import draw, note, say, say_lines
from drike.cli.edits import author, days_in, in_force, open_writer, print_changes, store_at
from drike.cli.options import FILE, GateOptions, ModelOptions, command, page_name
from drike.edits.record import StoreError
from drike.errors import DataError, UsageError
from drike.gates.index import EditIndex
from drike.gateway import health as live
from drike.gateway.proving import replay as replays
from drike.live import drafts
from drike.models import ApiOptions
from drike.stores import moves
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report, ReportState
from drike.stores.report_files import read_reports
from drike.stores.snapshots import Snapshot, snapshot
from drike.stores.traffic import Counts, TrafficCounts
from drike.support.files import write_text
from drike.support.rows import shown
from drike.support.table import Cell, Number, Table, as_html, counted

_MOST_ROWS = 60
_FIELDS = (
    "question",
    "answer",
    "correction",
    "comment",
    "conversation",
    "model",
    "author",
    "edit",
    "reason",
)


@command()
def health(
    *, days: int = 7, at_least: float = live.AT_LEAST, json_: bool = False, store: str = FILE
) -> None:
    """Show how often answers in live traffic took each edit; fails where that is below --at-least."""
    lines = live.health(*_read(store, days), at_least)
    if json_:
        values = {"days": days, "at_least": at_least, "edits": [line.values for line in lines]}
        say_lines([json.dumps(values).replace("\x7f", r"\u007f")])
    elif lines:
        draw(_table(f"Edits in the last {counted(days, 'day')}", lines[:_MOST_ROWS]))
    else:
        say(
            f"No answer under an edit was counted in {counted(days, 'day')}: look at drike edits report"
        )
    if below := [line for line in lines if line.verdict == "below"]:
        raise StoreError(f"{counted(len(below), 'edit')} below {at_least:.0%}: see the first rows")


@command()
def report(
    *, days: int = 7, price_in: float | None = None, page: Path | None = None, store: str = FILE
) -> None:
    """Show what came, in any mode, and what switching on edits in shadow would do."""
    if page:
        page_name(page)
    sentences, edits = live.shadow_report(*_read(store, days), price_in)
    say_lines(sentences)
    table = _table("Edits in shadow, the most asked first", edits[:_MOST_ROWS], shadow=True)
    if edits:
        draw(table)
    if page:
        text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        folder, rows = files("drike.gateway.control") / "page", as_html(table) if edits else ""
        style, form = ((folder / name).read_text("utf-8") for name in ("page.css", "report.html"))
        write_text(page, Template(form).substitute(style=style, sentences=text, table=rows))
        say(f"\nThe report is in {page}")


def _read(store: str, days: int) -> tuple[Snapshot, Counts]:
    with store_at(store) as opened:
        return snapshot(opened), TrafficCounts(opened.database).since(
            datetime.now(UTC).date() - timedelta(days=days - 1)
        )


def _table(title: str, edits: Sequence[live.EditHealth], *, shadow: bool = False) -> Table:
    outcomes = [outcome for outcome in (*Stated, "unread") if outcome is not Stated.NEW]

    def row(line: live.EditHealth) -> tuple[Cell, ...]:
        verdict = "" if shadow else f", {line.words}"
        numbers = (Number(line.numbers[outcome]) for outcome in outcomes)
        asked, tokens = Number(line.numbers["matched"]), Number(line.tokens_a_day, ",.0f")
        return (
            f"{line.edit.id}: {shown(line.edit.record.edit.fact)}{verdict}",
            asked,
            line.took,
            *numbers,
            tokens,
        )

    return Table(title, ("edit", "asked", "new", *outcomes, "tokens a day"), tuple(map(row, edits)))


@command()
def inbox(
    report: int | None = None, *, draft: list[int] | None = None, close: list[int] | None = None,
    wrong: list[int] | None = None, model: str | None = None, reason: str | None = None, import_: Path | None = None,
    samples: bool = False, forget: bool = False, closed: bool = False, store: str = FILE,
) -> None:  # fmt: skip
    """List reports of wrong answers, or show one; draft an edit from one, or close it."""
    if sum(map(bool, (report, draft, close, import_, wrong, forget))) > 1:
        raise UsageError(
            "one thing at a time: give ID, --draft, --close, --import, --wrong or --forget-samples"
        )
    if model and not draft:
        raise UsageError("--model reads a report for a draft: give --draft, too")
    if reason and not close:
        raise UsageError("--reason says why reports are closed: give --close, too")
    with store_at(store, create=import_ is not None) as opened:
        if import_:
            read, refused = read_reports(import_, Inbox(opened.database).reports(None))
            say_lines(f"Left out: {problem}" for problem in refused)
            added = Inbox(opened.database).add(read, author()) if read else ()
            say(f"{import_}: {counted(len(added), 'report')} added, {len(refused):,} left out")
        elif report:
            found = Inbox(opened.database).report(report)
            say(f"Report {found.number}, {found.at}, {found.state}")
            say_lines(f"{name}: {value}" for name in _FIELDS if (value := getattr(found, name)))
        elif close or wrong:
            with opened.transaction():
                for number in close or ():
                    Inbox(opened.database).close(number, author=author(), reason=reason)
                for number in wrong or ():
                    Inbox(opened.database).mark_wrong(number, author())
            say(f"{counted(len(close or wrong or ()), 'report')} {'closed' if close else 'opened'}")
        elif forget:
            say(f"{counted(Inbox(opened.database).forget_samples(), 'sample')} deleted")
        elif draft:
            reader = open_writer(ModelOptions(model), ApiOptions(), ask=False) if model else None
            changes = drafts.draft(
                opened, draft, EditIndex.of(in_force(opened)), author=author(), model=reader
            )
            print_changes(changes)
            id = changes[-1].id
            say(f"Prove it (drike edits verify {id}), then propose it (drike edits propose {id})")
        else:
            _list(opened, ReportState.SAMPLE if samples else None if closed else ReportState.OPEN)


def _list(store: EditStore, state: ReportState | None) -> None:
    found = Inbox(store.database).reports(state)
    for group in drafts.grouped(found[: drafts.MOST_SHOWN], EditIndex.of(in_force(store))):
        say(
            f"About edit {group.edit.id}: {group.edit.record.fact}"
            if group.edit
            else "About no edit in force"
        )
        say_lines(f"  {_line(each)}" for each in group.reports)
    if len(found) > drafts.MOST_SHOWN:
        note(f"the first {drafts.MOST_SHOWN} are listed: close some to see the others")
    say(
        f"{store.name}: {counted(len(found), 'sample' if state is ReportState.SAMPLE else 'report')}"
    )


def _line(report: Report) -> str:
    right = f" (right: {shown(report.correction)})" if report.correction else ""
    became = f"{report.state}, edit {report.edit}" if report.edit else report.state
    about = report.comment if report.state is ReportState.SAMPLE else became
    state = "" if report.state is ReportState.OPEN else f" [{about}]"
    return f"{report.number} {report.at}: {shown(report.question)} -> {shown(report.answer)}{right}{state}"


@command()
def due(*, within: str = "0d", store: str = FILE) -> None:
    """List the edits whose review is due, which stay in force; fails if there are any."""
    at = datetime.now(UTC) + timedelta(days=days_in(within))
    with store_at(store) as opened:
        late, name = moves.due(snapshot(opened), at), opened.name
    for edit in late:
        owner = f", {edit.record.owner}" if edit.record.owner else ""
        say(
            f"{edit.id}@{edit.version} due {(edit.record.review_by or '')[:10]}{owner}: {edit.record.fact}"
        )
    if late:
        raise StoreError(
            f"{counted(len(late), 'edit')} to review: confirm (drike edits review), change or retire them"
        )
    say(f"{name}: no review is due")


@command()
def replay(log: Path, *, show: int = 20, store: str = FILE, gating: GateOptions) -> None:
    """Show which requests of LOG would get an edit, the least certain first; nothing is sent or written."""
    from drike.conversations.following import Follower
    from drike.conversations.rendering import AsBlock  # these take long to import
    from drike.live.live_edits import LiveEdits
    from drike.live.store_gate import encoder_of, open_gate

    def row(asked: replays.ReplayedQuery) -> tuple[str, ...]:
        edit, named, p = (
            asked.candidate.edit,
            asked.candidate.name or "",
            f"{asked.candidate.probability:.3f}",
        )
        return (
            str(asked.times),
            shown(asked.query),
            f"{edit.id}: {shown(edit.record.edit.fact)}",
            named,
            p,
        )

    with store_at(store) as opened:
        gate = open_gate(opened, gating.gate, gating.gate_threshold)
        encoder_of_gate = partial(encoder_of, relations=gating.relations)
        edits = LiveEdits(opened, gate, encoder_of_gate=encoder_of_gate, shadow=True)
        index = edits.refresh().view.index
        follower = Follower(lambda query: gate.decide(query, index), index, AsBlock())
        with log.open("rb") as lines:
            result = replays.replay(lines, follower)
    if not result.requests:
        raise DataError(f"{log} has no request: give JSON lines with messages or a prompt")
    say_lines(f"Left out: {count:,} lines with {reason}" for reason, count in result.unread.items())
    share = result.matched / result.requests
    say(
        f"{counted(result.requests, 'request')}, {result.matched:,} would get an edit ({share:.1%})"
    )
    for title, queries in (
        ("Matches, the least certain first", result.matches),
        ("Near misses", result.misses),
    ):
        if queries:
            notes = (f"{len(queries) - show:,} more are not shown.",) if len(queries) > show else ()
            header = ("requests", "query", "edit", "named as", "p")
            draw(Table(title, header, tuple(map(row, queries[:show])), notes, wide=True))
