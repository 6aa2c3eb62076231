"""Outcomes and the paper's metrics over them (section 5.1).

ESR, PC, RR: share of rewrite, paraphrase and neighbourhood probes answered right, micro-averaged over probes. S = 3 /
(1/ESR + 1/PC + 1/RR). ESM, GSM: mean over rewrite (paraphrase) probes of P(target_new) - P(target_true), P the
geometric mean of token probabilities (IKE's definition; values in [-1, 1]); None where the model gives no scores. S
counts no further aspect. Intervals are percentile bootstraps over *cases*: the probes of one are not independent.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.support.records import ADDED
from drike.support.table import Estimate, Table

RESAMPLES = 1000
METRICS = ("S", "ESR", "PC", "RR", "RR known", "ESM", "GSM")
_RATE = dict(zip(ASPECTS_OF_S, METRICS[1:4], strict=True))
_MARGIN = dict(zip(ASPECTS_OF_S[:2], METRICS[5:], strict=True))
_HOPS = " hops"
Floats = NDArray[np.float64]


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


@dataclass(frozen=True)
class Share:
    """The share of an aspect's probes that are answered right; probes, edits: how many ask it."""

    estimate: Estimate
    probes: int
    edits: int


@dataclass(frozen=True)
class Summary:
    """A row of the paper's Table 1, with the variants of RR, the share of every aspect and the cost of the paper's."""

    editor: str
    cases: int
    s: Estimate
    esr: Estimate
    pc: Estimate
    rr: Estimate
    rr_known: Estimate  # on neighbours that the unedited model answers right; `rr` mixes ignorance with damage
    esm: Estimate
    gsm: Estimate
    shots: float  # the mean per prompt
    prompt_tokens: float | None  # the mean per prompt
    calls: float  # the mean per edit
    seconds: float  # the mean per edit
    aspects: Mapping[str, Share] = field(default_factory=dict)  # all, even those that no probe asks
    hops: Mapping[str, Share] = field(
        default_factory=dict, metadata=ADDED
    )  # of multi_hop, by their number

    def metric(self, name: str) -> Estimate:
        """A metric by its name in METRICS."""
        estimate: Estimate = getattr(self, name.casefold().replace(" ", "_"))
        return estimate

    def __str__(self) -> str:
        names = [name for name in METRICS if name != "RR known"]
        title = f"{self.cases:,} edit{'s' * (self.cases != 1)}"
        return str(Table(title, ("Editor", *names), ((self.editor, *map(self.metric, names)),)))


@dataclass(frozen=True, eq=False)
class Counts:
    """One editor's outcomes, counted by case, so that resampling only adds numbers; a seed always draws the same."""

    editor: str
    cases: tuple[str, ...]
    names: tuple[
        str, ...
    ]  # METRICS, the further aspects that were asked, then numbers of hops as "2 hops"
    by_case: Floats  # (cases, n, 2): for each name after S the sum over a case's probes, and their number
    resamples: int
    costs: Mapping[str, Any]  # those of `Summary`

    @cached_property
    def values(self) -> Floats:
        """The metrics over all cases (n + 1); NaN where nothing was measured."""
        return _metrics(self.by_case.sum(axis=0))

    @cached_property
    def drawn(self) -> Floats:
        """Those over each resample, (resamples, n + 1)."""
        return _metrics(resampled(self.by_case, self.resamples))

    @cached_property
    def estimates(self) -> list[Estimate]:
        """The metrics with their intervals (n + 1); S without width has that of the ends of its parts."""
        least = np.where(np.isin(self.names[1:], [*_MARGIN.values()]), -1.0, 0.0)
        asked = np.count_nonzero(self.by_case[..., 1], axis=0)
        rates = estimated(self.values[1:], self.drawn[:, 1:], asked, least)
        [s] = estimated(self.values[:1], self.drawn[:, :1])
        if s.value is not None and s.low == s.high:
            low, high = (
                harmonic_mean([getattr(rate, end) for rate in rates[:3]]) for end in ("low", "high")
            )
            s = Estimate(s.value, float(low), float(high))
        return [s, *rates]


def _metrics(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        ratios = sums[..., 0] / sums[..., 1]
    return np.concatenate([harmonic_mean(ratios[..., :3])[..., None], ratios], axis=-1)


def harmonic_mean(rates: ArrayLike) -> Floats:
    """S of ESR, PC and RR along the last axis: 0 if one of them is 0, NaN if one is NaN, which is not measured."""
    with np.errstate(divide="ignore"):
        inverse: Floats = 1 / np.asarray(rates, dtype=float)
    mean: Floats = inverse.shape[-1] / inverse.sum(axis=-1)
    return mean


def counted(
    outcomes: Sequence[Outcome], unedited: Iterable[Outcome] = (), *, resamples: int = RESAMPLES
) -> Counts:
    """Count one editor's outcomes; `unedited` says which neighbours the model knew. Raises ValueError for several."""
    editors = {outcome.editor for outcome in outcomes}
    if len(editors) != 1:
        raise ValueError(
            f"a summary needs one editor's outcomes, not those of {sorted(editors) or 'none'}"
        )
    known = {
        (o.case_id, o.query) for o in unedited if o.aspect is Aspect.NEIGHBORHOOD and o.correct
    }
    present = {outcome.aspect for outcome in outcomes}
    hops = sorted({outcome.hops for outcome in outcomes if outcome.hops is not None})
    further = [aspect.value for aspect in Aspect if aspect in present and aspect not in _RATE]
    names = (*METRICS, *further, *(f"{number}{_HOPS}" for number in hops))
    column = {name: 2 * i for i, name in enumerate(names[1:])}
    sums: dict[str, list[float]] = {}
    for outcome in outcomes:
        row = sums.setdefault(outcome.case_id, [0.0] * (2 * len(column)))
        if outcome.correct is None:  # not measured
            continue
        values: dict[str, float] = {
            _RATE.get(outcome.aspect, outcome.aspect.value): outcome.correct
        }
        if outcome.prob_margin is not None and outcome.aspect in _MARGIN:
            values[_MARGIN[outcome.aspect]] = outcome.prob_margin
        if outcome.aspect is Aspect.NEIGHBORHOOD and (outcome.case_id, outcome.query) in known:
            values["RR known"] = outcome.correct
        if outcome.hops is not None:
            values[f"{outcome.hops}{_HOPS}"] = outcome.correct
        for name, value in values.items():
            row[column[name]] += value
            row[column[name] + 1] += 1
    by_case = np.array(list(sums.values())).reshape(len(sums), len(column), 2)
    outcomes = [outcome for outcome in outcomes if outcome.aspect in _RATE] or outcomes
    # A case that several seeds tested was edited as often; every edit has one rewrite probe.
    edits = sum(outcome.aspect is Aspect.REWRITE for outcome in outcomes) or len(sums)
    tokens = [outcome.prompt_tokens for outcome in outcomes if outcome.prompt_tokens is not None]
    costs = {
        "shots": sum(outcome.shots for outcome in outcomes) / len(outcomes),
        "prompt_tokens": sum(tokens) / len(tokens) if tokens else None,
        "calls": sum(outcome.calls for outcome in outcomes) / edits,
        "seconds": sum(outcome.seconds for outcome in outcomes) / edits,
    }
    return Counts(editors.pop(), tuple(sums), names, by_case, resamples, costs)


def resampled(by_case: Floats, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Sum the rows of each resample of the cases: (cases, ...) to (resamples, ...)."""
    cases, rows = len(by_case), by_case.reshape(len(by_case), -1)
    _, (*state, position), _ = random.Random(
        seed
    ).getstate()  # the draws of Python's `random.Random(seed).choices`
    stream = np.random.RandomState()
    stream.set_state({"bit_generator": "MT19937", "state": {"key": state, "pos": position}})
    drawn = (
        np.bincount((stream.random_sample(cases) * cases).astype(int), minlength=cases)
        for _ in range(resamples)
    )
    return np.array([times @ rows for times in drawn]).reshape(resamples, *by_case.shape[1:])


def estimated(
    values: Floats, drawn: Floats, cases: ArrayLike = 0, least: ArrayLike = 0.0
) -> list[Estimate]:
    """Values (n) with their intervals: the 2.5 % and 97.5 % quantiles of those over resamples, (resamples, n).

    A resample without a single probe of the aspect is left out. Where all cases agree, resamples do too, although few
    cases say little: up to a share 1 - .025^(1/cases) of others may then differ, as far as from `least` to 1 (Clopper
    and Pearson's interval for none or all of a proportion). cases: how many; 0: only quantiles.
    """
    estimates = []
    of_each = np.broadcast_arrays(cases, least, values)[:2]
    for value, ordered, n, bottom in zip(
        values.tolist(), np.sort(drawn, axis=0).T, *of_each, strict=True
    ):
        last = int(np.count_nonzero(~np.isnan(ordered))) - 1  # NaN comes last
        if math.isnan(value) or last < 0:
            estimates.append(Estimate(None if math.isnan(value) else value))
            continue
        low, high = (float(ordered[round(share * last)]) for share in (0.025, 0.975))
        if n and high - low < 1e-9:
            others = 1 - 0.025 ** (1 / int(n))
            low, high = value - others * (value - float(bottom)), value + others * (1 - value)
        estimates.append(Estimate(value, low, high))
    return estimates


def share_over_cases(held: Iterable[Sequence[bool]]) -> Estimate:
    """How often something held, given probe by probe for each case, with its interval over cases."""
    counts = np.array([(sum(of_case), len(of_case)) for of_case in held], dtype=float)
    whole, drawn = counts.sum(axis=0), resampled(counts)
    return estimated(
        whole[:1] / whole[1:], drawn[:, :1] / drawn[:, 1:], np.count_nonzero(counts[:, 1])
    )[0]


def paired_difference(
    ours: Sequence[Outcome], theirs: Sequence[Outcome], metric: str, *, resamples: int = RESAMPLES
) -> Estimate:
    """Our metric (of METRICS) minus theirs on the same cases, by paired bootstrap. Raises ValueError for others."""
    return paired_differences(
        counted(ours, resamples=resamples), counted(theirs, resamples=resamples)
    )[metric]


def paired_differences(ours: Counts, theirs: Counts) -> dict[str, Estimate]:
    """The paired difference of every metric and further aspect. Raises ValueError as `paired_difference`."""
    names, others = (
        [name for name in counts.names if not name.endswith(_HOPS)] for counts in (ours, theirs)
    )
    if names != others:
        raise ValueError(
            f"a paired comparison needs the same aspects on both sides: {names}, {others}"
        )
    if ours.cases != theirs.cases:
        if missing := len({*ours.cases} ^ {*theirs.cases}):
            raise ValueError(
                f"a paired comparison needs the same cases on both sides; {missing} are on one side only"
            )
        at = {case: i for i, case in enumerate(theirs.cases)}
        theirs = replace(
            theirs, cases=ours.cases, by_case=theirs.by_case[[at[case] for case in ours.cases]]
        )
    n = len(names)
    differences = estimated(
        ours.values[:n] - theirs.values[:n], ours.drawn[:, :n] - theirs.drawn[:, :n]
    )
    for i, difference in enumerate(differences):
        if (
            difference.value and difference.low == difference.high
        ):  # each side agrees with itself, on few cases or many
            (_, a, b), (_, c, d) = (astuple(counts.estimates[i]) for counts in (ours, theirs))
            differences[i] = Estimate(difference.value, a - d, b - c)
    return dict(zip(names, differences, strict=True))


def summarise(
    outcomes: Sequence[Outcome], unedited: Sequence[Outcome] = (), *, resamples: int = RESAMPLES
) -> Summary:
    """A table row for one editor's outcomes. Raises ValueError for none, or for several editors mixed."""
    return summary_of(counted(outcomes, unedited, resamples=resamples))


def summary_of(counts: Counts) -> Summary:
    """A table row for one editor."""
    estimates: list[Any] = counts.estimates
    asked = counts.by_case[..., 1]
    numbers = zip(
        counts.names[1:],
        estimates[1:],
        asked.sum(axis=0),
        np.count_nonzero(asked, axis=0),
        strict=True,
    )
    shares = {
        name: Share(estimate, int(probes), int(edits)) for name, estimate, probes, edits in numbers
    }
    none = Share(Estimate(None), 0, 0)
    aspects = {aspect.value: shares.get(_RATE.get(aspect, aspect.value), none) for aspect in Aspect}
    hops = {
        name.removesuffix(_HOPS): share for name, share in shares.items() if name.endswith(_HOPS)
    }
    in_order = estimates[: len(METRICS)]  # the order of the fields
    return Summary(
        counts.editor,
        len(counts.cases),
        *in_order,
        **{**counts.costs, "aspects": aspects, "hops": hops},
    )
