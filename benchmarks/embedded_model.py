"""Check the embedded model: what it knows, and how its answers depend on the demonstrations in the prompt.

The rows with a requirement are those that `python -m tools.tinyfacts check` enforces when the model is built. The rows
from "own facts: yes_no" on are about the further questions of `--probes all`: generated probes of edits turned round,
so that the old object is right, and TinyFacts' own questions, asked of the unedited model and all editable rows.

With --rewritten: RR of all editable rows by whether one of the edit's 32 demonstrations rewrites the very fact that the
neighbour asks for. The same neighbours are compared for every editor, also for those that show fewer of the 32.

    python benchmarks/embedded_model.py [--model embedded] [--rewritten]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from drike import load_model
from drike.edits.edit import Aspect
from drike.encoders import load_encoder
from drike.research import datasets
from drike.research.editors.catalog import make
from drike.research.editors.pool import Pool
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.research.evaluation.evaluate import evaluate
from drike.research.report.tables import INTERVALS, STARRED
from drike.support.table import Difference
from drike.tinyfacts import EDITABLE, TEMPLATES, facts
from lib import pages

TITLE = "Checks of the embedded model"
EDITORS = ("unedited", "factprompt", "no-retains", "nearest@4", "ike")


def main() -> None:
    """Read the options, and write the page where asked to."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--model", default="embedded", help="model to check, or a folder that build wrote"
    )
    parser.add_argument(
        "--rewritten", action="store_true", help="RR where a demonstration rewrites the neighbour"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        (rewritten if options.rewritten else measure)(options)


def measure(options: argparse.Namespace) -> None:
    """Print what the tool prints."""
    command = [sys.executable, "-m", "tools.tinyfacts", "check", "--model", options.model]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=False
    )
    print(f"```\n{done.stdout.strip()}\n```")


def rewritten(options: argparse.Namespace) -> None:
    """Print RR of the neighbours that a demonstration rewrites, and of the others."""
    fact_of = {
        words.format(fact.subject): fact for fact in facts() for words in TEMPLATES[fact.relation]
    }
    rows, model = datasets.load(datasets.TINYFACTS).cases, load_model(options.model)
    cases, pool = rows[:EDITABLE], Pool(rows[EDITABLE:], load_encoder())
    edit_of = {case.case_id: case.edit.query for case in rows}
    touched = {
        candidates.edit.key: {
            fact_of[edit_of[shown.case_id]] for shown in candidates.demonstrations
        }
        for candidates in pool.candidates([case.edit for case in cases])
    }
    place = {case.case_id: i for i, case in enumerate(cases)}
    table = []
    for name in EDITORS:
        editor, sums = (
            make(name, pool=pool),
            np.zeros((len(cases), 2, 2)),
        )  # rewritten or not, right answers and probes
        for outcome in evaluate(editor, model, cases):
            if outcome.aspect is Aspect.NEIGHBORHOOD:
                i = place[outcome.case_id]
                other = int(fact_of[outcome.query] not in touched[cases[i].edit.key])
                sums[i, other] += (bool(outcome.correct), 1)
        values, drawn = (
            counts[..., 0] / counts[..., 1] for counts in (sums.sum(axis=0), resampled(sums))
        )
        [change] = estimated(values[:1] - values[1:], drawn[:, :1] - drawn[:, 1:])
        table.append((editor.name, *estimated(values, drawn), Difference(change)))
    asked = sums[..., 1].sum(axis=0)
    title = f"RR of {len(cases)} edits by what the 32 demonstrations rewrite, model {options.model}"
    header = (
        "Editor",
        *(
            f"{what}, {n:,.0f} neighbours"
            for what, n in zip(("rewritten", "others"), asked, strict=True)
        ),
    )
    pages.draw(title, (*header, "difference"), table, INTERVALS, STARRED)


if __name__ == "__main__":
    main()
