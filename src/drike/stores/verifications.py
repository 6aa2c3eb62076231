"""Verifications that a store keeps: what was asked of a model about its edits, and whether the answers held."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from drike.answers.statements import Stated
from drike.edits.record import StoreError, damaged
from drike.stores.log import EditStore
from drike.support.records import parse, read

_KEPT = 50  # runs
_COUNT = "verifications"  # the setting with the number of the last run; where it is missing, so is the table
_TABLE = "CREATE TABLE IF NOT EXISTS drike_verifications (number BIGINT PRIMARY KEY, verification TEXT NOT NULL)"


class QuestionKind(StrEnum):
    """What a question about an edit is."""

    QUERY = "query"
    WORDING = "wording"
    ALIAS = "alias"  # the query under an alias
    SHORT = "short name"
    CHALLENGE = "challenge"
    FOLLOW_UP = "follow-up"
    NEGATIVE = "negative"  # a negative exemplar
    SIBLING = "sibling"  # the query of another edit of the subject
    NEAR = "near"  # the query of another edit with a similar one

    @property
    def concerns(self) -> bool:
        """Whether the edit shall take on it; else it shall leave the answer alone."""
        return self not in (QuestionKind.NEGATIVE, QuestionKind.SIBLING, QuestionKind.NEAR)


@dataclass(frozen=True)
class VerifiedQuestion:
    """What an answer stated, whether the edit matched, and whether that is as it should be."""

    edit: int
    version: int
    kind: QuestionKind
    question: str
    stated: Stated
    matched: bool
    holds: bool


@dataclass(frozen=True)
class Verification:
    """A run. at: when. model, gate, placement: what answered, decided, and wrote the facts. drike: the version."""

    at: str
    model: str
    gate: str
    threshold: float | None
    placement: str
    drike: str
    questions: tuple[VerifiedQuestion, ...]


Change = tuple[
    VerifiedQuestion, VerifiedQuestion
]  # a question whose answer held in one of two runs, as in both


def last_number(store: EditStore) -> int:
    """The number of the last run; 0 if there is none."""
    return int(store.setting(_COUNT) or 0)


def save(store: EditStore, run: Verification) -> int:
    """Keep a run, and the last ones before it; return its number. Raises StoreError."""
    with store.transaction():
        number = last_number(store) + 1
        if number == 1:
            store._run(_TABLE)
        store._insert(
            "drike_verifications", [(number, json.dumps(asdict(run), ensure_ascii=False))]
        )
        store._run("DELETE FROM drike_verifications WHERE number <= %s", [number - _KEPT])
        store.save_setting(_COUNT, str(number))
    return number


def saved(store: EditStore, number: int) -> Verification:
    """A run that is kept. Raises StoreError if there is none with this number, or it is damaged."""
    query = "SELECT verification FROM drike_verifications WHERE number = %s"
    rows = store._rows(query, [number]) if 0 < number <= last_number(store) else []
    if not rows:
        raise StoreError(
            f"{store.name} keeps no verification {number}: run drike edits verify (the last {_KEPT} stay)"
        )
    try:
        return read(Verification, parse(rows[0][0]))
    except ValueError as problem:
        raise damaged(store.name, f"verification {number}: {problem}") from None


def compare(before: Verification, after: Verification) -> tuple[list[Change], list[Change]]:
    """What broke between two runs, and what was mended, of the questions that both asked."""
    earlier, later = _by_question(before), _by_question(after)
    changed = [
        (earlier[key], now)
        for key, now in later.items()
        if key in earlier and earlier[key].holds != now.holds
    ]
    return [pair for pair in changed if not pair[1].holds], [
        pair for pair in changed if pair[1].holds
    ]


def _by_question(run: Verification) -> Mapping[tuple[int, QuestionKind, str], VerifiedQuestion]:
    """Of the answers to each question the first that holds, if more than half do, or the first that does not."""
    by_question = defaultdict(list)
    for answer in run.questions:
        by_question[answer.edit, answer.kind, answer.question].append(answer)
    halves = {
        key: 2 * sum(answer.holds for answer in answers) > len(answers)
        for key, answers in by_question.items()
    }
    return {
        key: next(a for a in answers if a.holds is halves[key])
        for key, answers in by_question.items()
    }
