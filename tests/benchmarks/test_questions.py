"""Our own questions are as their benchmark says, and its figures count what they name."""

from __future__ import annotations

import csv
import hashlib
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.questions import (
    AT,
    DEVELOPMENT,
    FILES,
    FOLDER,
    KINDS,
    TEST,
    TUNE,
    by_kind,
    counted,
    main,
    measure,
    rates,
    read_questions,
)
from benchmarks.questions import Asked as Question
from benchmarks.questions import stored_index as index_of
from drike.edits.record import EditRecord
from drike.edits.times import holds_at, stamp
from drike.encoders import HashingEncoder
from drike.gates.decision import MOST_MATCHED, Decision
from drike.gates.edit_names import common_questions
from drike.gates.index import EditIndex
from drike.stores.tables import edits_of, scan
from drike.support.table import Number
from drike.text.words import Words

EDITS, QUESTIONS = FOLDER / "edits.csv", FOLDER / "questions.csv"
HEADER = "case_id,subject,query,target_new,target_true"


def cells(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, strict=True))


def records() -> list[EditRecord]:
    return [row[1] for row in edits_of(scan(EDITS)[0]) if not isinstance(row, str)]


def fingerprint(text: str) -> object:
    return Words.of(text).fingerprint


def test_all_forty_edits_are_in_force_under_the_ids_of_their_rows() -> None:
    edits = index_of(EDITS, HashingEncoder(16)).edits
    assert {id: edit.record.subject for id, edit in edits.items()} == {
        int(row["case_id"]): row["subject"] for row in cells(EDITS)
    }
    assert sorted(edits) == list(range(1, 41)) and all(
        holds_at(record, stamp(AT)) for record in records()
    )
    of_subject = Counter(record.subject for record in records())
    assert {2, 3} <= set(of_subject.values()), "some subjects have several edits"


def test_the_questions_are_400_in_14_kinds_and_want_edits_that_exist() -> None:
    rows, questions = cells(QUESTIONS), read_questions(QUESTIONS)
    assert [int(row["id"]) for row in rows] == list(range(1, 401))
    assert all(set(row) == {"id", "kind", "half", "query", "wanted", "note"} for row in rows)
    assert (
        list(dict.fromkeys(asked.kind for asked in questions)) == list(KINDS) and len(KINDS) == 14
    )
    assert set(Counter(asked.kind for asked in questions).values()) == {28, 29}
    wanted = Counter(id for asked in questions for id in asked.wanted)
    assert set(wanted) == set(range(1, 41)), "each edit is asked for, and no other"
    assert max(len(asked.wanted) for asked in questions) <= MOST_MATCHED
    assert 180 <= sum(bool(asked.wanted) for asked in questions) <= 220


def test_no_question_is_asked_twice_or_known_to_the_gate() -> None:
    questions = read_questions(QUESTIONS)
    asked = Counter(fingerprint(question.query) for question in questions)
    assert max(asked.values()) == 1
    known = [text for record in records() for text in (record.query, *record.paraphrases)] + [
        *common_questions()
    ]
    assert not {question.query for question in questions} & set(known)
    assert not asked.keys() & {fingerprint(text) for text in known}
    assert all(question.query == question.query.strip() for question in questions)


def test_the_development_set_is_of_the_same_kinds_about_other_edits() -> None:
    edits, file = (FOLDER / name for name in FILES[DEVELOPMENT])
    questions, known = read_questions(file), index_of(edits, HashingEncoder(16)).edits
    assert (
        list(dict.fromkeys(asked.kind for asked in questions)) == list(KINDS)
        and len(questions) == 240
    )
    assert {asked.half for asked in questions} == {DEVELOPMENT}
    assert {id for asked in questions for id in asked.wanted} == set(known) == set(range(1, 31))
    others = {fingerprint(question.query) for question in read_questions(QUESTIONS)}
    assert not others & {fingerprint(asked.query) for asked in questions}
    assert not {edit.record.subject for edit in known.values()} & {
        record.subject for record in records()
    }


def test_a_hash_of_each_question_decides_its_half() -> None:
    questions = read_questions(QUESTIONS)
    assert Counter(question.half for question in questions) == {TUNE: 200, TEST: 200}
    for kind in KINDS:
        own = [question for question in questions if question.kind == kind]
        own.sort(
            key=lambda asked: (not asked.wanted, hashlib.sha256(asked.query.encode()).hexdigest())
        )
        assert {question.half for question in own[::2]} | {
            question.half for question in own[1::2]
        } == {TUNE, TEST}
        assert (
            len({question.half for question in own[::2]})
            == len({question.half for question in own[1::2]})
            == 1
        )


@pytest.mark.parametrize(
    ("wanted", "applied", "hits"),
    [
        ({1}, {1}, "present"),
        ({1, 2}, {1}, ""),
        ({1, 2}, {2, 1}, "present"),
        ({1}, {1, 3}, "present extra"),
        ({1, 2}, {1, 3}, "extra"),
        ({1}, {3}, "wrong"),
        ({1}, set(), ""),
        (set(), {3}, "needless"),
        (set(), set(), ""),
    ],
)
def test_what_counts_as_what(wanted: set[int], applied: set[int], hits: str) -> None:
    counts = dict(
        zip(
            ("present", "wrong", "extra", "needless"),
            counted(wanted, applied).tolist(),
            strict=True,
        )
    )
    assert {name for name, (hit, _) in counts.items() if hit} == set(hits.split())
    assert {name for name, (_, case) in counts.items() if case} == (
        {"present", "wrong", "extra"} if wanted else {"needless"}
    )


def test_rates_are_shares_of_the_questions_that_want_edits_and_of_those_that_want_none() -> None:
    questions = [
        Question("typo", TUNE, str(i), frozenset(ids))
        for i, ids in enumerate([{1}, {1}, {2}, (), ()])
    ]
    applied = [{1}, {2}, {2, 3}, {1}, set[int]()]
    assert [rate.value for rate in rates(questions, applied)] == pytest.approx(
        [2 / 3, 1 / 3, 1 / 3, 1 / 2]
    )
    present = rates(questions, applied)[0]
    assert present.low == 0.5 and present.high == 1, "questions about one edit are drawn together"
    [row] = by_kind(questions, applied)
    assert row == [KINDS["typo"], Number(3), Number(2), *rates(questions, applied)]


@dataclass(frozen=True)
class Scripted:
    """Matches the edits it is told to, by question."""

    ids: dict[str, tuple[int, ...]]

    def decide(self, query: str, index: EditIndex) -> Decision:
        return Decision(query, tuple(index.edits[id] for id in self.ids.get(query, ())))


def test_the_benchmark_reads_a_folder_and_lists_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edits.csv").write_text(
        f"{HEADER}\n1,Peru,What is the capital of Peru?,Oslo,Lima\n2,Chile,What is the capital of Chile?,Bonn,\n"
    )
    rows = [
        "1,paraphrase,tune,Name the capital of Peru.,1,",
        "2,several,tune,Capitals of Peru and Chile?,1 2,",
        "3,short_name,tune,The Peruvian capital?,1,",
        "4,other_attribute,tune,How large is Chile?,,",
        "5,unrelated,tune,Hello!,,",
        "6,homonym,test,Where is the University of Chile?,,",
    ]
    (tmp_path / "questions.csv").write_text("\n".join(["id,kind,half,query,wanted,note", *rows]))
    gate = Scripted(
        {
            "Name the capital of Peru.": (1,),
            "Capitals of Peru and Chile?": (2, 1),
            "How large is Chile?": (2,),
        }
    )
    measure(tmp_path, HashingEncoder(16), {"scripted": gate}, TUNE, failing=True)
    printed = capsys.readouterr().out
    assert "2 edits, half to tune: 3 questions want edits, 2 none" in printed
    [row] = [line for line in printed.splitlines() if line.startswith("| scripted |")]
    assert [cell.split()[0] for cell in row.split("|")[2:-1]] == [
        "0.667",
        "0.000",
        "0.000",
        "0.500",
    ]
    assert "| short\\_name | The Peruvian capital? | 1 | none |" in printed
    assert "| other\\_attribute | How large is Chile? | none | 2 |" in printed
    assert "Name the capital" not in printed and "University" not in printed


def test_an_edit_that_a_store_refuses_is_named(tmp_path: Path) -> None:
    shutil.copy(EDITS, tmp_path)
    with (tmp_path / "edits.csv").open("a") as file:
        file.write("41,Peru,What is the capital of Peru?,Rome,Lima,,,\n")
    with pytest.raises(ValueError, match=r"case_id 41.*contradicts"):
        index_of(tmp_path / "edits.csv", HashingEncoder(16))


def test_failures_of_the_half_to_be_looked_at_once_are_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks/questions.py", "--half", TEST, "--failures"])
    with pytest.raises(SystemExit):
        main()
    assert "not to be tuned on" in capsys.readouterr().err
