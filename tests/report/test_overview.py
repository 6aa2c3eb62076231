"""What a page shows first: the profile of every editor by aspect."""

from __future__ import annotations

from dataclasses import replace

from drike.edits import Aspect
from drike.report.groups import grouped
from drike.report.overview import asked, first
from tests.worlds.reports import run_of


def test_the_profiles_show_every_aspect_of_every_editor_and_what_was_not_judged() -> None:
    run = run_of(0, editors=["IKE", "DR-IKE"])
    judged = {"IKE": False, "DR-IKE": None}
    outcomes = {
        name: (*of, *(replace(o, aspect=Aspect.ALIAS, correct=judged[name]) for o in of if o.aspect is Aspect.REWRITE))
        for name, of in run.outcomes.items()
    }
    group = grouped([replace(run, outcomes=outcomes)])[0]
    assert [aspect for aspect, *_ in asked(group)] == ["rewrite", "paraphrase", "neighborhood", "alias"]
    shown = first(group)
    assert shown["IKE"].aspects[Aspect.ALIAS].estimate.value == 0
    assert shown["DR-IKE"].aspects[Aspect.ALIAS].estimate.value is None
