"""Choose the placement of facts that a model obeys, and keep the choice.

It is chosen by the model's answers to questions about a store's own edits. Several placements are
compared in rounds, and those that are surely worse are left out, so that few questions suffice.
"""

import json
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, cycle, pairwise

from drike.answers.matching import first_line
from drike.answers.statements import Stated, stated
from drike.conversations.rendering import Facts, Placement
from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.edits.record import EditRecord, EditVersion, StoreError
from drike.gates.edit_names import common_questions
from drike.gateway.proving.questions import EditQuestion
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.models.served import estimated_tokens
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT
from drike.stores.verifications import QuestionKind
from drike.support.records import parse, read
from drike.support.statistics import exceeds

_SETTING = "placement"  # of a store
CHAT_TOKENS = 64  # of an answer in a chat
_FIRST = 4  # questions of each kind in the first round
_BRIEF = 6  # words of an answer that is compared as a whole
# What stores and tables call the aspects that questions test.
_NAMES = {
    Aspect.REWRITE: "own query",
    Aspect.PARAPHRASE: "wording",
    Aspect.NEIGHBORHOOD: "other question",
}


@dataclass(frozen=True)
class Trial:
    """What a placement achieved.

    gain: by how much it may be better than the best one at most, in S less the price of tokens; 0
    if it is surely not better.
    """

    placement: str
    rates: tuple[float, ...]  # of right answers, by aspect
    asked: int
    tokens: float  # that it adds to a question, on average
    s: float
    gain: float = 0.0


@dataclass(frozen=True)
class ChosenPlacement:
    """The placement chosen for a store.

    better: with probability `confidence`, no other placement is better by more (`Trial.gain`).
    """

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
    better: float


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


@dataclass(frozen=True)
class Tuning:
    """What is asked, of a model that chats or not.

    is_found: whether a gate finds a question's edit, so that it gets the fact where it would be
    served; None: every question gets it. Questions that the edit does not concern rarely do.
    """

    model: LanguageModel
    placements: Mapping[str, Placement]
    questions: Sequence[EditQuestion]
    chat: bool
    price: float  # of a thousand tokens that a placement adds, in S
    confidence: float = 0.95  # with which all tests hold together
    tolerance: float = 0.05  # how much better another placement may be, in S
    is_found: Callable[[EditQuestion], bool] | None = None

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """What the questions test."""
        tested = {question.aspect for question in self.questions}
        return tuple(aspect for aspect in ASPECTS_OF_S if aspect in tested)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The aspects, as stores and tables call them."""
        return tuple(_NAMES[aspect] for aspect in self.aspects)

    @property
    def grid(self) -> int:
        """Calls that all questions under all placements take, with those without an edit."""
        prompts = {question.text for question in self.questions if not question.kind.concerns}
        for question in self.questions:
            facts = self.facts_for(question)
            prompts |= {_prompt(placement, facts) for placement in self.placements.values()}
        return len(prompts)

    def facts_for(self, question: EditQuestion) -> Facts:
        """The fact that a question gets, or none."""
        gets_it = self.is_found is None or self.is_found(question)
        return Facts((question.edit,) if gets_it else (), question.text)


@dataclass(frozen=True)
class Round:
    """What is known after some questions.

    trials: of all placements, those left first, the best first. calls: so far.
    """

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


def questions_of(edits: Sequence[EditVersion], most: int, seed: int = 0) -> list[EditQuestion]:
    """Up to `most` questions of each aspect about edits, in an order drawn by the seed.

    Each edit is asked about before one is asked about a second time. Other questions are negative
    exemplars, the query of an edit of another subject, best of the relation, and common ones.
    """
    order = random.Random(seed).sample(list(edits), len(edits))
    shuffled = random.Random(seed).sample(common_questions(), len(common_questions()))
    common = cycle(shuffled)
    by_aspect: dict[Aspect, list[list[EditQuestion]]] = {aspect: [] for aspect in ASPECTS_OF_S}
    for edit in order:
        record = edit.record
        others = [
            *_questions(edit, QuestionKind.NEGATIVE, record.negatives),
            *_questions(edit, QuestionKind.NEAR, _queries_near(record, order)[:1]),
            EditQuestion(edit, QuestionKind.COMMON, next(common)),
        ]
        by_aspect[Aspect.REWRITE].append([EditQuestion(edit, QuestionKind.QUERY, record.query)])
        by_aspect[Aspect.PARAPHRASE].append(
            _questions(edit, QuestionKind.WORDING, _wordings(record))
        )
        by_aspect[Aspect.NEIGHBORHOOD].append(others)
    chosen: list[EditQuestion] = []
    for questions_by_edit in by_aspect.values():
        chosen += _in_turns(questions_by_edit)[:most]
    return chosen


def _questions(edit: EditVersion, kind: QuestionKind, texts: Sequence[str]) -> list[EditQuestion]:
    return [EditQuestion(edit, kind, text) for text in texts]


def _wordings(record: EditRecord) -> list[str]:
    """The query in other words, or under another name of the subject."""
    under_aliases = [record.query_with(alias) for alias in record.aliases]
    texts = dict.fromkeys((*record.paraphrases, *under_aliases))
    return [text for text in texts if text != record.query]


def _queries_near(record: EditRecord, edits: Sequence[EditVersion]) -> list[str]:
    """The queries of edits of other subjects: of the same relation, if there are any."""
    others = [edit.record for edit in edits if edit.record.subject not in record.names]
    same_relation = [other.query for other in others if other.relation == record.relation]
    return same_relation or [other.query for other in others]


def _in_turns(questions_by_edit: Sequence[Sequence[EditQuestion]]) -> list[EditQuestion]:
    """The first question of every edit, then the second ones, and so on."""
    longest = max(map(len, questions_by_edit), default=0)
    return [
        questions[turn]
        for turn in range(longest)
        for questions in questions_by_edit
        if turn < len(questions)
    ]


def tune(tuning: Tuning) -> Iterator[Round]:
    """Rounds until no placement that is left may be better by more than the tolerance.

    After each, the best placement is compared with every other one, and those that are surely worse
    are left out. All tests of all rounds hold together with the given confidence; that the weights
    of `gain` are estimates is left out. Raises ModelError.
    """
    by_aspect = [
        [question for question in tuning.questions if question.aspect is aspect]
        for aspect in tuning.aspects
    ]
    ends = _ends_of_rounds(max(map(len, by_aspect)))
    comparison = _Comparison(tuning, rounds=len(ends))
    for begin, end in pairwise((0, *ends)):
        latest = comparison.after([q for questions in by_aspect for q in questions[begin:end]])
        yield latest
        if latest.better <= tuning.tolerance:
            return


def _ends_of_rounds(longest: int) -> list[int]:
    """How many questions of each aspect are asked by the end of each round: twice as many each."""
    ends = []
    end = _FIRST
    while end < longest:
        ends.append(end)
        end *= 2
    return [*ends, longest]


class _Comparison:
    """The placements that are left, and what is known of each so far."""

    def __init__(self, tuning: Tuning, *, rounds: int) -> None:
        self._tuning = tuning
        self._left = list(tuning.placements)
        self._out: list[Trial] = []
        self._aspects: list[Aspect] = []  # of all questions so far
        self._right: dict[str, list[bool]] = defaultdict(list)  # by placement, of each question
        self._tokens = Counter[str]()  # that each placement added to all questions
        self._answers: dict[str, str] = {}  # of the model, by prompt
        # Of a single test, so that all hold together for the placement that is best in truth.
        tests = rounds * max(len(self._left) - 1, 1)
        self._level = 1 - (1 - tuning.confidence) / tests

    def after(self, questions: Sequence[EditQuestion]) -> Round:
        """What is known after these questions, too."""
        self._ask(questions)
        trials = [*self._ranked(), *self._out]
        latest = Round(tuple(trials), len(self._answers))
        self._left = [trial.placement for trial in trials[: latest.left]]
        self._out = trials[latest.left :]
        return latest

    def _ask(self, questions: Sequence[EditQuestion]) -> None:
        """Ask under all placements that are left, and judge the answers.

        What the edits do not concern is asked without them, too.
        """
        model = self._tuning.model
        facts = [self._tuning.facts_for(question) for question in questions]
        prompts_by_placement = {
            name: [_prompt(self._tuning.placements[name], each) for each in facts]
            for name in self._left
        }
        unedited = [question.text for question in questions if not question.kind.concerns]
        self._answer([*unedited, *chain.from_iterable(prompts_by_placement.values())])

        self._aspects += [question.aspect for question in questions]
        texts = [question.text for question in questions]
        for name, prompts in prompts_by_placement.items():
            self._right[name] += [
                _is_right(question, self._answers[prompt], self._answers)
                for question, prompt in zip(questions, prompts, strict=True)
            ]
            self._tokens[name] += _tokens(model, prompts) - _tokens(model, texts)

    def _answer(self, prompts: Iterable[str]) -> None:
        """Ask what was not asked before."""
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._answers]
        self._answers |= dict(zip(new, _answers(self._tuning, new), strict=True))

    def _ranked(self) -> list[Trial]:
        """The placements that were left: the best, those that may be better, those surely worse."""
        price = self._tuning.price / 1000
        tried = [
            trial_of(name, self._aspects, self._right[name], self._tokens[name])
            for name in self._left
        ]
        best, *others = sorted(
            tried, key=lambda trial: (trial.s - price * trial.tokens, -trial.tokens), reverse=True
        )
        rivals = []
        for other in others:
            most = gain(
                self._aspects,
                self._right[best.placement],
                self._right[other.placement],
                self._level,
                dearer=price * (best.tokens - other.tokens),
            )
            rivals.append(replace(other, gain=most))
        return [best, *sorted(rivals, key=lambda trial: not trial.gain)]


def _prompt(placement: Placement, facts: Facts) -> str:
    """A question with its facts where a placement puts them, or as it is without any."""
    if not facts.edits:
        return facts.query
    return facts.query.join(placement.around(facts, facts.query, TENANT))


def trial_of(name: str, aspects: Sequence[Aspect], right: Sequence[bool], tokens: int) -> Trial:
    """What a placement has achieved. right: of each question. tokens: that it added to all."""
    rates = tuple(_rates(aspects, right).values())
    return Trial(name, rates, len(right), tokens / len(right), _harmonic_mean(rates))


def _harmonic_mean(rates: Sequence[float]) -> float:
    """S of these rates: 0 if one of them is 0."""
    return 0.0 if 0 in rates else len(rates) / sum(1 / rate for rate in rates)


def _rates(aspects: Sequence[Aspect], right: Sequence[bool]) -> dict[Aspect, float]:
    """The share of right answers by aspect."""
    asked = Counter(aspects)
    answered = Counter(aspect for aspect, is_right in zip(aspects, right, strict=True) if is_right)
    return {aspect: answered[aspect] / asked[aspect] for aspect in ASPECTS_OF_S if asked[aspect]}


def gain(
    aspects: Sequence[Aspect],
    best: Sequence[bool],
    other: Sequence[bool],
    level: float,
    *,
    dearer: float,
) -> float:
    """By how much another placement may be better than the best one, at most.

    0 if it is surely not, at a level of confidence. best, other: whether its answer to each
    question is right. dearer: how much more the best one's tokens cost, in S.

    S is concave and grows with its rates in proportion, so it is at most its tangent. The weights,
    its derivatives at the best one's rates, thus make each pair of answers a bet on how far that
    one leads in S.
    """
    rates = _rates(aspects, best)
    counts = Counter(aspects)
    s = _harmonic_mean(list(rates.values()))
    if not s:
        return 1.0
    weights = {
        aspect: (s / rate) ** 2 / len(rates) * len(aspects) / counts[aspect]
        for aspect, rate in rates.items()
    }
    largest = max(weights.values())
    leads = [
        0.5 + weights[aspect] * (best_is_right - other_is_right) / (2 * largest)
        for aspect, best_is_right, other_is_right in zip(aspects, best, other, strict=True)
    ]

    def is_surely_less(hundredths: int) -> bool:
        mean = 0.5 + (dearer - hundredths / 100) / (2 * largest)
        return mean <= 0 or (mean < 1 and exceeds(leads, mean, level))

    return bisect_left(range(100), True, key=is_surely_less) / 100


def _answers(tuning: Tuning, prompts: Sequence[str]) -> list[str]:
    if not prompts:
        return []
    if tuning.chat:
        completions = tuning.model.generate(prompts, CHAT_TOKENS, None)
    else:
        completions = tuning.model.generate(prompts, ANSWER_TOKENS, "\n")
    return [completion.text for completion in completions]


def _tokens(model: LanguageModel, texts: Sequence[str]) -> int:
    """The tokens of all texts, counted or estimated."""
    counts = model.count_tokens(texts) if model.count_tokens else map(estimated_tokens, texts)
    return sum(counts)


def _is_right(question: EditQuestion, answer: str, unedited: Mapping[str, str]) -> bool:
    """Whether it states the new object or, of another question, what it says without the edit."""
    record = question.edit.record
    if question.kind.concerns:
        return record.states(answer, question.asked) is Stated.NEW
    before = unedited[question.text]
    has_new = record.states(answer, question.asked).includes_new
    if has_new and not record.states(before, question.asked).includes_new:
        return False
    line = first_line(before)
    if not 0 < len(line.split()) <= _BRIEF:
        return True  # a long answer is hardly given twice in the same words
    return stated(answer, [line.strip(" .")]).includes_new
