"""Choose the placement of facts that a model obeys, by its answers to a store's own questions, and keep the choice."""

import json
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import cycle, islice, pairwise, takewhile, zip_longest

from drike.answers.matching import first_line
from drike.answers.statements import Stated, stated
from drike.conversations.rendering import Facts, Placement
from drike.edits.record import EditVersion, StoreError
from drike.gates.edit_names import common_questions
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.models.served import estimated_tokens
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT
from drike.support.records import parse, read
from drike.support.statistics import exceeds

_SETTING = "placement"  # of a store
CHAT_TOKENS = 64  # of an answer in a chat
_FIRST = 4  # questions of each kind in the first round
_BRIEF = 6  # words of an answer that is compared as a whole


@dataclass(frozen=True)
class Trial:
    """What a placement achieved, and by how much it may be better than the best one, at most (`gain`)."""

    placement: str
    rates: tuple[float, ...]  # of right answers, by kind
    asked: int
    tokens: float  # that it adds to a question, on average
    s: float
    gain: float = 0.0  # in S less the price of tokens; 0 if it is surely not better


@dataclass(frozen=True)
class ChosenPlacement:
    """The placement chosen for a store."""

    placement: str
    model: str
    server: str | None  # the address of the model
    chat: bool  # whether the model answered as one that chats
    chosen_at: str
    edits: int  # how many were asked about
    kinds: tuple[str, ...]
    trials: tuple[Trial, ...]
    calls: int
    grid: int  # how many calls the choice would take without stopping early
    confidence: float
    better: (
        float  # with probability `confidence`, no other placement is better by more (`Trial.gain`)
    )


def save_choice(store: EditStore, choice: ChosenPlacement | None) -> None:
    """Give a store another placement; None for the usual one. Raises StoreError."""
    store.settings.save(_SETTING, json.dumps(asdict(choice)) if choice else "")


def stored_choice(
    store: EditStore, names: Callable[[bool], Collection[str]]
) -> ChosenPlacement | None:
    """The choice of a store; None if it has none. Raises StoreError for one that cannot be read.

    names: of the placements there are for a model that chats, or (False) that only completes.
    """
    text = store.settings.get(_SETTING)
    try:
        choice = read(ChosenPlacement, parse(text)) if text else None
        if choice and choice.placement not in names(choice.chat):
            raise ValueError(f"{choice.placement} is unknown")
    except ValueError as problem:
        remedy = "choose again (drike edits tune), or go back to the usual one (--remove)"
        raise StoreError(
            f"the placement of {store.name} cannot be read ({problem}): {remedy}"
        ) from None
    return choice


class Kind(StrEnum):
    """What a question tests."""

    OWN = "own query"
    WORDING = "wording"
    OTHER = "other question"


@dataclass(frozen=True)
class TuningQuestion:
    """A text that is asked under an edit."""

    kind: Kind
    edit: EditVersion
    text: str


@dataclass(frozen=True)
class Tuning:
    """What is asked, of a model that chats or not."""

    model: LanguageModel
    placements: Mapping[str, Placement]
    questions: Sequence[TuningQuestion]
    chat: bool
    price: float  # of a thousand tokens that a placement adds, in S
    confidence: float = 0.95  # with which all tests hold together
    tolerance: float = 0.05  # how much better another placement may be, in S

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those of the questions."""
        return tuple(
            kind for kind in Kind if any(question.kind is kind for question in self.questions)
        )

    @property
    def grid(self) -> int:
        """Calls that all questions under all placements take, with those without an edit."""
        unedited = {question.text for question in self.questions if question.kind is Kind.OTHER}
        return len(self.placements) * len(self.questions) + len(unedited)


@dataclass(frozen=True)
class Round:
    """Known after some questions. trials: of all placements, those left first, the best first. calls: so far."""

    trials: tuple[Trial, ...]
    calls: int

    @property
    def left(self) -> int:
        """How many placements are left."""
        return 1 + sum(trial.gain > 0 for trial in self.trials)

    @property
    def better(self) -> float:
        """By how much another placement may be better than the best one (`Trial.gain`)."""
        return max(trial.gain for trial in self.trials)


def questions_of(edits: Sequence[EditVersion], most: int, seed: int = 0) -> list[TuningQuestion]:
    """Up to `most` questions of each kind about edits, in an order drawn by the seed: each edit's before a second one.

    Other questions: negative exemplars, the query of an edit of another subject, best of the relation, and common ones.
    """
    order = random.Random(seed).sample(list(edits), len(edits))
    common = cycle(random.Random(seed).sample(common_questions(), len(common_questions())))
    by_kind: dict[Kind, list[list[str]]] = {kind: [] for kind in Kind}
    for edit in order:
        record = edit.record
        wordings = dict.fromkeys((*record.paraphrases, *map(record.query_with, record.aliases)))
        others = [other.record for other in order if other.record.subject not in record.names]
        near = [other.query for other in others if other.relation == record.relation] or [
            o.query for o in others
        ]
        by_kind[Kind.OWN].append([record.query])
        by_kind[Kind.WORDING].append([text for text in wordings if text != record.query])
        by_kind[Kind.OTHER].append([*record.negatives, *near[:1], next(common)])
    questions: list[TuningQuestion] = []
    for kind, texts in by_kind.items():
        turns = zip_longest(*texts)  # the first text of every edit, then the second ones, and so on
        pairs = (
            pair for turn in turns for pair in zip(order, turn, strict=True) if pair[1] is not None
        )
        questions += [TuningQuestion(kind, *pair) for pair in islice(pairs, most)]
    return questions


def tune(tuning: Tuning) -> Iterator[Round]:
    """Rounds until no placement that is left may be better by more than the tolerance. Raises ModelError.

    After each, the best placement is compared with every other one, and those that are surely worse are left out. All
    tests of all rounds hold together with the given confidence; that the weights of `gain` are estimates is left out.
    """
    by_kind = [
        [question for question in tuning.questions if question.kind is kind]
        for kind in tuning.kinds
    ]
    longest = max(map(len, by_kind))
    # How many questions of each kind are asked by the end of each round.
    ends = [*takewhile(lambda end: end < longest, (_FIRST * 2**i for i in range(longest))), longest]
    unedited: dict[str, str] = {}
    right: dict[str, list[bool]] = {name: [] for name in tuning.placements}
    kinds, tokens = list[Kind](), Counter[str]()
    left, gone, calls, price = list(right), list[Trial](), 0, tuning.price / 1000
    # Of a single test, so that all hold together for the placement that is best in truth.
    level = 1 - (1 - tuning.confidence) / (len(ends) * max(len(left) - 1, 1))
    for begin, end in pairwise((0, *ends)):
        new = [question for of_kind in by_kind for question in of_kind[begin:end]]
        texts = sorted(
            {question.text for question in new if question.kind is Kind.OTHER} - unedited.keys()
        )
        unedited |= dict(zip(texts, _answers(tuning, texts), strict=True))
        facts = [Facts((question.edit,), question.text) for question in new]
        around = {
            name: [tuning.placements[name].around(own, own.query, TENANT) for own in facts]
            for name in left
        }
        prompts = {
            name: [q.text.join(own) for q, own in zip(new, around[name], strict=True)]
            for name in left
        }
        answers = iter(
            _answers(tuning, [prompt for of_name in prompts.values() for prompt in of_name])
        )
        calls += len(texts) + len(left) * len(new)
        kinds += [question.kind for question in new]
        for name in left:
            right[name] += [_is_right(question, next(answers), unedited) for question in new]
            tokens[name] += _tokens(tuning.model, prompts[name]) - _tokens(
                tuning.model, [q.text for q in new]
            )
        tried = [trial_of(name, kinds, right[name], tokens[name]) for name in left]
        best, *others = sorted(
            tried, key=lambda trial: (trial.s - price * trial.tokens, -trial.tokens), reverse=True
        )
        first = right[best.placement]
        gains = (
            gain(kinds, first, right[o.placement], level, dearer=price * (best.tokens - o.tokens))
            for o in others
        )
        rivals = [replace(other, gain=most) for other, most in zip(others, gains, strict=True)]
        trials = [best, *sorted(rivals, key=lambda trial: not trial.gain), *gone]
        latest = Round(tuple(trials), calls)
        left, gone = [trial.placement for trial in trials[: latest.left]], trials[latest.left :]
        yield latest
        if latest.better <= tuning.tolerance:
            return


def trial_of(name: str, kinds: Sequence[Kind], right: Sequence[bool], tokens: int) -> Trial:
    """What a placement has achieved. right: of each question. tokens: that it added to all."""
    rates = tuple(_rates(kinds, right).values())
    return Trial(name, rates, len(right), tokens / len(right), _harmonic_mean(rates))


def _harmonic_mean(rates: Sequence[float]) -> float:
    """S of these rates: 0 if one of them is 0."""
    return 0.0 if 0 in rates else len(rates) / sum(1 / rate for rate in rates)


def _rates(kinds: Sequence[Kind], right: Sequence[bool]) -> dict[Kind, float]:
    asked, answered = (
        Counter(kinds),
        Counter(kind for kind, is_right in zip(kinds, right, strict=True) if is_right),
    )
    return {kind: answered[kind] / asked[kind] for kind in Kind if asked[kind]}


def gain(
    kinds: Sequence[Kind],
    best: Sequence[bool],
    other: Sequence[bool],
    level: float,
    *,
    dearer: float,
) -> float:
    """By how much another placement may be better than the best one, at most; 0 if it is surely not, at a level.

    best, other: whether its answer to each question is right. dearer: how much more the best one's tokens cost, in S.
    S is concave and grows with its rates in proportion, so it is at most its tangent. The weights, its derivatives at
    the best one's rates, thus make each pair of answers a bet on how far that one leads in S.
    """
    rates, counts = _rates(kinds, best), Counter(kinds)
    s = _harmonic_mean(list(rates.values()))
    if not s:
        return 1.0
    weights = {
        kind: (s / rate) ** 2 / len(rates) * len(kinds) / counts[kind]
        for kind, rate in rates.items()
    }
    largest = max(weights.values())
    answers = zip(kinds, best, other, strict=True)
    leads = [0.5 + weights[kind] * (own - its) / (2 * largest) for kind, own, its in answers]

    def surely_below(hundredths: int) -> bool:
        mean = 0.5 + (dearer - hundredths / 100) / (2 * largest)
        return mean <= 0 or (mean < 1 and exceeds(leads, mean, level))

    return bisect_left(range(100), True, key=surely_below) / 100


def _answers(tuning: Tuning, prompts: Sequence[str]) -> list[str]:
    tokens, stop = (CHAT_TOKENS, None) if tuning.chat else (ANSWER_TOKENS, "\n")
    return (
        [completion.text for completion in tuning.model.generate(prompts, tokens, stop)]
        if prompts
        else []
    )


def _tokens(model: LanguageModel, texts: Sequence[str]) -> int:
    return sum(model.count_tokens(texts) if model.count_tokens else map(estimated_tokens, texts))


def _is_right(question: TuningQuestion, answer: str, unedited: Mapping[str, str]) -> bool:
    """Whether it states the new object or, of another question, what it says without the edit."""
    record = question.edit.record
    if question.kind is not Kind.OTHER:
        return record.states(answer, question.text) is Stated.NEW
    before, new = unedited[question.text], (Stated.NEW, Stated.BOTH)
    if record.states(answer) in new and record.states(before) not in new:
        return False
    brief = first_line(before)
    return not 0 < len(brief.split()) <= _BRIEF or stated(answer, [brief.strip(" .")]) in new
