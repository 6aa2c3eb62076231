"""Other orders of the retains and a sweep of sigma, as the benchmark of the paper's studies compares them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.lib.variants import agreement, agreement_table, frontier_table
from drike.edits.edit import ASPECTS_OF_S
from drike.research.evaluation.metrics import Outcome, summarise
from drike.support.table import as_text
from tests.fakes.reports import outcome


def test_agreement_is_the_share_of_equal_verdicts_on_the_same_probes() -> None:
    ours = [outcome(str(i), 2, correct=i % 2 == 0) for i in range(20)]
    assert agreement(ours, ours).value == 1
    assert (
        agreement(ours, [replace(outcome, correct=not outcome.correct) for outcome in ours]).value
        == 0
    )
    half = agreement(ours, [replace(outcome, correct=True) for outcome in ours])
    assert half.value == 0.5 and half.low is not None and half.low < 0.5 < (half.high or 0)
    with pytest.raises(ValueError, match="same probes"):
        agreement(ours, ours[1:])
    moved = [replace(outcome, editor="DR-IKE (reversed)") for outcome in ours]
    outcomes = {"DR-IKE": ours, "DR-IKE (reversed)": moved}
    table = agreement_table(outcomes, [("DR-IKE (reversed)", "DR-IKE")])
    [row] = table.rows
    assert row[0] == "DR-IKE (reversed)" and as_text(row[1]) == "1.000 [.83,1.00]"
    assert as_text(row[3]).startswith("+0.000")


def test_the_frontier_holds_the_editors_not_dominated_in_length_and_s() -> None:
    def probes(name: str, shots: int, right: int) -> list[Outcome]:
        return [
            replace(outcome(str(i), shots, editor=name, correct=i < right), aspect=aspect, query=aspect)
            for i in range(10) for aspect in ASPECTS_OF_S
        ]  # fmt: skip

    points = {"none": (0, 0), "short": (1, 6), "worse": (2, 5), "long": (8, 9), "longest": (16, 9)}
    table = frontier_table([summarise(probes(name, *point)) for name, point in points.items()])
    assert [(row[0], row[4]) for row in table.rows] == [
        ("none", ""), ("short", "yes"), ("worse", ""), ("long", "yes"), ("longest", ""),
    ]  # fmt: skip
