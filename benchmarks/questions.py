"""Gates on questions written as people type them: 1,694 of ours in 14 kinds, about 152 edits. No model is asked.

The edits (`questions/edits.csv`) are imported into a store as `drike edits import` does, and all are in force. Each
question (`questions/questions.csv`) names the edits that have to be in front of a model for a right answer, as its
author judged alone; what seemed debatable was left out. *Present*: of the questions that want edits, the share where
all of these apply. *Wrong*: the share where some apply, none of them wanted. *Extra*: where an unwanted one applies
beside a wanted one. *Needless*: of the questions that want none, the share where any applies.

Half of the questions about the first 40 edits, of each kind by a hash of the question, is to tune on; the other half is
to be looked at seldom ([looks](looks.md) counts how often). Both are about the same edits: the second half is
unseen questions, not unseen subjects or users. The *development set* (`questions/more_edits.csv`,
`more_questions.csv`) are 240 questions about 30 other edits, written before its author had seen any of the 400, and
tuned on since. The *further set* (`questions/further_edits.csv`, `further_questions.csv`), 234 questions about 22 other
edits, was written after that by an author who knew the gate's rules and wanted near misses above all (the singer where
an edit is about the drummer). The *blind set* (`questions/blind_questions.csv`), 260 questions about the first 40
edits, was written by an author who knew neither rules nor other questions. Both were measured before anything was tuned
on them ([log](log.md)), and have been tuned on since. The *unseen set* (`questions/unseen_edits.csv`,
`unseen_questions.csv`), 260 questions about 30 edits of their own, was written as blindly after that; nothing is tuned
on it. The *second set* (`questions/second_edits.csv`, `second_questions.csv`), 300 questions about 30 other edits of
kinds that were hard, as blind and after that, has been tuned on since it was measured ([log](log.md)). All were made
up, not collected. Intervals are over edits (questions that want the same first edit are drawn together), and over
questions where none is wanted.

    python benchmarks/questions.py [--half tune|development|further|blind|second|unseen|test] [--thresholds .1 .3]

`--failures` also lists the questions that the default gate fails, but for those of the half to test and unseen ones.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.stores.imports import import_edits
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.tables import edits_of, scan
from drike.support.table import Cell, Estimate, Number
from lib import pages

TITLE = "The gate on questions of our own"

FOLDER = Path(__file__).parent / "questions"
AT = datetime(2026, 12, 1, tzinfo=UTC)  # when the questions are asked: all dated edits hold
TUNE, TEST, DEVELOPMENT, FURTHER = "tune", "test", "development", "further"
BLIND, UNSEEN, SECOND = "blind", "unseen", "second"
FILES = dict.fromkeys((TUNE, TEST), ("edits.csv", "questions.csv")) | {
    BLIND: ("edits.csv", "blind_questions.csv"),
    UNSEEN: ("unseen_edits.csv", "unseen_questions.csv"),
    SECOND: ("second_edits.csv", "second_questions.csv"),
    DEVELOPMENT: ("more_edits.csv", "more_questions.csv"),
    FURTHER: ("further_edits.csv", "further_questions.csv"),
}
METRICS = ("present", "wrong", "extra", "needless")
NOTE = "Brackets: 95 % interval by bootstrap; by Clopper and Pearson's where all agree."
KINDS = {
    "paraphrase": "the stored question in other words",
    "short_name": "last names, demonyms, no legal form",
    "typo": "typing errors, lower case",
    "language": "German, Spanish, French, Italian, Japanese, Russian",
    "several": "two or three facts at once",
    "other_attribute": "another attribute of the subject",
    "homonym": "a namesake, or a part of a longer name",
    "common_word": "us, it, return, window",
    "follow_up": "a statement, then a question",
    "document": "a document, then a question",
    "quoted": "a text to translate, rewrite or judge",
    "code": "code, logs and output of tools",
    "indirect": "yes or no, choices, reminders, claims",
    "unrelated": "small talk, sums, role play, other subjects",
}


@dataclass(frozen=True)
class Asked:
    """A question. wanted: the ids of the edits without which a model cannot answer it right."""

    kind: str
    half: str
    query: str
    wanted: frozenset[int]


def read_questions(file: Path) -> list[Asked]:
    """The questions of a file."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Asked(
                row["kind"], row["half"], row["query"], frozenset(map(int, row["wanted"].split()))
            )
            for row in csv.DictReader(lines)
        ]


def stored_index(file: Path, encoder: TextEncoder) -> EditIndex:
    """The edits of a file as a gateway sees them. Raises ValueError where a store refuses one."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/edits.db")
        imported = import_edits(store, edits_of(scan(file)[0]))
        if imported.refused or imported.repeated:
            raise ValueError(
                f"{imported.repeated} rows repeat others, refused: {'; '.join(imported.refused)}"
            )
        return EditIndex.of(snapshot(store).in_force(AT), encoder)


def applied_ids(gate: Gate, index: EditIndex, questions: Sequence[Asked]) -> list[frozenset[int]]:
    """The ids of the edits that a gate applies to each question."""
    return [
        frozenset(edit.id for edit in gate.decide(asked.query, index).applied)
        for asked in questions
    ]


def counted(wanted: Collection[object], applied: Collection[object]) -> FloatArray:
    """Hits and cases of each of METRICS, (4, 2)."""
    common = set(wanted) & set(applied)
    some, unwanted = bool(wanted), len(applied) > len(common)
    hits = (
        some and len(common) == len(wanted),
        unwanted and not common,
        unwanted and bool(common),
        bool(applied),
    )
    return np.array(
        [
            (hit and case, case)
            for hit, case in zip(hits, (some, some, some, not some), strict=True)
        ],
        float,
    )


def rates(questions: Sequence[Asked], applied: Sequence[Collection[int]]) -> list[Estimate]:
    """Each of METRICS with its interval."""
    clusters: dict[object, FloatArray] = {}
    for asked, ids in zip(questions, applied, strict=True):
        key = min(asked.wanted, default=asked.query)
        clusters[key] = clusters.get(key, np.zeros((len(METRICS), 2))) + counted(asked.wanted, ids)
    rows = np.array(list(clusters.values()))
    with np.errstate(invalid="ignore"):
        whole, drawn = (sums[..., 0] / sums[..., 1] for sums in (rows.sum(axis=0), resampled(rows)))
    return estimated(whole, drawn, np.count_nonzero(rows[..., 1], axis=0))


def gates(thresholds: Iterable[float]) -> dict[str, Gate]:
    """The gates to compare; the second is the default as it comes."""
    own = default_gate()
    at = {
        f"default_gate() at {threshold:g}": replace(own, threshold=threshold)
        for threshold in thresholds
    }
    return {"Named()": Named(), f"default_gate(), {own.threshold:g}": own, **at}


def by_kind(questions: Sequence[Asked], applied: Sequence[Collection[int]]) -> list[list[Cell]]:
    """A row for each kind."""
    rows = []
    for kind, said in KINDS.items():
        own = [
            (asked, ids)
            for asked, ids in zip(questions, applied, strict=True)
            if asked.kind == kind
        ]
        if own:
            number = Counter(bool(asked.wanted) for asked, _ in own)
            counts: list[Cell] = [Number(number[True]), Number(number[False])]
            rows.append([said, *counts, *rates(*map(list, zip(*own, strict=True)))])
    return rows


def failures(questions: Sequence[Asked], applied: Sequence[Collection[int]]) -> list[list[Cell]]:
    """The questions with another set of edits than the wanted one."""

    def listed(ids: Iterable[int]) -> str:
        return " ".join(map(str, sorted(ids))) or "none"

    return [
        [asked.kind, asked.query, listed(asked.wanted), listed(ids)]
        for asked, ids in zip(questions, applied, strict=True)
        if asked.wanted != ids
    ]


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument("--half", choices=FILES, default=TUNE, help="of the questions")
    parser.add_argument(
        "--thresholds",
        type=float,
        nargs="*",
        default=[0.1, 0.3, 0.5, 0.7],
        help="of the default gate",
    )
    parser.add_argument(
        "--failures",
        action="store_true",
        help=f"list what the default gate fails, not of {TEST}, {UNSEEN}",
    )
    options = parser.parse_args()
    if options.failures and options.half in (TEST, UNSEEN):
        parser.error(
            f"--failures shows no questions of the half {options.half}: they are not to be tuned on"
        )
    encoder = load_encoder()
    with pages.measured(options, TITLE, __doc__):
        measure(FOLDER, encoder, gates(options.thresholds), options.half, failing=options.failures)


def measure(
    folder: Path, encoder: TextEncoder, compared: Mapping[str, Gate], half: str, *, failing: bool
) -> None:
    """Print the tables for a folder's edits and the questions of a half; the kinds for the first two gates."""
    edits, file = FILES[half]
    questions = [asked for asked in read_questions(folder / file) if asked.half == half]
    index = stored_index(folder / edits, encoder)
    applied = {name: applied_ids(gate, index, questions) for name, gate in compared.items()}
    wanting = sum(bool(asked.wanted) for asked in questions)
    said = f"half to {half}" if half in (TUNE, TEST) else f"{half} set"
    title = f"{len(index.edits)} edits, {said}: {wanting} questions want edits, {len(questions) - wanting} none"
    pages.draw(
        title,
        ("gate", *METRICS),
        [[name, *rates(questions, ids)] for name, ids in applied.items()],
        NOTE,
    )
    for name in list(compared)[:2]:
        header = ("kind", "want edits", "want none", *METRICS)
        pages.draw(f"By kind: {name}", header, by_kind(questions, applied[name]), NOTE)
    if failing:
        name = list(compared)[min(1, len(compared) - 1)]
        rows = failures(questions, applied[name])
        pages.draw(
            f"Failed by {name}: {len(rows)}",
            ("kind", "question", "wanted", "applied"),
            rows,
            wide=True,
        )
    print(f"  {half}: {len(questions)} questions", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
