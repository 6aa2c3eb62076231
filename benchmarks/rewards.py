"""Compare rewards of retains in Algorithm 1, and a supervised rival, with the nearest retains at equal tokens.

Each row trains the paper's head (dot) on the same edits and differs in the reward only: the edit's own query (the
paper's), all probes with equal or balanced weights, marginal credit, soft rewards; "drop-one utilities" is trained on
measured utilities with a listwise loss. All prefixes of the pool are tried in training. On test edits each ranking
shows its k best retains after all copies and updates, so every row has the prompt tokens of its control, the k nearest
retains. "P(right) for each k" is a k head: it chooses how many of the nearest retains each query sees.

    python benchmarks/rewards.py [--seeds 3] [--edits 100] [--epochs 2] [--k 4] [--model embedded]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from drike import load_model
from drike.edits.edit import EditCase
from drike.encoders import load_encoder
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.editors.budgets import Fraction
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Ranker, Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, paired_difference, summarise
from drike.research.report.tables import INTERVALS, STARRED
from drike.research.training.algorithm1 import Reward, RewardChannel, at_once, rewrite_reward, train
from drike.support.table import Difference
from lib import pages
from lib.ceilings import mixes_of, shows_all_fixed
from lib.credit import every_probe, marginal, s_weighted
from lib.drop_one import train_listwise, utilities
from lib.k_head import right_with_each
from lib.pair_policy import PairPolicy, train_pair_policy
from lib.soft import soft_probes

TITLE = "Rewards for retains, drop-one utilities and the k head"

RATE = 1e-3  # for a few hundred episodes; chosen on validation edits of seed 0


def rewards_of(model: LanguageModel, edits: int) -> dict[str, tuple[Reward, RewardChannel]]:
    """The rows of Algorithm 1: what attempts earn, and what the learner gets for it."""
    hard, soft = every_probe(model), soft_probes(model)
    return {
        "the edit's own query": (rewrite_reward(model), at_once),
        "all probes": (hard, at_once),
        "balanced": (hard, s_weighted(edits)),
        "balanced, marginal": (hard, s_weighted(edits, marginal())),
        "balanced, marginal, soft": (soft, s_weighted(edits, marginal())),
    }


def rankers(
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    seed: int,
    epochs: int,
    only: Sequence[str],
) -> dict[str, tuple[Ranker, int]]:
    """Every ranker, with the tokens computed for its training. only: rewards to train with; [] for all."""
    found: dict[str, tuple[Ranker, int]] = {
        "untrained head": (Retriever(pool.encoder, seed=seed), 0)
    }
    for name, (reward, channel) in rewards_of(model, len(cases)).items():
        if only and name not in only:
            continue
        retriever, before = Retriever(pool.encoder, seed=seed), model.usage.tokens_computed
        editor = InContextEditor(name, pool, RankAndCut(retriever, Fraction(1.0)))
        for _ in train(editor, reward, cases, epochs=epochs, learning_rate=RATE, channel=channel):
            pass
        found[name] = retriever, model.usage.tokens_computed - before
    retriever, before = Retriever(pool.encoder, seed=seed), model.usage.tokens_computed
    measured = list(utilities(model, pool, cases))
    for _ in train_listwise(retriever, pool, cases, measured):
        pass
    found["drop-one utilities"] = retriever, model.usage.tokens_computed - before
    return found


def k_head(model: LanguageModel, pool: Pool, cases: Sequence[EditCase]) -> tuple[PairPolicy, int]:
    """A policy that predicts "right with k nearest retains" for every k at once, and the tokens computed for it."""
    before, mixes = (
        model.usage.tokens_computed,
        [m for m in mixes_of(pool.roles) if shows_all_fixed(m, pool)],
    )
    policy = PairPolicy(pool.encoder, mixes)
    answers = list(answers_under(mixes, model, pool, cases))
    train_pair_policy(policy, cases, answers, loss=right_with_each, price=0.0)
    return policy, model.usage.tokens_computed - before


def main() -> None:
    """Print the tables; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--edits", type=int, default=100, help="training edits")
    parser.add_argument("--epochs", type=int, default=2, help="passes over them")
    parser.add_argument("--k", type=int, default=4, help="retains shown")
    parser.add_argument("--model", default="embedded", help="model to ask")
    parser.add_argument(
        "--only", action="append", default=[], help="train with this reward; repeatable"
    )
    parser.add_argument(
        "--validation",
        action="store_true",
        help="measure on validation edits instead of test edits",
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, encoder, model = datasets.load("tinyfacts"), load_encoder(), load_model(options.model)
    outcomes, tokens = dict[str, list[Outcome]](), dict[str, int]()
    nearest = f"nearest k = {options.k}"
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, validation=59)
        pool, cases = Pool(parts.demonstrations, encoder, seed=seed), parts.train[: options.edits]
        tested = parts.validation if options.validation else parts.test
        policy, cost = k_head(model, pool, cases)
        editors: list[Editor] = [InContextEditor("P(right) for each k", pool, policy)]
        tokens["P(right) for each k"] = tokens.get("P(right) for each k", 0) + cost
        rows = {
            nearest: (Similarity(), 0),
            **rankers(model, pool, cases, seed=seed, epochs=options.epochs, only=options.only),
        }
        for name, (ranker, computed) in rows.items():
            editors.append(
                InContextEditor(name, pool, RankAndCut(ranker, Fraction(1.0, options.k)))
            )
            tokens[name] = tokens.get(name, 0) + computed
        for editor in editors:
            model.forget()
            outcomes.setdefault(editor.name, []).extend(evaluate(editor, model, tested))
            print(f"seed {seed}: evaluated {editor.name}", file=sys.stderr, flush=True)
    title = f"{options.seeds} seeds, {options.edits} training edits, {options.epochs} epochs, model {options.model}"
    rows = []
    for name, of_editor in outcomes.items():
        summary = summarise(of_editor)
        rates = (f"{summary.metric(metric).value:.3f}" for metric in ("ESR", "PC", "RR"))
        gain = (
            ""
            if name == nearest
            else Difference(paired_difference(of_editor, outcomes[nearest], "S"))
        )
        cost = f"{tokens[name] / options.seeds:,.0f}" if tokens[name] else ""
        rows.append((name, summary.s, *rates, gain, cost))
    header = ("row", "S", "ESR", "PC", "RR", f"S minus {nearest}", "training tokens a seed")
    pages.draw(title, header, rows, INTERVALS, STARRED)


if __name__ == "__main__":
    main()
