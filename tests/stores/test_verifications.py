"""Laws of the verifications that a store keeps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.answers.statements import Stated
from drike.edits.record import StoreError
from drike.stores.edit_store import EditStore
from drike.stores.sqlite import SqliteStore
from drike.stores.verifications import (
    QuestionKind,
    Verification,
    Verifications,
    VerifiedQuestion,
    compare_runs,
    heeded_by_edit,
)
from drike.support.rates import Portion
from tests.fakes.stores import PERU, Opener


def answer(
    question: str = "The capital of Peru is", *, holds: bool = True, version: int = 1
) -> VerifiedQuestion:
    said = Stated.NEW if holds else Stated.OLD
    return VerifiedQuestion(1, version, QuestionKind.QUERY, question, said, True, holds)


def run_of(*questions: VerifiedQuestion, model: str = "m") -> Verification:
    return Verification(
        "2026-11-22T12:00:00Z", model, "Calibrated", 0.5, "AsBlock", "0.1.0", questions
    )


def test_runs_are_numbered_and_read_back(store: EditStore) -> None:
    store.put(PERU)
    assert Verifications(store.database).last_number() == 0
    first, second = run_of(answer()), run_of(answer(holds=False), model="Zürich 模型")
    assert [
        Verifications(store.database).save(first),
        Verifications(store.database).save(second),
    ] == [1, 2] and Verifications(store.database).last_number() == 2
    assert (
        Verifications(store.database).load(1) == first
        and Verifications(store.database).load(2) == second
    )
    assert len(store.changes()) == 1, "the log of edits is not concerned"


def test_runs_survive_another_opening_and_go_on(opener: Opener, tmp_path: Path) -> None:
    for number in (1, 2):
        with closing(opener(tmp_path / "edits.db")) as store:
            assert Verifications(store.database).save(run_of(answer())) == number
            assert Verifications(store.database).load(1) == run_of(answer())


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_run_that_is_not_kept_is_refused(store: EditStore, number: int) -> None:
    with pytest.raises(StoreError, match=f"keeps no verification {number}: run drike edits verify"):
        Verifications(store.database).load(number)


def test_only_the_last_runs_are_kept(store: EditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drike.stores.verifications._MOST_KEPT", 2)
    for _ in range(4):
        Verifications(store.database).save(run_of(answer()))
    assert Verifications(store.database).load(3) and Verifications(store.database).load(4)
    with pytest.raises(StoreError, match="keeps no verification 2"):
        Verifications(store.database).load(2)


def test_a_run_that_fails_to_be_kept_leaves_nothing(store: EditStore) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        Verifications(store.database).save(run_of(answer()))
        raise RuntimeError
    assert (
        Verifications(store.database).last_number() == 0
        and Verifications(store.database).save(run_of(answer())) == 1
    )


def test_a_store_of_an_earlier_version_gets_the_table_when_it_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(
            (Path(__file__).parents[1] / "golden/data/stores/version-1.sql").read_text("utf-8")
        )

    def tables() -> set[str]:
        with closing(sqlite3.connect(path)) as file:
            return {
                name
                for [name] in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }

    with closing(SqliteStore(path)) as store:
        assert Verifications(store.database).last_number() == 0 and "verifications" not in tables()
        Verifications(store.database).save(run_of(answer()))
        assert "verifications" in tables() and Verifications(store.database).load(1) == run_of(
            answer()
        )


def test_a_damaged_run_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(SqliteStore(path)) as store:
        Verifications(store.database).save(run_of(answer()))
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE verifications SET verification = '{}'")
        with pytest.raises(
            StoreError, match=r"is damaged or no store of edits \(verification 1: it lacks"
        ):
            Verifications(store.database).load(1)


def test_what_broke_and_what_was_mended_is_found_whatever_its_version() -> None:
    before = run_of(answer("a"), answer("b", holds=False), answer("c"), answer("gone", holds=False))
    after = run_of(
        answer("b"), answer("a", holds=False, version=2), answer("c"), answer("new", holds=False)
    )
    broken, mended = compare_runs(before, after)
    assert broken == [(answer("a"), answer("a", holds=False, version=2))]
    assert mended == [(answer("b", holds=False), answer("b"))]
    assert compare_runs(after, before) == ([(answer("b"), answer("b", holds=False))],
                                      [(answer("a", holds=False, version=2), answer("a"))])  # fmt: skip


def test_more_than_half_of_several_answers_must_hold() -> None:
    def votes(*held: bool) -> Verification:
        return run_of(*(answer(holds=holds) for holds in held))

    assert compare_runs(votes(True, True, True), votes(True, False, True)) == ([], [])
    [[was, now]], mended = compare_runs(votes(False, True, True), votes(True, False))
    assert was.holds and not now.holds and not mended


def test_heeded_counts_the_answers_that_an_edit_concerns() -> None:
    other = replace(answer("other"), kind=QuestionKind.NEAR)
    both = replace(answer("both"), stated=Stated.BOTH)
    run = run_of(answer("a"), answer("b", holds=False), both, other)
    assert heeded_by_edit(run) == {1: Portion(1, 3)}
