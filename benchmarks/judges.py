"""The same editors under each of the three rules by which an answer is right.

One evaluation that writes and scores holds the verdicts of all rules. Test edits are those that `drike evaluate` draws.
A cell: S with its interval, and ESR / PC / RR.

    python benchmarks/judges.py [--data tinyfacts] [--seed 0] [--model embedded]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import chain

from drike.encoders import load_encoder
from drike.models import load
from drike.research import datasets
from drike.research.editors.catalog import UNTRAINED, make
from drike.research.editors.pool import Pool
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GREEDY, RULES
from drike.research.evaluation.metrics import Outcome, Summary, summarise
from drike.research.report.tables import INTERVALS, disagreement
from drike.support.table import as_text
from lib import pages

TITLE = "One rule per table"

EDITORS = (*UNTRAINED, "nearest@4")


def judged_by(name: str, outcome: Outcome) -> Outcome:
    """An outcome with scores and text, as the rule of this name judges it."""
    correct = {
        "greedy": outcome.correct,
        "generate": outcome.matched,
        "likelihood": outcome.prefers,
    }
    return replace(outcome, correct=correct[name])


def main() -> None:
    """Print a table for each rule, and how often the first two differ."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", default=datasets.TINYFACTS, help="data set, or its file")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--model", default="embedded", help="model to edit")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    model = load(options.model)
    parts = datasets.load(options.data).split(seed=options.seed)
    pool = Pool(parts.demonstrations, load_encoder(), seed=options.seed)
    outcomes: dict[str, list[Outcome]] = {}
    for editor in (make(name, pool=pool) for name in EDITORS):
        print(f"  {editor.name}", file=sys.stderr, flush=True)
        outcomes[editor.name] = list(evaluate(editor, model, parts.test, rule=GREEDY, write=True))
    rows = [
        (
            editor,
            *(
                cell(summarise([judged_by(name, outcome) for outcome in of_editor]))
                for name in RULES
            ),
        )
        for editor, of_editor in outcomes.items()
    ]
    title = (
        f"{parts.ids.title}, {len(parts.test)} test edits, model {options.model}: S, ESR / PC / RR"
    )
    pages.draw(title, ("Editor", *RULES), rows, INTERVALS, wide=True)
    print(disagreement([*chain.from_iterable(outcomes.values())]))


def cell(summary: Summary) -> str:
    """S with its interval, ESR, PC and RR."""
    rates = " / ".join(f"{summary.metric(metric).value:.3f}" for metric in ("ESR", "PC", "RR"))
    return f"{as_text(summary.s)}, {rates}"


if __name__ == "__main__":
    main()
