"""Retains per edit, and editors compared with other orders of their retains."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.edit import Aspect
from drike.research.report.document import document
from drike.research.report.groups import grouped
from drike.research.report.tables import distribution_of
from drike.support.table import as_text
from tests.fakes.reports import outcome, run_of


def test_a_report_and_an_evaluation_give_the_same_mean_and_std_of_retains() -> None:
    groups = grouped([run_of(0)])
    kept = distribution_of(groups[0].outcomes["DR-IKE"])
    [section] = [section for section in document(groups).sections if section.id == "budget"]
    row = next(row for row in section.tables[0].rows if row[0].startswith("DR-IKE, some-model"))
    mean, std = map(as_text, row[1:3])
    assert (mean, std) == (f"{kept.mean:.2f}", f"{kept.std:.2f}")
    counts = ", ".join(f"{k} at {edits}" for k, edits in kept.counts.items())
    assert any(f"edits by retains kept: {counts}." in note for note in section.tables[0].notes)


@given(st.lists(st.integers(1, 16), min_size=1, max_size=50))
def test_the_retain_distribution_counts_every_edit_once(shots: list[int]) -> None:
    outcomes = [outcome(str(i), k) for i, k in enumerate(shots)]
    paraphrases = [replace(outcome, aspect=Aspect.PARAPHRASE) for outcome in outcomes]
    distribution = distribution_of([*outcomes, *paraphrases])
    assert sum(distribution.counts.values()) == len(shots)
    assert sum(k * n for k, n in distribution.counts.items()) / len(shots) == pytest.approx(
        distribution.mean
    )
    spread = sum(n * (k - distribution.mean) ** 2 for k, n in distribution.counts.items()) / len(
        shots
    )
    assert distribution.std == pytest.approx(spread**0.5)
    assert list(distribution.counts) == sorted(set(shots))
    with pytest.raises(ValueError, match="no outcome of a rewrite"):
        distribution_of(paraphrases)
