"""Measure how often a guarantee holds: `drike train --guarantee` on resampled splits of TinyFacts' held-out edits.

For each seed the policy per query is trained on 300 edits; the other 159 (validation and test) are asked under every
mix once. Then, 1,000 times: some of the 159 calibrate, which certifies settings and chooses one of them, or refuses.
Settings are the offsets of the policy, or a fixed k of nearest retains after all copies and updates.

* "false, all edits": edits are drawn with replacement to calibrate, and the metric of the chosen setting over all 159
  is below what was guaranteed. This is the theorem's case: at most 5 % of the draws.
* "false, test part": the 159 are split, and the metric on the edits that did not calibrate is below the guarantee;
  these are few, so this includes their own sampling error, which no theorem bounds.

Both are shares of all draws, and in brackets of those with a guarantee. "best certified" is what a refusal would offer.
ESR, PC, RR, S and demonstrations per prompt are those of the test parts where a guarantee was given, with
the largest S less the price of demonstrations, and (last column) with the largest sum of the other two metrics.

    python benchmarks/guarantee.py [--seeds 3] [--draws 1000]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from drike import load_model
from drike.encoders import load_encoder
from drike.research import datasets
from drike.research.editors.pool import Pool
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.risk_control import (
    METRICS,
    Counts,
    Guarantee,
    calibrate,
    certified,
    lower_bound,
    score,
)
from drike.research.training.s_objective import actions, count_right
from lib import pages
from lib.ceilings import AnswerMatrix, mixes_of, shows_all_fixed
from lib.policies import trained_policy

TITLE = "Guarantees"

HELD_OUT = 59  # validation edits of a seed: all that are neither trained on nor test edits
PROMISES = {
    "shift": ("rr>=.80", "rr>=.85", "rr>=.90", "rr>=.93", "pc>=.85", "pc>=.90"),
    "k": ("rr>=.75", "rr>=.80"),
}
EDITS = (59, 100)
PRICE = 0.05

Table = tuple[
    dict[Any, Counts], Counts, dict[Any, float]
]  # right answers, probes, price of the prompts


def tables(seed: int, model: Any, encoder: Any, dataset: Any) -> dict[str, Table]:
    """Answers on the held-out edits of a seed under each setting, the one with the highest RR first."""
    parts = dataset.split(seed=seed, validation=HELD_OUT)
    pool = Pool(parts.demonstrations, encoder, seed=seed)
    policy, held = trained_policy(model, pool, parts.train), (*parts.validation, *parts.test)
    answers = list(answers_under(actions(pool.roles), model, pool, held))
    counts = count_right(policy, held, answers, price=PRICE)
    fixed = [mix for mix in mixes_of(pool.roles) if shows_all_fixed(mix, pool)][::-1]
    of_k = AnswerMatrix.of(held, list(answers_under(fixed, model, pool, held)))
    by_k = {
        mix.retains: of_k.counts(of_k.always(column))[..., 0] for column, mix in enumerate(fixed)
    }
    return {
        "shift": (counts.right, counts.probes, counts.costs),
        "k": (by_k, counts.probes, {mix.retains: PRICE * mix.size / 32 for mix in fixed}),
    }


def draws(
    table: Table, promise: Guarantee, edits: int, *, most: int, count: int, rng: np.random.Generator
) -> list[dict[str, float]]:
    """What came of each draw; metrics are nan where the promise was refused."""
    right, probes, costs = table
    if promise.metric != "rr":
        right = dict(reversed(right.items()))
    column, found = METRICS.index(promise.metric), list[dict[str, float]]()

    def measured(counts: Counts, rows: Any) -> float:
        return float(counts[rows, column].sum() / probes[rows, column].sum())

    for _ in range(count):
        order = rng.permutation(len(probes))
        drawn, rest = order[:edits], order[edits:]
        again = rng.integers(len(probes), size=edits)
        one = {
            "false, all edits": 0.0,
            "false, test part": 0.0,
            "made, all edits": 0.0,
            "made": 0.0,
        }
        chosen = calibrate(
            _of(right, again), probes[again], guarantee=promise, max_probes=most, cost=costs
        )
        if chosen is not None:
            one["made, all edits"] = 1.0
            one["false, all edits"] = measured(right[chosen], slice(None)) < promise.level
        at = _of(right, drawn)
        one["best certified"] = lower_bound(
            promise, at[next(iter(at))], probes[drawn], max_probes=most
        )
        chosen = calibrate(at, probes[drawn], guarantee=promise, max_probes=most, cost=costs)
        if chosen is not None:
            one["made"] = 1.0
            one["false, test part"] = measured(right[chosen], rest) < promise.level
            means = right[chosen][rest].sum(axis=0) / probes[rest].sum(axis=0)
            one |= dict(zip(("ESR", "PC", "RR"), means, strict=True))
            one |= {"S": score(right[chosen][rest], probes[rest]), "cost": costs[chosen]}
            others = [i for i in range(3) if i != column]
            other = max(
                certified(promise, at, probes[drawn], max_probes=most),
                key=lambda one: (at[one].sum(axis=0) / probes[drawn].sum(axis=0))[others].sum(),
            )
            one["S by sum"] = score(right[other][rest], probes[rest])
        found.append(one)
    return found


def _of(right: Mapping[Any, Counts], rows: Any) -> dict[Any, Counts]:
    return {one: counts[rows] for one, counts in right.items()}


def main() -> None:
    """Print the table."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--draws", type=int, default=1000, help="number of draws, over all seeds")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, model, encoder = datasets.load("tinyfacts"), load_model("embedded"), load_encoder()
    by_seed = [tables(seed, model, encoder, dataset) for seed in range(options.seeds)]
    most = {
        "esr": 1,
        "pc": max(len(case.paraphrases) for case in dataset.cases),
        "rr": max(len(case.neighborhood) for case in dataset.cases),
    }
    names = ("ESR", "PC", "RR", "S", "cost", "S by sum")
    rows = []
    for setting, promises in PROMISES.items():
        for promise in map(Guarantee.parse, promises):
            for edits in EDITS:
                rng, found = np.random.default_rng(0), list[dict[str, float]]()
                for i, table in enumerate(by_seed):
                    count = (options.draws + i) // options.seeds
                    found += draws(
                        table[setting],
                        promise,
                        edits,
                        most=most[promise.metric],
                        count=count,
                        rng=rng,
                    )
                mean = {
                    name: np.mean([one[name] for one in found if name in one] or [np.nan])
                    for name in (*found[0], *names)
                }
                false = (
                    f"{mean[name]:.1%} ({mean[name] / mean[made] if mean[made] else np.nan:.1%})"
                    for name, made in (
                        ("false, all edits", "made, all edits"),
                        ("false, test part", "made"),
                    )
                )
                cells = [
                    setting,
                    str(promise),
                    str(edits),
                    f"{1 - mean['made']:.1%}",
                    f"{mean['best certified']:.3f}",
                    *false,
                ]
                cells += [f"{mean[name]:.3f}" for name in names]
                rows.append(cells)
                print(*cells, file=sys.stderr, flush=True)
    header = (
        "setting",
        "guarantee",
        "edits",
        "refused",
        "best certified",
        "false, all edits",
        "false, test part",
    )
    pages.draw(
        f"{options.draws:,} draws over {options.seeds} seeds", (*header, *names), rows, wide=True
    )


if __name__ == "__main__":
    main()
