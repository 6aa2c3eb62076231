"""All edits of a data set in force at once behind the default gate, against one edit at a time.

Of rows that answer the same question (the same subject and relation, or the same query) and say different things, the
first of the file is stored, as a store refuses the others; test edits are drawn from what is stored. A question that
asks about another stored edit is right if it is answered by that: its target is then that edit's new object, and its
distractor the old one. One at a time: the store holds the test edit alone, and targets are the rows' own. The editors
are the same behind both stores. ES, PS, NS: the target is more probable than the distractor; strict: greedy decoding
writes exactly the target. S: harmonic mean of the three.

Decisions need no model: --series stores the edits in 20 random orders and compares what each test question is put
under, then retires all edits of a real store and compares every prompt with its query, byte by byte.

    python benchmarks/all_in_force.py [--model smollm2] [--test 200] [--device cuda] [--minutes 30]
    python benchmarks/all_in_force.py --series [--orders 20]

With --prepare FILE only the prompts are written, which a machine without an encoder asks by --prompts FILE. Answers
are kept in --answers as they are made, and a later call goes on.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from contrast import COPIES, DATA, OWN_COPY, opened
from drike.edits.edit import Edit, EditCase
from drike.edits.record import EditVersion, Status, as_stored
from drike.encoders import load_encoder
from drike.encoders.base import TextEncoder
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.live.live_edits import LiveEdits
from drike.live.store_gate import encoder_of
from drike.prompts import Prompt
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.routing import route_each, write_prompts
from drike.research.deployment.simulated_stores import SimulatedStores, with_stores
from drike.research.editors.catalog import NO_RETAINS, make
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.bootstrap import Floats, estimated, resampled
from drike.research.evaluation.metrics import harmonic_mean
from drike.research.report.tables import INTERVALS
from drike.stores.edit_store import EditStore
from drike.stores.opening import open_store
from drike.support.table import Cell, Estimate
from lib import pages
from lib.prepared import (
    PLAIN,
    AnsweredCase,
    PreparedCase,
    PreparedQuestion,
    add_options,
    ask,
    load_answers,
    save_cases,
)

TITLE = "All edits of a data set in force"
KEPT = Path(tempfile.gettempdir()) / "drike-all-in-force"
ONE, ALL = "one at a time", "all in force"
KINDS = ("rewrite", "paraphrase", "neighborhood")


@dataclass(frozen=True)
class Stored:
    """What is stored, and the cases that are asked about it."""

    rows: int
    edits: Sequence[Edit]
    stores: SimulatedStores
    gate: Gate
    encoder: TextEncoder | None
    cases: Sequence[EditCase]


def main() -> None:
    """Prepare, ask, or run the series, and print the tables."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="CounterFact's form, also gzipped")
    parser.add_argument("--rows", type=int, default=0, help="of the data, the first; 0: all")
    parser.add_argument("--test", type=int, default=200, help="edits whose questions are asked")
    parser.add_argument(
        "--series", action="store_true", help="orders and retiring, without a model"
    )
    parser.add_argument("--orders", type=int, default=20, help="insertion orders of the series")
    add_options(parser)
    options = parser.parse_args()
    if options.prepare:
        save_cases(options.prepare, prepared(options))
        return
    if options.series:
        with pages.measured(options, TITLE, __doc__):
            show_series(stored(options), options.orders)
        return
    name = f"{Path(options.model).name}-{options.rows}-{options.test}.jsonl"
    answers = options.answers or KEPT / name
    if not options.tables:
        ask(options, prepared, {}, answers)
    with pages.measured(options, TITLE, __doc__):
        show(load_answers(answers), options.model)


def stored(options: argparse.Namespace) -> Stored:
    """The data's edits in force, and test edits among them."""
    dataset = opened(options.data)
    rows = dataset.cases[: options.rows or None]
    gate = default_gate()
    encoder = encoder_of(gate)
    stores = SimulatedStores([case.edit for case in rows], encoder=encoder)
    in_force = {version.record.edit.key for version in stores.whole.edits.values()}
    candidates = [case for case in rows if case.edit.key in in_force]
    drawn = random.Random(0).sample(candidates, options.test)
    edits = [version.record.edit for version in stores.whole.edits.values()]
    return Stored(len(rows), edits, stores, gate, encoder, drawn)


def prepared(options: argparse.Namespace) -> Iterator[PreparedCase]:
    """The questions of the test edits behind both stores."""
    everything = stored(options)
    pool = Pool(opened(options.data).cases, load_encoder())
    for case in everything.cases:
        yield PreparedCase(case.case_id, "test", tuple(questions(case, everything, editors(pool))))


def editors(pool: Pool) -> Mapping[str, Editor]:
    """The editors that are put behind the gate, by name."""
    return {
        COPIES: make(NO_RETAINS, pool=pool),
        OWN_COPY: InContextEditor(OWN_COPY, pool, RoleCounts(0, 0, 0)),
    }


def questions(
    case: EditCase, everything: Stored, editor_by_name: Mapping[str, Editor]
) -> Iterator[PreparedQuestion]:
    """A case's questions, with the prompts and the right answers of both stores."""
    alone = SimulatedStores([case.edit], encoder=everything.encoder)
    for store_name, stores in ((ONE, alone), (ALL, everything.stores)):
        probes = with_stores(case, stores).probes
        queries = [probe.query for probe in probes]
        for name, editor in editor_by_name.items():
            gated = GatedEditor(editor, everything.gate, stores)
            prompts = gated.prompts([case.edit], queries)
            for probe, prompt in zip(probes, prompts, strict=True):
                yield PreparedQuestion(
                    f"{name}, {store_name}",
                    probe.aspect.value,
                    probe.query,
                    prompt.text,
                    probe.target,
                    probe.distractor,
                )


def counts_of(cases: Sequence[AnsweredCase], way: str, *, strict: bool) -> Floats:
    """How many answers are right and how many there are, [cases, kinds, 2]."""
    counts = np.zeros((len(cases), len(KINDS), 2))
    for at, case in enumerate(cases):
        for found in case.answers:
            right = (found.strict if strict else found.prefers)[PLAIN]
            if found.way == way and right is not None:
                counts[at, KINDS.index(found.kind)] += (right, 1)
    return counts


def with_s(sums: Floats) -> Floats:
    """The three rates and their harmonic mean [..., 4] of sums [..., kinds, 2]."""
    rates = sums[..., 0] / sums[..., 1]
    return np.concatenate([rates, harmonic_mean(rates)[..., None]], axis=-1)


def show(cases: Sequence[AnsweredCase], model: str) -> None:
    """Print the tables of a model."""
    if not cases:
        print("no edit is answered yet: run it again", file=sys.stderr)
        return
    for strict, names in ((False, ("ES", "PS", "NS", "S")), (True, ("ESR", "PC", "RR", "S"))):
        rows: list[tuple[Cell, ...]] = []
        for editor in (COPIES, OWN_COPY):
            of_store = {
                store: counts_of(cases, f"{editor}, {store}", strict=strict) for store in (ONE, ALL)
            }
            for store, counts in of_store.items():
                values = with_s(counts.sum(axis=0))
                estimates = estimated(values, with_s(resampled(counts)), len(cases))
                rows.append((editor, store, *estimates, tokens_of(cases, f"{editor}, {store}")))
            rows.append((editor, "share kept", *shares_kept(of_store[ALL], of_store[ONE]), ""))
        rule = "strict" if strict else "likelihood"
        title = f"{model}, {rule}: {len(cases)} test edits"
        pages.draw(title, ("editor", "store", *names, "tokens"), rows, INTERVALS)


def shares_kept(ours: Floats, theirs: Floats) -> list[Estimate]:
    """What is left of each figure with all in force, paired."""
    drawn = resampled(np.stack([ours, theirs], axis=1))
    ratios = ratio(with_s(drawn[:, 0]), with_s(drawn[:, 1]))
    values = ratio(with_s(ours.sum(axis=0)), with_s(theirs.sum(axis=0)))
    return estimated(values, ratios)


def ratio(ours: Floats, theirs: Floats) -> Floats:
    """How much is left; NaN, which is shown as nothing measured, where there was nothing."""
    return np.divide(ours, theirs, out=np.full_like(ours, np.nan), where=theirs > 0)


def tokens_of(cases: Sequence[AnsweredCase], way: str) -> str:
    """The mean of the prompts' tokens."""
    tokens = [found.tokens or 0 for case in cases for found in case.answers if found.way == way]
    return f"{np.mean(tokens):.0f}"


def show_series(everything: Stored, orders: int) -> None:
    """Print what 20 orders change, and what is left after all edits are retired."""
    queries = list(dict.fromkeys(probe.query for case in everything.cases for probe in case.probes))
    first = prompts_in(everything.stores.whole, everything.gate, queries)
    matched = sum(prompt != Prompt(query) for prompt, query in zip(first, queries, strict=True))
    different: set[str] = set()
    for seed in range(orders):
        index = in_order(everything, seed)
        prompts = prompts_in(index, everything.gate, queries)
        changed = [q for q, a, b in zip(queries, first, prompts, strict=True) if a != b]
        different.update(changed)
        print(f"order {seed + 1}: {len(changed)} prompts differ", file=sys.stderr, flush=True)
    for query in sorted(different)[:10]:
        print(f"differs: {query}", file=sys.stderr)
    left, answered = after_retiring(everything, queries)
    rows = [
        ("rows of the data", f"{everything.rows:,}"),
        (
            "of these repeat or contradict an earlier one",
            f"{everything.rows - len(everything.edits):,}",
        ),
        ("edits in force", f"{len(everything.edits):,}"),
        ("questions of the test edits", f"{len(queries):,}"),
        ("of these put under an edit", f"{matched:,}"),
        (f"prompts that differ in any of {orders} orders", f"{len(different):,}"),
        (
            "prompts that differ in a real store",
            f"{sum(a != b for a, b in zip(first, answered, strict=True)):,}",
        ),
        ("prompts that differ from their query after retiring", f"{left:,}"),
    ]
    pages.draw(f"Orders and retiring: {len(everything.cases)} test edits", ("", "number"), rows)


def prompts_in(index: EditIndex, gate: Gate, queries: Sequence[str]) -> list[Prompt]:
    """What a model would be given for each query: the facts it is put under, in their order."""
    return write_prompts(FactPrompt(), route_each(gate, index, queries))


def in_order(everything: Stored, seed: int) -> EditIndex:
    """The index of the same edits, stored in another order; vectors are not computed again."""
    edits = list(everything.edits)
    random.Random(seed).shuffle(edits)
    versions: list[EditVersion] = as_stored(edits)
    return EditIndex.of(versions, everything.encoder, everything.stores.whole)


def after_retiring(everything: Stored, queries: Sequence[str]) -> tuple[int, list[Prompt]]:
    """How many prompts differ from their query once all edits are retired, and those before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(Path(folder) / "edits.db", create=True)) as store,
    ):
        records = [version.record for version in everything.stores.whole.edits.values()]
        with store.transaction():
            versions = [store.put_new(record, needed=0)[-1] for record in records]
        before = prompts_in(index_of(store, everything), everything.gate, queries)
        with store.transaction():
            for version in versions:
                store.put(replace(version.record, status=Status.RETIRED), replaces=version)
        after = prompts_in(index_of(store, everything), everything.gate, queries)
    plain = [query.encode() for query in queries]
    changed = [prompt.text.encode() for prompt in after]
    left = sum(a != b for a, b in zip(plain, changed, strict=True))
    return left, before


def index_of(store: EditStore, everything: Stored) -> EditIndex:
    """The index of a store's edits in force now, as the gateway has it."""
    live = LiveEdits(store, everything.gate, encoder_of_gate=lambda gate: everything.encoder)
    return live.latest().view.index


if __name__ == "__main__":
    main()
