"""What a page shows first: the profile of every editor by aspect."""

from __future__ import annotations

from dataclasses import replace

from drike.edits import Aspect
from drike.report.groups import grouped
from drike.report.overview import overview
from tests.worlds.reports import run_of


def test_the_profile_names_the_lowest_aspect_of_every_editor_and_shows_what_was_not_asked_of_it() -> None:
    run = run_of(0, editors=["IKE", "DR-IKE"])
    judged = {"IKE": False, "DR-IKE": None}
    outcomes = {
        name: (*of, *(replace(o, aspect=Aspect.ALIAS, correct=judged[name]) for o in of if o.aspect is Aspect.REWRITE))
        for name, of in run.outcomes.items()
    }
    shown_of = overview(grouped([replace(run, outcomes=outcomes)])[0])
    assert [aspect for aspect, *_ in shown_of.asked] == ["rewrite", "paraphrase", "neighborhood", "alias"]
    (ike, lowest_of_ike), (dr_ike, lowest) = shown_of.profiles
    assert lowest_of_ike == "Lowest: alias" and shown_of.best == dr_ike.editor != ike.editor
    assert dr_ike.aspects[Aspect.ALIAS].estimate.value is None
    assert f"DR-IKE is weakest in {lowest.removeprefix('Lowest: ')}" in shown_of.weakest
    assert shown_of.weakest.endswith("The lowest share of any editor is IKE's in alias: 0.000 [.00,.26].")
