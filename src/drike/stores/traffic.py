"""Counts of live traffic that gateways add to a store, without text of any request."""

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple

from drike.stores.database import Database, insert, select
from drike.stores.settings import StoreSettings

MODELS = 50  # whose counts of a day are told apart
OTHER = "other"  # what further models are called
EARLIER = ""  # the day of sums of all earlier days
_KEPT_DAYS = 400
_ROWS_AT_ONCE = 500  # of a statement; databases bound its values
_TABLE_MADE = "counts"  # the setting of a store that has the table
# SQLite keeps this text, white space included.
_TABLE = (
    "CREATE TABLE IF NOT EXISTS drike_counts "
    "(day TEXT NOT NULL, edit BIGINT NOT NULL, version BIGINT NOT NULL,\n"
    "    model TEXT NOT NULL, mode TEXT NOT NULL, what TEXT NOT NULL, number BIGINT NOT NULL,\n"
    "    PRIMARY KEY (day, model, edit, version, mode, what))"
)
_ADD_TO_NUMBER = """ON CONFLICT (day, model, edit, version, mode, what)
    DO UPDATE SET number = drike_counts.number + excluded.number"""


class Counted(NamedTuple):
    """What a number counts.

    day: as 2026-11-22, in UTC; "" for all days before some day. edit, version: 0 for requests,
    whatever edits they concern.
    """

    day: str
    edit: int
    version: int
    model: str
    mode: str
    what: str


Counts = Counter[Counted]


class TrafficCounts:
    """The counts in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = StoreSettings(database)

    def add(self, counts: Counts) -> None:
        """Add numbers to those of the store, all or none. Raises StoreError.

        Counts of more than a year ago are dropped.
        """
        with self._database.transaction():
            if self._settings.get(_TABLE_MADE) is None:
                self._database.execute(_TABLE)
                self._settings.save(_TABLE_MADE, "1")

            added: Counts = Counter()
            for day, of_day in _by_day(counts).items():
                models = self._models_of(day)
                if not models:  # these are the day's first counts
                    self._drop_before(date.fromisoformat(day) - timedelta(days=_KEPT_DAYS))
                for counted, number in of_day.items():
                    if counted.model in models or len(models) < MODELS:
                        model = counted.model
                    else:
                        model = OTHER
                    if model != OTHER:
                        models.add(model)
                    added[counted._replace(model=model)] += number

            rows = [(*counted, number) for counted, number in sorted(added.items())]
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[begin : begin + _ROWS_AT_ONCE]
                insert(self._database, "drike_counts", some, _ADD_TO_NUMBER)

    def since(self, day: date) -> Counts:
        """The counts of a day and those after it. Raises StoreError."""
        if self._settings.get(_TABLE_MADE) is None:
            return Counter()
        columns = ", ".join((*Counted._fields, "number"))
        query = f"SELECT {columns} FROM drike_counts WHERE day >= %s"  # noqa: S608 - no values
        rows = select(self._database, query, [day.isoformat()])
        return Counter({Counted(*counted): number for *counted, number in rows})

    def with_sums_before(self, day: date) -> Counts:
        """The counts of a day and those after it, and of all days before it the sums.

        These have the day `EARLIER`. Raises StoreError.
        """
        if self._settings.get(_TABLE_MADE) is None:
            return Counter()
        what = ", ".join(Counted._fields[1:])
        query = f"SELECT {what}, SUM(number) FROM drike_counts WHERE day < %s GROUP BY {what}"  # noqa: S608 - no values
        rows = select(self._database, query, [day.isoformat()])
        sums = Counter({Counted(EARLIER, *counted): int(number) for *counted, number in rows})
        return sums + self.since(day)

    def _models_of(self, day: str) -> set[str]:
        """The models that the counts of a day tell apart."""
        rows = self._database.execute(
            "SELECT DISTINCT model FROM drike_counts WHERE day = %s", [day]
        )
        return {model for [model] in rows} - {OTHER}

    def _drop_before(self, day: date) -> None:
        self._database.execute("DELETE FROM drike_counts WHERE day < %s", [day.isoformat()])


def _by_day(counts: Counts) -> Mapping[str, Counts]:
    """The counts of each day, in the order of the days."""
    days = sorted({counted.day for counted in counts})
    by_day: dict[str, Counts] = {day: Counter() for day in days}
    for counted, number in counts.items():
        by_day[counted.day][counted] = number
    return by_day
