"""Ceilings: the best choices of demonstrations in hindsight, and the S they reach.

Every probe of the test edits is asked under each mix, under random subsets of the retains, and under a subset found by
greedy search. Such a choice is no editor: it bounds what an editor with the same demonstrations can gain.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase
from drike.models.protocols import LanguageModel
from drike.prompts import DemonstrationSet, PromptStyle, Role
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool, rotations
from drike.research.editors.selectors import RoleCounts, Selection, Selector
from drike.research.evaluation.bootstrap import Floats, estimated, resampled
from drike.research.evaluation.case_answers import CaseAnswers, answers_to
from drike.research.evaluation.judge import Judge
from drike.research.evaluation.metrics import harmonic_mean
from drike.research.report.tables import INTERVALS
from drike.support.parallel import in_order
from drike.support.table import Cell, Estimate, Number, Table

RightAndTokens = NDArray[
    np.object_
]  # whether answers are right, and prompt tokens, [2, probes, choices]
Chosen = NDArray[np.int64]  # the column of the choice for each probe, [probes]
ALL, MOST = "all demonstrations", "best k per query"
STEPS = 20  # of the ascent of S
ROUNDS = (
    4  # of the greedy search for an edit; each asks about as many subsets as the edit has retains
)


@dataclass(frozen=True)
class RetainSubset(Selector):
    """All copies and updates, and the retains at these places of the order by nearness (0 is the nearest)."""

    places: frozenset[int]

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The same demonstrations for each query, nearest first in each role."""
        retains = (
            retain for place, retain in enumerate(candidates.retains) if place in self.places
        )
        shown = (*candidates.fixed, *retains)
        return [Selection(candidates, shown) for _ in queries]


def mixes_of(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """All mixes that are compared, smallest first, given the role of each demonstration of an edit.

    They show all copies and updates, copies alone, or neither, each with 0, 1, 2, 4, ... or all retains.
    """
    copies, updates, retains = (roles.count(role) for role in (Role.COPY, Role.UPDATE, Role.RETAIN))
    numbers = {0, retains, *(2**i for i in range(retains.bit_length()) if 2**i < retains)}
    fixed = {(0, 0), (copies, 0), (copies, updates)}
    return tuple(
        sorted(
            (RoleCounts(c, u, r) for c, u in fixed for r in numbers),
            key=lambda mix: (mix.size, mix),
        )
    )


def retains_of(pool: Pool) -> int:
    """How many retains each edit has."""
    return sum(role is Role.RETAIN for role in pool.roles)


def random_subsets(retains: int, count: int, seed: int) -> tuple[RetainSubset, ...]:
    """`count` different subsets, or all there are, the same for every edit; their sizes are uniform from 0 to all."""
    rng, subsets = random.Random(seed), dict[RetainSubset, None]()
    while len(subsets) < min(count, 2**retains):
        subsets[RetainSubset(frozenset(rng.sample(range(retains), rng.randint(0, retains))))] = None
    return tuple(subsets)


def hindsight_answers(
    choices: Sequence[Selector],
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
) -> Generator[CaseAnswers]:
    """Ask the probes of every case under each choice, and under a subset of its retains found by greedy search.

    The answers under that subset are the last column. The search begins with the best k of the mixes that show all
    copies and updates. Each of at most ROUNDS rounds tries adding or dropping every single retain and takes the best
    change; the search ends when no change raises the share of right answers, a mean over aspects. Only a change that
    corrects a wrong answer is tried on the probes that are right already. Raises PoolError and ModelErrors.
    """
    pool.for_groups(
        [edits for case in cases for edits in rotations(case.edits)]
    )  # all in one search
    judge = Judge(model)
    starts = [
        i
        for i, mix in enumerate(choices)
        if isinstance(mix, RoleCounts) and shows_all_fixed(mix, pool)
    ]

    def ask(case: EditCase) -> CaseAnswers:
        def under(selectors: Sequence[Selector], which: NDArray[np.bool_]) -> RightAndTokens:
            probes = tuple(
                probe for probe, wanted in zip(case.probes, which, strict=True) if wanted
            )
            editors = [InContextEditor("", pool, selector, style, limit) for selector in selectors]
            answers = answers_to(replace(case, probes=probes), editors, judge)
            both = [answers.correct, answers.prompt_tokens]
            return np.array(both, dtype=object).reshape(2, len(probes), len(selectors))

        aspect = np.array([probe.aspect for probe in case.probes])
        answers = under(choices, np.full(len(aspect), True))
        best = max(starts, key=lambda i: _share_right(answers[0, :, i], aspect))
        places, reached = frozenset(range(choices[best].retains)), answers[:, :, [best]]  # type: ignore[attr-defined]
        for _ in range(ROUNDS):
            right = reached[0, :, 0].astype(bool)
            tried = [RetainSubset(places ^ {place}) for place in range(retains_of(pool))]
            wrong = under(tried, ~right)
            helpful = np.flatnonzero(wrong[0].any(axis=0))
            if not helpful.size:
                break
            both = np.empty((2, len(aspect), len(helpful)), dtype=object)
            both[:, ~right], both[:, right] = (
                wrong[:, :, helpful],
                under([tried[i] for i in helpful], right),
            )
            shares = [_share_right(both[0, :, i], aspect) for i in range(len(helpful))]
            best = int(np.argmax(shares))
            if shares[best] <= _share_right(reached[0, :, 0], aspect):
                break
            places, reached = tried[helpful[best]].places, both[:, :, [best]]
        correct, tokens = (
            tuple(map(tuple, rows)) for rows in np.concatenate([answers, reached], axis=2)
        )
        return CaseAnswers(case.case_id, correct, tokens)

    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered


def shows_all_fixed(mix: RoleCounts, pool: Pool) -> bool:
    """Whether a mix shows all copies and updates, as the paper does."""
    return mix.copies + mix.updates == len(pool.roles) - retains_of(pool)


def _share_right(right: NDArray[np.object_], aspect: NDArray[np.str_]) -> float:
    """The share of right answers of a case, a mean over the aspects that it probes."""
    return float(np.mean([right[aspect == asked].mean() for asked in np.unique(aspect)]))


@dataclass(frozen=True)
class Measured:
    """What a choice reaches: S with its interval, the rate of each aspect that has probes, prompt tokens on average."""

    s: Estimate
    rates: Mapping[Aspect, float]
    tokens: float | None


@dataclass(frozen=True, eq=False)
class AnswerMatrix:
    """The answers to every probe of some cases under each choice of demonstrations.

    right: 0 or 1, [probes, choices]. tokens: of the prompts, NaN where unknown, [probes, choices]. aspects: that have
    probes. aspect: place in `aspects`, [probes]. case: place in `cases`, [probes]. cases: their ids.
    """

    right: Floats
    tokens: Floats
    aspects: tuple[Aspect, ...]
    aspect: NDArray[np.int64]
    case: NDArray[np.int64]
    cases: tuple[str, ...]

    @classmethod
    def of(cls, cases: Sequence[EditCase], answers: Sequence[CaseAnswers]) -> AnswerMatrix:
        """Collect the answers, which are in the order of the cases. Raises ValueError if they are of other cases."""
        asked = [(case.case_id, len(case.probes)) for case in cases]
        if [(of_case.case_id, len(of_case.correct)) for of_case in answers] != asked:
            raise ValueError("the answers are not those of the cases")
        of_probes = [probe.aspect for case in cases for probe in case.probes]
        aspects = tuple(aspect for aspect in Aspect if aspect in of_probes)
        return cls(
            np.array([row for of_case in answers for row in of_case.correct], dtype=float),
            np.array([row for of_case in answers for row in of_case.prompt_tokens], dtype=float),
            aspects,
            np.array([aspects.index(aspect) for aspect in of_probes]),
            np.repeat(np.arange(len(cases)), [len(case.probes) for case in cases]),
            tuple(case.case_id for case in cases),
        )

    def always(self, column: int) -> Chosen:
        """One choice for every probe."""
        return np.full(len(self.case), column)

    def counts(self, chosen: Chosen) -> Floats:
        """Right answers and probes of each case and aspect, [cases, aspects, 2]."""
        counts = np.zeros((self.case[-1] + 1, len(self.aspects), 2))
        np.add.at(
            counts[..., 0], (self.case, self.aspect), self.right[np.arange(len(chosen)), chosen]
        )
        np.add.at(counts[..., 1], (self.case, self.aspect), 1)
        return counts

    def score(self, chosen: Chosen) -> float:
        """S, over the aspects that have probes."""
        return float(harmonic_mean(_rates(self.counts(chosen).sum(axis=0))))

    def measured(self, chosen: Chosen) -> Measured:
        """What a choice reaches, with the interval of S over cases."""
        counts = self.counts(chosen)
        rates, tokens = (
            _rates(counts.sum(axis=0)),
            float(self.tokens[np.arange(len(chosen)), chosen].mean()),
        )
        with np.errstate(invalid="ignore"):  # a resample may hold no probe of an aspect
            drawn = harmonic_mean(_rates(resampled(counts)))
        [s] = estimated(harmonic_mean(rates)[None], drawn[:, None], len(self.cases))
        by_aspect = dict(zip(self.aspects, rates.tolist(), strict=True))
        return Measured(s, by_aspect, None if np.isnan(tokens) else tokens)

    def best(self, groups: NDArray[np.int64], choices: Sequence[int]) -> Chosen:
        """The best of these columns for each group of probes; of equal ones the first.

        The Frank-Wolfe method maximises S over all groups together, starting from the best single choice: in each step
        every group takes its best choice by the gradient of S, which is 1 / m^2 for an aspect with mean m. The best of
        STEPS such assignments is returned: the maximum where each probe is a group of its own, elsewhere maybe less.
        """
        columns, size = np.array(choices), np.bincount(self.aspect)
        best = max(map(self.always, choices), key=self.score)
        maximum, rates = self.score(best), _rates(self.counts(best).sum(axis=0))
        _, group = np.unique(groups, return_inverse=True)
        for step in range(STEPS):
            rates = np.maximum(rates, 1e-9)
            weight = (rates.min() / rates) ** 2 / size
            value = np.zeros((group.max() + 1, len(columns)))
            np.add.at(value, group, (self.right * weight[self.aspect][:, None])[:, columns])
            chosen = columns[value.round(12).argmax(axis=1)][group]
            if (score := self.score(chosen)) > maximum:
                best, maximum = chosen, score
            rates = rates + 2 / (step + 3) * (_rates(self.counts(chosen).sum(axis=0)) - rates)
        return best


def _rates(counts: Floats) -> Floats:
    """The share of right answers in each aspect, [..., aspects, 2] to [..., aspects]."""
    right: Floats = counts[..., 0] / counts[..., 1]
    return right


def ceilings(answered: AnswerMatrix, choices: Sequence[Selector], pool: Pool) -> dict[str, Chosen]:
    """The best choices in hindsight by name.

    answered: under these choices, the mixes first, and under the greedy subset where there is one column more.
    """
    mixes = [i for i, choice in enumerate(choices) if isinstance(choice, RoleCounts)]
    k = [i for i in mixes if shows_all_fixed(choices[i], pool)]  # type: ignore[arg-type]
    subsets = [i for i, choice in enumerate(choices) if isinstance(choice, RetainSubset)]
    greedy = list(range(len(choices), answered.right.shape[1]))
    kind = (
        answered.aspect == np.array([a is Aspect.NEIGHBORHOOD for a in answered.aspects]).argmax()
    ).astype(int)
    edit, query = answered.case, np.arange(len(answered.case))
    best = {
        ALL: answered.always(k[-1]),
        "best k of all edits": answered.best(np.zeros_like(edit), k),
        "best k per kind of query": answered.best(kind, k),
        "best k per edit": answered.best(edit, k),
    }
    if subsets:
        best[f"best of {len(subsets)} random subsets per edit"] = answered.best(edit, subsets)
    if greedy:
        best["greedy subset per edit"] = answered.always(greedy[0])
        best["best of all these subsets per edit"] = answered.best(edit, [*k, *subsets, *greedy])
    return best | {
        MOST: answered.best(query, k),
        "best mix per kind of query": answered.best(kind, mixes),
        "best mix per query": answered.best(query, mixes),
    }


def ceilings_table(choices: Mapping[str, Measured], title: str, ceiling: str = MOST) -> Table:
    """A row for each choice, with its prompt tokens as a share of those of all demonstrations, and the gap it closes.

    The gap is the one between all demonstrations and the choice named `ceiling`.
    """
    low, high = choices[ALL].s.value or 0.0, choices[ceiling].s.value or 0.0
    all_tokens = choices[ALL].tokens
    rows: list[tuple[Cell, ...]] = []
    for name, choice in choices.items():
        rates = (Number(choice.rates.get(aspect), ".3f") for aspect in ASPECTS_OF_S)
        tokens = None if choice.tokens is None or not all_tokens else choice.tokens / all_tokens
        closed = None if high <= low else ((choice.s.value or 0.0) - low) / (high - low)
        rows.append((name, choice.s, *rates, Number(tokens, ".2f"), Number(closed, ".0%")))
    notes = [
        "best, greedy: chosen in hindsight, from the answers. k, subset: of the retains, with all copies and updates; "
        "mix: of all roles; k and mix show the nearest. Kinds of query: the edit's own, and neighbours.",
        f"tokens: of prompts, as a share of those with {ALL}. closed: share of the gap between {ALL} and {ceiling}.",
        INTERVALS,
    ]
    absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in choices[ALL].rates]
    notes += (
        [f"No test edit has a {' or a '.join(absent)} probe: S is of the others."] if absent else []
    )
    return Table(
        title, ("choice", "S", "ESR", "PC", "RR", "tokens", "closed"), tuple(rows), tuple(notes)
    )
