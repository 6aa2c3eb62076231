"""What a person changed in a draft: a fact, a wording of an edit, or the style alone (`drike.live.captures`).

120 pairs of a draft and what was sent instead (`questions/drafts.csv`), of made-up firms: half differ in style alone,
48 in a fact, 12 state what an edit in use says already (`questions/draft_edits.csv`), so that the question is a new
wording of it. They were written before the rules, which were chosen on the first half; the second half, of other firms,
was looked at once. *Right kind*: edit, wording or nothing. *Right object*: of the pairs that differ in a fact, those of
which every new and old object is found, up to how it is written. *Edit from style*: of the pairs that differ in style
alone, those that would become an edit or a wording. *Right subject*: among the facts found. Intervals are Wilson's.

Simple rules to compare with: any number that differs is a fact; any word with a digit or a capital that one text has
and the other has not.

    python benchmarks/capture.py [--half development|test] [--failures]
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drike.answers.matching import normalise
from drike.answers.quantities import AnswerRead, reader_of
from drike.gates.index import EditIndex
from drike.live.captures import CaptureKind, Draft, DraftChange, changes_in
from drike.support.table import Cell, Estimate, Number, as_text
from lib import pages
from questions import FOLDER, stored_index

TITLE = "What a person changed in a draft"
PAIRS = FOLDER / "drafts.csv"
EDITS = FOLDER / "draft_edits.csv"
HALVES = ("development", "test")
STYLE = "style"


@dataclass(frozen=True)
class Pair:
    """A draft with what was sent, and what its author says of both; alternatives by " / "."""

    capture: Draft
    kind: str
    subjects: tuple[str, ...]
    old: tuple[tuple[str, ...], ...]
    new: tuple[tuple[str, ...], ...]


def read_pairs(file: Path, half: str) -> list[Pair]:
    """The pairs of a half."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["half"] == half]
    return [
        Pair(
            Draft(row["draft"], row["sent"], row["question"], row["context"]),
            row["kind"],
            tuple(row["subject"].split(" / ")),
            _objects(row["old"]),
            _objects(row["new"]),
        )
        for row in rows
    ]


def _objects(cell: str) -> tuple[tuple[str, ...], ...]:
    """The objects of a cell, each with its alternatives."""
    return tuple(tuple(part.split(" / ")) for part in cell.split(" && ") if part)


def is_right_kind(pair: Pair, changes: Sequence[DraftChange]) -> bool:
    """Whether a pair was taken for what it is."""
    kinds = {change.kind for change in changes}
    wanted = CaptureKind.NOTHING if pair.kind == STYLE else CaptureKind(pair.kind)
    return kinds == {wanted}


def has_right_objects(pair: Pair, changes: Sequence[DraftChange]) -> bool:
    """Whether all objects of a pair are found, and no others."""
    if len(changes) != len(pair.new):
        return False
    return all(
        _is_one_of(change.new, new) and _is_one_of(change.old, old)
        for change, old, new in zip(changes, pair.old, pair.new, strict=True)
    )


def _is_one_of(found: str, alternatives: Sequence[str]) -> bool:
    for alternative in alternatives:
        if normalise(found) == normalise(alternative):
            return True
        reader = reader_of(alternative)
        places = list(reader(AnswerRead(found))) if reader else []
        if len(places) == 1 and places[0].is_object:
            return True
    return False


def has_right_subject(pair: Pair, changes: Sequence[DraftChange]) -> bool:
    """Whether each change is about the subject."""
    known = {normalise(subject) for subject in pair.subjects}
    return all(normalise(change.subject) in known for change in changes)


def by_numbers(pair: Pair) -> bool:
    """Whether the digits of both texts differ, as a simple rule for facts."""
    draft, sent = (_with_digits(text) for text in (pair.capture.draft, pair.capture.sent))
    return draft != sent


def by_tokens(pair: Pair) -> bool:
    """Whether both texts have a word with a digit or a capital that the other has not."""
    draft, sent = (_telling(text) for text in (pair.capture.draft, pair.capture.sent))
    return bool(draft - sent) and bool(sent - draft)


def _with_digits(text: str) -> set[str]:
    return {word.strip(".,!?") for word in text.split() if any(map(str.isdigit, word))}


def _telling(text: str) -> set[str]:
    words = {word.strip(".,!?") for word in text.split()}
    return {word for word in words if word[:1].isupper() or any(map(str.isdigit, word))}


def main() -> None:
    """Print the table of a half."""
    parser = pages.parser(__doc__)
    parser.add_argument("--half", choices=HALVES, default=HALVES[0], help="of the pairs")
    parser.add_argument("--failures", action="store_true", help="list what goes wrong")
    options = parser.parse_args()
    if options.failures and options.half == HALVES[1]:
        parser.error("--failures shows no pairs of the test half: they are not to be tuned on")
    with pages.measured(options, TITLE, __doc__):
        measure(options.half, failing=options.failures)


def measure(half: str, *, failing: bool) -> None:
    """Print how the rules fare on a half, beside simple ones."""
    index = EditIndex.of(stored_index(EDITS, None).edits.values())
    pairs = read_pairs(PAIRS, half)
    decided = [(pair, changes_in(pair.capture, index)) for pair in pairs]
    facts = [(pair, changes) for pair, changes in decided if pair.kind == CaptureKind.EDIT]
    of_style = [pair for pair in pairs if pair.kind == STYLE]
    found = [(pair, changes) for pair, changes in facts if has_right_objects(pair, changes)]

    ours: list[Cell] = [
        "`changes_in`",
        _share([is_right_kind(*each) for each in decided]),
        _share([has_right_objects(*each) for each in facts]),
        _share([has_right_subject(*each) for each in found]),
        _share([not is_right_kind(*each) for each in decided if each[0].kind == STYLE]),
    ]
    rows: list[list[Cell]] = [ours]
    for name, rule in (("other digits", by_numbers), ("other telling words", by_tokens)):
        right = [rule(pair) == (pair.kind != STYLE) for pair in pairs]
        rows.append([name, _share(right), "", "", _share([rule(pair) for pair in of_style])])
    header = ("rule", "right kind", "right object", "right subject", "edit from style")
    title = f"{half} half: {len(pairs)} pairs, {len(facts)} of facts, {len(of_style)} of style"
    notes = ("The simple rules tell facts from style alone, and not edits from wordings.",)
    pages.draw(title, header, rows, *notes)
    if failing:
        for pair, changes in decided:
            is_wrong = not is_right_kind(pair, changes) or (
                pair.kind == CaptureKind.EDIT
                and not (has_right_objects(pair, changes) and has_right_subject(pair, changes))
            )
            if is_wrong:
                print(f"- {pair.kind}: {pair.capture}\n  {changes}")
    print(f"  {half}: {Number(len(pairs))} pairs", file=sys.stderr, flush=True)


def _share(right: Sequence[bool]) -> str:
    return as_text(Estimate.share(sum(right), len(right)))


if __name__ == "__main__":
    main()
