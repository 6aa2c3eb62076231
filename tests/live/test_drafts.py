"""Drafts of edits from reports: statements, subjects and objects by rule; groups."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drike.edits.record import EditRecord, Status
from drike.gates.index import EditIndex
from drike.live.drafts import (
    DraftError,
    draft,
    drafted,
    fields_by,
    grouped,
)
from drike.live.report_texts import Objects, objects_of, statement_of, subject_of
from drike.stores.inbox import Inbox, Report, ReportState
from drike.stores.moves import approve
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore
from tests.fakes.models import ScriptedModel
from tests.fakes.stores import PERU

ASKED = "What is the capital of Peru?"


@pytest.mark.parametrize(
    ("question", "statement", "subject"),
    [
        (ASKED, "The capital of Peru is", "Peru"),
        ("what's the capital of peru", "The capital of peru is", "peru"),
        ("Hi, please, who was the founder of Nordlicht GmbH?", "The founder of Nordlicht GmbH was", "Nordlicht GmbH"),
        ("Who is the CEO of Nordlicht GmbH?", "The CEO of Nordlicht GmbH is", "Nordlicht GmbH"),
        ("Where is Machu Picchu?", "Machu Picchu is in", "Machu Picchu"),
        ("Where was Ada Lovelace born?", "Ada Lovelace was born in", "Ada Lovelace"),
        ("When was the Bank of England founded?", "The Bank of England was founded in", "Bank of England"),
        ("Which city is the capital of Peru?", "The capital of Peru is", "Peru"),
        ("Who wrote Faust?", "Faust was written by", "Faust"),
        ("Who directed Alien?", "Alien was directed by", "Alien"),
        ('What is the price of "plan pro"?', 'The price of "plan pro" is', "plan pro"),
        ("How tall is Mont Blanc?", "How tall is Mont Blanc?", "Mont Blanc"),
        ("Was kostet Tarif Süd?", "Was kostet Tarif Süd?", "Tarif Süd"),
    ],
)  # fmt: skip
def test_questions_become_statements_about_a_subject(
    question: str, statement: str, subject: str
) -> None:
    assert (statement_of(question), subject_of(question)) == (statement, subject)


@pytest.mark.parametrize(
    ("correction", "answer", "new", "old"),
    [
        ("Oslo", "The capital of Peru is Lima.", "Oslo", "Lima"),
        ("it's Oslo, not Lima", "", "Oslo", "Lima"),
        ("No, it is Oslo.", "Lima", "Oslo", "Lima"),
        ("not Lima but Oslo", "", "Oslo", "Lima"),
        (
            "The capital of Peru is Oslo.",
            "Peru's capital is Lima. It lies on the coast.",
            "Oslo",
            "Lima",
        ),
        ("Should be Dr. Anna Berg (not Tom)", "", "Dr. Anna Berg", "Tom"),
        ("Correct answer: Oslo", "Oslo", "Oslo", None),
        ("9.50 EUR instead of 8 EUR", "", "9.50 EUR", "8 EUR"),
        ("", "Lima", "", "Lima"),
        (
            "Oslo",
            "I do not know a lot about this country, but it has a capital on its coast",
            "Oslo",
            None,
        ),
    ],
)
def test_objects_come_from_the_correction_and_the_wrong_answer(
    correction: str, answer: str, new: str, old: str | None
) -> None:
    assert objects_of(correction, answer, "The capital of Peru is") == Objects(new, old)


def test_a_sentence_about_the_subject_is_no_old_object() -> None:
    told = Report("Who is the founder of Nordlicht?", "Rolf Stein founded Nordlicht.", "Lea Brandt")
    assert (drafted(told, None, {}).target_new, drafted(told, None, {}).target_true) == (
        "Lea Brandt",
        None,
    )


def test_a_draft_takes_names_from_the_edit_that_the_question_names(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        [known] = store.put(
            EditRecord("Peru", "The population of Peru is", "3", aliases=("Republic of Peru",))
        )
        draft = drafted(
            Report("What is the capital of the Republic of Peru?", "Lima", "Oslo", number=4),
            known,
            {},
        )
    assert (draft.subject, draft.aliases, draft.status, draft.source) == (
        "Peru", ("Republic of Peru",), Status.DRAFT, "report 4",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (Report(ASKED, "Lima"), "does not say what is right"),
        (Report("why?", "x", "y"), "names no subject"),
        (Report(ASKED, "Lima", "Oslo", state=ReportState.CLOSED), "is closed"),
    ],
)
def test_what_gives_no_edit_is_said(report: Report, problem: str) -> None:
    with pytest.raises(DraftError, match=problem):
        drafted(report, None, {})


def test_reports_are_grouped_by_the_nearest_edit_and_by_each_other(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(PERU)
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        about = [
            Report(q, "x")
            for q in (
                ASKED,
                "Who leads Chad?",
                "what is the capital of Peru",
                "Who leads Chad now?",
            )
        ]
        groups = grouped(about, index)
        assert [(group.edit and group.edit.id, len(group.reports)) for group in groups] == [
            (1, 2),
            (None, 2),
        ]


def test_reports_of_the_same_make_one_draft_with_their_questions_as_wordings(
    tmp_path: Path,
) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        other = "Tell me the capital city of Peru"
        Inbox(store.database).add(
            [Report(other, "Lima"), Report(ASKED, "Lima", "it's Oslo, not Lima")], None
        )
        [change] = draft(store, [1, 2], EditIndex(), author="Anna")
        record = change.record
        assert (record.query, record.target_new, record.target_true) == (
            "The capital of Peru is",
            "Oslo",
            "Lima",
        )
        assert (
            record.paraphrases == (ASKED, other)
            and record.author == "Anna"
            and record.status is Status.DRAFT
        )
        assert [report.edit for report in Inbox(store.database).reports(ReportState.CLOSED)] == [
            change.id
        ] * 2
        assert Inbox(store.database).reports() == []
        with pytest.raises(DraftError, match="is closed"):
            draft(store, [2], EditIndex())


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('<think>{"new": "?"}</think>```json\n{"subject": "Peru", "query": "Peru lies in", "new": "Oslo"}\n```',
         {"subject": "Peru", "query": "Peru lies in", "new": "Oslo"}),
        ('{"subject": "Chile", "query": "Chile is governed from", "new": "Rome", "old": "Lima"}', {"old": "Lima"}),
        ('{"subject": "Peru", "query": "Peru lies in Oslo", "new": "Oslo"}', {"subject": "Peru", "new": "Oslo"}),
        ("I cannot help with that. {", {}),
        ('{"subject": ["Peru"], "new": 4}', {}),
    ],
)  # fmt: skip
def test_a_model_fills_in_what_the_report_says_and_nothing_else(
    written: str, found: dict[str, str]
) -> None:
    report = Report(
        "Say, from where do they govern Peru", "Lima, I think.", "it was moved to Oslo last year"
    )
    model = ScriptedModel(lambda prompt: written)
    assert fields_by(model, report) == found
    assert "Correction: it was moved to Oslo last year" in model.prompts[0]


def test_a_draft_by_a_model_has_what_rules_do_not_find(tmp_path: Path) -> None:
    written = '{"subject": "Peru", "query": "Peru is governed from", "new": "Oslo", "old": "Lima"}'
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        report = Report(
            "Say, from where do they govern Peru",
            "Lima, I think.",
            "it was moved to Oslo last year",
        )
        [added] = Inbox(store.database).add([report], "ann")
        [edit] = draft(
            store, [added.number], EditIndex.of(()), model=ScriptedModel(lambda prompt: written)
        )
        record = edit.record
        assert (record.subject, record.query, record.target_new) == (
            "Peru",
            "Peru is governed from",
            "Oslo",
        )
        assert record.target_true == "Lima" and record.paraphrases == (report.question,)
        assert (
            record.status is Status.DRAFT
            and Inbox(store.database).report(1).state is ReportState.CLOSED
        )


MISSED = "Say, from which town do they run Peru nowadays?"


@pytest.mark.parametrize(
    ("answer", "correction"),
    [("Lima", "it's Oslo, not Lima"), ("Lima.", "OSLO"), ("The capital of Peru is Lima.", None)],
)
def test_a_question_that_missed_its_edit_becomes_a_wording_of_it(
    answer: str, correction: str | None, tmp_path: Path
) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        [edit] = store.put(replace(PERU, target_true="Lima"))
        Inbox(store.database).add([Report(MISSED, answer, correction)], None)
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        [change] = draft(store, [1], index, author="Ann")
        assert (change.id, change.record.status) == (edit.id, Status.PROPOSED)
        assert change.record.paraphrases == (*PERU.paraphrases, MISSED)
        assert change.record.reason == "missed the question of report 1"
        assert Inbox(store.database).report(1).edit == edit.id
        assert len(snapshot(store).edits) == 1

        approve(store, edit.id, author="Bob")
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        Inbox(store.database).add([Report(MISSED.upper(), answer, correction)], None)
        with pytest.raises(DraftError, match="says this already, in the words of the report"):
            draft(store, [2], index)
        with pytest.raises(DraftError, match="report 1 is closed"):
            draft(store, [1], index)


def test_another_answer_about_the_subject_is_another_edit(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(PERU)
        Inbox(store.database).add([Report(MISSED, "Lima", "Cusco")], None)
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        [change] = draft(store, [1], index)
        assert (change.id, change.record.status) == (2, Status.DRAFT)


def test_a_report_whose_edit_is_there_adds_a_wording_to_it_though_another_edit_is_nearer_in_words(
    tmp_path: Path,
) -> None:
    fee = EditRecord("Tarn Bank", "The monthly fee for an account at Tarn Bank is", "9 euros")
    atm = EditRecord(
        "Tarn Bank", "Using a machine of Tarn Bank from abroad costs", "4 euros", "2 euros"
    )
    asked = "What is the fee for taking out money with an account at Tarn Bank?"
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(fee)
        store.put(atm)
        [report] = Inbox(store.database).add([Report(asked, "9 euros", "4 euros")], None)
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        [change] = draft(store, [report.number], index, author="Ann")
        assert change.id == 2 and change.record.status is Status.PROPOSED
        assert change.record.paraphrases == (asked,)
        assert len(snapshot(store).edits) == 2


def test_an_edit_with_the_right_object_by_chance_is_left_alone(tmp_path: Path) -> None:
    mother = EditRecord("Ann Lee", "The mother of Ann Lee is", "Bea Kay")
    boss = EditRecord("Ann Lee", "The boss of Ann Lee's father at work is", "Tom Ray")
    asked = "Who is the father of Ann Lee?"
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(mother)
        store.put(boss)
        [report] = Inbox(store.database).add([Report(asked, "Tom", "Bea Kay")], None)
        index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
        assert len(draft(store, [report.number], index)) == 1 and len(snapshot(store).edits) == 3
