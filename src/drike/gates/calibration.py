"""Calibrate a gate on probes that come with the edits, and write it as JSON."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from drike.edits.record import EditVersion, StoreError
from drike.encoders.base import salient
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.decision import EQUAL, Candidate
from drike.gates.index import EditIndex
from drike.support import records
from drike.support.files import checksum_ok, with_checksum
from drike.text.masking import masked_each
from drike.text.words import words

Matrix = NDArray[np.float64]
Strength = float | Matrix  # of all parameters, or of each weight and of the bias [d]

_STRENGTH = 20.0  # how many examples the prior counts for
_SPREAD = 1.0  # standard deviation of the shifts of single edits, in logits
_MIN_EDITS = 50  # with probes, to fit a store its own heads

# Of Newton's method.
_STEPS = 50
_MAX_STEP = 2.0
_CONVERGED = 1e-8
_MAX_LOGIT = 40  # beyond, a probability is 0 or 1


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

    @property
    def named(self) -> bool:
        """Whether the probe named the subject."""
        return "masked" in self.features


def make_probes(edits: Sequence[EditVersion]) -> tuple[list[EditVersion], list[GateProbe]]:
    """The edits without paraphrases and negative exemplars, and probes of these.

    There are probes of the queries of other edits of the same subject, too.
    """
    probes = []
    edits_by_subject = defaultdict(list)
    for edit in edits:
        probes += [GateProbe(text, edit.id, True) for text in edit.record.paraphrases]
        probes += [GateProbe(text, edit.id, False) for text in edit.record.negatives]
        edits_by_subject[" ".join(words(edit.record.subject))].append(edit)
    for edits_of_subject in edits_by_subject.values():
        probes += [
            GateProbe(other.record.query, edit.id, False)
            for edit, other in permutations(edits_of_subject, 2)
        ]

    bare = [
        replace(edit, record=replace(edit.record, paraphrases=(), negatives=())) for edit in edits
    ]
    return bare, probes


def labelled_candidates(
    gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex
) -> list[LabelledCandidate]:
    """Each probe's own edit as a candidate, where the gate considers it.

    Where the probe is one of the edit's texts there is nothing to fit.
    """
    return [
        LabelledCandidate(candidate.features, probe.concerns, probe.edit)
        for probe, candidates in zip(probes, candidates_for(gate, probes, index), strict=True)
        for candidate in candidates
        if candidate.edit.id == probe.edit and EQUAL not in candidate.features
    ]


def candidates_for(
    gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex
) -> list[list[Candidate]]:
    """The candidates for each probe.

    All texts are embedded beforehand in one batch, which is faster.
    """
    queries_and_names = [
        (probe.query, index.edits[probe.edit].record.names)
        for probe in probes
        if probe.edit in index.edits
    ]
    if queries_and_names:
        encoder = index.require_encoder()
        encoder.encode([query for query, _ in queries_and_names])
        salient(encoder).encode(masked_each(queries_and_names))
    return [gate.candidates(probe.query, index) for probe in probes]


def probability_of(edit_id: int, candidates: Iterable[Candidate]) -> float:
    """The probability of an edit among candidates; 0 if it is none of them."""
    probabilities = (c.probability for c in candidates if c.edit.id == edit_id)
    return next(probabilities, 0.0)


def fit(
    examples: Sequence[LabelledCandidate], prior: LogisticHead, strength: Strength = _STRENGTH
) -> LogisticHead:
    """The head of largest posterior for examples.

    The prior is a Gaussian one of precision `strength` around another head.
    """
    if not examples:
        return prior
    x = np.array([_row(example, prior) for example in examples])
    y = np.array([example.concerns for example in examples], dtype=np.float64)
    weight = np.array([example.weight for example in examples], dtype=np.float64)

    # Damped Newton steps from the prior's mean.
    mean = np.array([*prior.weights.values(), prior.bias])
    parameters = mean
    for _ in range(_STEPS):
        p = _sigmoid(x @ parameters)
        gradient = x.T @ (weight * (p - y)) + strength * (parameters - mean)
        curvature = (weight * p * (1 - p))[:, None]
        hessian = (x * curvature).T @ x + strength * np.eye(len(parameters))
        step = np.linalg.solve(hessian, gradient)

        largest = float(np.abs(step).max())
        parameters = parameters - step * min(1.0, _MAX_STEP / max(1e-12, largest))
        if largest < _CONVERGED:
            break
    *weights, bias = parameters.tolist()
    return LogisticHead(dict(zip(prior.weights, weights, strict=True)), bias)


def _row(example: LabelledCandidate, head: LogisticHead) -> list[float]:
    """An example's features in the order of a head's weights, and 1 for the bias."""
    return [*(example.features.get(name, 0.0) for name in head.weights), 1.0]


def _sigmoid(logits: Matrix) -> Matrix:
    probabilities: Matrix = 1 / (1 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
    return probabilities


def calibrated(gate: Calibrated, probes: Sequence[GateProbe], index: EditIndex) -> Calibrated:
    """The gate with shifts fitted to probes, and with `_MIN_EDITS` edits heads, too.

    It is to be certified with the probes of other edits.
    """
    examples = labelled_candidates(gate, probes, index)
    examples_by_edit: dict[int, list[LabelledCandidate]] = defaultdict(list)
    for example in examples:
        examples_by_edit[example.edit].append(example)

    if len(examples_by_edit) >= _MIN_EDITS:
        gate = replace(
            gate,
            named=fit(_of_head(gate.named, examples, gate), gate.named),
            unnamed=fit(_of_head(gate.unnamed, examples, gate), gate.unnamed),
            crowded=gate.crowded and fit(_of_head(gate.crowded, examples, gate), gate.crowded),
        )
    shifts = {
        str(edit_id): _shift(gate, examples_of_edit)
        for edit_id, examples_of_edit in sorted(examples_by_edit.items())
    }
    return replace(gate, shifts=shifts, edits=len(index.edits))


def _of_head(
    head: LogisticHead, examples: Sequence[LabelledCandidate], gate: Calibrated
) -> list[LabelledCandidate]:
    """The examples that a head of a gate judges."""
    return [example for example in examples if gate.head_for(example.features) is head]


def _shift(gate: Calibrated, examples: Sequence[LabelledCandidate]) -> float:
    """What is added to an edit's logit: of largest posterior, with a Gaussian prior around 0."""
    heads = [gate.head_for(example.features) for example in examples]
    logits = np.array(
        [head.logit(example.features) for head, example in zip(heads, examples, strict=True)]
    )
    concerns = np.array([example.concerns for example in examples])

    shift = 0.0
    for _ in range(_STEPS):
        p = _sigmoid(logits + shift)
        gradient = float(np.sum(p - concerns)) + shift / _SPREAD**2
        curvature = float(np.sum(p * (1 - p))) + 1 / _SPREAD**2
        step = gradient / curvature
        shift -= max(-_MAX_STEP, min(step, _MAX_STEP))
    return round(shift, 4)


def to_json(gate: Calibrated) -> str:
    """A gate's parameters, with a checksum."""
    return json.dumps(with_checksum({**asdict(gate), "grey": list(gate.grey)}), indent=1) + "\n"


def gate_of(content: str | bytes, name: str) -> Calibrated:
    """The gate of `to_json`. Raises StoreError if it is damaged; `name`: where it was found."""
    try:
        value = records.parse(content)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        # "semantic" was once written, and means nothing now.
        gate = records.read(
            Calibrated, {key: value[key] for key in value.keys() - {"sha256", "semantic"}}
        )
        if not checksum_ok(value, needed=True):
            raise ValueError("its checksum does not match")
    except ValueError as problem:
        raise StoreError(
            f"{name} holds no calibration of a gate ({problem}): calibrate again"
        ) from None
    return gate


@cache
def default_gate() -> Calibrated:
    """The gate that comes with drike, for stores without probes.

    benchmarks/notes/gate.md says how it was made.
    """
    return gate_of(resources.files("drike.gates").joinpath("gate.json").read_bytes(), "gate.json")
