"""DR-IKE-Q's policy: what it does with a query, what it is behind a gate, and what it knows of its training edits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.edits.edit import Edit
from drike.edits.record import as_stored
from drike.gates.by_name import Named
from drike.gates.calibrated import LogisticHead
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.prompts import Prompt
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.query_policy import Shown, applied, policy_of, relations_of
from drike.research.editors.selectors import RoleCounts
from tests.fakes.capitals import CAPITALS, capital
from tests.fakes.suggestible_task import ENCODER, POOL, UNTRAINED

CASE = CAPITALS[3]
OWN, ABOUT, OTHER = CASE.edit.query, "Land3 lies north of", "The capital of Land50 is"


def always(logit: float, *mixes: RoleCounts):  # type: ignore[no-untyped-def]
    """A policy that applies edits to queries with the same logit, whatever their features."""
    shown = tuple(
        Shown(mix, LogisticHead({}, float(-i)))
        for i, mix in enumerate(mixes or (RoleCounts(4, 0, 0),))
    )
    return replace(
        UNTRAINED, gate=replace(UNTRAINED.gate, named=LogisticHead({}, logit)), shown=shown
    )


def test_untrained_it_decides_as_the_default_gate_and_shows_the_fact_alone() -> None:
    gate = replace(default_gate(), encoder=ENCODER.name)
    index = EditIndex.of(as_stored([CASE.edit]), ENCODER)
    queries = [OWN, ABOUT, OTHER, "Land3 has the capital", "The capital town of Land3 is"]
    fires = [bool(gate.decide(query, index).matched) for query in queries]
    assert True in fires and False in fires
    assert [mix is not None for mix in UNTRAINED.choose([CASE.edit], queries)] == fires
    assert {*UNTRAINED.choose([CASE.edit], queries)} == {None, RoleCounts(0, 0, 0)}


@pytest.mark.parametrize(("logit", "applies"), [(1.0, True), (-1.0, False)])
def test_a_query_gets_the_edit_by_probability_its_own_query_always_and_another_subject_never(
    logit: float, applies: bool
) -> None:
    mix = RoleCounts(4, 0, 0)
    assert always(logit).choose([CASE.edit], [OWN, ABOUT, OTHER]) == [
        mix,
        mix if applies else None,
        None,
    ]
    own, about, other = InContextEditor("", POOL, always(logit)).prompts(
        [CASE.edit], [OWN, ABOUT, OTHER]
    )
    assert (len(own.demonstrations), other) == (4, Prompt(OTHER))
    assert (about != Prompt(ABOUT)) is applied_to(about) is applies


def applied_to(prompt: Prompt) -> bool:
    return CASE.edit.target_new in prompt.text


def test_a_shift_moves_whether_an_edit_applies_and_not_what_is_shown() -> None:
    few, all_copies = RoleCounts(1, 0, 0), RoleCounts(4, 0, 0)
    policy = always(-1.0, few, all_copies)
    assert policy.shifted(2.0).choose([CASE.edit], [ABOUT, OTHER]) == [few, None]
    swapped = replace(
        policy, shown=(policy.shown[0], Shown(all_copies, LogisticHead({"equal": 9.0}, 0.0)))
    )
    assert swapped.shifted(2.0).choose([CASE.edit], [OWN, ABOUT]) == [all_copies, few]


def test_behind_a_gate_it_decides_only_what_is_shown() -> None:
    editor = InContextEditor("DR-IKE-Q", POOL, always(-9.0))
    behind = GatedEditor(editor, Named(), SimulatedStores([CASE.edit]))
    about, other = behind.prompts([CASE.edit], [ABOUT, OTHER])
    assert applied_to(about) and other == Prompt(OTHER)
    assert policy_of(applied(editor)) == replace(always(-9.0), applied=True)
    plain = InContextEditor("", POOL, RoleCounts(4, 0, 0))
    assert applied(plain) is plain and policy_of(plain) is None


def test_each_of_several_edits_decides_for_itself() -> None:
    edits = [CASE.edit, CAPITALS[20].edit]
    first, second, both, neither = InContextEditor("", POOL, always(1.0)).prompts(
        edits, [ABOUT, "Land20 lies north of", "Land3 and Land20 lie in", "Who?"]
    )
    assert neither == Prompt("Who?")
    for prompt in (first, second, both):
        assert all(edit.fact in prompt.text for edit in edits)


def test_relations_are_worded_by_all_edits_that_have_them() -> None:
    cases = [capital(1), capital(2), capital(3, relation="river")]
    found = relations_of(cases)
    assert found["capital"].groups == (("The capital of it is",), ("it has the capital",))
    assert [*found] == ["capital", "river"]
    nameless = replace(cases[0], edit=Edit("Peru speaks", "Finnish", subject="Peru"), probes=())
    assert [*relations_of([nameless])] == ["it speaks"]
    assert UNTRAINED.with_relations(found.values()).gate.relations == tuple(found.values())
