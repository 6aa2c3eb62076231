"""Compare DR-IKE and DR-IKE-Q with controls that choose demonstrations without training.

"nearest@K" shows the K retains most similar to the edit in DR-IKE's layout, "nearest-same-k" as many of them as DR-IKE
keeps for the same edit, and "nearest-same-size" as many demonstrations as DR-IKE-Q shows for the same query, but the
nearest ones of any role. One seed; the split is that of `make demo`. With --data FILE the same policies are trained and
tested on other data.

    python benchmarks/controls.py [--data tinyfacts] [--edits 300] [--seed 0] [--editors NAME,NAME,...]
"""

from __future__ import annotations

import argparse
import sys

from aspect_profile import trained
from drike import load_model
from drike.encoders import load_encoder
from drike.research import datasets
from drike.research.editors.catalog import make
from drike.research.editors.pool import Pool
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, Summary, paired_difference, summarise
from drike.research.report.tables import COLUMNS, INTERVALS, STARRED
from drike.support.table import Difference
from lib import pages

TITLE = "Controls: the nearest demonstrations, and a switch by name"
OURS = "DR-IKE-Q"
NAMES = (
    "unedited,factprompt,editcot,ike,rank-all,rank-50,dr-ike,nearest-same-k,nearest@2,nearest@4,nearest@8,"
    "dr-ike-q,nearest-same-size,by-name"
)


def main() -> None:
    """Read the options, and write the page where asked to."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", default=datasets.TINYFACTS, help="data set, or its file")
    parser.add_argument("--edits", type=int, default=300, help="training edits")
    parser.add_argument("--test", type=int, default=100, help="test edits")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--editors", default=NAMES, help="separated by commas")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    data, model = datasets.load(options.data), load_model("embedded")
    parts = data.split(train=options.edits, test=options.test, seed=options.seed)
    pool = Pool(parts.demonstrations, load_encoder(), seed=options.seed)
    policies = trained(model, parts, pool, epochs=options.epochs, seed=options.seed)
    outcomes: dict[str, list[Outcome]] = {}
    for editor in (make(name, pool=pool, trained=policies) for name in options.editors.split(",")):
        outcomes[editor.name] = list(evaluate(editor, model, parts.test))
        print(f"  evaluated {editor.name}", file=sys.stderr, flush=True)
    summaries = [summarise(of_editor) for of_editor in outcomes.values()]
    rows = [
        (summary.editor, *map(summary.metric, COLUMNS), *sizes(summary)) for summary in summaries
    ]
    header = ("Editor", *COLUMNS, "retains/prompt", "tokens/prompt")
    pages.draw(
        f"{len(parts.test)} test edits of {data.name}, model embedded", header, rows, INTERVALS
    )
    if OURS in outcomes:
        less = [
            (
                name,
                *(
                    Difference(paired_difference(outcomes[OURS], of_editor, metric))
                    for metric in ("S", "RR")
                ),
            )
            for name, of_editor in outcomes.items()
            if name not in (OURS, "Unedited")
        ]
        pages.draw(
            f"{OURS} minus each editor, paired", ("Editor", "S", "RR"), less, INTERVALS, STARRED
        )


def sizes(summary: Summary) -> tuple[str, str]:
    """Retains and tokens of a prompt."""
    tokens = "n/a" if summary.prompt_tokens is None else f"{summary.prompt_tokens:.0f}"
    return f"{summary.shots:.2f}", tokens


if __name__ == "__main__":
    main()
