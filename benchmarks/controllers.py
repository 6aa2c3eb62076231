"""Compare Threshold with the four learned budget controllers of Table 6, on the embedded model and several seeds.

Each seed draws its own split, trains a fresh head with each budget by Algorithm 1, and evaluates on the test edits.
Tables: the paper's (Llama-3.2-3B, 100 edits) beside ours, the cost of training, paired differences
from Threshold over all seeds, and training epoch by epoch.

    python benchmarks/controllers.py [--seeds 3] [--model embedded] [--quantile 0.95]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from drike.edits.edit import EditCase
from drike.encoders import TextEncoder, load_encoder
from drike.models import load
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.datasets.dataset import TEST, TRAIN
from drike.research.editors.budgets import Budget, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, summarise
from drike.research.report.tables import table1
from drike.research.training.algorithm1 import rewrite_reward, train
from drike.support.table import Table, as_markdown
from lib import pages
from lib.learned_budgets import KINDS, untrained
from results import minus

TITLE = "Budget controllers (Table 6)"

PAPER = {
    "Threshold": (0.86, 0.71),
    "scores": (0.81, 0.75),
    "scores-query": (0.81, 0.69),
    "query": (0.83, 0.65),
    "query-context": (0.80, 0.67),
}  # ESR, PC


@dataclass(frozen=True)
class Step:
    """The parts of an episode that the tables need; a whole learned budget is too large to keep 1,500 times."""

    epoch: int
    success: bool
    kept: int
    evaluated: int
    sigma: float


def trained(
    model: LanguageModel,
    cases: Sequence[EditCase],
    editor: InContextEditor[RankAndCut],
    *,
    epochs: int,
) -> tuple[Budget, list[Step]]:
    """Train by Algorithm 1; return the editor and its steps."""
    budget, steps = editor.selector.budget, []
    for e in train(editor, rewrite_reward(model), cases, epochs=epochs):
        budget = e.budget
        steps.append(Step(e.epoch, e.success, e.kept, e.k, e.sigma or 0.0))
    return budget, steps


def budget_of(name: str, encoder: TextEncoder, quantile: float, seed: int) -> Budget:
    """Make an untrained budget from its name in `PAPER`."""
    return untrained(name, encoder, quantile=quantile, seed=seed) if name in KINDS else Threshold()


def beside_the_paper(
    outcomes: dict[str, list[Outcome]], steps: dict[str, list[Step]], title: str
) -> Table:
    """Table 6 with our figures, retains per prompt and prompts per training episode."""
    rows = []
    for name, of_editor in outcomes.items():
        found = summarise(of_editor)
        ours = [table1([found], "").rows[0][column] for column in (2, 3, 4, 1)]
        paper = [f"{value:.2f}" for value in PAPER[name]]
        evaluated = fmean(step.evaluated for step in steps[name])
        rows.append((name, *paper, *ours, f"{found.shots:.2f}", f"{evaluated:.2f}"))
    header = (
        "Controller",
        "paper ESR",
        "paper PC",
        "ESR",
        "PC",
        "RR",
        "S",
        "retains/prompt",
        "prompts/episode",
    )
    notes = (
        "Brackets: 95 % bootstrap interval over cases. prompts/episode: evaluated in training.",
    )
    return Table(title, header, tuple(rows), notes)


def draw_epochs(runs: dict[str, list[Step]]) -> None:
    """Print ESR at the budget's cut, mean number kept, and sigma, for every epoch."""
    last = max(step.epoch for of_run in runs.values() for step in of_run)
    rows = []
    for name, of_run in runs.items():
        cells = []
        for epoch in range(1, last + 1):
            these = [step for step in of_run if step.epoch == epoch]
            sigmas = sorted(step.sigma for step in these)
            spread = f"{sigmas[len(sigmas) // 10]:.3f} to {sigmas[-1 - len(sigmas) // 10]:.3f}"
            cells.append(
                f"ESR {fmean(s.success for s in these):.2f}, kept {fmean(s.kept for s in these):.2f}, sigma {spread}"
            )
        rows.append((name, *cells))
    header = ("run", *(f"epoch {epoch}" for epoch in range(1, last + 1)))
    note = "sigma: from the 10th to the 90th percentile of the epoch's edits."
    pages.draw("Training, epoch by epoch", header, rows, note, wide=True)


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to edit")
    parser.add_argument("--data", default=datasets.TINYFACTS, help="edits and demonstrations")
    parser.add_argument("--train", type=int, default=TRAIN, help="number of training edits")
    parser.add_argument("--test", type=int, default=TEST, help="number of test edits")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs")
    parser.add_argument(
        "--quantile", type=float, default=0.95, help="quantile that the controllers learn"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset = datasets.load(options.data)
    model, encoder = load(options.model), load_encoder()
    outcomes: dict[str, list[Outcome]] = {}
    steps: dict[str, list[Step]] = {}
    runs: dict[str, list[Step]] = {}
    for seed in range(options.seeds):
        parts = dataset.split(train=options.train, test=options.test, seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        for name in PAPER:
            model.forget()
            untrained = budget_of(name, encoder, options.quantile, seed)
            editor = InContextEditor(
                name, pool, RankAndCut(Retriever(encoder, seed=seed), untrained)
            )
            began = time.perf_counter()
            budget, run = trained(model, parts.train, editor, epochs=options.epochs)
            seconds = time.perf_counter() - began
            outcomes.setdefault(name, []).extend(
                evaluate(
                    replace(editor, selector=replace(editor.selector, budget=budget)),
                    model,
                    parts.test,
                )
            )
            runs[f"{name}, seed {seed}"] = run
            steps.setdefault(name, []).extend(run)
            print(f"  {name}, seed {seed}: trained in {seconds:.0f} s", file=sys.stderr, flush=True)
    title = f"{options.seeds} seeds x {options.test} test edits of {dataset.name}, model {options.model}"
    print(as_markdown(beside_the_paper(outcomes, steps, title)))
    print(as_markdown(minus(outcomes, "Threshold", list(KINDS))))
    draw_epochs(runs)


if __name__ == "__main__":
    main()
