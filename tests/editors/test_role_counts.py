"""Mixes and the policies that choose them without learning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.lib.ceilings import mixes_of
from drike.encoders import HashingEncoder
from drike.prompts import Role
from drike.research.editors.budgets import Fraction
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import IKE_ROLES, Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import (
    RankAndCut,
    RoleCounts,
    SameSize,
    SubjectSwitch,
    copies_and_updates,
    first_mixes,
    merge,
    policy_mixes,
)
from drike.text.words import mentions
from tests.fakes.capitals import CAPITALS

POOL = Pool(CAPITALS[30:], HashingEncoder())
TEST = CAPITALS[20:30]
MIXES = mixes_of(POOL.roles)


def test_mixes_cover_nothing_everything_and_each_role() -> None:
    assert len(MIXES) == 18
    assert (MIXES[0], MIXES[-1]) == (RoleCounts(0, 0, 0), RoleCounts(4, 12, 16))
    assert [mix.size for mix in MIXES] == sorted(mix.size for mix in MIXES)
    assert {RoleCounts(4, 12, 0), RoleCounts(0, 0, 16), RoleCounts(4, 0, 8)} <= {*MIXES}
    few = mixes_of([Role.COPY, Role.RETAIN, Role.RETAIN, Role.RETAIN])
    assert {(mix.copies, mix.retains) for mix in few} == {
        (c, r) for c in (0, 1) for r in (0, 1, 2, 3)
    }
    with pytest.raises(ValueError, match="whole numbers"):
        RoleCounts(-1, 0, 0)


def test_a_policy_chooses_from_few_mixes_from_the_fact_alone_to_all() -> None:
    first = first_mixes(POOL.roles)
    assert first == tuple(
        RoleCounts(*c) for c in [(0, 0, 0), (4, 0, 0), (4, 12, 0), (4, 12, 4), (4, 12, 16)]
    )
    assert {*first} <= {*MIXES}
    few = policy_mixes(POOL.roles)
    assert few[:3] == tuple(RoleCounts(0, 0, 0, form) for form in ("styled", "line", "imagined"))
    assert {*few} == {*first, *few[:3], RoleCounts(0, 0, 4), RoleCounts(0, 0, 16)}
    assert [mix.size for mix in few] == sorted(mix.size for mix in few)
    fact_alone = few[:3]
    assert policy_mixes([Role.RETAIN]) == (*fact_alone, RoleCounts(0, 0, 1))
    assert policy_mixes([Role.COPY, Role.COPY]) == (*fact_alone, RoleCounts(2, 0, 0))


def test_the_fact_is_stated_in_the_form_of_the_mix() -> None:
    edit = TEST[0].edit
    query = "Where to?"
    prompts = {
        mix.fact: InContextEditor("", POOL, mix).prompts([edit], [query])[0].text
        for mix in policy_mixes(POOL.roles)[:3]
    }
    new_fact = f"New Fact: {edit.fact}\n"
    assert prompts == {
        "styled": f"{new_fact}Prompt: {edit.fact}\n\n{new_fact}Prompt: {query}",
        "line": f"{new_fact}Prompt: {query}",
        "imagined": FactPrompt().prompts([edit], [query])[0].text,
    }
    with pytest.raises(ValueError, match="no demonstrations before it"):
        RoleCounts(1, 0, 0, "imagined")
    with pytest.raises(ValueError, match="fact must be one of"):
        RoleCounts(1, 0, 0, "sung")  # type: ignore[arg-type]


def test_two_edits_are_stated_in_the_form_that_both_policies_choose() -> None:
    first, second, *_ = POOL.candidates([case.edit for case in TEST])
    imagined = RoleCounts(0, 0, 0, "imagined")
    assert merge([imagined.selection(first), imagined.selection(second)]).fact == "imagined"
    both = [imagined.selection(first), RoleCounts(0, 0, 0).selection(second)]
    assert merge(both).fact == "styled"


def test_a_mix_shows_the_nearest_of_each_role_and_all_of_them_is_what_ike_shows() -> None:
    [candidates] = POOL.candidates([TEST[0].edit])
    for mix in MIXES:
        [selection] = mix.select(candidates, [candidates.edit.query])
        shown = selection.shown
        assert len(shown) == mix.size
        assert list(shown) == sorted(
            shown, key=lambda d: [Role.COPY, Role.UPDATE, Role.RETAIN].index(d.role)
        )
        for role, _ in IKE_ROLES:
            of_role = [d for d in shown if d.role is role]
            assert (
                of_role == [d for d in candidates.demonstrations if d.role is role][: len(of_role)]
            )
    everything = InContextEditor("all", POOL, MIXES[-1])
    queries = [probe.query for probe in TEST[0].probes]
    nearest = InContextEditor("nearest", POOL, RankAndCut(Similarity(), Fraction(1.0)))
    assert everything.prompts([TEST[0].edit], queries) == nearest.prompts([TEST[0].edit], queries)


@pytest.mark.parametrize(
    ("most", "counts"),
    [
        (None, (4, 12, 0)),
        (0, (0, 0, 0)),
        (3, (3, 0, 0)),
        (4, (4, 0, 0)),
        (9, (4, 5, 0)),
        (16, (4, 12, 0)),
        (99, (4, 12, 0)),
    ],
)
def test_copies_and_updates_are_cut_after_the_first_ones(
    most: int | None, counts: tuple[int, int, int]
) -> None:
    mix = copies_and_updates(POOL.roles, most)
    assert mix == RoleCounts(*counts)
    [candidates] = POOL.candidates([TEST[0].edit])
    assert mix.nearest(candidates) == candidates.fixed[:most]


@pytest.mark.parametrize("most", [0, 1, 3, 4, 5, 11, 16, None])
def test_for_several_edits_they_are_the_first_of_what_all_share(most: int | None) -> None:
    edits = [case.edit for case in TEST[:3]]
    whole, cut = (
        InContextEditor("", POOL, copies_and_updates(POOL.roles, n)) for n in (None, most)
    )
    [everything], [first] = whole.prompts(edits, ["Who?"]), cut.prompts(edits, ["Who?"])
    assert first.demonstrations == everything.demonstrations[:most]


def test_by_name_switches_where_a_query_names_the_subject() -> None:
    case = TEST[0]
    [candidates] = POOL.candidates([case.edit])
    queries = [probe.query for probe in case.probes]
    named = [mentions(query, case.edit.subject or "") for query in queries]
    own, other = RoleCounts(4, 12, 0), RoleCounts(0, 0, 16)
    chosen = SubjectSwitch(own, other).select(candidates, queries)
    assert [selection.k == 0 for selection in chosen] == named
    left = [selection.alone for selection in SubjectSwitch(own).select(candidates, queries)]
    assert left == [not about for about in named]
    unnamed = replace(candidates, edit=replace(case.edit, subject=None))
    assert [s.k for s in SubjectSwitch(own, other).select(unnamed, [case.edit.query, "Who?"])] == [
        0,
        16,
    ]


def test_a_control_shows_as_many_demonstrations_whatever_their_role() -> None:
    few, many = RoleCounts(4, 0, 0), RoleCounts(4, 12, 4)
    case = TEST[0]
    [candidates] = POOL.candidates([case.edit])
    queries = [case.edit.query, "Who?"]
    for selection, size in zip(
        SameSize(SubjectSwitch(few, many)).select(candidates, queries), (4, 20), strict=True
    ):
        assert {*selection.shown} == {*candidates.demonstrations[:size]}
    assert [s.alone for s in SameSize(SubjectSwitch(few)).select(candidates, queries)] == [
        False,
        True,
    ]
