"""The same editors under each of the three rules by which an answer is right, on the embedded model; docs/results.md.

One evaluation that writes and scores holds the verdicts of all rules. Test edits are those that `drike evaluate` draws.
Prints Markdown; progress goes to standard error.

    python benchmarks/judges.py [--data tinyfacts] [--seed 0] [--model embedded] > judges.md
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from drike import datasets
from drike.editors.catalog import UNTRAINED, make
from drike.editors.pool import Pool
from drike.encoders import load_encoder
from drike.evaluation.evaluate import evaluate
from drike.evaluation.judge import GREEDY, RULES
from drike.evaluation.metrics import Outcome, summarise
from drike.models import load
from drike.report import as_markdown, disagreement, table1

EDITORS = (*UNTRAINED, "nearest@4")


def judged_by(name: str, outcome: Outcome) -> Outcome:
    """An outcome with scores and text, as the rule of this name judges it."""
    correct = {"greedy": outcome.correct, "generate": outcome.matched, "likelihood": outcome.prefers}
    return replace(outcome, correct=correct[name])


def main() -> None:
    """Print a table for each rule, and how often the first two differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=datasets.TINYFACTS, help="data set, or its file")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--model", default="embedded", help="model to edit")
    options = parser.parse_args()
    model = load(options.model)
    parts = datasets.load(options.data).split(seed=options.seed)
    pool = Pool(parts.demonstrations, load_encoder(), seed=options.seed)
    outcomes: dict[str, list[Outcome]] = {}
    for editor in (make(name, pool=pool, model=model) for name in EDITORS):
        print(f"  {editor.name}", file=sys.stderr, flush=True)
        outcomes[editor.name] = list(evaluate(editor, model, parts.test, rule=GREEDY, write=True))
    for name, rule in RULES.items():
        judged = {editor: [judged_by(name, one) for one in found] for editor, found in outcomes.items()}
        summaries = [summarise(found, judged["Unedited"]) for found in judged.values()]
        title = f"{parts.ids.title}, {len(parts.test)} test edits, model {options.model}, judged by {name}"
        print(as_markdown(table1(summaries, title, rule.caption)))
    print(disagreement(outcomes))


if __name__ == "__main__":
    main()
