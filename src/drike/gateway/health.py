"""How edits fare, by what was counted of requests and answers (`watch`).

An edit is heeded where an answer states its new object and not the old one. How often is counted
since the edit says what it says, for each model, as people look at it day by day (`rates`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta

from drike.answers.statements import Stated
from drike.edits.record import EditVersion
from drike.gateway.options import Mode
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import Counts, TrafficCounts
from drike.support.rates import Fall, Portion, enough_for, fall, rate
from drike.support.rows import shown
from drike.support.table import Estimate, counted

AT_LEAST = 0.95
ALARMS = ("below", "fell")  # verdicts that need a person
_DAYS_OF_FALLS = 90  # in which a fall may have begun
_MOST_NAMED = 10  # edits in a sentence


@dataclass(frozen=True)
class FallenRate:
    """When the rate of a model fell, and how often it heeded the edit before and since then."""

    day: str
    before: Portion
    since: Portion

    def __str__(self) -> str:
        before = f"{self.before.part / self.before.whole:.0%}"
        since = f"{self.since.part / self.since.whole:.0%} ({self.since.whole:,} answers)"
        return f"fell from {before} to {since} since {self.day}"


@dataclass(frozen=True)
class ModelHealth:
    """How a model fared with an edit since the edit says what it says.

    numbers: how often what was counted. judged: answers that were read. heeded: the share of these
    that state the new object alone. verdict: below or holds what is asked for, fell, or open;
    words: the same in words, with the reason.
    """

    model: str
    numbers: Counter[str]
    judged: int
    heeded: Estimate
    fell: FallenRate | None
    verdict: str
    words: str

    @property
    def prompts(self) -> int:
        """How many questions about the edit had it in their prompts."""
        return self.numbers["matched"]

    @property
    def recurred(self) -> int:
        """How many answers state the old object alone."""
        return self.numbers[Stated.OLD]

    @property
    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        fell = None
        if self.fell:
            before = self.fell.before._asdict()
            fell = {"day": self.fell.day, "before": before, "since": self.fell.since._asdict()}
        counted_here = {"prompts": self.prompts, "recurred": self.recurred}
        return vars(self) | counted_here | {"heeded": asdict(self.heeded), "fell": fell}


@dataclass(frozen=True)
class EditHealth:
    """How an edit fared in one mode, under its latest version and earlier ones that say the same.

    by_day: how often what was counted, on each of the days that are shown and had requests.
    numbers: on all of them. judged: answers since the edit says this. took: the share of these that
    state the new object and not the old one. verdict: that of its worst model, or of all of them;
    words: the same in words, with the reason. tokens_a_day: that it added on the days shown, about.
    models: the same by model, the one with most answers first.
    """

    edit: EditVersion
    by_day: Mapping[str, Counter[str]]
    numbers: Counter[str]
    judged: int
    took: Estimate
    verdict: str
    words: str
    tokens_a_day: float
    models: Sequence[ModelHealth]

    @property
    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        figures = {name: value for name, value in vars(self).items() if name != "edit"}
        models = [model.values for model in self.models]
        return summary(self.edit) | figures | {"took": vars(self.took), "models": models}


@dataclass(frozen=True)
class _Verdict:
    """Whether an edit takes as often as it should, for programs and in words."""

    verdict: str
    words: str


# What was counted of an edit, by model and day.
_Tallies = dict[str, dict[str, Counter[str]]]


def summary(edit: EditVersion) -> dict[str, object]:
    """What an edit says, in short, for JSON."""
    record = edit.record
    return {
        "id": edit.id,
        "version": edit.version,
        "query": record.query,
        "target_new": record.target_new,
    }


def edit_label(edit: EditVersion) -> str:
    """An edit in a table."""
    return f"{edit.id}: {shown(edit.record.edit.fact)}"


def counts_of_health(traffic: TrafficCounts, today: date, days: int) -> Counts:
    """All counts kept: those of so many days, and of those in which a fall is looked for, by day.

    Raises StoreError.
    """
    by_day = max(days, _DAYS_OF_FALLS)
    return traffic.with_sums_before(today - timedelta(days=by_day - 1))


def of_days(counts: Counts, first_day: date) -> Counts:
    """The counts of a day and those after it."""
    since = first_day.isoformat()
    return Counter({key: number for key, number in counts.items() if key.day >= since})


def health_of_edits(
    edits: Snapshot,
    counts: Counts,
    at_least: float = AT_LEAST,
    mode: Mode = Mode.ON,
    first_day: date = date.min,
) -> list[EditHealth]:
    """How each active or shadow edit fared in a mode, if it was asked about since `first_day`.

    It is shown by day since then, and judged by all counts.

    Alarms come first, then they are ordered by the interval's low end.
    """
    days = sorted({key.day for key in counts if key.day >= first_day.isoformat()})
    tallies_by_edit: dict[EditVersion, _Tallies] = {}
    for key, number in counts.items():
        edit = edits.edits.get(key.edit)
        if edit is None or not edit.record.status.in_use or key.mode != mode:
            continue
        first_alike = edits.unchanged.get(key.edit, key.version)
        if first_alike <= key.version <= edit.version:
            of_models = tallies_by_edit.setdefault(edit, {})
            of_model = of_models.setdefault(key.model, {})
            of_model.setdefault(key.day, Counter())[key.what] += number

    lines = [
        _health(edit, of_models, days, at_least)
        for edit, of_models in tallies_by_edit.items()
        if any(day in of_model for day in days for of_model in of_models.values())
    ]
    return sorted(
        lines, key=lambda line: (line.verdict not in ALARMS, line.took.low is None, line.took.low)
    )


def _health(
    edit: EditVersion, of_models: _Tallies, days: Sequence[str], at_least: float
) -> EditHealth:
    # 1. What is shown of some days, of all models together.
    by_day = {day: Counter[str]() for day in days}
    for of_model in of_models.values():
        for day in days:
            by_day[day] += of_model.get(day, Counter())
    numbers = sum(by_day.values(), Counter[str]())

    # 2. How often it is heeded since it says this, by model and in all.
    models = [_model_health(model, of_model, at_least) for model, of_model in of_models.items()]
    models.sort(key=lambda line: (-line.judged, line.model))
    everything = _share([tally for of_model in of_models.values() for tally in of_model.values()])
    took = rate(*everything)

    # 3. The worst of these verdicts is the edit's.
    verdicts = [_verdict(took, everything.whole, at_least)]
    for line in models:
        named = f"{line.words} ({line.model})" if len(models) > 1 else line.words
        if line.verdict in ALARMS:
            verdicts.append(_Verdict(line.verdict, named))
    worst = max(verdicts, key=lambda verdict: _SEVERITY.index(verdict.verdict))
    return EditHealth(
        edit=edit,
        by_day=by_day,
        numbers=numbers,
        judged=everything.whole,
        took=took,
        verdict=worst.verdict,
        words=worst.words,
        tokens_a_day=round(numbers["tokens"] / len(by_day), 1),
        models=models,
    )


def _model_health(model: str, of_model: Mapping[str, Counter[str]], at_least: float) -> ModelHealth:
    days = sorted(of_model)
    shares = [_share([of_model[day]]) for day in days]
    everything = _share(list(of_model.values()))
    heeded = rate(*everything)
    fallen = _fallen(days, fall(shares))
    verdict = _verdict(heeded, everything.whole, at_least)
    if fallen and verdict.verdict != "below":
        verdict = _Verdict("fell", str(fallen))
    return ModelHealth(
        model=model,
        numbers=sum(of_model.values(), Counter[str]()),
        judged=everything.whole,
        heeded=heeded,
        fell=fallen,
        verdict=verdict.verdict,
        words=verdict.words,
    )


def _fallen(days: Sequence[str], found: Fall | None) -> FallenRate | None:
    return FallenRate(days[found.place], found.before, found.since) if found else None


def _share(tallies: Sequence[Counter[str]]) -> Portion:
    """How many answers of how many that were judged heed an edit."""
    judged = sum(tally[outcome] for tally in tallies for outcome in Stated)
    return Portion(sum(tally[Stated.NEW] for tally in tallies), judged)


_SEVERITY = ("holds", "open", "fell", "below")  # verdicts, the worst last


def _verdict(took: Estimate, judged: int, at_least: float) -> _Verdict:
    if took.high is not None and took.high < at_least:
        return _Verdict("below", f"below {at_least:.0%}")
    if took.low is not None and took.low >= at_least:
        return _Verdict("holds", "as it should be")
    enough = enough_for(at_least)
    if judged < enough:
        words = f"too little traffic: {judged:,} of at least {enough:,} answers"
        return _Verdict("open", words)
    return _Verdict("open", f"around {at_least:.0%}")


def shadow_report(
    edits: Snapshot, counts: Counts, price_in: float | None = None
) -> tuple[list[str], list[EditHealth]]:
    """What came and what switching on would do, in sentences; and the shadow edits.

    The most asked come first. price_in: of a million tokens.
    """
    requests = Counter[str]()
    doubted_by_edit = Counter[int]()
    for key, number in counts.items():
        if not key.edit:
            requests[key.what] += number
        elif key.what == "doubted":
            doubted_by_edit[key.edit] += number

    lines = health_of_edits(edits, counts, mode=Mode.SHADOW)
    lines = sorted(lines, key=lambda line: -line.numbers["matched"])
    if not requests["requests"]:
        sentence = "No request was counted in these days: send some through the gateway."
        return [sentence], lines

    number_of_days = len({key.day for key in counts})
    sentences = [
        _sentence_on_requests(requests, number_of_days),
        *_sentences_on_objects(lines),
        *_sentences_on_tokens(lines, price_in),
    ]
    if requests["doubted"]:
        ids = ", ".join(str(edit_id) for edit_id, _ in doubted_by_edit.most_common(_MOST_NAMED))
        in_doubt = counted(requests["doubted"], "decision")
        sentences.append(
            f"{in_doubt} in doubt, most of them about edits {ids}: counted alone, as no questions "
            "are kept but the last ones, among the near misses of a running gateway's page."
        )
    undecided = requests["unread"] + requests["degraded"]
    if undecided:
        sentences.append(
            f"{counted(undecided, 'request')} could not be read, or not be decided on in time."
        )
    return sentences, lines


def _sentence_on_requests(requests: Counter[str], number_of_days: int) -> str:
    came = counted(requests["requests"], "request")
    days = counted(number_of_days, "day")
    share = _percent(requests["matched"] / requests["requests"], 1)
    return f"Of {came} in {days}, {requests['matched']:,} ({share}) concern an edit."


def _sentences_on_objects(lines: Sequence[EditHealth]) -> list[str]:
    """What answers state without the edits."""
    judged = sum(line.judged for line in lines)
    if not judged:
        return []
    old = _percent(sum(line.numbers[Stated.OLD] for line in lines) / judged)
    new = _percent(sum(line.numbers[Stated.NEW] for line in lines) / judged)
    answers = counted(judged, "answer")
    return [
        f"Without the edit the model states the old object in {old} of {answers}, and the "
        f"new one in {new}."
    ]


def _sentences_on_tokens(lines: Sequence[EditHealth], price_in: float | None) -> list[str]:
    """What switching on costs."""
    tokens = sum(line.tokens_a_day for line in lines)
    if not tokens:
        return []
    cost = ""
    if price_in is not None:
        cost = f" ({tokens * price_in / 1e6:,.2f} a day at {price_in:g} a million)"
    return [f"Switching on adds about {tokens:,.0f} tokens a day{cost}."]


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
