"""Which runs can share a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.errors import ReportError
from drike.evaluation.metrics import (
    summarise,
)
from drike.report.document import verdict
from drike.report.groups import grouped
from tests.worlds.reports import run_of


def test_seeds_are_pooled_and_models_are_rows() -> None:
    first, second, other = run_of(0), run_of(1), run_of(0, model="another")
    groups = grouped([first, second, other])
    assert [(group.model, group.seeds()) for group in groups] == [("some-model", (0, 1)), ("another", (0,))]
    pooled = groups[0].summaries["IKE"]
    assert pooled == summarise(
        [*first.outcomes["IKE"], *second.outcomes["IKE"]], [*first.outcomes["Unedited"], *second.outcomes["Unedited"]]
    )
    assert pooled.cases == len(set(first.test) | set(second.test))


@pytest.mark.parametrize("name", ["data", "template", "epochs", "budget"])
def test_runs_that_differ_in_a_setting_share_a_table_only_if_it_is_named_in_across(name: str) -> None:
    first, second = run_of(0, budget="threshold"), run_of(1, **{"budget": "threshold", name: "another"})
    with pytest.raises(ReportError, match=f"differ in {name} .*--across {name}"):
        grouped([first, second])
    assert len(grouped([first, second], [name])) == 2
    with pytest.raises(ReportError, match="no run has a setting 'maze'"):
        grouped([first, second], ["maze"])


def test_runs_that_cannot_be_compared_are_refused() -> None:
    run = run_of(0)
    refused = {
        "different test edits": replace(run, folder="b", test=("77",)),
        "differ in the dtype": replace(run_of(1), identity={"dtype": "bfloat16"}),
        "both measured": replace(run, folder="b"),
    }
    for message, other in refused.items():
        with pytest.raises(ReportError, match=message):
            grouped([run, other])


def test_editors_of_one_seed_can_come_from_several_runs() -> None:
    [group] = grouped([run_of(0, editors=["IKE", "Unedited"]), run_of(0, editors=["DR-IKE"])])
    assert list(group.outcomes) == ["Unedited", "IKE", "DR-IKE"] and group.comparable("DR-IKE", "IKE")
    [group] = grouped([run_of(0), run_of(1, editors=["DR-IKE"])])
    assert not group.comparable("DR-IKE", "IKE")
    assert "no other editor was measured on the same edits" in verdict(group)
