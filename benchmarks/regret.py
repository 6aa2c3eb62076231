"""Measure how far a policy is from the best choice of retains, on the closed-form reader of TinyFacts.

The reader answers exactly, within microseconds. Its P(target_new) falls with the summed weights of the retains shown,
so the best subset of size k holds the k retains that harm least alone; for k <= 3 this is checked against all
subsets. Regret is the value of the best subset minus that of the policy's choice, for the query of held-out edits, in
reward (+1 right, -1 wrong) and in P(target_new). "own cut": the policy's ranking cut by its own budget, compared with
the best subset of any size. "k": the first k of the ranking compared with the best k. Means over seeds and edits,
with 95 % bootstrap intervals over edits, one that several seeds test being one case; the last rows are paired
differences, below 0 where training helped.

    python benchmarks/regret.py [--seeds 3] [--test 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import numpy as np

from drike import tinyfacts
from drike.encoders import load_encoder
from drike.models.protocols import Request
from drike.models.reader import BayesianReader
from drike.prompts import DemonstrationSet, PromptStyle
from drike.research import datasets
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Ranker, Similarity
from drike.research.editors.retriever import FORMS, Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.bootstrap import resampled
from drike.research.training.algorithm1 import rewrite_reward, train
from drike.tinyfacts import TEMPLATES
from lib import pages

TITLE = "Regret on the closed-form reader"

SIZES = (1, 2, 4, 8)
Choice = Sequence[int]


def ask(
    reader: BayesianReader, candidates: DemonstrationSet, chosen: Sequence[Choice]
) -> list[float]:
    """Return P(target_new) under each choice of retains (pool indices)."""
    edit = candidates.edit
    style, retains = PromptStyle(), candidates.retains
    prompts = [
        style.show(candidates, [retains[i] for i in choice], [edit.query])[0] for choice in chosen
    ]
    scores = reader.score([Request(prompt.text, f" {edit.target_new}") for prompt in prompts])
    return [score.mean_probability for score in scores]


def best(reader: BayesianReader, candidates: DemonstrationSet, *, check: bool) -> dict[int, float]:
    """Return P(target_new) under the best subset of each size; `check` tries all subsets up to size 3."""
    n = len(candidates.retains)
    alone = ask(reader, candidates, [(i,) for i in range(n)])
    mildest = sorted(range(n), key=lambda i: -alone[i])
    found = dict(zip(SIZES, ask(reader, candidates, [mildest[:k] for k in SIZES]), strict=True))
    for k in (1, 2, 3) if check else ():
        tried = max(ask(reader, candidates, list(combinations(range(n), k))))
        [claimed] = ask(reader, candidates, [mildest[:k]])
        if abs(tried - claimed) > 1e-9:
            raise AssertionError(
                f"a subset of {k} beats the one that was taken for the best: {tried} > {claimed}"
            )
    return found


def reward(p: float) -> float:
    """Return +1 if the reader would answer with target_new, else -1."""
    return 1.0 if p > 0.5 else -1.0


def interval(values: Sequence[float], edits: Sequence[str]) -> str:
    """Format a mean with its 95 % bootstrap interval over edits; one that several seeds test is one case."""
    known, place = np.unique(edits, return_inverse=True)
    sums = np.zeros((len(known), 2))
    np.add.at(sums, place, [(value, 1.0) for value in values])
    drawn = resampled(sums)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return f"{fmean(values):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Print a table of regrets."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--test", type=int, default=100, help="number of test edits per seed")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset = datasets.load(datasets.TINYFACTS)
    reader = BayesianReader(tinyfacts.facts(), TEMPLATES)
    encoder = load_encoder()
    columns = ("k kept", "own cut, reward", "own cut, P", *(f"k={k}, P" for k in SIZES))
    found: dict[str, list[tuple[float, ...]]] = {}
    edits: list[str] = []
    for seed in range(options.seeds):
        parts = dataset.split(test=options.test, seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        policies: dict[str, tuple[Ranker, Budget]] = {
            "similarity, all kept": (Similarity(), Fraction(1.0))
        }
        for form in FORMS:
            policies[f"{form}, untrained"] = (Retriever(encoder, form=form, seed=seed), Threshold())
            retriever = Retriever(encoder, form=form, seed=seed)
            editor = InContextEditor("DR-IKE", pool, RankAndCut(retriever, Threshold()))
            *_, last = train(editor, rewrite_reward(reader), parts.train)
            policies[f"{form}, trained"] = (retriever, last.budget)
        edits += [case.case_id for case in parts.test]
        for i, candidates in enumerate(pool.candidates([case.edit for case in parts.test])):
            ceiling = best(reader, candidates, check=seed == 0 and i < 10)
            top = max(ceiling.values())
            for name, (ranker, budget) in policies.items():
                ranking = ranker.rank(candidates)
                kept = budget.keep(ranking.probs)
                [own, *first] = ask(
                    reader, candidates, [ranking.order[:kept], *(ranking.order[:k] for k in SIZES)]
                )
                at_k = [ceiling[k] - p for k, p in zip(SIZES, first, strict=True)]
                found.setdefault(name, []).append(
                    (kept, reward(top) - reward(own), top - own, *at_k)
                )
    for form in FORMS:
        for other in (f"{form}, untrained", "similarity, all kept"):
            pairs = zip(found[f"{form}, trained"], found[other], strict=True)
            difference = [
                tuple(a - b for a, b in zip(ours, theirs, strict=True)) for ours, theirs in pairs
            ]
            found[f"{form}, trained minus {other}"] = difference
    rows = [
        (name, *(interval(column, edits) for column in zip(*of, strict=True)))
        for name, of in found.items()
    ]
    title = f"{options.seeds} seeds x {options.test} held-out edits, closed-form reader"
    pages.draw(title, ("policy", *columns), rows, "Brackets: 95 % bootstrap intervals over edits.")


if __name__ == "__main__":
    main()
