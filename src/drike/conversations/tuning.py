"""Which placement of facts works on a model: successive elimination by its answers to a store's own questions.

Three rates make S, as in the paper: an edit's own query and its wordings must be answered by the new object, and other
questions, under the edit as if its gate had erred, must keep the answer that they have without it. What a placement
adds to a prompt has a price. After each round, of twice as many questions as the one before, a placement is left out
whose S, less its price, is surely below that of another one: Chernoff's bounds on all rates of all placements at all
rounds hold together with the given confidence, so that stopping early costs none of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from drike.conversations.placements import Trial
from drike.conversations.rendering import Facts, Placement
from drike.evaluation.metrics import harmonic_mean
from drike.gates.calibration import common_questions
from drike.matching import first_line
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.models.served.spending import estimated_tokens
from drike.stated import Stated, stated
from drike.stores.records import EditVersion

CHAT_TOKENS = 64  # of an answer in a chat
_FIRST = 4  # questions of each kind in the first round
_BRIEF = 6  # words of an answer that is compared as a whole
_STEPS = 30  # of a bisection
_TENANT = "default"


class Kind(StrEnum):
    """What a question tests."""

    OWN = "own query"
    WORDING = "wording"
    OTHER = "other question"


@dataclass(frozen=True)
class Question:
    """A text that is asked under an edit."""

    kind: Kind
    edit: EditVersion
    text: str


@dataclass(frozen=True)
class Tuning:
    """What is asked, of what, and at what price.

    chat: whether the model answers as one that chats. price: of a thousand tokens that a placement adds, in S.
    confidence: with which the bounds hold together.
    """

    model: LanguageModel
    placements: Mapping[str, Placement]
    questions: Sequence[Question]
    chat: bool
    price: float
    confidence: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those of the questions."""
        return tuple(kind for kind in Kind if any(question.kind is kind for question in self.questions))

    @property
    def grid(self) -> int:
        """Calls that all questions under all placements take, with those without an edit."""
        unedited = {question.text for question in self.questions if question.kind is Kind.OTHER}
        return len(self.placements) * len(self.questions) + len(unedited)

    @property
    def rounds(self) -> list[int]:
        """How many questions of each kind are asked by the end of each round."""
        most = max(sum(question.kind is kind for question in self.questions) for kind in self.kinds)
        return [*(_FIRST * 2**i for i in range((max(most - 1, 1) // _FIRST).bit_length())), most]

    def value(self, s: float, trial: Trial) -> float:
        """An S of a placement less the price of its tokens."""
        return s - self.price * trial.tokens / 1000


@dataclass(frozen=True)
class Round:
    """What is known after some questions.

    trials: of all placements, those that are left first, the best first. left: how many these are. calls: so far.
    better: by how much one that is left may be better than the first, at most, in S less the price of tokens.
    """

    trials: tuple[Trial, ...]
    left: int
    calls: int
    better: float


def questions_of(edits: Sequence[EditVersion], most: int, seed: int = 0) -> list[Question]:
    """Up to `most` questions of each kind about edits, in an order drawn by the seed: each edit's before a second one.

    Other questions are negative exemplars, the query of an edit of another subject, if possible of the same relation,
    and common questions.
    """
    order = random.Random(seed).sample(list(edits), len(edits))
    common = cycle(random.Random(seed).sample(common_questions(), len(common_questions())))
    by_kind: dict[Kind, list[list[str]]] = {kind: [] for kind in Kind}
    for edit in order:
        record = edit.record
        wordings = dict.fromkeys((*record.paraphrases, *map(record.query_with, record.aliases)))
        others = [other.record for other in order if other.record.subject not in record.names]
        near = [other.query for other in others if other.relation == record.relation] or [o.query for o in others]
        by_kind[Kind.OWN].append([record.query])
        by_kind[Kind.WORDING].append([text for text in wordings if text != record.query])
        by_kind[Kind.OTHER].append([*record.negatives, *near[:1], next(common)])
    return [
        Question(kind, edit, text) for kind, texts in by_kind.items() for edit, text in _in_turns(order, texts)[:most]
    ]


def _in_turns(edits: Sequence[EditVersion], texts: Sequence[Sequence[str]]) -> list[tuple[EditVersion, str]]:
    """The first text of every edit, then the second ones, and so on."""
    longest = max(map(len, texts), default=0)
    pairs = list(zip(edits, texts, strict=True))
    return [(edit, of_edit[i]) for i in range(longest) for edit, of_edit in pairs if i < len(of_edit)]


def tune(tuning: Tuning) -> Iterator[Round]:
    """Rounds until one placement is left, or all questions are asked. Raises ModelError."""
    by_kind = {kind: [question for question in tuning.questions if question.kind is kind] for kind in tuning.kinds}
    looks = len(tuning.placements) * len(tuning.kinds) * len(tuning.rounds)
    level = math.log(2 * looks / (1 - tuning.confidence))
    unedited: dict[str, str] = {}
    results: dict[str, list[tuple[Kind, bool, int]]] = {name: [] for name in tuning.placements}
    left, gone, asked, calls = list(tuning.placements), list[Trial](), 0, 0
    for size in tuning.rounds:
        new = [question for of_kind in by_kind.values() for question in of_kind[asked:size]]
        texts = {question.text for question in new if question.kind is Kind.OTHER} - unedited.keys()
        unedited |= dict(zip(sorted(texts), _answers(tuning, sorted(texts)), strict=True))
        prompts = [_prompt(tuning.placements[name], question) for name in left for question in new]
        answers = iter(zip(prompts, _answers(tuning, prompts), strict=True))
        count = _counter(tuning.model)
        for name in left:
            for question in new:
                prompt, answer = next(answers)
                right = _is_right(question, answer, unedited)
                results[name].append((question.kind, right, count(prompt) - count(question.text)))
        asked, calls = size, calls + len(texts) + len(prompts)
        trials = [_trial(name, results[name], tuning.kinds, level) for name in left]
        trials.sort(key=lambda trial: (tuning.value(trial.s, trial), -trial.tokens), reverse=True)
        floor = max(tuning.value(trial.low, trial) for trial in trials)
        kept = [trial for trial in trials if tuning.value(trial.high, trial) >= floor]
        gone = [trial for trial in trials if trial not in kept] + gone
        left = [trial.placement for trial in kept]
        best = tuning.value(kept[0].low, kept[0])
        better = max((tuning.value(trial.high, trial) - best for trial in kept[1:]), default=0.0)
        yield Round((*kept, *gone), len(kept), calls, max(better, 0.0))
        if len(kept) == 1:
            return


def _prompt(placement: Placement, question: Question) -> str:
    around = placement.around(Facts((question.edit,), question.text), question.text, _TENANT)
    return f"{around.before}{question.text}{around.behind}"


def _answers(tuning: Tuning, prompts: Sequence[str]) -> list[str]:
    tokens, stop = (CHAT_TOKENS, None) if tuning.chat else (ANSWER_TOKENS, "\n")
    return [completion.text for completion in tuning.model.generate(prompts, tokens, stop)] if prompts else []


def _counter(model: LanguageModel) -> Callable[[str], int]:
    count = model.count_tokens
    return estimated_tokens if count is None else lambda text: count([text])[0]


def _is_right(question: Question, answer: str, unedited: Mapping[str, str]) -> bool:
    """Whether it states the new object or, of another question, what it says without the edit."""
    record = question.edit.record
    if question.kind is not Kind.OTHER:
        return record.states(answer, question.text) is Stated.NEW
    before, new = unedited[question.text], (Stated.NEW, Stated.BOTH)
    if record.states(answer) in new and record.states(before) not in new:
        return False
    brief = first_line(before)
    return not 0 < len(brief.split()) <= _BRIEF or stated(answer, [brief.strip(" .")]) in new


def _trial(name: str, results: Sequence[tuple[Kind, bool, int]], kinds: Sequence[Kind], level: float) -> Trial:
    rights = [[right for of_kind, right, _ in results if of_kind is kind] for kind in kinds]
    rates = tuple(sum(right) / len(right) for right in rights)
    lows, highs = zip(
        *(bounds(rate, len(right), level) for rate, right in zip(rates, rights, strict=True)), strict=True
    )
    tokens = sum(tokens for _, _, tokens in results) / len(results)
    return Trial(name, rates, len(results), tokens, *(float(harmonic_mean(values)) for values in (rates, lows, highs)))


def bounds(rate: float, count: int, level: float) -> tuple[float, float]:
    """Chernoff's bounds on a probability, from its rate among `count` draws; either fails with exp(-level) at most."""

    def far(other: float) -> bool:
        return count * _divergence(rate, other) > level

    def end(outer: float) -> float:
        inner = rate
        for _ in range(_STEPS):
            middle = (outer + inner) / 2
            outer, inner = (middle, inner) if far(middle) else (outer, middle)
        return outer

    return end(0.0), end(1.0)


def _divergence(rate: float, other: float) -> float:
    """Kullback-Leibler's, of a coin with this rate from one with the other."""
    parts = ((rate, other), (1 - rate, 1 - other))
    return sum(p * math.log(p / q) if q > 0 else math.inf for p, q in parts if p > 0)
