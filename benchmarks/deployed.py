"""Measure deployed S on TinyFacts and the embedded model: many editable facts in force, each query through the gate.

For every seed: DR-IKE is trained by Algorithm 1, DR-IKE-Q on S (benchmarks/per_query.py), and all editors answer the
probes of the test edits, once with every query under its edit (S) and once behind the gate (deployed S). Intervals
resample edits; one that is tested under several seeds counts as one. `tokens` are those of a whole prompt; the last
column gives them as a share of what IKE's prompts have with every query under the edit.

With --gates, gates and rules are compared instead, all edits in force, also on the test paraphrases with the subject
cut to the last word of its name (where no other subject has it), and on other relations of the subject, of which what
the unedited model says is to stay (`drike.research.datasets.generated`).

    python benchmarks/deployed.py [--seeds 3] [--stored 10,100,all] [--edits 300] [--epochs 5] [--test 100] [--gates]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aspect_profile import trained
from drike import load_model
from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase
from drike.encoders import load_encoder
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Decision, Gate
from drike.gates.edit_names import common_questions
from drike.gates.index import EditIndex
from drike.live.store_gate import encoder_of
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.datasets.generated import with_generated
from drike.research.deployment.gate_records import GateRecord, gate_records
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores, with_stores
from drike.research.editors.catalog import NO_RETAINS, make
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import applied
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import (
    Counts,
    Outcome,
    Summary,
    counted,
    paired_differences,
    summary_of,
)
from drike.research.report.gate_tables import gate_table
from drike.research.report.tables import INTERVALS
from drike.support.table import as_markdown, as_text
from lib import pages
from lib.policies import trained_policy

TITLE = "Many edits in force"

NAMES = ("unedited", "factprompt", "ike", "dr-ike", "dr-ike-q")

DEFAULT, OWN, COSINES = "default gate", "DR-IKE-Q's gate", (0.5, 0.6, 0.7)
SHORT, SAME = Aspect.ALIAS, Aspect.SAME_SUBJECT
READINGS: Mapping[
    str, tuple[Collection[Aspect], Collection[Aspect]]
] = {  # what counts for PC and for RR
    "plain": ({Aspect.PARAPHRASE}, {Aspect.NEIGHBORHOOD}),
    "both": ({Aspect.PARAPHRASE, SHORT}, {Aspect.NEIGHBORHOOD, SAME}),
    "hard alone": ({SHORT}, {SAME}),
}


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
    parser.add_argument(
        "--stored", default="10,100,all", help="edits in force, separated by commas"
    )
    parser.add_argument("--edits", type=int, default=300, help="training edits")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    parser.add_argument("--test", type=int, default=100, help="test edits")
    parser.add_argument(
        "--gates", action="store_true", help="compare gates, also on short names and other facts"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure_gates(options) if options.gates else measure(options)


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
                outcomes[editor.name, size] += evaluate(
                    GatedEditor(editor, Named(), stores), model, cases
                )
            records[size] += gate_records(
                Named(), stores, cases, () if seed else common_questions()
            )
        print(
            f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far",
            file=sys.stderr,
            flush=True,
        )
    names = list(dict.fromkeys(name for name, _ in outcomes))
    summaries = {key: summary_of(counted(found)) for key, found in outcomes.items()}
    most = summaries["IKE", ""].prompt_tokens or 1.0
    sizes, rows = options.stored.split(","), []
    for name in names:
        paper, deployed = summaries[name, ""], summaries[name, sizes[-1]]
        metrics = (paper.s, deployed.s, deployed.esr, deployed.pc, deployed.rr)
        tokens = deployed.prompt_tokens or 0.0
        rows.append((name, *metrics, f"{tokens:.0f}", f"{tokens / most:.2f}"))
    header = (
        "Editor",
        "S",
        "deployed S",
        "deployed ESR",
        "deployed PC",
        "deployed RR",
        "tokens",
        "of IKE's",
    )
    title = f"{sizes[-1]} of {len(edits)} edits in force, {options.seeds} seeds, {options.test} test edits each"
    pages.draw(title, header, rows, INTERVALS)
    of_sizes = [
        (name, *(at_share(summaries[name, size], most) for size in sizes)) for name in names
    ]
    header = ("Editor", *(f"{size} in force" for size in sizes))
    pages.draw(
        "Deployed S at the prompt tokens as a share of IKE's, by the edits in force",
        header,
        of_sizes,
        INTERVALS,
    )
    print(as_markdown(gate_table(records[sizes[-1]])))


def at_share(deployed: Summary, tokens: float) -> str:
    """Deployed S, and its prompt tokens as a share of these."""
    return f"{as_text(deployed.s)} at {(deployed.prompt_tokens or 0.0) / tokens:.2f}"


@dataclass(frozen=True)
class Nearest:
    """A rule: the edit with the text nearest to the query, if their cosine is at least `threshold`."""

    threshold: float

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The nearest edit, or none."""
        [vector] = index.embed([query])
        id, cosine = next(iter(index.nearest(vector).items()))
        return Decision(query, (index.edits[id],) if cosine >= self.threshold else ())


@dataclass(frozen=True)
class Perfect:
    """The gate that is told what each question asks: its fact, by query, or None. It bounds every other."""

    asked: Mapping[str, str | None]

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edit with the fact that the query asks for."""
        fact = self.asked[query]
        return Decision(
            query, tuple(edit for edit in index.edits.values() if edit.record.edit.fact == fact)
        )


def with_hard_questions(
    model: LanguageModel, cases: Sequence[EditCase], seed: int
) -> tuple[EditCase, ...]:
    """The cases with their paraphrases under short names, and questions about other relations of the subject."""
    made = []
    for case, generated in zip(cases, with_generated(cases, seed), strict=True):
        about = [
            question
            for question in generated.baseline_questions
            if question.aspect in (SHORT, SAME)
        ]
        name = (case.edit.subject or "").split()[-1]
        unique = any(question.aspect is SHORT for question in about)
        short = [
            replace(probe, aspect=SHORT, query=probe.query.replace(case.edit.subject or "", name))
            for probe in case.paraphrases
            if unique
        ]
        stated = [probe for probe in generated.further if probe.aspect is SAME]
        others = tuple(question for question in about if question.aspect is SAME)
        made.append(
            replace(case, further=(*case.further, *short, *stated), baseline_questions=others)
        )
    return with_baseline_answers(made, baseline_answers(model, made)).cases


def rules(
    model: LanguageModel,
    parts: Split,
    pool: Pool,
    stores: SimulatedStores,
    cases: Sequence[EditCase],
) -> Iterator[tuple[str, Editor]]:
    """What is compared, with its name. cases: of `with_stores`."""
    policy = trained_policy(model, pool, parts.train)
    unedited, fact, copies = (
        make(name, pool=pool) for name in ("unedited", "factprompt", NO_RETAINS)
    )
    per_query = InContextEditor("DR-IKE-Q", pool, policy)
    yield "unedited", unedited
    under = {"fact": fact, "copies and updates": copies, "DR-IKE-Q": per_query}
    yield from ((f"always the own edit: {name}", editor) for name, editor in under.items())
    default = default_gate()
    asked = {record.query: record.asks for record in gate_records(Named(), stores, cases)}
    gates: dict[str, Gate] = {"Named": Named(), DEFAULT: default}
    gates |= {
        f"{DEFAULT}, {name}": replace(default, threshold=at)
        for name, at in default.settings.items()
    }
    gates |= {f"nearest, cosine from {at:.1f}": Nearest(at) for at in COSINES} | {
        "perfect gate": Perfect(asked)
    }
    for name, gate in gates.items():
        for shown, editor in under.items():
            if name in ("Named", DEFAULT) or editor is copies:
                yield f"{name}: {shown}", GatedEditor(editor, gate, stores)
    own = SimulatedStores(
        [edit.record.edit for edit in stores.edits], encoder=encoder_of(policy.gate)
    )
    yield f"{OWN}: copies and updates", GatedEditor(copies, policy.gate, own)
    yield f"{OWN}: DR-IKE-Q", GatedEditor(applied(per_query), policy.gate, own)


def measure_gates(options: argparse.Namespace) -> None:
    """Print the tables of gates; progress goes to standard error."""
    dataset, model, encoder = datasets.load("tinyfacts"), load_model("embedded"), load_encoder()
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    records: list[GateRecord] = []
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, train=options.edits, test=options.test)
        pool, editable = Pool(parts.demonstrations, encoder, seed=seed), {*parts.ids.editable}
        edits = [case.edit for case in dataset.cases if case.case_id in editable]
        stores = SimulatedStores(edits, encoder=encoder_of(default_gate()))
        cases = [with_stores(case, stores) for case in with_hard_questions(model, parts.test, seed)]
        for name, editor in rules(model, parts, pool, stores, cases):
            outcomes[name] += evaluate(editor, model, cases)
        records += gate_records(default_gate(), stores, cases)
        print(
            f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far",
            file=sys.stderr,
            flush=True,
        )
    read = {
        (name, reading): read_as(found, *READINGS[reading])
        for name, found in outcomes.items()
        for reading in READINGS
    }
    title = (
        f"All of {len(edits)} edits in force, {options.seeds} seeds, {options.test} test edits each"
    )
    rows = []
    for name in outcomes:
        plain, both, hard = (summary_of(read[name, reading]) for reading in READINGS)
        rates = (plain.esr, plain.pc, hard.pc, plain.rr, hard.rr)
        rows.append((name, plain.s, both.s, hard.s, *rates, f"{both.prompt_tokens or 0.0:.0f}"))
    header = (
        "rule",
        "S",
        "S, both",
        "S, hard alone",
        "ESR",
        "PC",
        "PC, short",
        "RR",
        "RR, same subject",
        "tokens",
    )
    meaning = (
        "always the own edit: every query, whatever it asks, as in the paper; else by the gate, and what matches "
        "nothing reaches the model as it is. both: PC over paraphrases with full and with short names, RR over "
        "neighbours and other facts of the subject; hard alone: over short names and other facts of the subject only."
    )
    pages.draw(title, header, rows, meaning, INTERVALS)
    header = ("rule", "S", "S, both", "S, hard alone")
    for ours in (f"{DEFAULT}: copies and updates", f"{OWN}: DR-IKE-Q"):
        less = [
            (
                name,
                *(
                    paired_differences(read[ours, reading], read[name, reading])["S"]
                    for reading in READINGS
                ),
            )
            for name in outcomes
            if name != ours
        ]
        pages.draw(f"{ours}, minus each rule, paired over edits", header, less, INTERVALS)
    print(as_markdown(gate_table(records)))


def read_as(outcomes: Sequence[Outcome], pc: Collection[Aspect], rr: Collection[Aspect]) -> Counts:
    """The outcomes counted with the questions of these aspects for PC and for RR, and no others but the edits' own."""
    meant = (
        {Aspect.REWRITE: Aspect.REWRITE}
        | dict.fromkeys(pc, ASPECTS_OF_S[1])
        | dict.fromkeys(rr, ASPECTS_OF_S[2])
    )
    return counted([replace(o, aspect=meant[o.aspect]) for o in outcomes if o.aspect in meant])


if __name__ == "__main__":
    main()
