"""How edits fare in live traffic, from the counts of a store, and what switching them on would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from drike.serving.options import Mode
from drike.stated import Stated
from drike.stores.counts import Counts
from drike.stores.log import Snapshot
from drike.stores.records import EditVersion, Status
from drike.support.table import Z95, Estimate, counted

AT_LEAST = 0.95
_MOST_NAMED = 10  # edits in a sentence


@dataclass(frozen=True)
class EditHealth:
    """How the latest version of an edit fared in one mode.

    by_day: how often what was counted, on each day with requests. numbers: on all of them. judged: answers. took: the
    share of these that state the new object and not the old one, with its 95 % interval. verdict: below or holds what
    is asked for, or open; words: the same in words, with the reason. tokens_a_day: that it added, about.
    """

    edit: EditVersion
    by_day: Mapping[str, Counter[str]]
    numbers: Counter[str]
    judged: int
    took: Estimate
    verdict: str
    words: str
    tokens_a_day: float

    @property
    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        figures = {name: value for name, value in vars(self).items() if name != "edit"}
        return summary(self.edit) | figures | {"took": vars(self.took)}


def summary(edit: EditVersion) -> dict[str, object]:
    """What an edit says, in short, for JSON."""
    record = edit.record
    return {"id": edit.id, "version": edit.version, "query": record.query, "target_new": record.target_new}


def health(edits: Snapshot, counts: Counts, at_least: float = AT_LEAST, mode: Mode = Mode.ON) -> list[EditHealth]:
    """How each active or shadow edit fared in a mode, those below `at_least` first, then by the interval's low end."""
    days, numbers = sorted({key.day for key in counts}), dict[EditVersion, dict[str, Counter[str]]]()
    for key, number in counts.items():
        edit = edits.edits.get(key.edit)
        in_use = edit and edit.record.status in (Status.ACTIVE, Status.SHADOW)
        if edit and in_use and (key.version, key.mode) == (edit.version, mode):
            numbers.setdefault(edit, {day: Counter() for day in days})[key.day][key.what] += number
    all_ = (_health(edit, by_day, at_least) for edit, by_day in numbers.items())
    return sorted(all_, key=lambda line: (line.verdict != "below", line.took.low is None, line.took.low))


def _health(edit: EditVersion, by_day: Mapping[str, Counter[str]], at_least: float) -> EditHealth:
    numbers = sum(by_day.values(), Counter[str]())
    judged = sum(numbers[outcome] for outcome in Stated)
    took = Estimate.share(numbers[Stated.NEW], judged)
    least = ceil(at_least / (1 - at_least) * Z95**2)  # if all take it
    verdict, words = "open", f"around {at_least:.0%}"
    if took.high is not None and took.high < at_least:
        verdict, words = "below", f"below {at_least:.0%}"
    elif took.low is not None and took.low >= at_least:
        verdict, words = "holds", "as it should be"
    elif judged < least:
        words = f"too little traffic: {judged:,} of at least {least:,} answers"
    return EditHealth(edit, by_day, numbers, judged, took, verdict, words, round(numbers["tokens"] / len(by_day), 1))


def shadow_report(edits: Snapshot, counts: Counts, price_in: float | None = None) -> tuple[list[str], list[EditHealth]]:
    """What came and what switching on would do, at a price of a million tokens; the shadow edits, most asked first."""
    requests, doubted = Counter[str](), Counter[int]()
    for key, number in counts.items():
        if not key.edit:
            requests[key.what] += number
        elif key.what == "doubted":
            doubted[key.edit] += number
    lines = sorted(health(edits, counts, mode=Mode.SHADOW), key=lambda line: -line.numbers["matched"])
    if not requests["requests"]:
        return ["No request was counted in these days: send some through drike serve."], lines
    days, share = counted(len({key.day for key in counts}), "day"), requests["matched"] / requests["requests"]
    asked = f"Of {counted(requests['requests'], 'request')} in {days}, {requests['matched']:,}"
    said = [f"{asked} ({_percent(share, 1)}) concern an edit."]
    if judged := sum(line.judged for line in lines):
        old, new = (sum(line.numbers[what] for line in lines) / judged for what in (Stated.OLD, Stated.NEW))
        of = f"of {counted(judged, 'answer')}, and the new one in {_percent(new)}"
        said.append(f"Without the edit the model states the old object in {_percent(old)} {of}.")
    if tokens := sum(line.tokens_a_day for line in lines):
        cost = "" if price_in is None else f" ({tokens * price_in / 1e6:,.2f} a day at {price_in:g} a million)"
        said.append(f"Switching on adds about {tokens:,.0f} tokens a day{cost}.")
    if number := requests["doubted"]:
        where = ", ".join(str(edit) for edit, _ in doubted.most_common(_MOST_NAMED))
        said.append(f"{counted(number, 'decision')} in doubt: look at edits {where} (drike edits replay).")
    if lost := requests["unread"] + requests["degraded"]:
        said.append(f"{counted(lost, 'request')} could not be read, or not be decided on in time.")
    return said, lines


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
