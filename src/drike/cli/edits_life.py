"""The life of edits: which there are, and were; proposals, approvals, changes, reviews, the end; how they fare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal

from drike.cli.console import draw, note, say, say_lines
from drike.cli.edits import EditFields, author, days_in, in_force, open_writer, parse_fact, print_changes, store_at
from drike.cli.options import FILE, GateOptions, ModelOptions, command, page_name
from drike.datasets.rows import shown
from drike.errors import DataError, UsageError
from drike.models import ApiOptions
from drike.serving import health as traffic
from drike.stated import Stated
from drike.stores import log as stores
from drike.stores import moves, reports
from drike.stores.approvals import APPROVALS_SET, require_approvals, required_approvals
from drike.stores.counts import Counts, counts_since
from drike.stores.finding import ALL, Search, difference, find
from drike.stores.records import LISTS, Status, StoreError, moment, to_values
from drike.support.files import write_text
from drike.support.table import Cell, Number, Table, as_html, counted

if TYPE_CHECKING:  # it takes long to import
    from drike.serving.replay import ReplayedQuery

_MOST_ROWS = 60
_FIELDS = ("question", "answer", "correction", "comment", "conversation", "model", "author", "edit", "reason")


@command()
def list_(
    *, search: str | None = None, status: str | None = None, owner: str | None = None, subject: str | None = None,
    limit: int | None = None, as_json: bool = False, retired: bool = False, store: str = FILE,
) -> None:  # fmt: skip
    """List the edits."""
    wanted = Search(search or "", status or (ALL if retired else None), owner, subject)
    with store_at(store) as opened:
        snapshot, name = stores.snapshot(opened), opened.name
    found = find(snapshot, wanted)
    edits = sorted(found[:limit], key=lambda edit: edit.id)
    if as_json:
        values = ({"id": e.id, "version": e.version, "created_at": e.created_at} | to_values(e.record) for e in edits)
        return say_lines(map(_json, values))
    print_changes(edits)
    more = f" of {len(found):,}" if len(edits) < len(found) else ""
    say(f"{name}: {counted(len(edits), 'edit')}{more}, {counted(snapshot.revision, 'change')}")
    if snapshot.proposals and status is None:
        say(f"{counted(len(snapshot.proposals), 'proposal')} to approve or reject: drike edits list --status proposed")


@command()
def show(edit: int | None = None, *, at: str | None = None, store: str = FILE) -> None:
    """Show an edit with its versions; without ID, show all changes of the store."""
    time = datetime.now(UTC) if at is None else moment(at)
    with store_at(store) as opened:
        if edit is None:
            return print_changes(opened.changes() if at is None else stores.snapshot_at(opened, time).in_force(time))
        versions, stored = stores.versions(opened, edit), stores.snapshot_at(opened, time).in_force(time)
    from drike.gates.naming import name_report

    if at is not None:
        versions = [version for version in versions if moment(version.created_at) <= time]
        if not versions:
            raise StoreError(f"there was no edit {edit} at {at}: give a later time")
        held = any(version.id == edit for version in stored)
        say(f"edit {edit} was {'' if held else 'not '}in force at {at}")
    latest = versions[-1] if at is None else stores.decided_version(versions)
    for name, value in to_values(latest.record).items():
        if value and (name != "approved_as" or latest.record.status is Status.PROPOSED):
            say(f"{name}: {' | '.join(value) if isinstance(value, tuple) else value}")
    report = name_report(latest, stored)
    for name, forms in (("short forms", report.short), ("ambiguous", report.ambiguous)):
        if forms:
            say(f"{name}: {' | '.join(forms)}")
    print_changes(versions)


@command()
def diff(begin: str, end: str, *, store: str = FILE) -> None:
    """Show what changed between two times: edits added, changed and retired."""
    first, last = (datetime.now(UTC) if time == "now" else moment(time) for time in (begin, end))
    with store_at(store) as opened:
        differences = difference(stores.snapshot_at(opened, first), stores.snapshot_at(opened, last))
    for one in differences:
        gone = one.after.record.status is Status.RETIRED
        kind = "added" if one.before is None else "retired" if gone and "status" in one.fields else "changed"
        say(f"{kind} {one.after.id}@{one.after.version}: {one.after.record.fact}")
        for name, (old, new) in one.fields.items():
            if kind == "changed":
                say(f"  {name}: {_json(old)} -> {_json(new)}")
    say(f"{counted(len(differences), 'edit')} differ")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@command()
def propose(
    edit: int, *, into: Literal["active", "shadow"] | None = None, reason: str | None = None, store: str = FILE
) -> None:
    """Propose a draft, what was rejected, or to put an edit into another status."""
    with store_at(store) as opened:
        print_changes(moves.propose(opened, edit, author=author(), reason=reason, into=Status(into) if into else None))


@command()
def approve(
    edit: int, *, version: int | None = None, reason: str | None = None, supersede: bool = False, store: str = FILE
) -> None:
    """Approve what is proposed; it is in force once enough people have."""
    with store_at(store, watched=True) as opened:
        changes = moves.approve(opened, edit, author=author(), reason=reason, version=version, supersede=supersede)
        print_changes(changes)
        if changes[-1].record.status is Status.PROPOSED:
            say(f"It needs {required_approvals(opened)} approvals, and waits for more")


@command()
def reject(edit: int, *, reason: str, version: int | None = None, store: str = FILE) -> None:
    """Reject what is proposed; what was in force before stays."""
    with store_at(store) as opened:
        print_changes(moves.reject(opened, edit, author=author(), reason=reason, version=version))


@command()
def change(
    edit: int, *, fact: str | None = None, subject: str | None = None, more: EditFields, drop: list[str] | None = None,
    propose: bool = False, version: int | None = None, supersede: bool = False, reason: str | None = None,
    store: str = FILE,
) -> None:  # fmt: skip
    """Change an edit, or what is proposed; repeatable options add to what it has."""
    changes = more.values() | ({} if subject is None else {"subject": subject})
    if fact is not None:
        parsed = parse_fact(fact, ())
        changes |= {"query": parsed.query, "target_new": parsed.target_new}
    if not (changes or drop):
        raise UsageError("nothing is to be changed: give a field, such as --fact, --alias or --owner")
    with store_at(store, watched=True) as opened, opened.transaction():
        known = moves.changeable(stores.versions(opened, edit))
        unknown = set(drop or ())
        for name in LISTS:
            texts = (*getattr(known, name), *changes.get(name, ()))
            changes[name] = tuple(text for text in texts if text not in (drop or ()))
            unknown -= set(texts)
        if unknown:
            raise StoreError(f"edit {edit} has no text {min(unknown)!r}: choose one that drike edits show {edit} lists")
        print_changes(moves.change(
            opened, edit, changes, author=author(), reason=reason, propose=propose, version=version,
            supersede=supersede,
        ))  # fmt: skip


@command()
def review(edits: list[int], *, until: str | None = None, reason: str | None = None, store: str = FILE) -> None:
    """Confirm edits that are in force, all or none, until their next review."""
    with store_at(store) as opened, opened.transaction():
        why = {"author": author(), "reason": reason, "until": until}
        changes = [change for edit in edits for change in moves.review(opened, edit, **why)]
    print_changes(changes)


@command()
def retire(edits: list[int], *, reason: str | None = None, store: str = FILE) -> None:
    """Take edits out of force."""
    with store_at(store) as opened, opened.transaction():
        changes = [change for edit in edits for change in stores.retire(opened, edit, author=author(), reason=reason)]
    print_changes(changes)


@command()
def rollback(
    edit: int, *, version: int | None = None, reason: str | None = None, supersede: bool = False, store: str = FILE
) -> None:
    """Go back to an earlier version of an edit; this makes a new version."""
    with store_at(store, watched=True) as opened:
        print_changes(stores.rollback(opened, edit, version, author=author(), reason=reason, supersede=supersede))


@command()
def approvals(number: int | None = None, *, store: str = FILE) -> None:
    """Show how many people other than its author must approve what an edit says; with N, require so many."""
    with store_at(store, create=number is not None) as opened:
        if number is not None:
            require_approvals(opened, number, author())
        needed, made = required_approvals(opened), opened.history(APPROVALS_SET)
    say(f"{counted(needed, 'approval')} needed" if needed else "No approval is needed")
    for each in made:
        say(f"  {each['at']} {each['author'] or 'someone'}: {each['needed']}")


@command()
def health(*, days: int = 7, at_least: float = traffic.AT_LEAST, json_: bool = False, store: str = FILE) -> None:
    """Show how often answers in live traffic took each edit; fails where that is below --at-least."""
    edits, counts = _read(store, days)
    lines = traffic.health(edits, counts, at_least)
    if json_:
        say(json.dumps({"days": days, "at_least": at_least, "edits": [line.values for line in lines]}))
    elif lines:
        draw(_table(f"Edits in the last {counted(days, 'day')}", lines[:_MOST_ROWS]))
    else:
        say(f"No answer under an edit was counted in {counted(days, 'day')}: look at drike edits report")
    if below := [line for line in lines if line.verdict == "below"]:
        raise StoreError(f"{counted(len(below), 'edit')} below {at_least:.0%}: see the first rows")


@command()
def report(*, days: int = 7, price_in: float | None = None, page: Path | None = None, store: str = FILE) -> None:
    """Show what came while edits were in shadow, and what switching them on would do."""
    if page:
        page_name(page)
    sentences, edits = traffic.shadow_report(*_read(store, days), price_in)
    for sentence in sentences:
        say(sentence)
    table = _table("Edits in shadow, the most asked first", edits[:_MOST_ROWS], shadow=True)
    if edits:
        draw(table)
    if page:
        text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        folder, rows = files("drike.serving") / "page", as_html(table) if edits else ""
        style, form = ((folder / name).read_text("utf-8") for name in ("page.css", "report.html"))
        write_text(page, Template(form).substitute(style=style, sentences=text, table=rows))
        say(f"\nThe report is in {page}")


def _read(store: str, days: int) -> tuple[stores.Snapshot, Counts]:
    since = datetime.now(UTC).date() - timedelta(days=days - 1)
    with store_at(store) as opened:
        return stores.snapshot(opened), counts_since(opened, since)


def _table(title: str, edits: Sequence[traffic.EditHealth], *, shadow: bool = False) -> Table:
    outcomes = [outcome for outcome in (*Stated, "unread") if outcome is not Stated.NEW]

    def row(line: traffic.EditHealth) -> tuple[Cell, ...]:
        verdict = "" if shadow else f", {line.words}"
        numbers = (Number(line.numbers[outcome]) for outcome in outcomes)
        asked, tokens = Number(line.numbers["matched"]), Number(line.tokens_a_day, ",.0f")
        return f"{line.edit.id}: {shown(line.edit.record.edit.fact)}{verdict}", asked, line.took, *numbers, tokens

    return Table(title, ("edit", "asked", "new", *outcomes, "tokens a day"), tuple(map(row, edits)))


@command()
def inbox(
    report: int | None = None, *, draft: list[int] | None = None, close: list[int] | None = None,
    wrong: list[int] | None = None, model: str | None = None, reason: str | None = None, import_: Path | None = None,
    samples: bool = False, forget: bool = False, closed: bool = False, store: str = FILE,
) -> None:  # fmt: skip
    """List reports of wrong answers, or show one; draft an edit from one, or close it."""
    if sum(map(bool, (report, draft, close, import_, wrong, forget))) > 1:
        raise UsageError("one thing at a time: give ID, --draft, --close, --import, --wrong or --forget-samples")
    if model and not draft:
        raise UsageError("--model reads a report for a draft: give --draft, too")
    if reason and not close:
        raise UsageError("--reason says why reports are closed: give --close, too")
    with store_at(store, create=import_ is not None) as opened:
        if import_:
            read, refused = reports.read_reports(import_)
            for problem in refused:
                say(f"Left out: {problem}")
            added = reports.add(opened, read, author()) if read else ()
            say(f"{import_}: {counted(len(added), 'report')} added, {len(refused):,} left out")
        elif report:
            found = reports.report(opened, report)
            say(f"Report {found.number}, {found.at}, {found.state}")
            say_lines(f"{name}: {value}" for name in _FIELDS if (value := getattr(found, name)))
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
            from drike.gates import drafting  # these take long to import
            from drike.gates.index import EditIndex

            reader = open_writer(ModelOptions(model), ApiOptions(), ask=False) if model else None
            index = EditIndex.of(in_force(opened))
            changes = drafting.draft(opened, draft, index, author=author(), model=reader)
            print_changes(changes)
            id = changes[-1].id
            say(f"Prove it (drike edits verify {id}), then propose it (drike edits propose {id})")
        else:
            _list(opened, reports.ReportState.SAMPLE if samples else None if closed else reports.ReportState.OPEN)


def _list(store: stores.EditStore, state: reports.ReportState | None) -> None:
    from drike.gates import drafting
    from drike.gates.index import EditIndex

    found = reports.reports(store, state)
    for group in drafting.grouped(found[: drafting.MOST_SHOWN], EditIndex.of(in_force(store))):
        say(f"About edit {group.edit.id}: {group.edit.record.fact}" if group.edit else "About no edit in force")
        for each in group.reports:
            say(f"  {_line(each)}")
    if len(found) > drafting.MOST_SHOWN:
        note(f"the first {drafting.MOST_SHOWN} are listed: close some to see the others")
    say(f"{store.name}: {counted(len(found), 'sample' if state is reports.ReportState.SAMPLE else 'report')}")


def _line(report: reports.Report) -> str:
    right = f" (right: {shown(report.correction)})" if report.correction else ""
    became = f"{report.state}, edit {report.edit}" if report.edit else report.state
    about = report.comment if report.state is reports.ReportState.SAMPLE else became
    state = "" if report.state is reports.ReportState.OPEN else f" [{about}]"
    return f"{report.number} {report.at}: {shown(report.question)} -> {shown(report.answer)}{right}{state}"


@command()
def due(*, within: str = "0d", store: str = FILE) -> None:
    """List the edits whose review is due, which stay in force; fails if there are any."""
    at = datetime.now(UTC) + timedelta(days=days_in(within))
    with store_at(store) as opened:
        late, name = moves.due(stores.snapshot(opened), at), opened.name
    for edit in late:
        owner = f", {edit.record.owner}" if edit.record.owner else ""
        say(f"{edit.id}@{edit.version} due {(edit.record.review_by or '')[:10]}{owner}: {edit.record.fact}")
    if late:
        raise StoreError(f"{counted(len(late), 'edit')} to review: confirm (drike edits review), change or retire them")
    say(f"{name}: no review is due")


@command()
def replay(log: Path, *, show: int = 20, store: str = FILE, gating: GateOptions) -> None:
    """Show which requests of LOG would get an edit, the least certain first; nothing is sent or written."""
    from drike.cli.encoding import watched_encoder  # these take long to import
    from drike.conversations.rendering import AsBlock
    from drike.gates.store_gate import open_gate
    from drike.serving.feed import EditFeed
    from drike.serving.replay import replay as decide_again

    def row(asked: ReplayedQuery) -> tuple[str, ...]:
        edit, named, p = asked.candidate.edit, asked.candidate.name or "", f"{asked.candidate.probability:.3f}"
        return str(asked.times), shown(asked.query), f"{edit.id}: {shown(edit.record.edit.fact)}", named, p

    with store_at(store) as opened:
        gate = open_gate(opened, gating.gate, gating.gate_threshold)
        feed = EditFeed(opened, gate, encoder=partial(watched_encoder, relations=gating.relations))
        try:
            with log.open("rb") as lines:
                result = decide_again(lines, feed.follower(AsBlock()))
        except OSError as problem:
            raise DataError(f"{log} cannot be read ({problem.strerror}): check the path") from None
    if not result.requests:
        raise DataError(f"{log} has no request: give JSON lines with messages or a prompt")
    for reason, count in result.unread.items():
        say(f"Left out: {count:,} lines with {reason}")
    share = result.matched / result.requests
    say(f"{counted(result.requests, 'request')}, {result.matched:,} would get an edit ({share:.1%})")
    for title, queries in (("Matches, the least certain first", result.matches), ("Near misses", result.misses)):
        if queries:
            notes = (f"{len(queries) - show:,} more are not shown.",) if len(queries) > show else ()
            header = ("requests", "query", "edit", "named as", "p")
            draw(Table(title, header, tuple(map(row, queries[:show])), notes, wide=True))
