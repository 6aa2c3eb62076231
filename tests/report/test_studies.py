"""Verdicts and savings in the benchmark that repeats the paper's studies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies import efficiency_table, verdict
from drike.research.evaluation.metrics import Estimate
from tests.fakes.reports import episode


def test_the_efficiency_table_compares_every_run_with_the_first() -> None:
    full = [episode(e, (1, 1, 1), tokens=300, seconds=2080.1) for e in (1, 2)]
    cut = [episode(e, (1,), tokens=100, seconds=1459.6) for e in (1, 2)]
    table = efficiency_table({"without": full, "with": cut})
    first, second = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert first["tokens saved"] == first["s saved"] == "0.0 %"
    assert (second["tokens saved"], second["s saved"]) == ("66.7 %", "29.8 %"), (
        "the paper's own arithmetic"
    )
    assert second["mean k"] == "1.00"
    unknown = efficiency_table({"a": [episode(1, (1,), tokens=None)], "b": cut})
    assert unknown.rows[0][3] == unknown.rows[0][5] == unknown.rows[1][5] == "n/a"


@given(st.floats(-1, 1), st.floats(0, 0.5))
def test_verdicts_depend_on_the_sign_and_need_an_interval(value: float, half: float) -> None:
    measured = Estimate(value, value - half, value + half)
    mirrored = Estimate(-value, -value - half, -value + half)
    assert verdict(measured, "up") == verdict(mirrored, "down")
    assert verdict(measured, "same") == verdict(mirrored, "same")
    assert {verdict(measured, "up"), verdict(measured, "down")} in (
        {"agrees", "does not"},
        {"within noise"},
    )
    assert verdict(Estimate(value), "up") == "n/a"


def test_a_same_verdict_requires_the_interval_within_the_margin() -> None:
    assert verdict(Estimate(0.0, -0.04, 0.04), "same") == "agrees"
    assert verdict(Estimate(0.03, 0.02, 0.04), "same") == "agrees", (
        "a difference, but an immaterial one"
    )
    assert verdict(Estimate(0.0, -0.2, 0.2), "same") == "within noise"
    assert verdict(Estimate(0.1, 0.02, 0.2), "same") == "does not"
