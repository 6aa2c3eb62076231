"""What a gate did, in tables."""

from __future__ import annotations

from drike.deployment.evaluation import GateRecord
from drike.report.deployed import deployed_tables


def record(probability: float, nearest: float) -> GateRecord:
    return GateRecord("1", "rewrite", "?", "y", True, (), probability, "x", nearest)


def test_a_gate_that_only_says_yes_or_no_has_no_tables_of_probabilities() -> None:
    tables = deployed_tables({}, [record(1.0, 0.0), record(0.0, 0.0)], "two questions")
    assert not any("threshold" in table.title or "Calibration" in table.title for table in tables)
