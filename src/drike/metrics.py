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

    def metric(self, name: str) -> Estimate:
        """A metric by its name in METRICS."""
        found: Estimate = getattr(self, _field(name))
        return found


def _field(metric: str) -> str:
    return metric.casefold().replace(" ", "_")


# What is counted of each case, so that resampling only adds numbers: hits of each metric, with the total behind it.
Counts = tuple[float, ...]
Metric = Callable[[Sequence[float]], float | None]
_AT = {"ESR": 0, "PC": 2, "RR": 4, "RR known": 6, "ESM": 8, "GSM": 10}
_RATE = {Aspect.REWRITE: "ESR", Aspect.PARAPHRASE: "PC", Aspect.NEIGHBORHOOD: "RR"}
_MARGIN = {Aspect.REWRITE: "ESM", Aspect.PARAPHRASE: "GSM"}
_FIELDS = 2 * len(_AT)


def _ratio(at: int) -> Metric:
    return lambda counts: counts[at] / counts[at + 1] if counts[at + 1] else None


def _score(counts: Sequence[float]) -> float | None:
    return harmonic_mean([METRICS[name](counts) for name in ("ESR", "PC", "RR")])


METRICS: dict[str, Metric] = {"S": _score, **{name: _ratio(at) for name, at in _AT.items()}}


def harmonic_mean(values: Sequence[float | None]) -> float | None:
    """S of ESR, PC, RR: 0 if one of them is 0, None if one was not measured."""
    if any(value is None for value in values):
        return None
    if any(value == 0 for value in values):
        return 0.0
    return len(values) / sum(1 / value for value in values if value is not None)


def counts_by_case(outcomes: Iterable[Outcome], unedited: Iterable[Outcome] = ()) -> dict[str, Counts]:
    """Count probes by case id; `unedited` says which neighbours the model knew."""
    known = {(o.case_id, o.query) for o in unedited if o.aspect is Aspect.NEIGHBORHOOD and o.correct}
    counts: dict[str, list[float]] = {}
    for outcome in outcomes:
        row = counts.setdefault(outcome.case_id, [0.0] * _FIELDS)
        values: dict[str, float] = {_RATE[outcome.aspect]: outcome.correct}
        if outcome.aspect is Aspect.NEIGHBORHOOD and (outcome.case_id, outcome.query) in known:
            values["RR known"] = outcome.correct
        if outcome.aspect in _MARGIN and outcome.prob_margin is not None:
            values[_MARGIN[outcome.aspect]] = outcome.prob_margin
        for name, value in values.items():
            row[_AT[name]] += value
            row[_AT[name] + 1] += 1
    return {case_id: tuple(row) for case_id, row in counts.items()}


def estimates(
    by_case: Sequence[Counts], metrics: Mapping[str, Metric], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Estimate]:
    """Metrics over cases with their intervals; the same seed and number of cases draw the same resamples."""
    whole = [sum(column) for column in zip(*by_case, strict=True)]
    values = {name: metric(whole) for name, metric in metrics.items()}
    drawn = [] if set(values.values()) == {None} else list(_resampled(by_case, resamples, seed))
    return {
        name: Estimate(None) if value is None else Estimate(value, *_interval(metrics[name](one) for one in drawn))
        for name, value in values.items()
    }


def paired_difference(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], metric: Metric, *, resamples: int = RESAMPLES
) -> Estimate:
    """Our metric minus theirs on the same cases, resampled together (paired bootstrap).

    Raises ValueError if the two were not measured on the same cases.
    """
    return paired_differences(ours, theirs, {"": metric}, resamples=resamples)[""]


def paired_differences(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], metrics: Mapping[str, Metric], *, resamples: int = RESAMPLES
) -> dict[str, Estimate]:
    """Several paired differences from the same resamples; see `paired_difference`."""
    mine, other = counts_by_case(ours), counts_by_case(theirs)
    if mine.keys() != other.keys():
        missing = len(mine.keys() ^ other.keys())
        raise ValueError(f"a paired comparison needs the same cases on both sides; {missing} are on one side only")
    pairs = [mine[case_id] + other[case_id] for case_id in mine]
    return estimates(pairs, {name: _minus(metric) for name, metric in metrics.items()}, resamples=resamples)


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
        raise ValueError(f"a summary needs one editor's outcomes, not those of {sorted(editors) or 'none'}")
    by_case = list(counts_by_case(outcomes, unedited).values())
    by_name = estimates(by_case, METRICS, resamples=resamples, seed=seed)
    # A case that several seeds tested was edited as often; every edit has one rewrite probe.
    edits = sum(outcome.aspect is Aspect.REWRITE for outcome in outcomes) or len(by_case)
    tokens = [outcome.prompt_tokens for outcome in outcomes if outcome.prompt_tokens is not None]
    return Summary(
        editor=editors.pop(),
        cases=len(by_case),
        **{_field(name): one for name, one in by_name.items()},
        shots=sum(outcome.shots for outcome in outcomes) / len(outcomes),
        prompt_tokens=sum(tokens) / len(tokens) if tokens else None,
        calls=sum(outcome.calls for outcome in outcomes) / edits,
        seconds=sum(outcome.seconds for outcome in outcomes) / edits,
    )


def _resampled(by_case: Sequence[Counts], resamples: int, seed: int) -> Iterable[list[float]]:
    rng, cases = random.Random(seed), range(len(by_case))
    columns = list(zip(*by_case, strict=True))
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
