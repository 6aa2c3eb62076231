"""Questions that named the subject of an edit and got nothing, counted by edit, in memory only."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

from drike.answers.matching import normalise
from drike.gates.decision import Decision
from drike.gates.index import EditIndex

_MOST_QUESTIONS = 1_000  # that are kept: the last ones
_LONGEST = 1_000  # characters of a question that is kept


@dataclass(frozen=True)
class UnansweredQuestion:
    """A question as it was asked last, how often, and when last."""

    text: str
    asked: int
    last: str


class Unanswered:
    """Counts such questions; threads may share it.

    A question counts for the likeliest edit whose subject it names. Up to case and punctuation,
    questions are the same.
    """

    def __init__(self) -> None:
        self._counting = threading.Lock()
        # By edit and normalised text; the last asked one stands last.
        self._questions: OrderedDict[tuple[int, str], UnansweredQuestion] = OrderedDict()

    def count(self, decision: Decision, at: str) -> None:
        """Count a decision by which no edit matches."""
        text = decision.query.strip()
        named = (one for one in decision.candidates if one.name is not None)
        likeliest = next(named, None)
        if decision.matched or likeliest is None or not text or len(text) > _LONGEST:
            return
        key = (likeliest.edit.id, normalise(text))
        with self._counting:
            before = self._questions.pop(key, UnansweredQuestion(text, 0, at))
            self._questions[key] = replace(before, text=text, asked=before.asked + 1, last=at)
            if len(self._questions) > _MOST_QUESTIONS:
                self._questions.popitem(last=False)

    def by_edit(self, index: EditIndex) -> dict[int, list[UnansweredQuestion]]:
        """The questions of the edits in an index, the most asked edit and question first.

        Those that have become texts of their edit since are left out.
        """
        with self._counting:
            questions = list(self._questions.items())
        found: dict[int, list[UnansweredQuestion]] = {}
        for (edit_id, normalised), question in questions:
            edit = index.edits.get(edit_id)
            if edit is None:
                continue
            texts = (*edit.record.paraphrases, *edit.record.negatives)
            if normalised not in map(normalise, texts):
                found.setdefault(edit_id, []).append(question)
        for of_edit in found.values():
            of_edit.sort(key=lambda question: -question.asked)
        ranked = sorted(found.items(), key=lambda item: -sum(one.asked for one in item[1]))
        return dict(ranked)
