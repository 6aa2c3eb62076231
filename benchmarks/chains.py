"""Chains of edits: the edits that a multi-hop question needs, found from the question alone, without a language model.

All edits of a file are stored together. *Recall* is the share of the needed edits among the first k, over questions and
their edits, as in the published figures (by embedding, on other questions of MQuAKE: .467, .582, .675 at 1, 3, 5);
*all* is the share of questions of which every needed edit is among them. An edit is *named* if the question names its
subject; *led to* if edits that are named lead to it, by new objects that are subjects; *hidden* if its subject is the
answer of a fact that is not edited, which no look-up by name can know. How edits join was chosen on MQuAKE, and the
evidence that they need on its odd case ids. That "located" is no evidence was seen on HalluEditBench and CounterFact,
where it made 15 of 119 and 18 of 500 paraphrases join; nothing was chosen on RippleEdits.

    python benchmarks/chains.py [--data FOLDER]

Embeddings are kept in the folder --cache, so that a second run is quick.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drike.edits.edit import Aspect
from drike.edits.record import EditRecord, EditVersion
from drike.encoders import TextEncoder, load_encoder
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.chains import LEAST, joined
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.research import datasets
from gate import DATA, Data, counterfact, halluedit
from lib import pages
from lib.ranked_edits import ranked

TITLE = "Chains of edits"
FIRST = (1, 3, 5)
WEIGHED = (0.1, LEAST, 0.2, 0.3)  # evidence at which edits join
MOST_ASKED = 500  # questions of one kind
KINDS = ("paraphrase", "same_subject", "neighborhood")
GATES: dict[str, Gate] = {"named": Named(), "calibrated": default_gate()}


@dataclass(frozen=True)
class Needing:
    """A question, the ids of the edits that it needs, and whether its case has an odd id."""

    query: str
    needs: frozenset[int]
    odd: bool


@dataclass(frozen=True)
class Hops:
    """A file in multi-hop form: its edits as a store has them, each once, and its questions."""

    name: str
    edits: tuple[EditVersion, ...]
    questions: tuple[Needing, ...]
    single: tuple[str, ...]  # questions for one of the edits


def hops(file: Path, name: str) -> Hops:
    """Read a file."""
    ids: dict[tuple[str, str], int] = {}
    records: list[EditRecord] = []
    questions: list[Needing] = []
    single: dict[str, None] = {}
    for case in datasets.load(str(file)).cases:
        for edit in case.edits:
            if edit.subject and edit.key not in ids:
                ids[edit.key] = len(records) + 1
                records.append(
                    EditRecord(edit.subject, edit.query, edit.target_new, edit.target_true)
                )
        needs = frozenset(ids[edit.key] for edit in case.edits if edit.subject)
        odd = case.case_id.isdigit() and int(case.case_id) % 2 == 1
        questions += [
            Needing(probe.query, needs, odd)
            for probe in case.asked
            if probe.aspect is Aspect.MULTI_HOP
        ]
        single |= dict.fromkeys(
            probe.query
            for probe in case.asked
            if probe.aspect in (Aspect.PARAPHRASE, Aspect.REWRITE)
        )
    return Hops(name, versions(records), tuple(questions), tuple(single))


def versions(records: Iterable[EditRecord]) -> tuple[EditVersion, ...]:
    """As a store holds them."""
    return tuple(EditVersion(id, id, 1, "", record) for id, record in enumerate(records, 1))


def reach(query: str, index: EditIndex) -> tuple[set[int], set[int]]:
    """The ids of the edits that a question names, and of those that these lead to."""
    named = index.named(query)
    seen, waiting = set(named), list(named)
    while waiting:
        new = {edit.id for edit in index.followers(index.edits[waiting.pop()])} - seen
        seen |= new
        waiting += new
    return named, seen - named


def where(data: Sequence[Hops]) -> None:
    """Where the needed edits are, and how many names could find."""
    rows = []
    for file in data:
        index = EditIndex.of(file.edits)
        reached = [reach(asked.query, index) for asked in file.questions]
        needed = sum(len(asked.needs) for asked in file.questions)
        kinds = [
            [len(asked.needs & ids) for asked, ids in zip(file.questions, of, strict=True)]
            for of in zip(*reached, strict=True)
        ]
        shares = [sum(counts) / needed for counts in kinds]
        bounds = [
            sum(min(3, n) for n in some)
            for some in (map(sum, zip(*kinds, strict=True)), (len(a.needs) for a in file.questions))
        ]
        same = Counter(edit.record.query for edit in file.edits)
        counts = len(file.edits), sum(n > 1 for n in same.values()), len(file.questions), needed
        fractions = *shares, 1 - sum(shares), *(bound / needed for bound in bounds)
        rows.append((file.name, *map(str, counts), *(f"{fraction:.3f}" for fraction in fractions)))
    header = ("file", "edits", "contradicted", "questions", "needed", "named", "led to", "hidden")
    pages.draw("Where the needed edits are", (*header, "most at 3, by names", "most at 3"), rows)


def recall(data: Sequence[Hops], encoder: TextEncoder) -> None:
    """Recall from the question alone, with chains and by embedding alone."""
    rows = []
    for file in data:
        index = EditIndex.of(file.edits, encoder)
        vectors = index.embed([asked.query for asked in file.questions])
        ways = {
            "nearest by embedding": [list(index.nearest(vector)) for vector in vectors],
            "chains, then nearest": [
                [edit.id for edit in ranked(a.query, index, max(FIRST))] for a in file.questions
            ],
        }
        for way, lists in ways.items():
            for half, places in halves(file).items():
                hits = [
                    [len(file.questions[i].needs.intersection(lists[i][:k])) for i in places]
                    for k in FIRST
                ]
                needed = [len(file.questions[i].needs) for i in places]
                shares = [sum(of) / sum(needed) for of in hits]
                whole = [float(np.mean(np.equal(of, needed))) for of in hits]
                rows.append(
                    (
                        file.name,
                        way,
                        half,
                        str(len(places)),
                        *(f"{share:.3f}" for share in (*shares, *whole)),
                    )
                )
    header = (
        "file",
        "found by",
        "case ids",
        "questions",
        *(f"at {k}" for k in FIRST),
        *(f"all at {k}" for k in FIRST),
    )
    pages.draw("Recall of the needed edits", header, rows)


def halves(file: Hops) -> dict[str, list[int]]:
    """The places of a file's questions: those to choose by, the others, all."""
    odd = [i for i, asked in enumerate(file.questions) if asked.odd]
    every = range(len(file.questions))
    return {"odd": odd, "even": sorted({*every}.difference(odd)), "all": [*every]}


def decisions(file: Hops, index: EditIndex) -> dict[str, list[Decision]]:
    """Of each gate on each question; the perfect one matches the needed edits that the question names."""
    perfect = [
        Named().decide(
            asked.query,
            EditIndex.of(index.edits[id] for id in asked.needs & index.named(asked.query)),
        )
        for asked in file.questions
    ]
    return {"perfect": perfect} | {
        name: [gate.decide(asked.query, index) for asked in file.questions]
        for name, gate in GATES.items()
    }


def joins(file: Hops, encoder: TextEncoder) -> None:
    """What joining adds to decisions on multi-hop questions."""
    rows, index = [], EditIndex.of(file.edits, encoder)
    for name, before in decisions(file, index).items():
        for least in WEIGHED:
            after = [joined(decision, index, least) for decision in before]
            for half in ("odd", "even"):
                some = [(file.questions[i].needs, before[i], after[i]) for i in halves(file)[half]]
                rows.append(
                    (name, half, f"{least:.2f}", *(f"{share:.3f}" for share in joining(some)))
                )
    header = (
        "gate",
        "case ids",
        "evidence",
        "found",
        "with chains",
        "needless",
        "with chains",
        "joined rightly",
    )
    notes = (
        "Found: the share of the needed edits. Needless: of questions that get an edit they do not need. "
        "Joined rightly: of the edits that join.",
    )
    pages.draw(f"What joins decisions on multi-hop questions, {file.name}", header, rows, *notes)


def joining(decided: Sequence[tuple[frozenset[int], Decision, Decision]]) -> list[float]:
    """Needed edits found and questions with needless ones, without and with chains; how many that join are needed."""
    ids = [(needs, *({edit.id for edit in of.applied} for of in pair)) for needs, *pair in decided]
    needed = sum(len(needs) for needs, _, _ in ids)
    found = [sum(len(row[0] & row[k]) for row in ids) / needed for k in (1, 2)]
    wrong = [float(np.mean([bool(row[k] - row[0]) for row in ids])) for k in (1, 2)]
    new = sum(len(after - before) for _, before, after in ids)
    return [
        *found,
        *wrong,
        sum(len((after - before) & needs) for needs, before, after in ids) / max(1, new),
    ]


def needless(folder: Path, mquake: Hops, encoder: TextEncoder) -> None:
    """What joins where one edit is asked for, and edits that could follow are stored: MQuAKE's, added to others."""
    rows = []
    sets = [("MQuAKE, single questions", mquake.edits, list(mquake.single))]
    for data in (halluedit(folder), counterfact(folder)):
        edits, places = leading(data, mquake)
        for kind in KINDS:
            some = [
                asked.query for asked in data.asked if asked.kind == kind and asked.place in places
            ]
            sets.append((f"{data.name}, {kind}", edits, some[:MOST_ASKED]))
    for name, edits, queries in sets:
        index = EditIndex.of(edits, encoder)
        for gate, decides in GATES.items():
            before = [decides.decide(query, index) for query in queries]
            could = [d for d in before if any(map(index.followers, d.applied))]
            counts = [
                sum(len(joined(d, index, least).applied) > len(d.applied) for d in could)
                for least in WEIGHED
            ]
            rows.append((name, gate, *map(str, (len(queries), len(could), *counts))))
    header = (
        "questions",
        "gate",
        "asked",
        "could join",
        *(f"joined at {least:.2f}" for least in WEIGHED),
    )
    pages.draw("Needless joins on questions for one fact", header, rows)


def leading(data: Data, mquake: Hops) -> tuple[tuple[EditVersion, ...], set[int]]:
    """A store of MQuAKE's edits and of those of a data set that lead to one of them, and the places of the latter."""
    index = EditIndex.of(mquake.edits)
    places = [i for i, edit in enumerate(data.edits) if index.followers(edit)]
    return versions(
        [*(edit.record for edit in mquake.edits), *(data.entries[i] for i in places)]
    ), set(places)


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public files")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "drike-scope",
        help="of embeddings",
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        encoder = load_encoder(features=options.cache)
        mquake = hops(options.data / "mquake_300.json", "MQuAKE")
        data = (mquake, hops(options.data / "ripple_pop.json", "RippleEdits"))
        where(data)
        recall(data, encoder)
        joins(mquake, encoder)
        needless(options.data, mquake, encoder)


if __name__ == "__main__":
    main()
