"""Outcomes and the paper's metrics over them (section 5.1): pure functions, standard library only.

ESR, PC, RR: share of rewrite, paraphrase and neighbourhood probes answered right, micro-averaged over probes.
S = 3 / (1/ESR + 1/PC + 1/RR). ESM, GSM: mean over rewrite (paraphrase) probes of P(target_new) - P(target_true), P the
geometric mean of token probabilities (IKE's definition; values in [-1, 1]); None where the model gives no scores.
Intervals are percentile bootstraps over *cases*: the probes of one case are not independent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drike.edits import Aspect

RESAMPLES = 1000


@dataclass(frozen=True)
class Outcome:
    """One probe answered by one editor.

    correct: the definition used for rewards too. matched, exact: by the written text (prefix at a word boundary; whole
    line). prefers: P(target) > P(distractor). prob_margin: difference of their geometric-mean token probabilities.
    logprob_margin: difference of their log-probabilities, in nats. logit_gap: smallest logit lead of a target token;
    near 0 means a near tie. shots: retains in the prompt. pruned: retains that were kept but did not fit. calls: model
    calls. seconds: wall time, this probe's share of its case.
    """

    editor: str
    case_id: str
    aspect: Aspect
    query: str
    target: str
    distractor: str | None
    correct: bool
    answer: str | None
    matched: bool | None
    exact: bool | None
    prefers: bool | None
    prob_margin: float | None
    logprob_margin: float | None
    logit_gap: float | None
    shots: int
    pruned: int
    prompt_tokens: int | None
    calls: int
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % bootstrap interval; `value` is None where nothing was measured."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Summary:
    """A row of the paper's Table 1, with the variants of RR and the cost.

    rr_known: RR on the neighbours the unedited model answers right; without it ignorance and damage mix.
    shots, prompt_tokens: means per prompt. calls, seconds: means per edit.
    """

    editor: str
    cases: int
    s: Estimate
    esr: Estimate
    pc: Estimate
    rr: Estimate
    rr_known: Estimate
    esm: Estimate
    gsm: Estimate
    shots: float
    prompt_tokens: float | None
    calls: float
    seconds: float


@dataclass(frozen=True)
class Tally:
    """A case's probes, counted: everything a metric needs, so that resampling only adds numbers."""

    counts: tuple[float, ...]


_FIELDS = 12  # hits and totals of ESR, PC, RR, RR of known neighbours; sums and totals of ESM, GSM
_OFFSET = {Aspect.REWRITE: 0, Aspect.PARAPHRASE: 2, Aspect.NEIGHBORHOOD: 4}
_KNOWN = 6
_MARGIN = {Aspect.REWRITE: 8, Aspect.PARAPHRASE: 10}

Metric = Callable[[Sequence[float]], float | None]


def _ratio(at: int) -> Metric:
    return lambda counts: counts[at] / counts[at + 1] if counts[at + 1] else None


def _score(counts: Sequence[float]) -> float | None:
    return harmonic_mean([_ratio(at)(counts) for at in (0, 2, 4)])


METRICS: dict[str, Metric] = {
    "S": _score,
    "ESR": _ratio(0),
    "PC": _ratio(2),
    "RR": _ratio(4),
    "RR known": _ratio(6),
    "ESM": _ratio(8),
    "GSM": _ratio(10),
}


def harmonic_mean(values: Sequence[float | None]) -> float | None:
    """S of ESR, PC, RR: 0 if one of them is 0, None if one was not measured."""
    if any(value is None for value in values):
        return None
    if any(value == 0 for value in values):
        return 0.0
    return len(values) / sum(1 / value for value in values if value is not None)


def tallies(outcomes: Iterable[Outcome], unedited: Iterable[Outcome] = ()) -> dict[str, Tally]:
    """Count probes by case id; `unedited` says which neighbours the model knew."""
    known = {(o.case_id, o.query) for o in unedited if o.aspect is Aspect.NEIGHBORHOOD and o.correct}
    counts: dict[str, list[float]] = {}
    for outcome in outcomes:
        row = counts.setdefault(outcome.case_id, [0.0] * _FIELDS)
        _count(row, _OFFSET[outcome.aspect], float(outcome.correct))
        if outcome.aspect is Aspect.NEIGHBORHOOD and (outcome.case_id, outcome.query) in known:
            _count(row, _KNOWN, float(outcome.correct))
        if outcome.aspect in _MARGIN and outcome.prob_margin is not None:
            _count(row, _MARGIN[outcome.aspect], outcome.prob_margin)
    return {case_id: Tally(tuple(row)) for case_id, row in counts.items()}


def _count(row: list[float], at: int, value: float) -> None:
    row[at] += value
    row[at + 1] += 1


def estimate(by_case: Sequence[Tally], metric: Metric, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """A metric over cases with its interval; the same seed and number of cases draw the same resamples."""
    return estimates(by_case, {"": metric}, resamples=resamples, seed=seed)[""]


def estimates(
    by_case: Sequence[Tally], metrics: Mapping[str, Metric], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Estimate]:
    """Several metrics over the same cases, each as `estimate` gives it: the resamples are drawn once for all."""
    whole = _total(by_case)
    values = {name: metric(whole) for name, metric in metrics.items()}
    drawn = list(_resampled(by_case, resamples, seed)) if any(value is not None for value in values.values()) else []
    return {
        name: Estimate(None) if value is None else Estimate(value, *_interval(metrics[name](one) for one in drawn))
        for name, value in values.items()
    }


def paired_difference(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], metric: Metric, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Our metric minus theirs on the same cases, resampled together (paired bootstrap).

    Raises ValueError if the two were not measured on the same cases.
    """
    return paired_differences(ours, theirs, {"": metric}, resamples=resamples, seed=seed)[""]


def paired_differences(
    ours: Sequence[Outcome],
    theirs: Sequence[Outcome],
    metrics: Mapping[str, Metric],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Several paired differences from the same resamples; see `paired_difference`."""
    mine, other = tallies(ours), tallies(theirs)
    if mine.keys() != other.keys():
        missing = len(mine.keys() ^ other.keys())
        raise ValueError(f"a paired comparison needs the same cases on both sides; {missing} stand on one side only")
    pairs = [Tally(mine[case_id].counts + other[case_id].counts) for case_id in mine]
    compared = {name: _minus(metric) for name, metric in metrics.items()}
    return estimates(pairs, compared, resamples=resamples, seed=seed)


def _minus(metric: Metric) -> Metric:
    """The metric of the first half of paired counts minus that of the second."""

    def difference(counts: Sequence[float]) -> float | None:
        a, b = metric(counts[:_FIELDS]), metric(counts[_FIELDS:])
        return None if a is None or b is None else a - b

    return difference


def summarise(
    outcomes: Sequence[Outcome], unedited: Sequence[Outcome] = (), *, resamples: int = RESAMPLES, seed: int = 0
) -> Summary:
    """A table row for one editor's outcomes. Raises ValueError for none, or for several editors mixed."""
    editors = {outcome.editor for outcome in outcomes}
    if len(editors) != 1:
        raise ValueError(f"a summary is of one editor's outcomes, not of {sorted(editors) or 'none'}")
    by_case = list(tallies(outcomes, unedited).values())
    by_name = estimates(by_case, METRICS, resamples=resamples, seed=seed)
    # A case that several seeds tested was edited as often; every edit has one rewrite probe.
    edits = sum(outcome.aspect is Aspect.REWRITE for outcome in outcomes) or len(by_case)
    tokens = [outcome.prompt_tokens for outcome in outcomes if outcome.prompt_tokens is not None]
    return Summary(
        editor=editors.pop(),
        cases=len(by_case),
        s=by_name["S"],
        esr=by_name["ESR"],
        pc=by_name["PC"],
        rr=by_name["RR"],
        rr_known=by_name["RR known"],
        esm=by_name["ESM"],
        gsm=by_name["GSM"],
        shots=sum(outcome.shots for outcome in outcomes) / len(outcomes),
        prompt_tokens=sum(tokens) / len(tokens) if tokens else None,
        calls=sum(outcome.calls for outcome in outcomes) / edits,
        seconds=sum(outcome.seconds for outcome in outcomes) / edits,
    )


def _total(by_case: Sequence[Tally]) -> list[float]:
    return [sum(column) for column in zip(*(tally.counts for tally in by_case), strict=True)]


def _resampled(by_case: Sequence[Tally], resamples: int, seed: int) -> Iterable[list[float]]:
    rng, cases = random.Random(seed), range(len(by_case))
    columns = list(zip(*(tally.counts for tally in by_case), strict=True))
    for _ in range(resamples):
        drawn = rng.choices(cases, k=len(cases))
        yield [sum(map(column.__getitem__, drawn)) for column in columns]  # some 15 times as fast as adding up rows


def _interval(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """The 2.5 % and 97.5 % quantiles; a resample without a single probe of the aspect has no value and is left out."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None, None
    last = len(ordered) - 1
    return ordered[round(0.025 * last)], ordered[round(0.975 * last)]
