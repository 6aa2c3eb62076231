"""How soon `drike edits health` notices that a model heeds an edit less, and how often it cries wolf.

*False alarms*: of edits with one constant rate, some answers a day on average (Poisson), the share that has an alarm on
any day of a year, where one looks every day. *Noticed after*: answers after a rate falls from .93 to .70 until the
daily look at which the alarm comes, in the median and the 90th percentile, after so many answers at .93. Series whose
alarm came before the fall count as noticed at once (0).

Rules: *fall* is drike's (`drike.support.rates`: the log of a likelihood ratio, largest over the day of the fall, above
12, or a cumulative sum that compares each day with the rate of those before it, above 8.8; days before the last 90 in
sum). *Rates known* is that sum where somebody tells it .93 and .70, with the bound that gives 1 % of false alarms at
.93 and 5 answers a day: nothing that does not know the rates can be quicker by much. The others are what one writes
first: *Wilson, week*: the 95 % Wilson interval of the last seven days lies below .9 (.95 would alarm at .93 itself);
*last 40*: of the last 40 answers (in whole days) less than .8 heed the edit; *two weeks*: Fisher's exact test of the
last seven days against the seven before, p < .001.

*Intervals*: the share of edits whose interval left the rate out at any daily look of a year, for drike's `rate` and
Wilson's, each at 95 %.

*Replay*: HalluEditBench's recorded answers, judged as the gateway judges them (`EditRecord.states`): each edit's own
question and its paraphrase, answers with the fact in the prompt, in a random order of edits, five a day; from some day
on, the answers of another source are shown in their place. Answers here are of many edits, so the rate is that of a
model over a store, not of one edit.

    python benchmarks/heeded.py
    python benchmarks/heeded.py --replay        # with ../shared/datasets
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drike.answers.statements import Stated
from drike.edits.edit import Aspect
from drike.support.rates import (
    LARGE,
    LARGE_NOTICED,
    LEAST_RATE,
    MOST_RATE,
    NOTICED,
    UNSURE,
    Portion,
    fall,
    rate,
)
from drike.support.table import Cell, Estimate, Number
from lib import pages
from lib.recorded import RecordedEdit, models, recorded_edits

TITLE = "Heeded: how soon a fall is noticed"
DATASETS = Path("../shared/datasets")
YEAR, WINDOW, WEEK = 365, 90, 7  # days
BEFORE, AFTER = 0.93, 0.70
KNOWN_NOTICED = 8.8  # by 6,000 series of another seed
RATES, TRAFFIC, HISTORIES = (0.98, 0.93, 0.80), (1, 5, 20), (100, 300, 1000, 3000)
PER_DAY = 5  # answers, of the falls
LONGEST = 400  # answers after a fall that are looked at
ASKED = (Aspect.REWRITE, Aspect.PARAPHRASE)

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """Many edits' answers by day: heeded and judged, summed up, of shape (edits, 1 + days)."""

    heeded: Numbers
    judged: Numbers

    @classmethod
    def drawn(
        cls, chance: np.random.Generator, rates: NDArray[np.float64], per_day: float, edits: int
    ) -> Series:
        """Answers under the rate of each day."""
        judged = chance.poisson(per_day, (edits, len(rates)))
        return cls(_sums(chance.binomial(judged, rates)), _sums(judged))

    @cached_property
    def gains(self) -> NDArray[np.float64]:
        """By how much each day fits a large fall better than what the days before it promise."""
        heeded, judged = self.heeded[:, :-1], self.judged[:, :-1]
        share = (heeded + 0.5) / (judged + 1)
        error = np.sqrt(share * (1 - share) / (judged + 1))
        return self._gains(np.clip(share - UNSURE * error, LEAST_RATE, MOST_RATE))

    @cached_property
    def gains_if_known(self) -> NDArray[np.float64]:
        """The same for one who knows the rate before a fall."""
        return self._gains(np.full(self.judged[:, :-1].shape, BEFORE))

    def _gains(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """Summed up by day, from 0."""
        kept = np.diff(self.heeded, axis=1)
        missed = np.diff(self.judged, axis=1) - kept
        gains = kept * np.log(LARGE) + missed * np.log((1 - LARGE * expected) / (1 - expected))
        return np.concatenate([np.zeros((len(gains), 1)), gains.cumsum(1)], axis=1)


def _sums(numbers: Numbers) -> Numbers:
    return np.concatenate([np.zeros((len(numbers), 1), int), numbers.cumsum(1)], axis=1)


# Which edits have an alarm at the look after a day.
Rule = Callable[[Series, int], NDArray[np.bool_]]


def falls(series: Series, day: int) -> NDArray[np.bool_]:
    """Drike's rule, for many edits at once."""
    first = max(1, day - WINDOW + 1)
    before_heeded, before_judged = (
        series.heeded[:, first:day],
        series.judged[:, first:day],
    )
    heeded, judged = series.heeded[:, [day]], series.judged[:, [day]]
    since_heeded, since_judged = heeded - before_heeded, judged - before_judged
    ratio = (
        _largest(before_heeded, before_judged)
        + _largest(since_heeded, since_judged)
        - _largest(heeded, judged)
    )
    is_lower = since_heeded * before_judged < before_heeded * since_judged
    is_fall: NDArray[np.bool_] = ((ratio >= NOTICED) & is_lower).any(axis=1)
    return is_fall | (_cumulative(series.gains, day) >= LARGE_NOTICED)


def rates_known(series: Series, day: int) -> NDArray[np.bool_]:
    """The cumulative sum of one who knows the rates before and after a fall."""
    return _cumulative(series.gains_if_known, day) >= KNOWN_NOTICED


def _cumulative(gains: NDArray[np.float64], day: int) -> NDArray[np.float64]:
    """The largest sum of gains since some day of the last ones. gains: summed up by day."""
    largest: NDArray[np.float64] = gains[:, day] - gains[:, max(0, day - WINDOW) : day].min(axis=1)
    return largest


def _largest(heeded: Numbers, judged: Numbers) -> NDArray[np.float64]:
    return _LOGS[heeded] + _LOGS[judged - heeded] - _LOGS[judged]


_COUNTS = np.arange(1 << 17, dtype=float)
_LOGS = _COUNTS * np.log(np.maximum(_COUNTS, 1))


def wilson_of_week(series: Series, day: int) -> NDArray[np.bool_]:
    """Whether the interval of the last week lies below .9."""
    start = max(0, day - WEEK)
    heeded = series.heeded[:, day] - series.heeded[:, start]
    judged = series.judged[:, day] - series.judged[:, start]
    return wilson(heeded, judged)[1] < 0.9


def wilson(heeded: Numbers, judged: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's intervals."""
    whole = np.maximum(judged, 1)
    share, spread = heeded / whole, 1.959964**2 / whole
    half = 1.959964 * np.sqrt(share * (1 - share) / whole + spread / (4 * whole))
    low, high = ((share + spread / 2 + sign * half) / (1 + spread) for sign in (-1, 1))
    return np.where(judged > 0, low, 0.0), np.where(judged > 0, high, 1.0)


def last_40(series: Series, day: int) -> NDArray[np.bool_]:
    """Whether less than .8 of the last 40 answers heed the edit, in whole days."""
    judged = series.judged[:, [day]] - series.judged[:, :day]
    start = np.argmax(judged < 40, axis=1) - 1  # the last day from which there are 40
    start = np.where((judged >= 40).any(axis=1), np.maximum(start, 0), -1)
    rows = np.arange(len(judged))
    heeded = series.heeded[:, day] - series.heeded[rows, start]
    number = series.judged[:, day] - series.judged[rows, start]
    return (start >= 0) & (heeded < 0.8 * number)


def two_weeks(series: Series, day: int) -> NDArray[np.bool_]:
    """Whether the last week is below the one before by Fisher's test."""
    from scipy.stats import hypergeom

    middle, start = max(0, day - WEEK), max(0, day - 2 * WEEK)
    now = series.heeded[:, day] - series.heeded[:, middle]
    judged = series.judged[:, day] - series.judged[:, middle]
    all_heeded = series.heeded[:, day] - series.heeded[:, start]
    everything = series.judged[:, day] - series.judged[:, start]
    p: NDArray[np.float64] = hypergeom.cdf(now, everything, all_heeded, judged)
    return (everything > judged) & (judged > 0) & (p < 0.001)


RULES: dict[str, Rule] = {
    "fall": falls,
    "rates known": rates_known,
    "Wilson, week": wilson_of_week,
    "last 40": last_40,
    "two weeks": two_weeks,
}


def false_alarms(options: argparse.Namespace) -> None:
    """How many edits have an alarm in a year in which nothing changes."""
    rows: list[list[Cell]] = []
    for rate_of_edit in RATES:
        for per_day in TRAFFIC:
            chance = np.random.default_rng(options.seed)
            series = Series.drawn(chance, np.full(YEAR, rate_of_edit), per_day, options.edits)
            row: list[Cell] = [f"{rate_of_edit:.2f}, {per_day} a day"]
            for rule in RULES.values():
                alarmed = np.zeros(options.edits, bool)
                for day in range(2, YEAR + 1):
                    alarmed |= rule(series, day)
                row.append(Estimate.share(int(alarmed.sum()), options.edits))
            rows.append(row)
    pages.draw("False alarms in a year of daily looks", ["rate, answers", *RULES], rows)


def delays(options: argparse.Namespace) -> None:
    """After how many answers a fall is noticed."""
    rows: list[list[Cell]] = []
    for history in HISTORIES:
        days = history // PER_DAY
        rates = np.array([BEFORE] * days + [AFTER] * (LONGEST // PER_DAY))
        chance = np.random.default_rng(options.seed)
        series = Series.drawn(chance, rates, PER_DAY, options.edits)
        row: list[Cell] = [f"after {history:,}"]
        for rule in RULES.values():
            taken = np.full(options.edits, np.inf)
            for day in range(max(2, days - 60), len(rates) + 1):
                new = rule(series, day) & np.isinf(taken)
                since = series.judged[:, day] - series.judged[:, days]
                taken[new] = np.maximum(since[new], 0)
            median, late = np.quantile(taken, [0.5, 0.9], method="lower")
            row.append(f"{_shown(median)}, {_shown(late)}")
        rows.append(row)
    title = f"Answers until a fall from {BEFORE} to {AFTER} is noticed: median, 90th percentile"
    pages.draw(title, ["history", *RULES], rows)


def _shown(number: float) -> str:
    return f"{number:.0f}" if np.isfinite(number) else f"> {LONGEST}"


def intervals(options: argparse.Namespace) -> None:
    """How often intervals leave the rate out at some look."""
    edits = options.edits // 4
    rows: list[list[Cell]] = []
    for rate_of_edit in RATES:
        chance = np.random.default_rng(options.seed + 1)
        series = Series.drawn(chance, np.full(YEAR, rate_of_edit), PER_DAY, edits)
        ours = np.zeros(edits, bool)
        others = np.zeros(edits, bool)
        for day in range(1, YEAR + 1):
            heeded, judged = series.heeded[:, day], series.judged[:, day]
            low, high = wilson(heeded, judged)
            others |= (judged > 0) & ((low > rate_of_edit) | (high < rate_of_edit))
            ours |= np.array(
                [
                    _leaves_out(int(part), int(whole), rate_of_edit)
                    for part, whole in zip(heeded, judged, strict=True)
                ]
            )
        row: list[Cell] = [f"{rate_of_edit:.2f}"]
        row += [Estimate.share(int(missed.sum()), edits) for missed in (ours, others)]
        rows.append(row)
    title = f"Intervals that ever leave the rate out, {PER_DAY} answers a day for a year"
    pages.draw(title, ["rate", "drike's", "Wilson's"], rows)


def _leaves_out(part: int, whole: int, chance: float) -> bool:
    found = rate(part, whole)
    if found.low is None or found.high is None:
        return False
    return not found.low <= chance <= found.high


def heeds(edit: RecordedEdit, source: str) -> list[bool]:
    """Whether the recorded answers of a source to an edit's own questions heed it."""
    made = []
    for question in edit.questions:
        if question.aspect in ASKED:
            answers = {"the fact": question.with_fact, "unedited": question.without}
            answer = (answers | dict(question.edited)).get(source)
            if answer is not None:
                made.append(edit.record.states(answer.text) is Stated.NEW)
    return made


def replayed(before: Sequence[bool], after: Sequence[bool], history: int) -> tuple[int, Portion]:
    """How many answers after a change an alarm comes, 0 for none within the rest; and what follows the change."""
    per_day = PER_DAY
    days = [_day(before[i : i + per_day]) for i in range(0, history, per_day)]
    for number in range(0, len(after) - per_day, per_day):
        days.append(_day(after[number : number + per_day]))
        if fall(days[-WINDOW:] if len(days) <= WINDOW else _summed(days)):
            return number + per_day, _day(after)
    return 0, _day(after)


def _summed(days: Sequence[Portion]) -> list[Portion]:
    """The days before the last ones in one."""
    first = Portion(0, 0)
    for day in days[:-WINDOW]:
        first = first.plus(day)
    return [first, *days[-WINDOW:]]


def _day(answers: Sequence[bool]) -> Portion:
    return Portion(sum(answers), len(answers))


def replay(options: argparse.Namespace) -> None:
    """Recorded answers, day by day."""
    folder = options.datasets / "halluedit_results"
    rows: list[list[Cell]] = []
    for model in models(folder):
        edits = list(recorded_edits(folder, model))
        random.Random(options.seed).shuffle(edits)
        sources = ("the fact", "LoRA", "ROME", "unedited")
        answers = {name: [each for edit in edits for each in heeds(edit, name)] for name in sources}
        whole = answers["the fact"]
        steady = [_day(whole[i : i + PER_DAY]) for i in range(0, YEAR * PER_DAY, PER_DAY)]
        looks = [_summed(steady[:day]) for day in range(2, len(steady) + 1)]
        alarms = sum(fall(look) is not None for look in looks)
        found = rate(*_day(whole))
        rows.append([f"{model}: the fact, a year", found, Number(alarms), ""])
        for name in sources[1:]:
            taken, share = replayed(whole, answers[name][options.history :], options.history)
            noticed = f"{taken} answers" if taken else "never"
            rows.append([f"{model}: then {name}", rate(*share), "", noticed])
    title = f"Recorded answers, {PER_DAY} a day, a change after {options.history:,}"
    header = ["answers of", "heeded", "daily looks with an alarm", "noticed after"]
    pages.draw(title, header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run."""
    parser = pages.parser(__doc__ or "")
    parser.add_argument("--edits", type=int, default=2000, help="of each simulation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", action="store_true", help="recorded answers instead")
    parser.add_argument("--history", type=int, default=1000, help="answers before a change")
    parser.add_argument("--datasets", type=Path, default=DATASETS)
    options = parser.parse_args(arguments)
    with pages.measured(options, TITLE, __doc__ or ""):
        run(options)
    return 0


def run(options: argparse.Namespace) -> None:
    """Print the tables."""
    if options.replay:
        replay(options)
        return
    false_alarms(options)
    delays(options)
    intervals(options)


if __name__ == "__main__":
    sys.exit(main())
