"""Edits that contradict one another in different words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, Status
from drike.gates.calibration import default_gate
from drike.live.alike import AlikeEdits
from drike.live.contradictions import features, same_relation
from drike.live.store_gate import encoder_of
from drike.stores import moves
from drike.stores.edit_store import EditStore
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))
ASKED = EditRecord("Republic of Peru", "Which city is the capital of the Republic of Peru?", "Rome")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EditStore]:
    opened = SqliteStore(tmp_path / "edits.db")
    opened.alike = AlikeEdits(lambda: encoder_of(default_gate()))
    yield opened
    opened.close()


def test_an_edit_that_contradicts_another_in_other_words_is_refused(store: EditStore) -> None:
    store.put(PERU)
    with pytest.raises(ConflictError, match=r"contradicts edit 1 .* in other words"):
        store.put(ASKED)
    with pytest.raises(ConflictError, match=r"drike edits change 1 --paraphrase") as refused:
        store.put(replace(ASKED, target_new="oslo"))
    assert refused.value.repeated
    for other in ("Chile", "Peru"):
        store.put(EditRecord(other, f"The population of {other} is", "5"))
    retired, added = store.put(ASKED, supersede=True)
    assert (retired.id, retired.record.status, added.id) == (1, Status.RETIRED, 4)
    moves.retire(store, 4)
    moves.rollback(store, 1)


def test_a_negative_exemplar_tells_edits_apart(store: EditStore) -> None:
    store.put(PERU)
    store.put(replace(ASKED, negatives=(PERU.query,)))
    moves.change(store, 2, {"owner": "ann"})


def test_an_edit_is_compared_under_the_names_that_it_has_now(store: EditStore) -> None:
    store.put(EditRecord("Acme", "The chief executive of Acme is", "Ann Lee"))
    moves.change(
        store,
        1,
        {"subject": "Bolt", "query": "The chief executive of Bolt is", "target_new": "Bo Ray"},
    )
    [added] = store.put(EditRecord("Acme", "The CEO of Acme is", "Cy Day"))
    assert added.id == 2 and snapshot(store).edits[1].record.status is Status.ACTIVE


def test_what_was_rolled_back_is_no_conflict(store: EditStore) -> None:
    store.put(EditRecord("Oz", "The capital of Oz is", "Graz"))
    with pytest.raises(RuntimeError), store.transaction():
        store.put(PERU)
        with pytest.raises(ConflictError):
            store.put(ASKED)
        raise RuntimeError
    store.put(ASKED)


def test_words_alone_decide_without_an_encoder(store: EditStore) -> None:
    store.alike = AlikeEdits(lambda: None)
    store.put(PERU)
    store.put(ASKED)


def test_the_model_knows_contrary_relations() -> None:
    encoder = encoder_of(default_gate())
    assert encoder is not None
    rule = same_relation(encoder)
    assert rule is not None
    mother, father = (
        EditRecord("Ada", f"The {parent} of Ada is", "Eve") for parent in ("mother", "father")
    )
    asked = EditRecord("Ada", "Who is Ada's mother?", "Ida")
    assert rule.alike(mother, {7: father, 8: asked}) == [8]
    assert set(features(mother, [father, asked], encoder)) == {0, 1}
    opens, closes = (
        EditRecord("Ada", f"The {time} time of Ada is", "9") for time in ("opening", "closing")
    )
    shop = EditRecord("Ada", "When does Ada open?", "8")
    assert rule.alike(opens, {7: closes, 8: shop}) == [8]
    assert features(opens, [closes], encoder)[0]["opposite"] == 1


def test_attributes_of_one_thing_are_no_contradictions() -> None:
    encoder = encoder_of(default_gate())
    assert encoder is not None
    rule = same_relation(encoder)
    assert rule is not None
    costs = EditRecord("Ada", "What is the price of the Basic licence of Ada?", "9 euros")
    free = EditRecord("Ada", "How much does the Free plan of Ada cost?", "nothing")
    others = {
        1: EditRecord("Ada", "How many seats does the Basic licence of Ada include?", "5"),
        2: EditRecord("Ada", "How long is the trial of the Basic licence of Ada?", "14 days"),
        3: EditRecord("Ada", "What is the daily limit of the Basic licence of Ada?", "40 calls"),
        4: EditRecord("Ada", "How many projects does the Free plan of Ada include?", "3"),
        5: EditRecord("Ada", "How much does the Basic licence of Ada cost?", "12 euros"),
    }
    assert rule.alike(costs, others) == [5]
    assert rule.alike(free, {4: others[4]}) == []


MANAGER = EditRecord("Halcyon", "The manager of Halcyon is", "Ann Lee")


def managed(name: str, query: str = "The manager of {} is") -> EditRecord:
    return EditRecord(name, query.format(name), "Bo Ray")


ONE_SUBJECT = (
    ("Halcyon Ltd", "Halcyon"), ("Halcyon Ltd.", "Halcyon Limited"), ("Halcyon, Inc.", "Halcyon"),
    ("Halcyon GmbH", "Halcyon"), ("Halcyon AG", "HALCYON"), ("Halcyon S.A.", "Halcyon SA"),
    ("Halcyon Co.", "Halcyon Company"), ("Halcyon LLC", "halcyon"), ("Halcyon B.V.", "Halcyon"),
    ("Halcyon Pty Ltd", "Halcyon"), ("Halcyon S.p.A.", "Halcyon"), ("Halcyon GmbH & Co. KG", "Halcyon"),
    ("The Halcyon", "Halcyon"), ("Der Halcyon", "Halcyon"), ("La Halcyon", "Halcyon"),
    ("Hálcyön", "Halcyon"), ("Marks & Spencer plc", "Marks and Spencer"), ("株式会社日立", "日立"),
    ("ООО Ромашка", "Ромашка"),
)  # fmt: skip
TWO_SUBJECTS = (
    ("Halcyon AG", "Halcyon GmbH"), ("Halcyon Inc", "Halcyon Ltd"), ("Halcyon Group", "Halcyon"),
    ("Halcyon North", "Halcyon South"), ("Halcyons", "Halcyon"), ("I, Robot", "Robot"),
)  # fmt: skip


@pytest.mark.parametrize("has_encoder", [True, False])
@pytest.mark.parametrize(("first", "second"), ONE_SUBJECT)
def test_one_subject_under_two_names_has_one_manager(
    store: EditStore, first: str, second: str, *, has_encoder: bool
) -> None:
    if not has_encoder:
        store.alike = AlikeEdits(lambda: None)
    for stored, new in ((first, second), (second, first)):
        [kept] = store.put(replace(managed(stored), target_new="Ann Lee"))
        with pytest.raises(ConflictError, match=f"contradicts edit {kept.id} "):
            store.put(managed(new))
        with pytest.raises(ConflictError, match=f"edit {kept.id} ") as refused:
            store.put(replace(managed(new), target_new="Ann Lee"))
        assert refused.value.repeated
        moves.retire(store, kept.id)


@pytest.mark.parametrize(("first", "second"), TWO_SUBJECTS)
def test_two_subjects_have_a_manager_each(store: EditStore, first: str, second: str) -> None:
    store.put(managed(first))
    store.put(replace(managed(second), target_new="Ann Lee"))


def test_other_words_under_another_name_contradict_too(store: EditStore) -> None:
    store.put(MANAGER)
    with pytest.raises(ConflictError, match="in other words"):
        store.put(managed("Halcyon Ltd", "Who manages {}?"))
    with pytest.raises(ConflictError, match='change 1 --alias "Halcyon Ltd"'):
        store.put(replace(managed("Halcyon Ltd"), target_new=MANAGER.target_new))
    store.put(managed("Halcyon Ltd", "The founder of {} is"))
