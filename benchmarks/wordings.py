"""Measure DR-IKE-Q on neighbours in wordings that its policy was not trained on, on TinyFacts and the embedded model.

The policy is trained on the usual edits, without their neighbours in the wordings T2 and T3 (templates.tsv). The test
edits are asked four times, with the same neighbouring facts as TinyFacts words them (T0 to T3), in T0 and T1, in T2 and
T3, and in T4 and T5, the paraphrases' wordings; rewrites and paraphrases stay as they are. Intervals and paired
differences, to the first row, are over the edits of all seeds.

    python benchmarks/wordings.py [--seeds 3] [--model embedded]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace

from drike.edits.edit import Aspect, EditCase, Probe
from drike.encoders import load_encoder
from drike.models import load
from drike.research import datasets
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.evaluation.metrics import Outcome, paired_difference, summarise
from drike.research.report.tables import INTERVALS
from drike.support.table import Difference
from drike.tinyfacts import TEMPLATES, facts
from lib import pages
from lib.policies import trained_policy
from other_models import METRICS
from results import measured

TITLE = "Neighbours in wordings never trained on"

USUAL = "T0 to T3, as in TinyFacts"
TESTED = {
    "T0 and T1, trained on": (0, 1),
    "T2 and T3, held back": (2, 3),
    "T4 and T5, held back": (4, 5),
}
SAID = {
    t.format(fact.subject): (fact, i)
    for fact in facts()
    for i, t in enumerate(TEMPLATES[fact.relation])
}


def reworded(case: EditCase, wordings: Sequence[int]) -> EditCase:
    """The case with the same neighbours in these wordings, in turn."""
    templates = TEMPLATES[case.edit.relation or ""]

    def worded(i: int, probe: Probe) -> Probe:
        if probe.aspect is not Aspect.NEIGHBORHOOD:
            return probe
        return replace(
            probe, query=templates[wordings[i % len(wordings)]].format(SAID[probe.query][0].subject)
        )

    return replace(case, probes=tuple(worded(i, probe) for i, probe in enumerate(case.probes)))


def without(case: EditCase, wordings: Collection[int]) -> EditCase:
    """The case without its neighbours in these wordings."""
    kept = (
        p
        for p in case.probes
        if p.aspect is not Aspect.NEIGHBORHOOD or SAID[p.query][1] not in wordings
    )
    return replace(case, probes=tuple(kept))


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to edit")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, model, encoder = datasets.load(datasets.TINYFACTS), load(options.model), load_encoder()
    outcomes: dict[str, list[Outcome]] = {}
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        policy = trained_policy(model, pool, [without(case, (2, 3)) for case in parts.train])
        for name, wordings in {USUAL: None, **TESTED}.items():
            cases = [case if wordings is None else reworded(case, wordings) for case in parts.test]
            outcomes.setdefault(name, []).extend(
                measured(InContextEditor(name, pool, policy), model, cases)
            )
        print(f"  seed {seed}", file=sys.stderr, flush=True)
    title = f"DR-IKE-Q by the wording of neighbours, {options.seeds} seeds x {len(parts.test)} test edits of TinyFacts"
    rows = []
    for name, of_wording in outcomes.items():
        summary = summarise(of_wording)
        change = (
            "" if name == USUAL else Difference(paired_difference(of_wording, outcomes[USUAL], "S"))
        )
        rows.append((name, *map(summary.metric, METRICS), change))
    pages.draw(
        title, ("wording of the test neighbours", *METRICS, "S, paired difference"), rows, INTERVALS
    )


if __name__ == "__main__":
    main()
