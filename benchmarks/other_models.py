"""Compare DR-IKE-Q with IKE, Rank-50 % and the paper's DR-IKE on another model, with the settings of the embedded one.

FOLDER is what `python -m tools.tinyfacts build --other --seed 1 --out FOLDER` wrote; its rows.json words TinyFacts as
the model knows it. Other models are asked TinyFacts itself. Each seed draws 300 training and 100 test edits; DR-IKE is
trained for 5 epochs of Algorithm 1, DR-IKE-Q as `drike train --objective s` does. The last column is
paired, over the edits of all seeds.

    python benchmarks/other_models.py [--model FOLDER] [--seeds 3]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from drike import tinyfacts
from drike.encoders import load_encoder
from drike.models import load
from drike.prompts import PromptStyle
from drike.research import datasets
from drike.research.editors.budgets import Fraction
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import FORMS
from drike.research.editors.selectors import RankAndCut, RoleCounts, SubjectSwitch, policy_mixes
from drike.research.evaluation.metrics import Outcome, paired_difference, summarise
from drike.research.report.tables import INTERVALS, STARRED
from drike.support.table import Difference, Table, as_markdown
from lib import pages
from lib.policies import trained_policy
from results import measured, trained

TITLE = "DR-IKE-Q on another model"

NEAREST, OURS, METRICS = 4, "DR-IKE-Q", ("S", "ESR", "PC", "RR")


def tables(outcomes: Mapping[str, Sequence[Outcome]], title: str) -> str:
    """Results and prompt tokens of each editor, and DR-IKE-Q's paired difference in S from it."""
    rows = []
    for name, of_editor in outcomes.items():
        summary = summarise(of_editor)
        tokens = "n/a" if summary.prompt_tokens is None else f"{summary.prompt_tokens:.0f}"
        less = "" if name == OURS else Difference(paired_difference(outcomes[OURS], of_editor, "S"))
        rows.append((name, *map(summary.metric, METRICS), tokens, less))
    header = ("Editor", *METRICS, "tokens/prompt", f"{OURS} minus it: S")
    return as_markdown(Table(title, header, tuple(rows), (INTERVALS, STARRED)))


def main() -> None:
    """Print the tables as Markdown; progress, with the tables of the seeds so far, goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to edit")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    rows = Path(options.model, "rows.json")
    dataset = datasets.load(rows if rows.exists() else datasets.TINYFACTS)
    model, encoder = load(options.model), load_encoder()
    outcomes: dict[str, list[Outcome]] = {}
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, editable=tinyfacts.EDITABLE)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        paper = trained(model, parts, pool, form=FORMS[0], seed=seed, variant="DR-IKE")
        everything = policy_mixes(pool.roles)[-1]
        own, other = (
            RoleCounts(everything.copies, everything.updates, 0),
            RoleCounts(0, 0, everything.retains),
        )
        editors: list[Editor] = [
            InContextEditor(
                "IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")
            ),
            InContextEditor("Rank-50%", pool, RankAndCut(paper.retriever, Fraction(0.5))),
            InContextEditor("DR-IKE", pool, RankAndCut(paper.retriever, paper.budget)),
            InContextEditor(
                f"nearest k = {NEAREST}",
                pool,
                RankAndCut(Similarity(), Fraction(NEAREST / everything.retains)),
            ),
            InContextEditor("by name, else 16 retains", pool, SubjectSwitch(own, other)),
            InContextEditor("by name, else left alone", pool, SubjectSwitch(own)),
            InContextEditor(OURS, pool, trained_policy(model, pool, parts.train)),
        ]
        for editor in editors:
            outcomes.setdefault(editor.name, []).extend(measured(editor, model, parts.test))
            print(f"  evaluated {editor.name}, seed {seed}", file=sys.stderr, flush=True)
        title = f"{seed + 1} seeds x {len(parts.test)} test edits of {dataset.name}, model {model.info.name}"
        print(tables(outcomes, title), file=sys.stderr, flush=True)
    print(tables(outcomes, title))


if __name__ == "__main__":
    main()
