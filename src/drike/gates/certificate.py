"""Certify a gate's rate of false matches on probes.

A certificate is about edits to come, drawn like those of the probes, and about questions like these
probes: thresholds are tested from the strictest to the most lenient by Learn-then-Test (see
`drike.support.statistics`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from drike.gates.calibrated import Calibrated
from drike.gates.calibration import GateProbe, Matrix, candidates_for, probability_of
from drike.gates.index import EditIndex
from drike.support.statistics import exceeds

# The probabilities at logits from 12 to -6, by quarters.
THRESHOLDS = tuple(round(1 / (1 + float(np.exp(-logit))), 6) for logit in np.arange(12, -6, -0.25))
_MAX_EDITS = 10_000_000  # of the search for the number of edits that a certificate takes
_FINENESS = 10_000  # of the search for the lowest level: hundredths of a percent


@dataclass(frozen=True)
class Certificate:
    """That a gate's rate of false matches is at most `level`.

    It is wrong with a probability of at most 1 - confidence. threshold: the lowest that is
    certified, if one is. edits: how many were tested. possible: the lowest level that these probes
    certify at any threshold. missing: how many more edits whose probes do not match it would take.
    """

    level: float
    confidence: float
    threshold: float | None
    edits: int
    possible: float
    missing: int

    @property
    def sentence(self) -> str:
        """What is certified, or what a certificate would take."""
        if self.threshold is not None:
            like = f"new edits like these {self.edits:,}"
            return (
                f"at most {self.level:.2%} false fires on {like}, {self.confidence:.0%} confidence"
            )
        return (
            f"{self.level:.2%} false fires cannot be certified with probes of {self.edits:,} edits,"
            f" at most {self.possible:.2%}: add probes of {self.missing:,} edits that must not fire"
        )


def certify(
    gate: Calibrated,
    probes: Sequence[GateProbe],
    index: EditIndex,
    level: float,
    confidence: float = 0.95,
) -> Certificate:
    """The lowest threshold at which the mean rate of false matches per edit is certified.

    Raises ValueError without such probes, or for an impossible level.
    """
    negatives = [probe for probe in probes if not probe.concerns]
    questions_by_edit: dict[int, list[tuple[str, float]]] = defaultdict(list)
    all_candidates = candidates_for(gate, negatives, index)
    for probe, candidates in zip(negatives, all_candidates, strict=True):
        probability = probability_of(probe.edit, candidates)
        questions_by_edit[probe.edit].append((probe.query, probability))

    probabilities = [
        [probability for _, probability in questions]
        for questions in sorted(questions_by_edit.values(), key=_hash_of_texts)
    ]
    return certified(probabilities, level, confidence)


def _hash_of_texts(questions: Sequence[tuple[str, float]]) -> bytes:
    """A key that orders edits by nothing but chance, in the same way each time.

    Ids tell which batch was imported first; a hash of the questions tells nothing, and is the same
    in every order of import.
    """
    return sha256(repr(sorted(text for text, _ in questions)).encode()).digest()


def certified(
    probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95
) -> Certificate:
    """`certify` by probabilities: for each edit, those of its probes that must not match."""
    if not probabilities or not 0 < level < 1:
        raise ValueError(
            "a certificate needs probes that must not fire, and a level between 0 and 1"
        )
    right_at_strictest = 1 - _false_matches(probabilities)(THRESHOLDS[0])

    def can_be_certified(level_in_steps: int) -> bool:
        return exceeds(right_at_strictest, 1 - level_in_steps / _FINENESS, confidence)

    threshold = lowest_threshold(probabilities, level, confidence)
    possible = _smallest(can_be_certified, _FINENESS - 1) / _FINENESS
    missing = edits_needed(level, confidence, right_at_strictest) if threshold is None else 0
    return Certificate(level, confidence, threshold, len(probabilities), possible, missing)


def edits_needed(
    level: float, confidence: float = 0.95, tested: Matrix | Sequence[float] = ()
) -> int:
    """How many edits it takes to certify a level if none of their questions matches.

    They come beside those that were tested. tested: for each of these, the share of its questions
    that do not match.
    """

    def is_enough(edits: int) -> bool:
        return exceeds(np.r_[tested, np.ones(edits)], 1 - level, confidence)

    return _smallest(is_enough, _MAX_EDITS)


def lowest_threshold(
    probabilities: Sequence[Sequence[float]], level: float, confidence: float = 0.95
) -> float | None:
    """The lowest of `THRESHOLDS` that is certified; None where not even the strictest is."""
    false_matches = _false_matches(probabilities)
    lowest = None
    tested = None
    for threshold in THRESHOLDS:
        shares = false_matches(threshold)
        if tested is None or not np.array_equal(shares, tested):  # else the test would be the same
            if not exceeds(1 - shares, 1 - level, confidence):
                break
            tested = shares
        lowest = threshold
    return lowest


def _false_matches(probabilities: Sequence[Sequence[float]]) -> Callable[[float], Matrix]:
    """A function of a threshold: the share of each edit's probes that match at it [edits]."""
    counts = np.array([len(probabilities_of_edit) for probabilities_of_edit in probabilities])
    edit_of_probe = np.repeat(np.arange(len(counts)), counts)
    probability_of_probe = np.concatenate(probabilities)

    def shares(threshold: float) -> Matrix:
        matching = edit_of_probe[probability_of_probe >= threshold]
        shares_by_edit: Matrix = np.bincount(matching, minlength=len(counts)) / counts
        return shares_by_edit

    return shares


def _smallest(passes: Callable[[int], bool], maximum: int) -> int:
    """The smallest number that passes, if all larger ones do; `maximum` if none does."""
    high = 1  # doubled first, as a large number takes long
    while high < maximum and not passes(high):
        high = min(2 * high, maximum)
    if high == 1:
        return high
    return bisect_left(range(high), True, lo=high // 2 + 1, key=passes)
