"""Calibrate a gate on probes written with the edits, certify how often it fires falsely, keep it as JSON.

A certificate is about edits to come, drawn like those of the probes, and about questions like these probes: thresholds
are tested from the strictest to the most lenient by Learn-then-Test (see `drike.evaluation.risk_control`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib import resources
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drike.evaluation.risk_control import exceeds
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.decision import Candidate
from drike.gates.index import EditIndex
from drike.gates.names import masked, words
from drike.stores.records import EditVersion, StoreError
from drike.support import records
from drike.support.files import checksum_ok, with_checksum, write_text

Matrix = NDArray[np.float64]
THRESHOLDS = tuple(round(1 / (1 + float(np.exp(-logit))), 6) for logit in np.arange(12, -6, -0.25))
_STRENGTH = 20.0  # how many examples the default head counts for
_SPREAD = 1.0  # standard deviation of the shifts of single edits, in logits
_FEWEST = 50  # edits with probes, to fit a head of its own
_STEPS, _LARGEST_STEP = 50, 2.0
_MOST_EDITS = 10_000_000  # to search for the number of edits that a certificate takes


@dataclass(frozen=True)
class GateProbe:
    """A question of which it is known whether it concerns an edit. edit: its id."""

    query: str
    edit: int
    concerns: bool


@dataclass(frozen=True)
class Example:
    """A candidate of a probe: its features, and whether the probe concerns it. edit: its id."""

    features: Mapping[str, float]
    concerns: bool
    edit: int
    weight: float = 1.0


@dataclass(frozen=True)
class Certificate:
    """That a gate fires falsely at most as often as `level`; this errs with probability 1 - confidence.

    Attributes:
        threshold: the lowest that is certified; None where none is.
        edits, fires: that were tested, and the mean share of false fires per edit at the threshold (the strictest if
            none is certified).
        possible: the lowest level that these probes certify at any threshold.
        missing: edits with probes, none of which fires, that a certificate of the level still takes; 0 if it is given.
    """

    level: float
    confidence: float
    threshold: float | None
    edits: int
    fires: float
    possible: float
    missing: int

    @property
    def sentence(self) -> str:
        """What is certified, or what it takes."""
        if self.threshold is not None:
            return (
                f"at most {self.level:.2%} false fires on new edits like these {self.edits:,}, "
                f"{self.confidence:.0%} confidence"
            )
        return (
            f"{self.level:.2%} false fires cannot be certified with probes of {self.edits:,} edits, at most "
            f"{self.possible:.2%}: add probes of {self.missing:,} edits that must not fire"
        )


def written(edits: Sequence[EditVersion]) -> tuple[list[EditVersion], list[GateProbe]]:
    """Probes that were written with edits, and these edits without what the probes hold.

    A wording concerns its edit; a negative exemplar does not, nor does the query of another edit of the subject.
    """
    probes, subjects = [], defaultdict(list)
    for one in edits:
        probes += [GateProbe(text, one.id, True) for text in one.record.wordings]
        probes += [GateProbe(text, one.id, False) for text in one.record.negatives]
        subjects[" ".join(words(one.record.subject))].append(one)
    for same in subjects.values():
        probes += [GateProbe(other.record.query, one.id, False) for one, other in permutations(same, 2)]
    return [replace(one, record=replace(one.record, wordings=(), negatives=())) for one in edits], probes


def examples(gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex) -> list[Example]:
    """Each probe's own edit as a candidate, where the gate considers it."""
    found = []
    for probe, candidates in zip(probes, _considered(gate, probes, index), strict=True):
        own = next((one for one in candidates if one.edit.id == probe.edit), None)
        if own is not None:
            found.append(Example(own.features, probe.concerns, probe.edit))
    return found


def _considered(gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex) -> list[list[Candidate]]:
    """What the gate considers for each probe; its texts are embedded at once, which encoders do faster."""
    edits = {id: one.record for id, one in index.edits.items()}
    known = [probe for probe in probes if probe.edit in edits]
    if index.encoder is not None and known:
        texts = [text for one in known for text in (one.query, masked(one.query, edits[one.edit].names))]
        index.encoder.encode(texts)
    return [gate.candidates(probe.query, index) for probe in probes]


def fit(found: Sequence[Example], prior: LogisticHead, strength: float = _STRENGTH) -> LogisticHead:
    """The head that makes the examples most probable, drawn towards another one by as much as `strength` examples."""
    names = tuple(prior.weights)
    x = np.array([[one.features[name] for name in names] + [1.0] for one in found], dtype=np.float64)
    y = np.array([one.concerns for one in found], dtype=np.float64)
    weight = np.array([one.weight for one in found], dtype=np.float64)
    start = np.array([*prior.weights.values(), prior.bias])
    *weights, bias = _newton(x.reshape(len(found), -1), y, weight, start, strength) if found else start
    return LogisticHead(dict(zip(names, map(float, weights), strict=True)), float(bias))


def _newton(x: Matrix, y: Matrix, weight: Matrix, start: Matrix, strength: float) -> Matrix:
    """The parameters [d] of largest posterior for examples x [n, d], by damped Newton steps from the prior's mean."""
    at = start.copy()
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ at, -40, 40)))
        slope = x.T @ (weight * (p - y)) + strength * (at - start)
        curve = (x * (weight * p * (1 - p))[:, None]).T @ x + strength * np.eye(len(at))
        step = np.linalg.solve(curve, slope)
        at = at - step * min(1.0, _LARGEST_STEP / max(1e-12, float(np.abs(step).max())))
        if float(np.abs(step).max()) < 1e-8:
            break
    return at


def calibrated(gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex) -> Calibrated:
    """The gate calibrated on probes of a store: its heads if `_FEWEST` edits have any, and shifts of single edits.

    Certify it with probes of other edits, as those it was fitted to flatter it.
    """
    found = examples(gate, probes, index)
    if len({one.edit for one in found}) >= _FEWEST:
        named = fit([one for one in found if "masked" in one.features], gate.named)
        unnamed = fit([one for one in found if "masked" not in one.features], gate.unnamed)
        gate = replace(gate, named=named, unnamed=unnamed)
    of_edit: dict[int, list[Example]] = defaultdict(list)
    for one in found:
        of_edit[one.edit].append(one)
    shifts = {str(edit): _shift(gate, some) for edit, some in sorted(of_edit.items())}
    return replace(gate, shifts=shifts, edits=len(index.edits))


def _shift(gate: Calibrated, found: Sequence[Example]) -> float:
    """What the examples of one edit add to its logit: little for few, and at most where they are surprising."""
    logits = np.array([(gate.named if "masked" in e.features else gate.unnamed).logit(e.features) for e in found])
    at = 0.0
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(logits + at, -40, 40)))
        slope = float(np.sum(p - np.array([one.concerns for one in found]))) + at / _SPREAD**2
        at -= slope / (float(np.sum(p * (1 - p))) + 1 / _SPREAD**2)
    return round(at, 4)


def certify(
    gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex, level: float, confidence: float = 0.95
) -> Certificate:
    """The lowest threshold at which the share of false fires per edit is at most `level`.

    Only probes that do not concern their edit count; a fire on another edit is none of theirs. Raises ValueError
    without such probes, or for a level outside of (0, 1).
    """
    still = [probe for probe in probes if not probe.concerns]
    of_edit: dict[int, list[float]] = defaultdict(list)
    for probe, candidates in zip(still, _considered(gate, still, index), strict=True):
        own = (one.probability for one in candidates if one.edit.id == probe.edit)
        of_edit[probe.edit].append(next(own, 0.0))
    return certified([of_edit[edit] for edit in sorted(of_edit)], level, confidence)


def certified(probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95) -> Certificate:
    """`certify`, for the probabilities that each edit's probes get which must not fire."""
    if not probabilities or not 0 < level < 1:
        raise ValueError("a certificate needs probes that must not fire, and a level between 0 and 1")
    threshold = lowest_threshold(probabilities, level, confidence)
    fires = _fires(probabilities)
    strictest = 1 - fires(THRESHOLDS[0])
    return Certificate(
        level,
        confidence,
        threshold,
        len(probabilities),
        float(np.mean(fires(THRESHOLDS[0] if threshold is None else threshold))),
        _smallest(lambda n: exceeds(strictest, 1 - n / 10_000, confidence), 9_999) / 10_000,
        0
        if threshold is not None
        else _smallest(lambda n: exceeds(np.concatenate([strictest, np.ones(n)]), 1 - level, confidence), _MOST_EDITS),
    )


def lowest_threshold(probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95) -> float | None:
    """The lowest of `THRESHOLDS` that is certified; None where not even the strictest is."""
    shares, passed, before = _fires(probabilities), None, None
    for threshold in THRESHOLDS:
        fires = shares(threshold)
        if before is None or not np.array_equal(fires, before):
            if not exceeds(1 - fires, 1 - level, confidence):
                break
            before = fires
        passed = threshold
    return passed


def _fires(probabilities: Sequence[Sequence[float]]) -> Callable[[float], Matrix]:
    """The share of each edit's probes that fire at a threshold [edits]."""
    counts = np.array([len(of_edit) for of_edit in probabilities])
    owners, values = np.repeat(np.arange(len(counts)), counts), np.concatenate(probabilities)

    def shares(threshold: float) -> Matrix:
        found: Matrix = np.bincount(owners[values >= threshold], minlength=len(counts)) / counts
        return found

    return shares


def _smallest(passes: Callable[[int], bool], most: int) -> int:
    """The smallest number that passes, if all larger ones do; `most` if none does."""
    low, high = 0, 1
    while high < most and not passes(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def to_json(gate: Calibrated) -> str:
    """A gate's parameters, with a checksum."""
    return json.dumps(with_checksum({**asdict(gate), "grey": list(gate.grey)}), indent=1) + "\n"


def gate_of(content: str | bytes, name: str) -> Calibrated:
    """The gate of `to_json`. Raises StoreError if it is damaged; `name`: where it was found."""
    try:
        value = records.parse(content)
        record = records.read(_Record, value)
        if not checksum_ok(value, needed=True):
            raise ValueError("its checksum does not match")
    except (ValueError, KeyError) as problem:
        raise StoreError(f"{name} holds no calibration of a gate ({problem}): calibrate again") from None
    found = {one.name: getattr(record, one.name) for one in fields(record) if one.name != "sha256"}
    return Calibrated(**found)


def save(gate: Calibrated, path: Path) -> None:
    """Write a gate to a file, as JSON. Raises OSError."""
    write_text(path, to_json(gate))


def load(path: Path) -> Calibrated:
    """Read what `save` wrote. Raises StoreError if it is damaged, OSError if there is no such file."""
    return gate_of(path.read_bytes(), str(path))


@cache
def default() -> Calibrated:
    """The gate that comes with drike, for stores without probes; docs/results/gate.md says how it was made."""
    return gate_of(resources.files("drike.gates").joinpath("gate.json").read_bytes(), "gate.json")


@dataclass(frozen=True)
class _Record:
    """A gate's parameters as JSON."""

    encoder: str
    named: LogisticHead
    unnamed: LogisticHead
    threshold: float
    grey: tuple[float, float]
    semantic: bool
    shifts: Mapping[str, float]
    edits: int
    sha256: str = ""
