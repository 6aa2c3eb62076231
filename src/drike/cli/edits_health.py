"""How edits fare: in live traffic that gateways have counted, in a log, and with time."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
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
from drike.gateway.health import (
    ALARMS,
    AT_LEAST,
    EditHealth,
    counts_of_health,
    edit_label,
    health_of_edits,
    of_days,
    shadow_report,
)
from drike.gateway.proving.replay import ReplayedQuery, replay_log
from drike.gateway.weekly import WeeklyPart, WeekOfStore, weekly_parts
from drike.stores import moves
from drike.stores.snapshots import Snapshot, snapshot
from drike.stores.traffic import Counts, TrafficCounts
from drike.support.files import write_text
from drike.support.rows import shown
from drike.support.table import (
    Cell,
    Number,
    Table,
    as_html,
    as_markdown,
    counted,
    markdown_text,
)

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
    """Show how often answers in live traffic took each edit, by model."""
    edits, counts = _read(store, days)
    lines = health_of_edits(edits, counts, at_least, first_day=_first_day(days))
    if as_json:
        values = {"days": days, "at_least": at_least, "edits": [line.values for line in lines]}
        say_lines([json.dumps(values).replace("\x7f", r"\u007f")])
    elif lines:
        draw(_health_table(f"Edits in the last {counted(days, 'day')}", lines[:_MOST_ROWS]))
    else:
        remedy = "look at drike edits report"
        say(f"No answer under an edit was counted in {counted(days, 'day')}: {remedy}")
    alarms = Counter(line.verdict for line in lines if line.verdict in ALARMS)
    if alarms:
        words = {"below": f"below {at_least:.0%}", "fell": "heeded less than before"}
        found = [f"{counted(number, 'edit')} {words[alarm]}" for alarm, number in alarms.items()]
        raise StoreError(f"{', '.join(found)}: see the first rows")


@command()
def report(
    *,
    store: Store = FILE,
    days: Days = 7,
    weekly: Annotated[
        bool,
        flag(
            "--weekly",
            OUTPUT,
            "Corrections, reports, what is heeded, recurs and is due: one page, as Markdown",
        ),
    ] = False,
    page: Annotated[
        Path | None,
        option(
            "--out",
            "FILE",
            OUTPUT,
            "Also write a page, as name.html; with --weekly name.md, too",
            also="-o",
        ),
    ] = None,
    price_in: PriceIn = None,
) -> None:
    """Show what came, and what switching on edits in shadow would do."""
    if page and not (weekly and page.suffix == ".md"):
        page_name(page)
    if weekly:
        _report_weekly(store, days, page)
        return
    all_edits, counts = _read(store, days)
    sentences, edits = shadow_report(all_edits, of_days(counts, _first_day(days)), price_in)
    say_lines(sentences)
    table = None
    if edits:
        table = _shadow_table("Edits in shadow, the most asked first", edits[:_MOST_ROWS])
        draw(table)
    if page:
        heading = "What switching the edits on would do"
        parts = _part_as_html(WeeklyPart("", sentences, table))
        write_text(page, _as_page("edits in shadow", heading, parts))
        say(f"\nThe report is in {page}")


def _report_weekly(store: str, days: int, page: Path | None) -> None:
    """Print a week of corrections as Markdown, and write it as a page."""
    now = datetime.now(UTC)
    with store_at(store) as opened:
        counts = counts_of_health(TrafficCounts(opened.database), now.date(), days)
        week = WeekOfStore.of(opened, counts, now, days)
    parts = weekly_parts(week)
    heading = f"Corrections, {week.first_day:%Y-%m-%d} to {now:%Y-%m-%d}"
    text = "\n".join([f"# {heading}\n", *map(_part_as_markdown, parts)])
    say_lines(text.splitlines())
    if page and page.suffix == ".md":
        write_text(page, text)
    elif page:
        write_text(page, _as_page("a week", heading, "".join(map(_part_as_html, parts))))


def _part_as_markdown(part: WeeklyPart) -> str:
    table = ""
    if part.table:
        table = as_markdown(part.table).removeprefix("****\n\n")
    sentences = markdown_text(" ".join(part.sentences))
    return f"## {part.title}\n\n{sentences}\n\n{table}"


def _part_as_html(part: WeeklyPart) -> str:
    title = f"<h2>{escape(part.title)}</h2>" if part.title else ""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in part.sentences)
    if part.table is None:
        return f"{title}{sentences}\n"
    notes = "".join(f"<p>{escape(note)}</p>" for note in part.table.notes)
    return f'{title}{sentences}\n<div class="wide">{as_html(part.table)}</div>{notes}\n'


def _as_page(title: str, heading: str, parts: str) -> str:
    """A page that needs nothing else. parts: as HTML."""
    folder = files("drike.gateway.control") / "page"
    form = (folder / "report.html").read_text("utf-8")
    style = (folder / "page.css").read_text("utf-8")
    return Template(form).substitute(
        style=style, title=escape(title), heading=escape(heading), parts=parts
    )


def _read(store: str, days: int) -> tuple[Snapshot, Counts]:
    """A store's edits, and what was counted, of the last days by day."""
    today = datetime.now(UTC).date()
    with store_at(store) as opened:
        counts = counts_of_health(TrafficCounts(opened.database), today, days)
        return snapshot(opened), counts


def _first_day(days: int) -> date:
    """The first of the last so many days."""
    return datetime.now(UTC).date() - timedelta(days=days - 1)


def _health_table(title: str, edits: Sequence[EditHealth]) -> Table:
    """How often each edit was in prompts, and how often heeded: a row for each model."""
    rows: list[tuple[Cell, ...]] = []
    for edit_health in edits:
        edit = edit_health.edit
        tokens = Number(edit_health.tokens_a_day, ",.0f")
        name = edit_label(edit)
        if len(edit_health.models) > 1:
            prompts = Number(sum(line.prompts for line in edit_health.models))
            name = f"{name}, {edit_health.words}"
            rows.append((name, prompts, edit_health.took, "", tokens))
            name = ""
        for line in edit_health.models:
            label = f"{name} ({shown(line.model)}), {line.words}" if name else f"- {line.model}"
            if not name and line.verdict in ALARMS:
                label = f"{label}: {line.words}"
            of_line = tokens if name else ""
            others = _otherwise(line.numbers)
            rows.append((label, Number(line.prompts), line.heeded, others, of_line))

    # Five columns fit into 80 characters; one for each outcome do not.
    header = ("edit, and model", "in prompts", "heeded", "otherwise", "tokens a day")
    note = "Heeded: answers that state the new object alone, since the edit says this."
    return Table(title, header, tuple(rows), (note,))


def _otherwise(numbers: Mapping[str, int]) -> str:
    """What answers state that do not heed an edit."""
    outcomes = [outcome for outcome in (*Stated, "unread") if outcome is not Stated.NEW]
    return ", ".join(
        f"{outcome} {numbers[outcome]:,}" for outcome in outcomes if numbers.get(outcome)
    )


def _shadow_table(title: str, edits: Sequence[EditHealth]) -> Table:
    """How often edits in shadow were asked about, and what the answers stated without them."""

    def row(edit_health: EditHealth) -> tuple[Cell, ...]:
        edit = edit_health.edit
        return (
            edit_label(edit),
            Number(edit_health.numbers["matched"]),
            edit_health.took,
            _otherwise(edit_health.numbers),
            Number(edit_health.tokens_a_day, ",.0f"),
        )

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
