"""`drike edits replay`: what the edits in force would do to requests of a log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import draw, say
from drike.cli.edits import Store
from drike.cli.encoding import watched_encoder
from drike.cli.options import OUTPUT, GateOptions, command, option
from drike.conversations.rendering import AsBlock
from drike.datasets.rows import shown
from drike.errors import DataError
from drike.gates.store_gate import open_gate
from drike.serving.feed import EditFeed
from drike.serving.replay import ReplayedQuery
from drike.serving.replay import replay as decide_again
from drike.stores.opening import open_store
from drike.support.table import Table, counted


@command()
def replay(
    log: Annotated[Path, typer.Argument(help="Requests as JSON lines", metavar="LOG", hidden=True)], *,
    show: Annotated[int, option("N", "Most rows of a table", OUTPUT, minimum=1)] = 20, store: Store = "edits.db",
    gating: GateOptions,
) -> None:  # fmt: skip
    """Show which requests of LOG would get an edit, the least certain first; nothing is sent or written."""
    with closing(open_store(store, create=False)) as opened:
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
            draw(_table(title, queries, show))


def _table(title: str, queries: Sequence[ReplayedQuery], max_rows: int) -> Table:
    rows = []
    for asked in queries[:max_rows]:
        edit, named, p = asked.candidate.edit, asked.candidate.name or "", f"{asked.candidate.probability:.3f}"
        rows.append((str(asked.times), shown(asked.query), f"{edit.id}: {shown(edit.record.edit.fact)}", named, p))
    notes = (f"{len(queries) - max_rows:,} more are not shown.",) if len(queries) > max_rows else ()
    return Table(title, ("requests", "query", "edit", "named as", "p"), tuple(rows), notes, wide=True)
