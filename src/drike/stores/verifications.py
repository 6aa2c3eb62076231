"""Verifications that a store keeps: what was asked of a model about its edits, and whether the answers held."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from drike.stated import Stated
from drike.stores.log import EditStore
from drike.stores.records import StoreError, damaged
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


# A question whose answer held in one of two runs only, as it was in both.
Change = tuple[VerifiedQuestion, VerifiedQuestion]


def last_number(store: EditStore) -> int:
    """The number of the last run; 0 if there is none."""
    return int(store.setting(_COUNT) or 0)


def save(store: EditStore, run: Verification) -> int:
    """Keep a run, and the last ones before it; return its number. Raises StoreError."""
    with store.transaction():
        number = last_number(store) + 1
        if number == 1:
            store._run(_TABLE)
        text = json.dumps(asdict(run), ensure_ascii=False)
        store._run("INSERT INTO drike_verifications VALUES (%s, %s)", [number, text])
        store._run("DELETE FROM drike_verifications WHERE number <= %s", [number - _KEPT])
        store.save_setting(_COUNT, str(number))
    return number


def saved(store: EditStore, number: int) -> Verification:
    """A run that is kept. Raises StoreError if there is none with this number, or it is damaged."""
    row = None
    if 0 < number <= last_number(store):
        query = "SELECT verification FROM drike_verifications WHERE number = %s"
        with store._using():
            row = store._run(query, [number]).fetchone()
    if row is None:
        raise StoreError(f"{store.name} keeps no verification {number}: run drike edits verify (the last {_KEPT} stay)")
    try:
        return read(Verification, parse(row[0]))
    except ValueError as problem:
        raise damaged(store.name, f"verification {number}: {problem}") from None


def compare(before: Verification, after: Verification) -> tuple[list[Change], list[Change]]:
    """What broke between two runs, and what was mended, of the questions that both asked.

    Of several answers to a question, more than half must hold.
    """
    earlier, later = _by_question(before), _by_question(after)
    both = [(earlier[key], later[key]) for key in later if key in earlier]
    changed = [(was[0], now[0]) for was, now in both if _holds(was) is not _holds(now)]
    return [pair for pair in changed if not pair[1].holds], [pair for pair in changed if pair[1].holds]


def _by_question(run: Verification) -> Mapping[tuple[int, QuestionKind, str], list[VerifiedQuestion]]:
    """The answers to each question, one that decides whether it holds first."""
    by_question = defaultdict(list)
    for answer in run.questions:
        by_question[answer.edit, answer.kind, answer.question].append(answer)
    return {key: sorted(answers, key=lambda a: a.holds is not _holds(answers)) for key, answers in by_question.items()}


def _holds(answers: list[VerifiedQuestion]) -> bool:
    return 2 * sum(answer.holds for answer in answers) > len(answers)
