"""Tables of outcomes, differences and costs."""

from __future__ import annotations

from dataclasses import replace

from drike.edits.edit import Aspect
from drike.research.evaluation.metrics import (
    METRICS,
    counted,
    paired_difference,
    paired_differences,
)
from drike.research.report.document import document
from drike.research.report.groups import grouped
from drike.research.report.tables import distribution_of
from drike.support.table import Number
from tests.fakes.reports import run_of


def test_means_over_prompts_and_over_edits_have_different_labels() -> None:
    run = run_of(0, editors=["IKE", "DR-IKE"])
    outcomes = {name: tuple(o for o in of if o.shots < 3 or o.aspect is Aspect.REWRITE)
                for name, of in run.outcomes.items()}  # fmt: skip
    [group] = grouped([replace(run, outcomes=outcomes)])
    per_prompt, per_edit = (
        group.summaries["DR-IKE"].shots,
        distribution_of(group.outcomes["DR-IKE"]).mean,
    )
    assert f"{per_prompt:.2f}" != f"{per_edit:.2f}"
    sections = {section.id: section for section in document([group]).sections}
    overview, budget = sections["summary"].tables[0], sections["budget"].tables[0]
    assert dict(zip(overview.header, overview.rows[-1], strict=True))["retains/prompt"] == Number(
        per_prompt, ".2f"
    )
    assert dict(zip(budget.header, budget.rows[1], strict=True))["mean retains/edit"] == Number(
        per_edit, ".2f"
    )
    assert not [
        table
        for section in sections.values()
        for table in section.tables
        if "retains" in table.header
    ]


def test_paired_differences_of_all_metrics_equal_those_of_each_alone() -> None:
    run = run_of(0)
    ours, theirs = run.outcomes["DR-IKE"], run.outcomes["IKE"]
    assert paired_differences(counted(ours), counted(theirs)) == {
        name: paired_difference(ours, theirs, name) for name in METRICS
    }
