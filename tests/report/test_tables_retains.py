"""Variants of editors: retains per edit, other orders of the retains, a sweep of sigma."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits import ASPECTS_OF_S, Aspect
from drike.evaluation.metrics import (
    Outcome,
    counted,
    summarise,
)
from drike.report.document import document, latex, markdown
from drike.report.groups import grouped
from drike.report.page import html
from drike.report.variants import agreement, agreement_table, distribution_of, distribution_table, frontier_table
from drike.support.table import as_text
from tests.worlds.reports import run_of


def test_a_report_has_tables_of_reordered_editors_and_of_a_sigma_sweep() -> None:
    editors = ["IKE", "DR-IKE", "DR-IKE (reversed)", "DR-IKE (sigma .06)"]
    made = document(grouped([run_of(0, editors=editors), run_of(1, editors=editors)]))
    for text in (html(made), markdown(made), latex(made)):
        assert "Effect of the order of retains, paired" in text and "S against prompt length" in text
    [section] = [section for section in made.sections if section.id == "variants"]
    order, lengths = section.tables
    assert [row[0] for row in order.rows] == ["DR-IKE (reversed)"] and len(lengths.rows) == len(editors)
    plain = document(grouped([run_of(0)]))
    assert "variants" not in [section.id for section in plain.sections]


def test_an_order_that_some_seeds_did_not_measure_is_not_compared() -> None:
    made = document(grouped([run_of(0, editors=["DR-IKE", "DR-IKE (reversed)"]), run_of(1, editors=["DR-IKE"])]))
    assert "variants" not in [section.id for section in made.sections]


def test_a_report_and_an_evaluation_give_the_same_mean_and_std_of_retains() -> None:
    groups = grouped([run_of(0)])
    kept = distribution_of(groups[0].outcomes["DR-IKE"])
    [section] = [section for section in document(groups).sections if section.id == "budget"]
    row = next(row for row in section.tables[0].rows if row[0].startswith("DR-IKE, some-model"))
    mean, std = map(as_text, row[1:3])
    assert (mean, std) == (f"{kept.mean:.2f}", f"{kept.std:.2f}")
    assert f"std {std}," in distribution_table(groups[0].outcomes["DR-IKE"]).title
    assert f"standard deviation {std}." in section.figures[0].alt


def outcome(case: str, shots: int, *, correct: bool = True, editor: str = "DR-IKE", query: str = "q") -> Outcome:
    return Outcome(
        editor=editor, case_id=case, aspect=Aspect.REWRITE, query=query, target="new", distractor="old",
        correct=correct, answer=None, matched=None, exact=None, prefers=None,
        prob_margin=None, logprob_margin=None, logit_gap=None,
        shots=shots, pruned=0, prompt_tokens=10 * shots, calls=1, seconds=0.1,
    )  # fmt: skip


@given(st.lists(st.integers(1, 16), min_size=1, max_size=50))
def test_the_retain_distribution_counts_every_edit_once(shots: list[int]) -> None:
    outcomes = [outcome(str(i), k) for i, k in enumerate(shots)]
    paraphrases = [replace(outcome, aspect=Aspect.PARAPHRASE) for outcome in outcomes]
    distribution = distribution_of([*outcomes, *paraphrases])
    assert sum(distribution.counts.values()) == len(shots)
    assert sum(k * n for k, n in distribution.counts.items()) / len(shots) == pytest.approx(distribution.mean)
    spread = sum(n * (k - distribution.mean) ** 2 for k, n in distribution.counts.items()) / len(shots)
    assert distribution.std == pytest.approx(spread**0.5)
    rows = distribution_table(outcomes).rows
    assert [int(row[0]) for row in rows] == list(range(min(shots), max(shots) + 1))
    assert max(len(row[2]) for row in rows) == 30
    with pytest.raises(ValueError, match="no outcome of a rewrite"):
        distribution_of(paraphrases)


def test_agreement_is_the_share_of_equal_verdicts_on_the_same_probes() -> None:
    ours = [outcome(str(i), 2, correct=i % 2 == 0) for i in range(20)]
    assert agreement(ours, ours).value == 1
    assert agreement(ours, [replace(outcome, correct=not outcome.correct) for outcome in ours]).value == 0
    half = agreement(ours, [replace(outcome, correct=True) for outcome in ours])
    assert half.value == 0.5 and half.low is not None and half.low < 0.5 < (half.high or 0)
    with pytest.raises(ValueError, match="same probes"):
        agreement(ours, ours[1:])
    moved = [replace(outcome, editor="DR-IKE (reversed)") for outcome in ours]
    outcomes = {"DR-IKE": ours, "DR-IKE (reversed)": moved}
    counts = {name: counted(of_editor) for name, of_editor in outcomes.items()}
    table = agreement_table(outcomes, counts, [("DR-IKE (reversed)", "DR-IKE")])
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
