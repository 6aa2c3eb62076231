"""The cases of the viewer: packed completely, and safe inside a script element."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drike.report.groups import grouped, read_runs
from drike.report.page import as_script, packed
from tests.worlds.reports import run_of


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=8))
def test_data_in_a_script_element_round_trip_unchanged(data: object) -> None:
    text = as_script(data)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == data


def test_the_case_viewer_holds_every_outcome(demo: Path) -> None:
    groups = grouped(read_runs([demo]))
    data = json.loads(as_script(packed(groups)))
    run = groups[0].runs[0]
    assert len(data["cases"]) == len(run.test)
    seen = {
        (data["editors"][answers[i]], data["strings"][case_id], data["strings"][probes[4 * p + 1]], right == "1")
        for _, _, case_id, probes, answers in data["cases"]
        for i in range(0, len(answers), 7)
        for p, right in enumerate(answers[i + 1])
    }
    assert seen == {(o.editor, o.case_id, o.query, o.correct) for of in run.outcomes.values() for o in of}


def test_a_probe_that_was_not_judged_is_packed_as_neither_right_nor_wrong() -> None:
    run = run_of(0, cases=1, editors=["IKE"])
    judged = (True, False, None, True, None, False)
    outcomes = tuple(
        replace(outcome, correct=right) for outcome, right in zip(run.outcomes["IKE"], judged, strict=True)
    )
    [[*_, answers]] = packed(grouped([replace(run, outcomes={"IKE": outcomes})]))["cases"]  # type: ignore[misc]
    assert answers[1] == "10-1-0"
