"""Outcomes and the paper's metrics over them (section 5.1).

ESR, PC, RR: share of rewrite, paraphrase and neighbourhood probes answered right, micro-averaged
over probes. S = 3 / (1/ESR + 1/PC + 1/RR). RR known and RR unchanged are the further readings of
retention (see `unedited_answers`), S known and S unchanged the means with them. ESM, GSM: mean over
rewrite (paraphrase) probes of P(target_new) - P(target_true), P the geometric mean of token
probabilities (IKE's definition; values in [-1, 1]); None where the model gives no scores. S counts
no further aspect. Intervals are percentile bootstraps over *cases* (see `bootstrap`).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.research.evaluation.bootstrap import RESAMPLES, Floats, estimated, resampled
from drike.support.records import ADDED
from drike.support.table import Cell, Estimate, Table

# Each S is a mean of ESR, PC and a reading of retention; the other metrics are ratios.
RETENTION_OF_S = {"S": "RR", "S known": "RR known", "S unchanged": "RR unchanged"}
RATIOS = ("ESR", "PC", "RR", "RR known", "RR unchanged", "ESM", "GSM")
METRICS = (*RETENTION_OF_S, *RATIOS)
_RATE = dict(zip(ASPECTS_OF_S, RATIOS[:3], strict=True))
_MARGIN = dict(zip(ASPECTS_OF_S[:2], RATIOS[5:], strict=True))
_HOPS = " hops"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One probe answered by one editor; matched, exact and prefers are those of a `Verdict`."""

    editor: str
    case_id: str
    aspect: Aspect
    query: str
    target: str
    distractor: str | None
    correct: bool | None  # by the rule of its run; None if the rule cannot say
    answer: str | None
    matched: bool | None
    exact: bool | None
    prefers: bool | None
    prob_margin: float | None  # P(target) - P(distractor), geometric means over tokens
    logprob_margin: float | None  # the same of log-probabilities, in nats
    logit_gap: float | None  # smallest logit lead of a target token
    shots: int  # retains in the prompt
    pruned: int  # retains that did not fit
    prompt_tokens: int | None
    calls: int  # of the model
    seconds: float  # this probe's share of its case
    hops: int | None = field(default=None, metadata=ADDED)  # of a multi_hop probe, if known
    # Of a neighbour: whether the unedited model answers it right, and whether this is its answer.
    known: bool | None = field(default=None, metadata=ADDED)
    unchanged: bool | None = field(default=None, metadata=ADDED)


@dataclass(frozen=True)
class Share:
    """The share of an aspect's probes that are answered right; probes, edits: how many ask it."""

    estimate: Estimate
    probes: int
    edits: int


@dataclass(frozen=True)
class Summary:
    """A row of the paper's Table 1, with the variants of RR, all aspects, and the cost.

    rr_known: on neighbours that the unedited model answers right, as `rr` mixes ignorance with
    damage. rr_unchanged: answers that are the unedited model's own. s_known, s_unchanged: with
    these in the place of `rr`. shots, prompt_tokens: the means per prompt. calls, seconds: the
    means per edit. aspects: all, even those that no probe asks. hops: of multi_hop, by their
    number.
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
    aspects: Mapping[str, Share] = field(default_factory=dict)
    hops: Mapping[str, Share] = field(default_factory=dict, metadata=ADDED)
    rr_unchanged: Estimate = field(default=Estimate(None), metadata=ADDED)
    s_known: Estimate = field(default=Estimate(None), metadata=ADDED)
    s_unchanged: Estimate = field(default=Estimate(None), metadata=ADDED)

    def metric(self, name: str) -> Estimate:
        """A metric by its name in METRICS."""
        estimate: Estimate = getattr(self, name.casefold().replace(" ", "_"))
        return estimate

    def __str__(self) -> str:
        names = ["S", *RATIOS[:3]]
        # Readings for which the unedited model was asked, too.
        further = ("RR known", "RR unchanged", "S known", "S unchanged")
        names += [name for name in further if self.metric(name).value is not None]
        names += RATIOS[5:]
        row: tuple[Cell, ...] = (self.editor, *(self.metric(name) for name in names))
        return str(
            Table(f"{self.cases:,} edit{'s' * (self.cases != 1)}", ("Editor", *names), (row,))
        )


@dataclass(frozen=True, eq=False)
class Counts:
    """One editor's outcomes, counted by case, so that resampling only adds numbers.

    names: METRICS, the further aspects that were asked, then numbers of hops as "2 hops". by_case:
    (cases, n, 2): for each name after those of S the sum over a case's probes, and their number.
    costs: those of `Summary`. A seed always draws the same.
    """

    editor: str
    cases: tuple[str, ...]
    names: tuple[str, ...]
    by_case: Floats
    resamples: int
    costs: Mapping[str, Any]

    @cached_property
    def values(self) -> Floats:
        """The metrics over all cases, in the order of names; NaN where nothing was measured."""
        return _metrics(self.by_case.sum(axis=0))

    @cached_property
    def drawn(self) -> Floats:
        """Those over each resample, (resamples, names)."""
        return _metrics(resampled(self.by_case, self.resamples))

    @cached_property
    def estimates(self) -> list[Estimate]:
        """The metrics with their intervals, in the order of names."""
        count = len(RETENTION_OF_S)
        is_margin = np.isin(self.names[count:], list(_MARGIN.values()))
        least = np.where(is_margin, -1.0, 0.0)
        cases_asked = np.count_nonzero(self.by_case[..., 1], axis=0)
        rates = estimated(self.values[count:], self.drawn[:, count:], cases_asked, least)

        every_s = estimated(self.values[:count], self.drawn[:, :count])
        with_width = [
            _with_width(s, [rates[place] for place in _parts_of(name)])
            for s, name in zip(every_s, RETENTION_OF_S, strict=True)
        ]
        return [*with_width, *rates]


def _with_width(s: Estimate, rates: Sequence[Estimate]) -> Estimate:
    """S; where resamples agree, which gives it no width, with the interval of its parts."""
    if s.value is None or s.low != s.high:
        return s
    return _between_ends(s.value, rates)


def _between_ends(s: float, rates: Sequence[Estimate]) -> Estimate:
    """S with the interval of the ends of its parts."""
    lows: list[Any] = [rate.low for rate in rates]
    highs: list[Any] = [rate.high for rate in rates]
    return Estimate(s, float(harmonic_mean(lows)), float(harmonic_mean(highs)))


def _parts_of(name_of_s: str) -> list[int]:
    """Where ESR, PC and the retention of an S are among the ratios."""
    return [RATIOS.index(name) for name in ("ESR", "PC", RETENTION_OF_S[name_of_s])]


def _metrics(sums: Floats) -> Floats:
    """Each S and the ratios (..., 3 + n) of sums and numbers of probes (..., n, 2)."""
    with np.errstate(invalid="ignore"):
        ratios = sums[..., 0] / sums[..., 1]
    every_s = [harmonic_mean(ratios[..., _parts_of(name)]) for name in RETENTION_OF_S]
    return np.concatenate([np.stack(every_s, axis=-1), ratios], axis=-1)


def harmonic_mean(rates: ArrayLike) -> Floats:
    """S of ESR, PC and RR along the last axis.

    0 if one of them is 0, NaN if one is NaN, which is not measured.
    """
    with np.errstate(divide="ignore"):
        inverse: Floats = 1 / np.asarray(rates, dtype=float)
    mean: Floats = inverse.shape[-1] / inverse.sum(axis=-1)
    return mean


def counted(
    outcomes: Sequence[Outcome], unedited: Iterable[Outcome] = (), *, resamples: int = RESAMPLES
) -> Counts:
    """Count one editor's outcomes. Raises ValueError for several editors, or none.

    unedited: outcomes without edits, which say which neighbours the model knew where the outcomes
    themselves do not.
    """
    editors = {outcome.editor for outcome in outcomes}
    if len(editors) != 1:
        raise ValueError(
            f"a summary needs one editor's outcomes, not those of {sorted(editors) or 'none'}"
        )
    known_neighbours = {
        (outcome.case_id, outcome.query)
        for outcome in unedited
        if outcome.aspect is Aspect.NEIGHBORHOOD and outcome.correct
    }
    names = _names(outcomes)
    # For each name a sum and a number; in lists, as adding to single elements of an array is slow.
    column = {name: 2 * i for i, name in enumerate(names[len(RETENTION_OF_S) :])}
    row_by_case: dict[str, list[float]] = {}
    for outcome in outcomes:
        row = row_by_case.setdefault(outcome.case_id, [0.0] * (2 * len(column)))
        for name, value in _contributions(outcome, known_neighbours):
            row[column[name]] += value
            row[column[name] + 1] += 1

    by_case = np.array(list(row_by_case.values())).reshape(len(row_by_case), len(column), 2)
    costs = _costs(outcomes, len(row_by_case))
    return Counts(editors.pop(), tuple(row_by_case), names, by_case, resamples, costs)


def _names(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """METRICS, the further aspects that were asked, then numbers of hops."""
    present = {outcome.aspect for outcome in outcomes}
    further = [aspect.value for aspect in Aspect if aspect in present and aspect not in _RATE]
    hops = sorted({outcome.hops for outcome in outcomes if outcome.hops is not None})
    return (*METRICS, *further, *(f"{number}{_HOPS}" for number in hops))


def _contributions(
    outcome: Outcome, known_neighbours: Container[tuple[str, str]]
) -> Iterator[tuple[str, float]]:
    """What an outcome adds to the means of which names; nothing if it was not measured."""
    if outcome.correct is None:
        return
    yield _RATE.get(outcome.aspect, outcome.aspect.value), outcome.correct
    if outcome.prob_margin is not None and outcome.aspect in _MARGIN:
        yield _MARGIN[outcome.aspect], outcome.prob_margin
    if outcome.aspect is Aspect.NEIGHBORHOOD:
        is_known = outcome.known
        if is_known is None:
            is_known = (outcome.case_id, outcome.query) in known_neighbours
        if is_known:
            yield "RR known", outcome.correct
        if outcome.unchanged is not None:
            yield "RR unchanged", outcome.unchanged
    if outcome.hops is not None:
        yield f"{outcome.hops}{_HOPS}", outcome.correct


def _costs(outcomes: Sequence[Outcome], cases: int) -> Mapping[str, float | None]:
    """The costs of `Summary`, over the probes that S counts, or over all if it counts none."""
    paper = [outcome for outcome in outcomes if outcome.aspect in _RATE] or outcomes
    # A case that several seeds tested was edited as often; every edit has one rewrite probe.
    edits = sum(outcome.aspect is Aspect.REWRITE for outcome in paper) or cases
    tokens = [outcome.prompt_tokens for outcome in paper if outcome.prompt_tokens is not None]
    return {
        "shots": sum(outcome.shots for outcome in paper) / len(paper),
        "prompt_tokens": sum(tokens) / len(tokens) if tokens else None,
        "calls": sum(outcome.calls for outcome in paper) / edits,
        "seconds": sum(outcome.seconds for outcome in paper) / edits,
    }


def paired_difference(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], metric: str, *, resamples: int = RESAMPLES
) -> Estimate:
    """Our metric (of METRICS) minus theirs on the same cases, by paired bootstrap.

    Raises ValueError for different cases.
    """
    differences = paired_differences(
        counted(ours, resamples=resamples), counted(theirs, resamples=resamples)
    )
    return differences[metric]


def paired_differences(ours: Counts, theirs: Counts) -> dict[str, Estimate]:
    """The paired difference of every metric and further aspect.

    Raises ValueError for different cases or aspects.
    """
    names = _names_without_hops(ours)
    if names != _names_without_hops(theirs):
        raise ValueError(
            "a paired comparison needs the same aspects on both sides: "
            f"{names}, {_names_without_hops(theirs)}"
        )
    theirs = _in_order_of(theirs, ours.cases)
    n = len(names)
    values = ours.values[:n] - theirs.values[:n]
    drawn = ours.drawn[:, :n] - theirs.drawn[:, :n]

    differences = {}
    for i, (name, difference) in enumerate(zip(names, estimated(values, drawn), strict=True)):
        differences[name] = difference
        if difference.value and difference.low == difference.high:
            # Each side agrees with itself, on few cases or many.
            differences[name] = _between_intervals(
                difference.value, ours.estimates[i], theirs.estimates[i]
            )
    return differences


def _names_without_hops(counts: Counts) -> list[str]:
    return [name for name in counts.names if not name.endswith(_HOPS)]


def _in_order_of(counts: Counts, cases: tuple[str, ...]) -> Counts:
    """The same counts with their cases in this order. Raises ValueError for other cases."""
    if counts.cases == cases:
        return counts
    missing = len({*counts.cases} ^ {*cases})
    if missing:
        raise ValueError(
            "a paired comparison needs the same cases on both sides; "
            f"{missing} are on one side only"
        )
    row_by_case = {case: i for i, case in enumerate(counts.cases)}
    rows = [row_by_case[case] for case in cases]
    return replace(counts, cases=cases, by_case=counts.by_case[rows])


def _between_intervals(difference: float, ours: Estimate, theirs: Estimate) -> Estimate:
    """A difference that is as uncertain as both sides together."""
    our_low, our_high = _interval(ours)
    their_low, their_high = _interval(theirs)
    return Estimate(difference, our_low - their_high, our_high - their_low)


def _interval(estimate: Estimate) -> tuple[float, float]:
    if estimate.low is None or estimate.high is None:
        raise ValueError(f"{estimate} has no interval")
    return estimate.low, estimate.high


def summarise(
    outcomes: Sequence[Outcome], unedited: Sequence[Outcome] = (), *, resamples: int = RESAMPLES
) -> Summary:
    """A table row for one editor's outcomes. Raises ValueError for none, or for several editors."""
    return summary_of(counted(outcomes, unedited, resamples=resamples))


def summary_of(counts: Counts) -> Summary:
    """A table row for one editor."""
    probes = counts.by_case[..., 1].sum(axis=0)
    edits = np.count_nonzero(counts.by_case[..., 1], axis=0)
    share_by_name = {}
    count = len(RETENTION_OF_S)
    for i, name in enumerate(counts.names[count:]):
        share_by_name[name] = Share(counts.estimates[count + i], int(probes[i]), int(edits[i]))

    none = Share(Estimate(None), 0, 0)
    aspects = {}
    for aspect in Aspect:
        name = _RATE.get(aspect, aspect.value)
        aspects[aspect.value] = share_by_name.get(name, none)
    hops = {}
    for name, share in share_by_name.items():
        if name.endswith(_HOPS):
            hops[name.removesuffix(_HOPS)] = share

    estimate = dict(zip(METRICS, counts.estimates, strict=False))
    return Summary(
        counts.editor,
        len(counts.cases),
        s=estimate["S"],
        esr=estimate["ESR"],
        pc=estimate["PC"],
        rr=estimate["RR"],
        rr_known=estimate["RR known"],
        rr_unchanged=estimate["RR unchanged"],
        s_known=estimate["S known"],
        s_unchanged=estimate["S unchanged"],
        esm=estimate["ESM"],
        gsm=estimate["GSM"],
        aspects=aspects,
        hops=hops,
        **counts.costs,
    )
