"""Calibrate a gate on probes that come with the edits, certify its rate of false matches, and write it as JSON.

A certificate is about edits to come, drawn like those of the probes, and about questions like these probes: thresholds
are tested from the strictest to the most lenient by Learn-then-Test (see `drike.support.statistics`).
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drike.edits.record import EditVersion, StoreError
from drike.encoders.base import salient
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.decision import EQUAL, Candidate, Gate
from drike.gates.index import EditIndex
from drike.support import records
from drike.support.files import checksum_ok, with_checksum
from drike.support.statistics import exceeds
from drike.text.words import masked_each, words

Matrix = NDArray[np.float64]
Strength = float | Matrix  # of all parameters, or of each weight and of the bias [d]
THRESHOLDS = tuple(round(1 / (1 + float(np.exp(-logit))), 6) for logit in np.arange(12, -6, -0.25))
_STRENGTH = 20.0  # how many examples the prior counts for
_SPREAD = 1.0  # standard deviation of the shifts of single edits, in logits
_MIN_EDITS = 50  # with probes, to fit a store its own heads
_STEPS, _MAX_STEP = 50, 2.0
_FOLDS, _BINS, _MAX_TEXTS = 5, 10, 500  # of a reliability diagram
_MAX_EDITS = 10_000_000  # of the search for the number of edits that a certificate takes


@dataclass(frozen=True)
class GateProbe:
    """A question that is known to concern an edit, or not to. edit: its id."""

    query: str
    edit: int
    concerns: bool


@dataclass(frozen=True)
class LabelledCandidate:
    """A candidate's features, and whether the probe it was found for concerns it. edit: its id."""

    features: Mapping[str, float]
    concerns: bool
    edit: int
    weight: float = 1.0


@dataclass(frozen=True)
class Certificate:
    """That a gate's rate of false matches is at most `level`; wrong with a probability of at most 1 - confidence."""

    level: float
    confidence: float
    threshold: float | None  # the lowest that is certified, if one is
    edits: int  # how many were tested
    possible: float  # the lowest level that these probes certify at any threshold
    missing: int  # how many more edits whose probes do not match it would take

    @property
    def sentence(self) -> str:
        """What is certified, or what a certificate would take."""
        if self.threshold is not None:
            like = f"new edits like these {self.edits:,}"
            return (
                f"at most {self.level:.2%} false fires on {like}, {self.confidence:.0%} confidence"
            )
        return (
            f"{self.level:.2%} false fires cannot be certified with probes of {self.edits:,} edits, at most "
            f"{self.possible:.2%}: add probes of {self.missing:,} edits that must not fire"
        )


def make_probes(edits: Sequence[EditVersion]) -> tuple[list[EditVersion], list[GateProbe]]:
    """The edits without paraphrases and negative exemplars, and probes of these and of edits of the same subject."""
    probes, edits_of = [], defaultdict(list)
    for edit in edits:
        probes += [GateProbe(text, edit.id, True) for text in edit.record.paraphrases]
        probes += [GateProbe(text, edit.id, False) for text in edit.record.negatives]
        edits_of[" ".join(words(edit.record.subject))].append(edit)
    for same_subject in edits_of.values():
        probes += [
            GateProbe(other.record.query, edit.id, False)
            for edit, other in permutations(same_subject, 2)
        ]
    return [
        replace(edit, record=replace(edit.record, paraphrases=(), negatives=())) for edit in edits
    ], probes


def labelled_candidates(
    gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex
) -> list[LabelledCandidate]:
    """Each probe's own edit as a candidate, where the gate considers it."""
    return [
        LabelledCandidate(candidate.features, probe.concerns, probe.edit)
        for probe, candidates in zip(probes, _candidates(gate, probes, index), strict=True)
        for candidate in candidates
        if candidate.edit.id == probe.edit
        and EQUAL not in candidate.features  # there is nothing to fit
    ]


def _candidates(
    gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex
) -> list[list[Candidate]]:
    """The candidates for each probe; all texts are embedded beforehand in one batch, which is faster."""
    if asked := [
        (probe.query, edit.record.names)
        for probe in probes
        if (edit := index.edits.get(probe.edit))
    ]:
        index.require_encoder().encode([query for query, _ in asked])
        salient(index.require_encoder()).encode(masked_each(asked))
    return [gate.candidates(probe.query, index) for probe in probes]


def fit(
    examples: Sequence[LabelledCandidate], prior: LogisticHead, strength: Strength = _STRENGTH
) -> LogisticHead:
    """The head of largest posterior for examples, with a Gaussian prior of precision `strength` around another head."""
    if not examples:
        return prior
    x = np.array([[*(e.features.get(name, 0.0) for name in prior.weights), 1.0] for e in examples])
    y = np.array([example.concerns for example in examples], dtype=np.float64)
    weight = np.array([example.weight for example in examples], dtype=np.float64)
    start = at = np.array([*prior.weights.values(), prior.bias])
    for _ in range(_STEPS):  # damped Newton steps from the prior's mean
        p = 1 / (1 + np.exp(-np.clip(x @ at, -40, 40)))
        slope = x.T @ (weight * (p - y)) + strength * (at - start)
        step = np.linalg.solve(
            (x * (weight * p * (1 - p))[:, None]).T @ x + strength * np.eye(len(at)), slope
        )
        at = at - step * min(1.0, _MAX_STEP / max(1e-12, float(np.abs(step).max())))
        if float(np.abs(step).max()) < 1e-8:
            break
    *weights, bias = at.tolist()
    return LogisticHead(dict(zip(prior.weights, weights, strict=True)), bias)


def calibrated(gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex) -> Calibrated:
    """The gate with shifts, and with `_MIN_EDITS` edits heads, fitted to probes; certify it with those of others."""
    fitted = labelled_candidates(gate, probes, index)
    of_edit: dict[int, list[LabelledCandidate]] = defaultdict(list)
    for example in fitted:
        of_edit[example.edit].append(example)
    if len(of_edit) >= _MIN_EDITS:
        named = fit([example for example in fitted if "masked" in example.features], gate.named)
        unnamed = fit(
            [example for example in fitted if "masked" not in example.features], gate.unnamed
        )
        gate = replace(gate, named=named, unnamed=unnamed)
    shifts = {str(edit): _shift(gate, own) for edit, own in sorted(of_edit.items())}
    return replace(gate, shifts=shifts, edits=len(index.edits))


def _shift(gate: Calibrated, examples: Sequence[LabelledCandidate]) -> float:
    logits = np.array(
        [
            (gate.named if "masked" in e.features else gate.unnamed).logit(e.features)
            for e in examples
        ]
    )
    concerns, at = np.array([example.concerns for example in examples]), 0.0
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(logits + at, -40, 40)))
        step = (float(np.sum(p - concerns)) + at / _SPREAD**2) / (
            float(np.sum(p * (1 - p))) + 1 / _SPREAD**2
        )
        at -= max(-_MAX_STEP, min(step, _MAX_STEP))
    return round(at, 4)


def certify(
    gate: Calibrated,
    probes: Sequence[GateProbe],
    index: EditIndex,
    level: float,
    confidence: float = 0.95,
) -> Certificate:
    """The lowest threshold at which the mean rate of false matches per edit is certified. Raises ValueError."""
    negatives = [probe for probe in probes if not probe.concerns]
    of_edit: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for probe, candidates in zip(negatives, _candidates(gate, negatives, index), strict=True):
        of_edit[probe.edit].append((probe.query, _probability(candidates, probe.edit)))
    # Ids tell which batch was imported first; a hash of the questions tells nothing, and is the same in every order.
    in_order = sorted(
        of_edit.values(),
        key=lambda own: sha256(repr(sorted(text for text, _ in own)).encode()).digest(),
    )
    return certified(
        [[probability for _, probability in own] for own in in_order], level, confidence
    )


def _probability(candidates: Iterable[Candidate], edit: int) -> float:
    return next(
        (candidate.probability for candidate in candidates if candidate.edit.id == edit), 0.0
    )


def certified(
    probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95
) -> Certificate:
    """`certify` by probabilities: for each edit, those of its probes that must not match."""
    if not probabilities or not 0 < level < 1:
        raise ValueError(
            "a certificate needs probes that must not fire, and a level between 0 and 1"
        )
    threshold = lowest_threshold(probabilities, level, confidence)
    strictest = 1 - _false_matches(probabilities)(THRESHOLDS[0])
    possible = _smallest(lambda n: exceeds(strictest, 1 - n / 10_000, confidence), 9_999) / 10_000
    missing = edits_needed(level, confidence, strictest) if threshold is None else 0
    return Certificate(level, confidence, threshold, len(probabilities), possible, missing)


def edits_needed(
    level: float, confidence: float = 0.95, tested: Matrix | Sequence[float] = ()
) -> int:
    """How many edits, none of whose questions matches, it takes to certify a level beside those that were tested."""
    return _smallest(
        lambda n: exceeds(np.r_[tested, np.ones(n)], 1 - level, confidence), _MAX_EDITS
    )


def lowest_threshold(
    probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95
) -> float | None:
    """The lowest of `THRESHOLDS` that is certified; None where not even the strictest is."""
    false_matches, passed, before = _false_matches(probabilities), None, None
    for threshold in THRESHOLDS:
        shares = false_matches(threshold)
        if before is None or not np.array_equal(shares, before):
            if not exceeds(1 - shares, 1 - level, confidence):
                break
            before = shares
        passed = threshold
    return passed


def _false_matches(probabilities: Sequence[Sequence[float]]) -> Callable[[float], Matrix]:
    """A function of a threshold: the share of each edit's probes that match at it [edits]."""
    counts = np.array([len(of_edit) for of_edit in probabilities])
    owners, values = np.repeat(np.arange(len(counts)), counts), np.concatenate(probabilities)
    return lambda threshold: (
        np.bincount(owners[values >= threshold], minlength=len(counts)) / counts
    )


def _smallest(passes: Callable[[int], bool], maximum: int) -> int:
    """The smallest number that passes, if all larger ones do; `maximum` if none does."""
    high = 1  # doubled first, as a large number takes long
    while high < maximum and not passes(high):
        high = min(2 * high, maximum)
    return bisect_left(range(high), True, lo=high // 2 + 1, key=passes) if high > 1 else high


@dataclass(frozen=True)
class Bin:
    """Questions with similar probabilities: their mean, the share of questions that concern the edit, their number."""

    probability: float
    share: float
    count: int


def curve(gate: Gate, index: EditIndex) -> tuple[Bin, ...]:
    """The reliability diagram over paraphrases, which concern their edit, and negative exemplars, which do not.

    By cross-validation: the gate decides on each of some `_MAX_TEXTS` texts with an index without those of its fold.
    Bins have equal widths, and empty ones are left out. No language model is asked.
    """
    rows: dict[int, list[tuple[float, bool]]] = defaultdict(list)  # by bin
    edits = sorted(index.edits.values(), key=lambda edit: edit.id)
    for fold in range(_FOLDS):
        texts, others = list[tuple[int, str, bool]](), list[EditVersion]()
        for edit in edits:
            rest = dict[str, Any]()
            for name in ("paraphrases", "negatives"):
                own = getattr(edit.record, name)
                texts += [
                    (edit.id, text, name == "paraphrases")
                    for text in own[(fold - edit.id) % _FOLDS :: _FOLDS]
                ]
                rest[name] = tuple(
                    text for i, text in enumerate(own) if (edit.id + i) % _FOLDS != fold
                )
            others.append(replace(edit, record=replace(edit.record, **rest)))
        without = EditIndex.of(others, index.encoder, index) if texts else index
        for id, text, concerned in texts[: _MAX_TEXTS // _FOLDS]:
            probability = _probability(gate.decide(text, without).candidates, id)
            rows[min(int(probability * _BINS), _BINS - 1)].append((probability, concerned))
    columns = (zip(*rows[i], strict=True) for i in sorted(rows))
    return tuple(
        Bin(sum(found) / len(true), sum(true) / len(true), len(true)) for found, true in columns
    )


def to_json(gate: Calibrated) -> str:
    """A gate's parameters, with a checksum."""
    return json.dumps(with_checksum({**asdict(gate), "grey": list(gate.grey)}), indent=1) + "\n"


def gate_of(content: str | bytes, name: str) -> Calibrated:
    """The gate of `to_json`. Raises StoreError if it is damaged; `name`: where it was found."""
    try:
        value = records.parse(content)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        gate = records.read(
            Calibrated, {n: value[n] for n in value.keys() - {"sha256", "semantic"}}
        )  # once written
        if not checksum_ok(value, needed=True):
            raise ValueError("its checksum does not match")
        return gate
    except ValueError as problem:
        raise StoreError(
            f"{name} holds no calibration of a gate ({problem}): calibrate again"
        ) from None


@cache
def default_gate() -> Calibrated:
    """The gate that comes with drike, for stores without probes; benchmarks/notes/gate.md says how it was made."""
    return gate_of(resources.files("drike.gates").joinpath("gate.json").read_bytes(), "gate.json")
