"""Measure deployed S on TinyFacts and the embedded model: many editable facts in force, each query through the gate.

For every seed: DR-IKE is trained by Algorithm 1, DR-IKE-Q on S (benchmarks/per_query.py), and all editors answer the
probes of the test edits, once with every query under its edit (S) and once behind the gate (deployed S). Intervals
resample edits; one that is tested under several seeds counts as one. `tokens` are those of a whole prompt; the last
column gives them as a share of what IKE's prompts have with every query under the edit.

    python benchmarks/deployed.py [--seeds 3] [--stored 10,100,all] [--edits 300] [--epochs 5] [--test 100]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

from aspect_profile import trained
from drike import datasets, load_model
from drike.datasets.splits import Split
from drike.deployment.evaluation import GatedEditor, GateRecord, SimulatedStores, gate_records, with_stores
from drike.editors.catalog import make
from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.role_counts import RoleCounts
from drike.encoders import load_encoder
from drike.evaluation.evaluate import evaluate
from drike.evaluation.metrics import Outcome, Summary, counted, summary_of
from drike.gates.by_name import Named
from drike.gates.calibration import common_questions
from drike.models.protocols import LanguageModel
from drike.report.deployed import gate_table
from drike.report.tables import INTERVALS
from drike.support.table import as_markdown, as_text
from lib import pages

TITLE = "Many edits in force"

NAMES = ("unedited", "factprompt", "ike", "dr-ike", "dr-ike-q")


def editors(model: LanguageModel, parts: Split, pool: Pool, seed: int, epochs: int) -> list[Editor]:
    """The editors that are compared, trained on the training edits."""
    policies = trained(model, parts, pool, epochs=epochs, seed=seed)
    found = [make(name, pool=pool, trained=policies) for name in NAMES]
    shown_always = (RoleCounts(4, 0, 0), RoleCounts(4, 12, 0), RoleCounts(4, 12, 1))
    return found + [always(pool, mix) for mix in shown_always]


def always(pool: Pool, mix: RoleCounts) -> Editor:
    """The same mix for every query that the gate puts under edits."""
    name = f"Always {mix.copies} copies, {mix.updates} updates, {mix.retains} retains"
    return InContextEditor(name, pool, mix)


def main() -> None:
    """Print the tables."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--stored", default="10,100,all", help="edits in force, separated by commas")
    parser.add_argument("--edits", type=int, default=300, help="training edits")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    parser.add_argument("--test", type=int, default=100, help="test edits")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, model, encoder = datasets.load("tinyfacts"), load_model("embedded"), load_encoder()
    outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    records: dict[str, list[GateRecord]] = defaultdict(list)
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, train=options.edits, test=options.test)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        editable = {*parts.ids.editable}
        edits = [case.edit for case in dataset.cases if case.case_id in editable]
        made = editors(model, parts, pool, seed, options.epochs)
        for editor in made:
            outcomes[editor.name, ""] += evaluate(editor, model, parts.test)
        for size in options.stored.split(","):
            stores = SimulatedStores(edits, None if size == "all" else int(size), seed=seed)
            cases = [with_stores(case, stores) for case in parts.test]
            for editor in made:
                outcomes[editor.name, size] += evaluate(GatedEditor(editor, Named(), stores), model, cases)
            records[size] += gate_records(Named(), stores, cases, () if seed else common_questions())
        print(f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far", file=sys.stderr, flush=True)
    names = list(dict.fromkeys(name for name, _ in outcomes))
    summaries = {key: summary_of(counted(found)) for key, found in outcomes.items()}
    most = summaries["IKE", ""].prompt_tokens or 1.0
    sizes, rows = options.stored.split(","), []
    for name in names:
        paper, deployed = summaries[name, ""], summaries[name, sizes[-1]]
        metrics = (paper.s, deployed.s, deployed.esr, deployed.pc, deployed.rr)
        tokens = deployed.prompt_tokens or 0.0
        rows.append((name, *metrics, f"{tokens:.0f}", f"{tokens / most:.2f}"))
    header = ("Editor", "S", "deployed S", "deployed ESR", "deployed PC", "deployed RR", "tokens", "of IKE's")
    title = f"{sizes[-1]} of {len(edits)} edits in force, {options.seeds} seeds, {options.test} test edits each"
    pages.draw(title, header, rows, INTERVALS)
    of_sizes = [(name, *(at_share(summaries[name, size], most) for size in sizes)) for name in names]
    header = ("Editor", *(f"{size} in force" for size in sizes))
    pages.draw(
        "Deployed S at the prompt tokens as a share of IKE's, by the edits in force", header, of_sizes, INTERVALS
    )
    print(as_markdown(gate_table(records[sizes[-1]])))


def at_share(deployed: Summary, tokens: float) -> str:
    """Deployed S, and its prompt tokens as a share of these."""
    return f"{as_text(deployed.s)} at {(deployed.prompt_tokens or 0.0) / tokens:.2f}"


if __name__ == "__main__":
    main()
