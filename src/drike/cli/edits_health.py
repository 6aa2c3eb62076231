"""`drike edits health` and `drike edits report`: how edits fare in the live traffic that gateways have counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

from drike.cli.console import draw, say
from drike.cli.edits import FILE, Store
from drike.cli.options import DATA, METHOD, OUTPUT, command, flag, option
from drike.datasets.rows import shown
from drike.errors import UsageError
from drike.serving.health import AT_LEAST, EditHealth, shadow_report
from drike.serving.health import health as fared
from drike.stated import Stated
from drike.stores.counts import Counts, counts_since
from drike.stores.log import Snapshot, snapshot
from drike.stores.opening import open_store
from drike.stores.records import StoreError
from drike.support.files import write_text
from drike.support.table import Cell, Number, Table, as_html, counted

Days = Annotated[int, option("N", "The last so many days, today included", DATA, minimum=1, maximum=400)]
_MOST_ROWS = 60


@command()
def health(
    *, days: Days = 7,
    at_least: Annotated[float, option("P", "Share of answers that should state the new object", METHOD, minimum=0.0,
                                      maximum=0.999)] = AT_LEAST,
    json_: Annotated[bool, flag("--json", "Print JSON instead of a table", OUTPUT)] = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Show how often answers in live traffic took each edit; fails where that is below --at-least."""
    edits, counts = _read(store, days)
    lines = fared(edits, counts, at_least)
    if json_:
        say(json.dumps({"days": days, "at_least": at_least, "edits": [line.values for line in lines]}))
    elif lines:
        draw(_table(f"Edits in the last {counted(days, 'day')}", lines[:_MOST_ROWS]))
    else:
        say(f"No answer under an edit was counted in {counted(days, 'day')}: look at drike edits report")
    if below := [line for line in lines if line.verdict == "below"]:
        raise StoreError(f"{counted(len(below), 'edit')} below {at_least:.0%}: see the first rows")


@command()
def report(
    *, days: Days = 7, price_in: float | None = None,
    out: Annotated[Path | None, option("FILE", "Also write a page, as name.html", OUTPUT, "--out", "-o")] = None,
    store: Store = FILE,
) -> None:  # fmt: skip
    """Show what came while edits were in shadow, and what switching them on would do."""
    if out and out.suffix != ".html":
        raise UsageError(f"--out names the page: let {out} end in .html")
    sentences, edits = shadow_report(*_read(store, days), price_in)
    for sentence in sentences:
        say(sentence)
    table = _table("Edits in shadow, the most asked first", edits[:_MOST_ROWS], shadow=True)
    if edits:
        draw(table)
    if out:
        text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        page, rows = files("drike.serving") / "page", as_html(table) if edits else ""
        style, form = ((page / name).read_text("utf-8") for name in ("page.css", "report.html"))
        write_text(out, Template(form).substitute(style=style, sentences=text, table=rows))
        say(f"\nThe report is in {out}")


def _read(store: str, days: int) -> tuple[Snapshot, Counts]:
    since = datetime.now(UTC).date() - timedelta(days=days - 1)
    with closing(open_store(store, create=False)) as opened:
        return snapshot(opened), counts_since(opened, since)


def _table(title: str, edits: Sequence[EditHealth], *, shadow: bool = False) -> Table:
    outcomes = [outcome for outcome in (*Stated, "unread") if outcome is not Stated.NEW]

    def row(line: EditHealth) -> tuple[Cell, ...]:
        verdict = "" if shadow else f", {line.words}"
        numbers = (Number(line.numbers[outcome]) for outcome in outcomes)
        asked, tokens = Number(line.numbers["matched"]), Number(line.tokens_a_day, ",.0f")
        return f"{line.edit.id}: {shown(line.edit.record.edit.fact)}{verdict}", asked, line.took, *numbers, tokens

    return Table(title, ("edit", "asked", "new", *outcomes, "tokens a day"), tuple(map(row, edits)))
