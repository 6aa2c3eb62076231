"""What a gate did, in tables and figures."""

from __future__ import annotations

from drike.deployment.evaluation import GateRecord
from drike.report.deployed import calibration, gate_figures, threshold_rates


def test_the_gates_figures_are_drawn_from_unrounded_values() -> None:
    def record(probability: float, nearest: float) -> GateRecord:
        return GateRecord("1", "rewrite", "?", "y", True, (), probability, "x", nearest)

    records = [record(0.71234567, 0.00123456), record(0.98765432, 0.00234567)]
    held, fires = gate_figures(records)
    means = [mean for _, mean, _, _ in calibration(records)]
    assert [f'cx="{100 * mean:.2f}%"' in held.svg for mean in means] == [True] * len(means)
    assert means[0] == (0.00123456 + 0.00234567) / 2 and "0.00179" in held.alt
    assert [matched for _, matched, _ in threshold_rates(records)][-2:] == [0.0, 0.0] and fires.alt
