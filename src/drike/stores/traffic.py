"""Counts of live traffic that gateways add to a store: by day, edit, model and mode, without text of any request."""

from collections import Counter
from datetime import date, timedelta
from typing import NamedTuple

from drike.stores.log import EditStore

MODELS, OTHER = (
    50,
    "other",
)  # names of models that a day's counts tell apart, and what further ones are called
_KEPT_DAYS = 400
_ROWS = 500  # of a statement; databases bound its values
_MADE = "counts"  # the setting of a store that has the table
_TABLE = """CREATE TABLE IF NOT EXISTS drike_counts (day TEXT NOT NULL, edit BIGINT NOT NULL, version BIGINT NOT NULL,
    model TEXT NOT NULL, mode TEXT NOT NULL, what TEXT NOT NULL, number BIGINT NOT NULL,
    PRIMARY KEY (day, model, edit, version, mode, what))"""
_ADD = """ON CONFLICT (day, model, edit, version, mode, what)
    DO UPDATE SET number = drike_counts.number + excluded.number"""


class Counted(NamedTuple):
    """What a number counts. day: as 2026-11-22, in UTC. edit, version: 0 for requests, whatever edits they concern."""

    day: str
    edit: int
    version: int
    model: str
    mode: str
    what: str


Counts = Counter[Counted]


def add(store: EditStore, counts: Counts) -> None:
    """Add numbers to those of a store, all or none; counts of more than a year ago are dropped. Raises StoreError."""
    with store.transaction():
        if store.setting(_MADE) is None:
            store._run(_TABLE)
            store.save_setting(_MADE, "1")
        named: Counts = Counter()
        for day in sorted({counted.day for counted in counts}):
            query = "SELECT DISTINCT model FROM drike_counts WHERE day = %s"
            known = {model for [model] in store._run(query, [day])} - {OTHER}
            if not known:  # the day's first
                oldest = date.fromisoformat(day) - timedelta(days=_KEPT_DAYS)
                store._run("DELETE FROM drike_counts WHERE day < %s", [oldest.isoformat()])
            for counted, number in counts.items():
                if counted.day == day:
                    model = (
                        counted.model if counted.model in known or len(known) < MODELS else OTHER
                    )
                    known |= {model} - {OTHER}
                    named[counted._replace(model=model)] += number
        ordered = sorted(named.items())
        for rows in (ordered[begin : begin + _ROWS] for begin in range(0, len(ordered), _ROWS)):
            store._insert("drike_counts", [(*counted, number) for counted, number in rows], _ADD)


def counts_since(store: EditStore, day: date) -> Counts:
    """The counts of a day and those after it. Raises StoreError."""
    if store.setting(_MADE) is None:
        return Counter()
    columns = ", ".join((*Counted._fields, "number"))
    rows = store._rows(f"SELECT {columns} FROM drike_counts WHERE day >= %s", [day.isoformat()])  # noqa: S608
    return Counter({Counted(*counted): number for *counted, number in rows})
