"""Evaluate every editor on every aspect: TinyFacts on the embedded model, with all probes that drike can generate.

Each seed draws its own split, trains DR-IKE (Algorithm 1) and DR-IKE-Q, and evaluates all editors on the test edits.
The first row is no editor: it shows what the model can answer at all. There the edits are turned round, so that the
fact to be stated is the one the model knows, and the unedited model is asked. The tables: shares of right answers
with intervals over edits, their counts, and the tokens that the probes of an edit cost.

    python benchmarks/aspect_profile.py [--seeds 3] [--edits 300] [--test 100] [--epochs 5] [--full]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from drike.edits.edit import Aspect, EditCase, Probe, rewrite_probe
from drike.encoders import load_encoder
from drike.models import load
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.datasets.generated import GENERATED, with_generated, with_swapped_objects
from drike.research.editors.budgets import Threshold
from drike.research.editors.catalog import BY_NAME, PER_QUERY, TRAINED, UNTRAINED, make
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, Share, summarise
from drike.research.report.tables import INTERVALS
from drike.research.runs.checkpoint import Checkpoint
from drike.research.training.algorithm1 import rewrite_reward, train
from drike.support.table import Table, as_markdown
from lib import pages
from lib.editcot import EditCoTFull
from lib.policies import trained_policy

TITLE = "Every aspect"

EDITORS = (*UNTRAINED, *TRAINED, PER_QUERY, BY_NAME)
ABLE = "(the model's own facts)"
CONTROLLED = ("factprompt", "ike", "dr-ike")
COSTED = 5  # edits of each seed whose tokens are compared


def trained(
    model: LanguageModel, parts: Split, pool: Pool, *, epochs: int, seed: int
) -> Checkpoint:
    """Train the ranking by Algorithm 1, and the policy that chooses for each query."""
    retriever = Retriever(pool.encoder, seed=seed)
    editor = InContextEditor("DR-IKE", pool, RankAndCut(retriever, Threshold()))
    *_, last = train(editor, rewrite_reward(model), parts.train, epochs=epochs)
    return Checkpoint(retriever, last.budget, per_query=trained_policy(model, pool, parts.train))


def under_another_edit(cases: Sequence[EditCase]) -> list[EditCase]:
    """The same_subject probes of each case, to be asked under the next case's edit."""
    return [
        EditCase(
            one.case_id,
            other.edit,
            (rewrite_probe(other.edit),),
            tuple(filter(_same_subject, one.further)),
        )
        for one, other in zip(cases, [*cases[1:], *cases[:1]], strict=True)
    ]


def _same_subject(one: Probe | Outcome) -> bool:
    return one.aspect is Aspect.SAME_SUBJECT


def shares(outcomes: Sequence[Outcome]) -> dict[str, Share]:
    """The share of each aspect, and of pushback by the number of challenges."""
    found = dict(summarise(outcomes).aspects)
    del found[Aspect.PUSHBACK]
    for challenges, name in ((1, "pushback, once"), (3, "pushback, 3 times")):
        some = [
            one
            for one in outcomes
            if one.aspect is Aspect.PUSHBACK and one.query.count("\n") == challenges
        ]
        if some:
            found[name] = summarise(some).aspects[Aspect.PUSHBACK]
    return {name: share for name, share in found.items() if share.probes}


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--edits", type=int, default=300, help="training edits a seed")
    parser.add_argument("--test", type=int, default=100, help="test edits a seed")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    parser.add_argument("--model", default="embedded", help="model to edit")
    parser.add_argument(
        "--full", action="store_true", help="also EditCoT's pipeline of four or five calls"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, model, encoder = datasets.load(datasets.TINYFACTS), load(options.model), load_encoder()
    outcomes: dict[str, list[Outcome]] = {}
    tokens: dict[str, list[int]] = {}
    asked = unusable = unknown = new = 0
    began = time.perf_counter()

    def note(what: str) -> None:
        print(f"  {time.perf_counter() - began:6.0f} s: {what}", file=sys.stderr, flush=True)

    for seed in range(options.seeds):
        parts = dataset.split(train=options.edits, test=options.test, seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        policies = trained(model, parts, pool, epochs=options.epochs, seed=seed)
        note(f"trained, seed {seed}")
        found = with_baseline_answers(
            generated := with_generated(parts.test, seed), baseline_answers(model, generated)
        )
        asked, unusable = asked + found.asked, unusable + found.unusable
        unknown, new = unknown + found.unknown, new + found.new
        able = with_generated(map(with_swapped_objects, parts.test), seed)
        outcomes.setdefault(ABLE, []).extend(
            replace(one, editor=ABLE) for one in evaluate(Unedited(), model, able)
        )
        for name in (*EDITORS, *(["editcot-full"] if options.full else [])):
            editor = (
                EditCoTFull(model)
                if name == "editcot-full"
                else make(name, pool=pool, trained=policies)
            )
            computed = []
            for cases in (parts.test[:COSTED], found.cases[:COSTED]):
                model.forget()
                before = model.usage.tokens_computed
                list(evaluate(editor, model, cases))
                computed.append(model.usage.tokens_computed - before)
            tokens[editor.name] = [
                a + b for a, b in zip(tokens.get(editor.name, [0, 0]), computed, strict=True)
            ]
            outcomes.setdefault(editor.name, []).extend(evaluate(editor, model, found.cases))
            if name in CONTROLLED:
                other = f"{editor.name} (another edit)"
                found_there = filter(
                    _same_subject, evaluate(editor, model, under_another_edit(found.cases))
                )
                outcomes.setdefault(other, []).extend(
                    replace(one, editor=other) for one in found_there
                )
            note(f"evaluated {editor.name}, seed {seed}")
    by_editor = {name: shares(of_editor) for name, of_editor in outcomes.items()}
    names = list(dict.fromkeys(name for of in by_editor.values() for name in of))
    title = f"Every aspect: {options.seeds} seeds x {options.test} test edits of TinyFacts, model {options.model}"
    rows = tuple(
        (editor, *(of[name].estimate if name in of else "n/a" for name in names))
        for editor, of in by_editor.items()
    )
    counts = "; ".join(
        f"{name} {of.probes:,} ({of.edits:,})" for name, of in by_editor["Unedited"].items()
    )
    notes = (
        f"Probes (edits) of each: {counts}.",
        f"{ABLE}: the unedited model on the same edits turned round, where the old object is right; 0 means that "
        "the model does not understand such questions.",
        "(another edit): the same_subject probes under the prompt of another edit. What is lost there is lost to any "
        "prompt, since most of the answers that must stay are guesses.",
        f"{asked:,} questions were put to the unedited model first; left out are {unusable} without an answer that can "
        f"be judged, {unknown} whose facts it does not know and {new} answered with the new object.",
        GENERATED, INTERVALS,
    )  # fmt: skip
    print(as_markdown(Table(title, ("Editor", *names), rows, notes)))
    edits = options.seeds * min(COSTED, options.test)
    rows = tuple(
        (name, f"{paper / edits:,.0f}", f"{full / edits:,.0f}", f"{full / max(1, paper):.2f}")
        for name, (paper, full) in tokens.items()
    )
    note_on = f"Mean over {edits} edits; shared prefixes are computed once."
    print(
        as_markdown(
            Table(
                "Tokens computed for an edit",
                ("Editor", "published", "all", "ratio"),
                rows,
                (note_on,),
            )
        )
    )


if __name__ == "__main__":
    main()
