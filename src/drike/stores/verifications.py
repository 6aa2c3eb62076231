"""Verifications that a store keeps: what a model was asked about its edits, and its answers."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from drike.answers.statements import Stated
from drike.edits.record import StoreError
from drike.stores.database import Database, insert, select
from drike.stores.failures import damaged
from drike.stores.settings import StoreSettings
from drike.support.rates import Portion
from drike.support.records import parse, read

_MOST_KEPT = 50  # runs
_LAST_NUMBER = "verifications"  # the setting with it; where it is missing, so is the table
_TABLE = (
    "CREATE TABLE IF NOT EXISTS drike_verifications "
    "(number BIGINT PRIMARY KEY, verification TEXT NOT NULL)"
)


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
    COMMON = "common"  # a question that no edit concerns; asked to choose a placement

    @property
    def concerns(self) -> bool:
        """Whether the edit is to change the answer; else it is to leave it alone."""
        return self not in (
            QuestionKind.NEGATIVE,
            QuestionKind.SIBLING,
            QuestionKind.NEAR,
            QuestionKind.COMMON,
        )


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
    """A run of questions.

    at: when it was made. model: what answered. gate, threshold: what decided which edits a question
    concerns. placement: how the facts were written into requests. drike: its version.
    """

    at: str
    model: str
    gate: str
    threshold: float | None
    placement: str
    drike: str
    questions: tuple[VerifiedQuestion, ...]


class Verifications:
    """The runs that a database keeps, the latest of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = StoreSettings(database)

    def last_number(self) -> int:
        """The number of the last run; 0 if there is none. Raises StoreError."""
        return int(self._settings.get(_LAST_NUMBER) or 0)

    def save(self, run: Verification) -> int:
        """Keep a run, and the last ones before it; return its number. Raises StoreError."""
        with self._database.transaction():
            number = self.last_number() + 1
            if number == 1:
                self._database.execute(_TABLE)
            text = json.dumps(asdict(run), ensure_ascii=False)
            insert(self._database, "drike_verifications", [(number, text)])
            self._database.execute(
                "DELETE FROM drike_verifications WHERE number <= %s", [number - _MOST_KEPT]
            )
            self._settings.save(_LAST_NUMBER, str(number))
        return number

    def load(self, number: int) -> Verification:
        """The run with a number. Raises StoreError if it is not kept, or damaged."""
        rows = []
        if 0 < number <= self.last_number():
            query = "SELECT verification FROM drike_verifications WHERE number = %s"
            rows = select(self._database, query, [number])
        if not rows:
            raise StoreError(
                f"{self._database.name} keeps no verification {number}: run drike edits verify "
                f"(the last {_MOST_KEPT} stay)"
            )
        [[text]] = rows
        try:
            return read(Verification, parse(text))
        except ValueError as problem:
            what = f"verification {number}: {problem}"
            raise damaged(self._database.name, what) from None


class Change(NamedTuple):
    """A question whose answer held in one of two runs, as in both."""

    before: VerifiedQuestion
    after: VerifiedQuestion


class Comparison(NamedTuple):
    """Of the questions that two runs asked, those whose answer no longer holds, or holds now."""

    broken: list[Change]
    mended: list[Change]


def compare_runs(before: Verification, after: Verification) -> Comparison:
    """What broke between two runs, and what was mended, of the questions that both asked."""
    earlier = _by_question(before)
    comparison = Comparison([], [])
    for question, now in _by_question(after).items():
        if question in earlier and earlier[question].holds != now.holds:
            changes = comparison.mended if now.holds else comparison.broken
            changes.append(Change(earlier[question], now))
    return comparison


def heeded_by_edit(run: Verification) -> dict[int, Portion]:
    """How many answers that an edit concerns state its new object alone, by the edit's id."""
    shares: dict[int, Portion] = {}
    for answer in run.questions:
        if answer.kind.concerns:
            heeded = Portion(int(answer.stated is Stated.NEW), 1)
            shares[answer.edit] = shares.get(answer.edit, Portion(0, 0)).plus(heeded)
    return shares


def _by_question(run: Verification) -> Mapping[tuple[int, QuestionKind, str], VerifiedQuestion]:
    """One answer to each question: the first that holds, if more than half of them do.

    Otherwise it is the first that does not hold.
    """
    answers_by_question = defaultdict[tuple[int, QuestionKind, str], list[VerifiedQuestion]](list)
    for answer in run.questions:
        answers_by_question[answer.edit, answer.kind, answer.question].append(answer)
    chosen = {}
    for question, answers in answers_by_question.items():
        most_hold = 2 * sum(answer.holds for answer in answers) > len(answers)
        chosen[question] = next(answer for answer in answers if answer.holds is most_hold)
    return chosen
