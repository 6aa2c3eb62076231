"""How edits fare in live traffic, from the counts of a store, and what switching them on would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt

from drike.serving.options import Mode
from drike.stated import Stated
from drike.stores.counts import Counts
from drike.stores.log import Snapshot
from drike.stores.records import EditVersion, Status
from drike.support.table import Estimate, counted

AT_LEAST = 0.95
_Z = 1.959964  # of a 95 % interval
_MOST_NAMED = 10  # edits in a sentence
_Numbers = Counter[str]


@dataclass(frozen=True)
class EditHealth:
    """How the latest version of an edit fared in one mode. by_day: how often what was counted, on days with requests.

    at_least: the share of answers that should take the edit.
    """

    edit: EditVersion
    by_day: Mapping[str, _Numbers]
    at_least: float = AT_LEAST

    @cached_property
    def numbers(self) -> _Numbers:
        """How often what was counted on all days; "tokens" are those that it added."""
        return sum(self.by_day.values(), Counter())

    @property
    def judged(self) -> int:
        """How many answers were judged."""
        return sum(self.numbers[outcome] for outcome in Stated)

    @property
    def took(self) -> Estimate:
        """The share of judged answers that state the new object and not the old one, with its 95 % interval."""
        return wilson(self.numbers[Stated.NEW], self.judged)

    @property
    def tokens_a_day(self) -> float:
        """About how many tokens it added on a day with requests."""
        return self.numbers["tokens"] / max(1, len(self.by_day))

    @property
    def verdict(self) -> str:
        """Whether it is taken as often as it should be: below, holds, or open where too few answers say."""
        low, high = self.took.low or 0.0, 1.0 if self.took.high is None else self.took.high
        return "below" if high < self.at_least else "holds" if low >= self.at_least else "open"

    @property
    def verdict_in_words(self) -> str:
        """The verdict, and why it is open."""
        least = ceil(self.at_least / (1 - self.at_least) * _Z**2)  # if all of them take it
        few = f"too little traffic: {self.judged:,} of at least {least:,} answers"
        undecided = few if self.judged < least else f"around {self.at_least:.0%}"
        return {"below": f"below {self.at_least:.0%}", "holds": "as it should be", "open": undecided}[self.verdict]

    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        return {
            "id": self.edit.id, "version": self.edit.version, "query": self.edit.record.query,
            "target_new": self.edit.record.target_new, "verdict": self.verdict, "words": self.verdict_in_words,
            "judged": self.judged, "took": vars(self.took), "numbers": self.numbers, "by_day": self.by_day,
            "tokens_a_day": round(self.tokens_a_day, 1),
        }  # fmt: skip


def wilson(successes: int, trials: int) -> Estimate:
    """A share with its Wilson interval at 95 %; None where nothing was tried."""
    if not trials:
        return Estimate(None)
    share, square = successes / trials, _Z**2 / trials
    centre, half = share + square / 2, _Z * sqrt(share * (1 - share) / trials + square / trials / 4)
    low, high = ((centre + side * half) / (1 + square) for side in (-1, 1))
    return Estimate(share, max(low, 0.0), min(high, 1.0))


def health(edits: Snapshot, counts: Counts, at_least: float = AT_LEAST, mode: Mode = Mode.ON) -> list[EditHealth]:
    """How each active or shadow edit fared in a mode, those below `at_least` first, then by the interval's low end."""
    days = dict.fromkeys(sorted({counted.day for counted in counts}))
    numbers: dict[int, dict[str, _Numbers]] = {}
    for counted_, number in counts.items():
        edit = edits.edits.get(counted_.edit)
        if edit and (counted_.version, counted_.mode) == (edit.version, mode):
            of_edit = numbers.setdefault(edit.id, {day: Counter() for day in days})
            of_edit[counted_.day][counted_.what] += number
    in_use = [edit for edit in edits.edits.values() if edit.record.status in (Status.ACTIVE, Status.SHADOW)]
    all_ = [EditHealth(edit, numbers[edit.id], at_least) for edit in in_use if edit.id in numbers]
    return sorted(all_, key=lambda edit: (edit.verdict != "below", edit.took.low is None, edit.took.low))


@dataclass(frozen=True)
class ShadowReport:
    """What requests came, and what switching edits on would do. requests: how many of which kind. days: with any.

    edits: how those fared that changed no answer, the most asked first. doubted: ids of edits, the most doubted first.
    """

    requests: _Numbers
    days: int
    edits: Sequence[EditHealth]
    doubted: Sequence[int]

    @classmethod
    def of(cls, edits: Snapshot, counts: Counts) -> ShadowReport:
        """The report on the counts of a store."""
        requests, doubted = Counter[str](), Counter[int]()
        for counted_, number in counts.items():
            if not counted_.edit:
                requests[counted_.what] += number
            elif counted_.what == "doubted":
                doubted[counted_.edit] += number
        fared = sorted(health(edits, counts, mode=Mode.SHADOW), key=lambda edit: -edit.numbers["matched"])
        days = {counted_.day for counted_ in counts}
        return cls(requests, len(days), fared, [edit for edit, _ in doubted.most_common()])

    def sentences(self, price_in: float | None = None) -> list[str]:
        """The report in sentences. price_in: of a million tokens."""
        requests, matched = self.requests["requests"], self.requests["matched"]
        if not requests:
            return ["No request was counted in these days: send some through drike serve."]
        share, days = f"{100 * matched / requests:.1f} %", counted(self.days, "day")
        said = [f"Of {counted(requests, 'request')} in {days}, {matched:,} ({share}) concern an edit."]
        if judged := sum(edit.judged for edit in self.edits):
            old, new = (sum(edit.numbers[outcome] for edit in self.edits) for outcome in (Stated.OLD, Stated.NEW))
            share_old, share_new = (f"{100 * number / judged:.0f} %" for number in (old, new))
            said.append(
                f"Without the edit the model states the old object in {share_old} of {counted(judged, 'answer')}, and "
                f"the new one in {share_new}."
            )
        if tokens := sum(edit.tokens_a_day for edit in self.edits):
            cost = "" if price_in is None else f" ({tokens * price_in / 1e6:,.2f} a day at {price_in:g} a million)"
            said.append(f"Switching on adds about {tokens:,.0f} tokens a day{cost}.")
        if number := self.requests["doubted"]:
            where = ", ".join(map(str, self.doubted[:_MOST_NAMED]))
            said.append(f"{counted(number, 'decision')} in doubt: look at edits {where} (drike edits replay).")
        if lost := self.requests["unread"] + self.requests["degraded"]:
            said.append(f"{counted(lost, 'request')} could not be read, or not be decided on in time.")
        return said
