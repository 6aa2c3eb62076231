from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.edits.edit import Edit, EditCase
from drike.encoders import HashingEncoder
from drike.errors import PoolError
from drike.prompts import Role
from drike.research.editors.pool import Pool
from tests.fakes.capitals import CAPITALS as RECORDS
from tests.fakes.capitals import capital as case

ENCODER = HashingEncoder()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 62), st.integers(0, 5))
def test_demonstrations_have_ikes_roles_and_exclude_the_edited_fact(i: int, seed: int) -> None:
    pool = Pool(RECORDS, ENCODER, seed=seed)
    [candidates] = pool.candidates([RECORDS[i].edit])
    roles = [d.role for d in candidates.demonstrations]
    assert [roles.count(role) for role in Role] == [4, 12, 16]
    assert len({d.case_id for d in candidates.demonstrations}) == 32
    assert str(i) not in {d.case_id for d in candidates.demonstrations}
    assert candidates.excluded >= 1
    for d in candidates.demonstrations:
        assert RECORDS[i].edit.subject not in d.query.split()
    assert list(candidates.similarities) == sorted(candidates.similarities, reverse=True)


def test_demonstrations_depend_only_on_the_edit_and_the_seed() -> None:
    edits = [record.edit for record in RECORDS[:5]]
    pool = Pool(RECORDS, ENCODER)
    together = pool.candidates(edits)
    assert together == [pool.candidates([edit])[0] for edit in edits]
    assert together == Pool(RECORDS, ENCODER).candidates(edits)
    assert together != Pool(RECORDS, ENCODER, seed=1).candidates(edits)


@pytest.mark.parametrize("remembered", [0, 2])
def test_forgotten_demonstrations_are_found_again(remembered: int) -> None:
    edits = [record.edit for record in RECORDS[:5]]
    pool, whole = Pool(RECORDS, ENCODER, remembered=remembered), Pool(RECORDS, ENCODER)
    for asked in (edits, edits[:1], edits[3:], edits[::-1]):
        assert pool.candidates(asked) == whole.candidates(asked)
        assert len(pool._sets_by_edits) <= remembered


def test_records_sharing_subject_and_relation_with_the_edit_are_excluded() -> None:
    twin = case(7, subject="Land3")
    pool = Pool([*RECORDS, EditCase("twin", twin.edit, twin.probes)], ENCODER)
    [candidates] = pool.candidates([RECORDS[3].edit])
    assert {"3", "twin"}.isdisjoint({d.case_id for d in candidates.demonstrations})
    assert candidates.excluded == 2


def test_records_without_neighbours_can_be_copies_and_updates() -> None:
    records = [case(i, neighbours=0 if i < 20 else 3) for i in range(60)]
    [candidates] = Pool(records, ENCODER).candidates([case(60, subject="Elsewhere").edit])
    for d in candidates.retains:
        assert int(d.case_id) >= 20


def test_demonstrations_never_contradict_a_hand_written_fact() -> None:
    pool = Pool(RECORDS, ENCODER)
    for edit in (
        Edit("The sport of Land3 is", "chess"),
        Edit("The sport of it is", "chess", subject="Land3"),
    ):
        [candidates] = pool.candidates([edit])
        assert "3" not in {d.case_id for d in candidates.demonstrations}


def test_roles_are_filled_from_distant_records_if_near_ones_lack_probes() -> None:
    rare = [EditCase(r.case_id, r.edit, r.probes[:1]) for r in (case(i) for i in range(600, 1100))]
    [candidates] = Pool([*rare, *RECORDS[:40]], ENCODER).candidates([case(601).edit])
    assert len(candidates.demonstrations) == 32


def test_too_few_records_are_refused_with_a_remedy() -> None:
    with pytest.raises(PoolError, match="31 records cannot give 32"):
        Pool(RECORDS[:31], ENCODER)
    few = [case(i, neighbours=3 if i < 15 else 0) for i in range(60)]
    with pytest.raises(PoolError, match="no records are left to demonstrate retain"):
        Pool(few, ENCODER).candidates([RECORDS[0].edit])
    unknown = [
        replace(record, edit=replace(record.edit, target_true=None), probes=record.probes[:2])
        for record in RECORDS
    ]
    with pytest.raises(PoolError, match="no records are left to demonstrate retain"):
        Pool(unknown, ENCODER).candidates([RECORDS[0].edit])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 62), st.integers(0, 5))
def test_without_neighbours_old_facts_of_other_records_serve_as_retains(i: int, seed: int) -> None:
    """No such fact is about the edit or the borrower, rewritten by another demonstration, or has the new object."""
    many = [case(j) for j in range(300)]
    pool = Pool([replace(record, probes=record.probes[:2]) for record in many], ENCODER, seed=seed)
    edit = many[i].edit
    [candidates] = pool.candidates([edit])
    assert [sum(d.role is role for d in candidates.demonstrations) for role in Role] == [4, 12, 16]
    assert pool.fallbacks and not Pool(RECORDS, ENCODER).fallbacks
    old = {record.edit.query: record.edit.target_true for record in many}
    rewritten = {many[int(d.case_id)].edit.query for d in candidates.demonstrations}
    for d in candidates.retains:
        assert old[d.query] == d.answer
        assert d.query not in rewritten | {edit.query}
        assert not d.fact.startswith(d.query) and not d.fact.endswith(f" {d.answer}")


def test_without_paraphrases_copies_replace_updates() -> None:
    pool = Pool(
        [replace(record, probes=(record.probes[0], *record.probes[2:])) for record in RECORDS],
        ENCODER,
    )
    [candidates] = pool.candidates([RECORDS[3].edit])
    assert [sum(d.role is role for d in candidates.demonstrations) for role in Role] == [16, 0, 16]
    assert all(d.fact == f"{d.query} {d.answer}" for d in candidates.fixed)
    assert len(pool.fallbacks) == 1
