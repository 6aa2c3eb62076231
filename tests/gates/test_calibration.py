"""Laws of calibrating and certifying a gate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from drike.edits.record import EditRecord, StoreError
from drike.encoders import HashingEncoder
from drike.gates import calibration, certificate
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import GateProbe, calibrated, gate_of, make_probes, to_json
from drike.gates.certificate import Certificate, certified, certify, lowest_threshold
from drike.gates.index import EditIndex
from tests.fakes.indexes import GATE, PERU, indexed, stored


def test_a_calibration_comes_back_as_it_was_saved_and_a_damaged_one_is_refused() -> None:
    gate = replace(GATE, shifts={"3": -0.25}, edits=7)
    content = to_json(gate)
    assert gate_of(content, "gate.json") == gate
    for damaged in (content.replace("-0.25", "-0.26"), content[:-20], "{}", "[]", ""):
        with pytest.raises(StoreError, match="calibrate again"):
            gate_of(damaged, "gate.json")


def test_calibration_learns_from_probes_and_leaves_the_gate_alone_without_any() -> None:
    entries = [EditRecord(f"Town{i}", f"The mayor of Town{i} is", "Ann") for i in range(60)]
    index = indexed(*entries)
    asked = (("boss", True), ("mayor", False))
    probes = [
        GateProbe(f"Town{i} {text}", i + 1, fires) for i in range(60) for text, fires in asked
    ]
    after = calibrated(GATE, probes, index)

    def likelihood(gate: Calibrated) -> float:
        found = [
            (gate.candidates(probe.query, index)[0].probability, probe.concerns) for probe in probes
        ]
        return float(sum(np.log(p if concerns else 1 - p) for p, concerns in found))

    assert likelihood(after) > likelihood(GATE) + 1
    assert after.edits == 60
    assert calibrated(GATE, [], index) == replace(GATE, edits=60)


def test_probes_of_single_edits_shift_these_only_and_by_little() -> None:
    index = indexed(PERU, EditRecord("Chile", "The capital of Chile is", "Rome"))
    shifted = calibrated(GATE, [GateProbe("The capital of Peru is far", 1, False)], index)
    assert shifted.named == GATE.named
    assert shifted.shifts.keys() == {"1"}
    assert -3 < shifted.shifts["1"] < 0


def test_probes_written_with_edits_are_not_stored_while_they_are_asked() -> None:
    anthem = EditRecord("Peru", "The anthem of Peru is", "Ode")
    edits, probes = make_probes(
        stored(replace(PERU, paraphrases=("Peru's capital",), negatives=("Peru",)), anthem)
    )
    assert [one.record.paraphrases + one.record.negatives for one in edits] == [(), ()]
    assert probes == [
        GateProbe("Peru's capital", 1, True),
        GateProbe("Peru", 1, False),
        GateProbe(anthem.query, 1, False),
        GateProbe(PERU.query, 2, False),
    ]


def test_what_is_certified_is_monotone_in_the_level_the_fires_and_the_edits() -> None:
    rng = random.Random(0)
    values = [[rng.random() ** 20 for _ in range(1 + i % 3)] for i in range(400)]
    thresholds = [lowest_threshold(values, level) or 2.0 for level in (0.01, 0.02, 0.05, 0.1, 0.3)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[-1] < thresholds[1]
    assert (lowest_threshold([[1.0], *values], 0.05) or 2.0) >= (
        lowest_threshold(values, 0.05) or 2.0
    )
    assert (lowest_threshold(values[:100], 0.05) or 2.0) >= (lowest_threshold(values, 0.05) or 2.0)


def test_silence_on_1000_edits_certifies_a_third_of_a_percent_and_says_what_less_takes() -> None:
    silent = certified([[0.0]] * 1000, 0.002)
    assert silent.threshold is None
    assert silent.possible == pytest.approx(0.0034, abs=2e-4)
    assert certified([[0.0]] * (1000 + silent.missing), 0.002).threshold is not None
    assert certified([[0.0]] * (999 + silent.missing), 0.002).threshold is None
    assert "add probes" in silent.sentence
    assert certified([[0.0]] * 1000, 0.004).sentence.startswith("at most 0.40% false fires")


def test_a_certificate_errs_in_at_most_one_of_twenty_splits() -> None:
    rng = np.random.default_rng(0)
    everything = [[float(p)] for p in rng.beta(0.3, 6, size=1200)]
    wrong = 0
    for _ in range(40):
        half = [everything[i] for i in rng.permutation(1200)[:400]]
        threshold = lowest_threshold(half, 0.05)
        wrong += threshold is not None and np.mean([p >= threshold for [p] in everything]) > 0.05
    assert wrong <= 5  # of 40; more has a probability of 1.4 % where 5 % are wrong


def certificate_of(probabilities: dict[str, float], level: float) -> Certificate:
    """The certificate of edits that each have one question, imported in this order."""
    edits = {text: SimpleNamespace(id=i) for i, text in enumerate(probabilities)}
    gate = SimpleNamespace(
        candidates=lambda query, _: [
            SimpleNamespace(edit=edits[query], probability=probabilities[query])
        ]
    )
    probes = [GateProbe(text, edit.id, False) for text, edit in edits.items()]
    return certify(cast("Calibrated", gate), probes, EditIndex.of((), HashingEncoder()), level)


def test_a_certificate_is_the_same_in_every_order_of_import() -> None:
    for draw in range(5):
        edits = [(f"{draw} {i}", float(i >= 150 and i % 2)) for i in range(300)]
        first, *others = (
            certificate_of(dict(order), 0.3)
            for order in (edits, edits[::-1], edits[::2] + edits[1::2])
        )
        assert first.threshold is None or first.possible < 0.3
        assert all(other == first for other in others)


# Orders of import: the rates of false matches of n edits whose mean is p.
ORDERS: dict[str, Callable[[int, float], Sequence[float] | np.ndarray]] = {
    "an easy half first": lambda n, p: np.where(np.arange(n) < n // 2, 0.0, 2 * p),
    "an easy tenth last": lambda n, p: np.where(
        np.arange(n) < n - n // 10, p * n / (n - n // 10), 0.0
    ),
    "one after another": lambda n, p: np.where(np.arange(n) % 2, 2 * p, 0.0),
    "five hard blocks": lambda n, p: np.where(np.arange(n) // (n // 20) % 4 == 3, 4 * p, 0.0),
    "harder and harder": lambda n, p: np.linspace(0, 2 * p, n),
    "by what was measured": np.full,
    "all that match last": lambda n, p: (np.arange(n) >= n - np.ceil(n * p)).astype(float),
}


@pytest.fixture
def only_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not search for what else could be certified, which takes most of the time."""
    monkeypatch.setattr(certificate, "_smallest", lambda passes, maximum: 0)


def false_certificates(order: str, level: float, draws: int) -> float:
    """How often a level is certified that is a little below the rate of all edits."""
    rng, given = np.random.default_rng(0), 0
    for draw in range(draws):
        matches = rng.random(n := 20 * int(rng.integers(10, 30))) < ORDERS[order](n, level + 1e-6)
        if order == "by what was measured":
            matches = np.sort(matches)
        certificate = certificate_of(
            {f"{draw} {i}": float(match) for i, match in enumerate(matches)}, level
        )
        given += certificate.threshold is not None
    return given / draws


@pytest.mark.usefixtures("only_thresholds")
@pytest.mark.parametrize("order", ORDERS)
def test_no_order_of_import_gives_false_certificates(order: str) -> None:
    assert false_certificates(order, 0.05, 25) <= 0.05 + 3 * (0.05 * 0.95 / 25) ** 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("only_thresholds")
@pytest.mark.parametrize("level", [0.02, 0.05, 0.15])
@pytest.mark.usefixtures("only_thresholds")
@pytest.mark.parametrize("order", ORDERS)
def test_no_order_of_import_gives_more_than_five_false_certificates_in_a_hundred(
    order: str, level: float
) -> None:
    rate = false_certificates(order, level, 1000)
    print(f"{order}, {level:.0%}: {rate:.3f} of 1,000 certificates are false")
    assert rate <= 0.05 + 2 * (0.05 * 0.95 / 1000) ** 0.5


@pytest.mark.parametrize("count", [10, 20, 200])
def test_the_shift_of_an_edit_ends_where_its_loss_is_least(count: int) -> None:
    gate = replace(GATE, unnamed=LogisticHead({}, 5.0))  # sure of what is wrong
    examples = [calibration.LabelledCandidate({}, False, 1)] * count
    shift = calibration._shift(gate, examples)
    slope = count / (1 + np.exp(-(5.0 + shift))) + shift / calibration._SPREAD**2
    assert shift < -4 and slope == pytest.approx(0, abs=0.01)
