"""How edits fare: in live traffic that gateways have counted, in a log, and with time."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

from drike.answers.statements import Stated
from drike.cli.commands import DATA, METHOD, OUTPUT, argument, command, flag, option, page_name
from drike.cli.console import draw, say, say_lines
from drike.cli.options import FILE, GateOptions, PriceIn, Store
from drike.cli.stored_edits import days_in, store_at
from drike.edits.record import StoreError
from drike.errors import DataError
from drike.gateway.health import AT_LEAST, EditHealth, health_of_edits, shadow_report
from drike.gateway.proving.replay import ReplayedQuery, replay_log
from drike.stores import moves
from drike.stores.snapshots import Snapshot, snapshot
from drike.stores.traffic import Counts, TrafficCounts
from drike.support.files import write_text
from drike.support.rows import shown
from drike.support.table import Cell, Number, Table, as_html, counted

_MOST_ROWS = 60

Days = Annotated[
    int, option("--days", "N", DATA, "The last so many days, today included", min=1, max=400)
]


@command()
def health(
    *,
    store: Store = FILE,
    days: Days = 7,
    at_least: Annotated[
        float,
        option(
            "--at-least",
            "P",
            METHOD,
            "Share of answers that should state the new object",
            min=0.0,
            max=0.999,
        ),
    ] = AT_LEAST,
    as_json: Annotated[bool, flag("--json", OUTPUT, "Print JSON instead of a table")] = False,
) -> None:
    """Show how often answers in live traffic took each edit."""
    lines = health_of_edits(*_read(store, days), at_least)
    if as_json:
        values = {"days": days, "at_least": at_least, "edits": [line.values for line in lines]}
        say_lines([json.dumps(values).replace("\x7f", r"\u007f")])
    elif lines:
        draw(_table(f"Edits in the last {counted(days, 'day')}", lines[:_MOST_ROWS]))
    else:
        remedy = "look at drike edits report"
        say(f"No answer under an edit was counted in {counted(days, 'day')}: {remedy}")
    below = [line for line in lines if line.verdict == "below"]
    if below:
        raise StoreError(f"{counted(len(below), 'edit')} below {at_least:.0%}: see the first rows")


@command()
def report(
    *,
    store: Store = FILE,
    days: Days = 7,
    page: Annotated[
        Path | None, option("--out", "FILE", OUTPUT, "Also write a page, as name.html", also="-o")
    ] = None,
    price_in: PriceIn = None,
) -> None:
    """Show what came, and what switching on edits in shadow would do."""
    if page:
        page_name(page)
    sentences, edits = shadow_report(*_read(store, days), price_in)
    say_lines(sentences)
    table = None
    if edits:
        table = _table("Edits in shadow, the most asked first", edits[:_MOST_ROWS], shadow=True)
        draw(table)
    if page:
        write_text(page, _as_page(sentences, table))
        say(f"\nThe report is in {page}")


def _as_page(sentences: Sequence[str], table: Table | None) -> str:
    folder = files("drike.gateway.control") / "page"
    form = (folder / "report.html").read_text("utf-8")
    return Template(form).substitute(
        style=(folder / "page.css").read_text("utf-8"),
        sentences="".join(f"<p>{escape(sentence)}</p>" for sentence in sentences),
        table="" if table is None else as_html(table),
    )


def _read(store: str, days: int) -> tuple[Snapshot, Counts]:
    """A store's edits, and what was counted in the last days."""
    first = datetime.now(UTC).date() - timedelta(days=days - 1)
    with store_at(store) as opened:
        return snapshot(opened), TrafficCounts(opened.database).since(first)


def _table(title: str, edits: Sequence[EditHealth], *, shadow: bool = False) -> Table:
    """How often each edit was asked, and what the answers stated."""
    outcomes = [outcome for outcome in (*Stated, "unread") if outcome is not Stated.NEW]

    def row(edit_health: EditHealth) -> tuple[Cell, ...]:
        edit = edit_health.edit
        verdict = "" if shadow else f", {edit_health.words}"
        others = [
            f"{outcome} {edit_health.numbers[outcome]:,}"
            for outcome in outcomes
            if edit_health.numbers[outcome]
        ]
        return (
            f"{edit.id}: {shown(edit.record.edit.fact)}{verdict}",
            Number(edit_health.numbers["matched"]),
            edit_health.took,
            ", ".join(others),
            Number(edit_health.tokens_a_day, ",.0f"),
        )

    # Five columns fit into 80 characters; one for each outcome do not.
    header = ("edit", "asked", "new", "otherwise", "tokens a day")
    return Table(title, header, tuple(map(row, edits)))


@command()
def due(
    *,
    store: Store = FILE,
    within: Annotated[
        str, option("--within", "90d", DATA, "Also those that are due in so many days")
    ] = "0d",
) -> None:
    """List the edits whose review is due."""
    time = datetime.now(UTC) + timedelta(days=days_in(within))
    with store_at(store) as opened:
        edits_due = moves.due(snapshot(opened), time)
        name = opened.name
    for edit in edits_due:
        day = (edit.record.review_by or "")[:10]
        owner = f", {edit.record.owner}" if edit.record.owner else ""
        say(f"{edit.id}@{edit.version} due {day}{owner}: {edit.record.fact}")
    if edits_due:
        remedy = "confirm (drike edits review), change or retire them"
        raise StoreError(f"{counted(len(edits_due), 'edit')} to review: {remedy}")
    say(f"{name}: no review is due")


@command()
def replay(
    log: Annotated[Path, argument("LOG", "Requests as JSON lines")],
    *,
    store: Store = FILE,
    gating: GateOptions,
    show: Annotated[int, option("--show", "N", OUTPUT, "Most rows of a table", min=1)] = 20,
) -> None:
    """Show which requests of a log would get an edit."""
    from drike.conversations.following import Follower  # these take long to import
    from drike.conversations.rendering import AsBlock
    from drike.live.live_edits import LiveEdits
    from drike.live.store_gate import encoder_of, open_gate

    with store_at(store) as opened:
        gate = open_gate(opened, gating.gate, gating.gate_threshold)
        encoder_of_gate = partial(encoder_of, relations=gating.relations)
        edits = LiveEdits(opened, gate, encoder_of_gate=encoder_of_gate, shadow=True)
        index = edits.refresh().view.index
        follower = Follower(lambda query: gate.decide(query, index), index, AsBlock())
        with log.open("rb") as lines:
            result = replay_log(lines, follower)
    if not result.requests:
        raise DataError(f"{log} has no request: give JSON lines with messages or a prompt")
    say_lines(f"Left out: {count:,} lines with {reason}" for reason, count in result.unread.items())
    requests = counted(result.requests, "request")
    share = result.matched / result.requests
    say(f"{requests}, {result.matched:,} would get an edit ({share:.1%})")
    _draw_replayed("Matches, the least certain first", result.matches, show)
    _draw_replayed("Near misses", result.misses, show)


def _draw_replayed(title: str, queries: Sequence[ReplayedQuery], most: int) -> None:
    if not queries:
        return

    def row(query: ReplayedQuery) -> tuple[str, ...]:
        candidate = query.candidate
        fact = shown(candidate.edit.record.edit.fact)
        return (
            str(query.times),
            shown(query.query),
            f"{candidate.edit.id}: {fact}",
            candidate.name or "",
            f"{candidate.probability:.3f}",
        )

    notes = (f"{len(queries) - most:,} more are not shown.",) if len(queries) > most else ()
    header = ("requests", "query", "edit", "named as", "p")
    draw(Table(title, header, tuple(map(row, queries[:most])), notes, wide=True))
