"""Chains of edits: the edits that a multi-hop question needs, found from the question alone, without a language model.

All edits of a file are stored together. *Recall* is the share of the needed edits among the first k, over questions and
their edits; *all* is the share of questions of which every edit is among them. Of the published figures, .467, .582 and
.675 at 1, 3 and 5 (by embedding, on other questions of MQuAKE), the former is meant. An edit is *named* if the question
names its subject; *led to* if edits that are named lead to it, by new objects that are subjects; *hidden* if its
subject is the answer of a fact that is not edited, which no look-up by name can know. `LEAST` was chosen on MQuAKE's odd
case ids; nothing was chosen on RippleEdits, HalluEditBench and CounterFact.

    python benchmarks/chains.py [--data FOLDER]

Embeddings are kept in the folder --cache, so that a second run is quick.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drike import datasets
from drike.edits import Aspect
from drike.encoders import TextEncoder, load_encoder
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.chains import LEAST, followers, joined, ranked
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.stores.records import EditRecord, EditVersion
from gate import DATA, Data, counterfact, halluedit
from lib import pages

TITLE = "Chains of edits"
FIRST = (1, 3, 5)
WEIGHED = (0.1, LEAST, 0.2, 0.3)
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
    restated: tuple[tuple[str, int], ...]  # single-hop questions, each with the edit that it asks for


def hops(file: Path, name: str) -> Hops:
    """Read a file."""
    ids: dict[tuple[str, str], int] = {}
    records: list[EditRecord] = []
    questions: list[Needing] = []
    restated: dict[tuple[str, int], None] = {}
    for case in datasets.load(str(file)).cases:
        for edit in case.edits:
            if edit.subject and edit.key not in ids:
                ids[edit.key] = len(records) + 1
                records.append(EditRecord(edit.subject, edit.query, edit.target_new, edit.target_true))
        needs = frozenset(ids[edit.key] for edit in case.edits if edit.subject)
        odd = case.case_id.isdigit() and int(case.case_id) % 2 == 1
        questions += [Needing(probe.query, needs, odd) for probe in case.asked if probe.aspect is Aspect.MULTI_HOP]
        paraphrases = (probe.query for probe in case.asked if probe.aspect is Aspect.PARAPHRASE)
        restated |= dict.fromkeys(zip(paraphrases, (ids[edit.key] for edit in case.edits), strict=False))
    return Hops(name, versions(records), tuple(questions), tuple(restated))


def versions(records: Iterable[EditRecord]) -> tuple[EditVersion, ...]:
    """As a store holds them."""
    return tuple(EditVersion(id, id, 1, "", record) for id, record in enumerate(records, 1))


def reach(query: str, index: EditIndex) -> tuple[set[int], set[int]]:
    """The ids of the edits that a question names, and of those that these lead to."""
    named = index.named(query)
    seen, waiting = set(named), list(named)
    while waiting:
        new = {edit.id for edit in followers(index.edits[waiting.pop()], index)} - seen
        seen |= new
        waiting += new
    return named, seen - named


def where(data: Sequence[Hops]) -> None:
    """Where the needed edits are, and what names could find at most."""
    rows = []
    for file in data:
        index = EditIndex.of(file.edits)
        reached = [reach(one.query, index) for one in file.questions]
        needed = sum(len(one.needs) for one in file.questions)
        shares = [
            sum(len(one.needs & ids) for one, ids in zip(file.questions, of, strict=True)) / needed
            for of in zip(*reached, strict=True)
        ]
        found = [len(one.needs & (a | b)) for one, (a, b) in zip(file.questions, reached, strict=True)]
        same = Counter(edit.record.query for edit in file.edits)
        rows.append((
            file.name, len(file.edits), sum(n > 1 for n in same.values()), len(file.questions), needed,
            *(f"{share:.3f}" for share in (*shares, 1 - sum(shares))),
            f"{sum(min(3, n) for n in found) / needed:.3f}",
            f"{sum(min(3, len(one.needs)) for one in file.questions) / needed:.3f}",
        ))  # fmt: skip
    pages.draw(
        "Where the needed edits are",
        ("file", "edits", "contradicted", "questions", "edits needed", "named", "led to", "hidden", "most at 3 by names",
         "most at 3"),
        rows,
    )  # fmt: skip


def found_within(questions: Sequence[Needing], lists: Sequence[Sequence[int]], k: int) -> tuple[str, str]:
    """Recall of needed edits within the first k, and the share of questions with all of them."""
    hits = [len(one.needs.intersection(ids[:k])) for one, ids in zip(questions, lists, strict=True)]
    whole = np.mean([hit == len(one.needs) for hit, one in zip(hits, questions, strict=True)])
    return f"{sum(hits) / sum(len(one.needs) for one in questions):.3f}", f"{whole:.3f}"


def recall(data: Sequence[Hops], encoder: TextEncoder) -> None:
    """Recall by the question alone, for chains and for embedding alone."""
    rows = []
    for file in data:
        index = EditIndex.of(file.edits, encoder)
        vectors = index.embed([one.query for one in file.questions])
        ways = {
            "nearest by embedding": [list(index.nearest(vector)) for vector in vectors],
            "chains, then nearest": [[edit.id for edit in ranked(one.query, index, max(FIRST))] for one in file.questions],
        }  # fmt: skip
        for way, lists in ways.items():
            for kind, odd in (("odd", True), ("even", False), ("all", None)):
                some = [i for i, one in enumerate(file.questions) if odd is None or one.odd == odd]
                figures = [found_within([file.questions[i] for i in some], [lists[i] for i in some], k) for k in FIRST]
                rows.append(
                    (file.name, way, kind, len(some), *(cell for pair in zip(*figures, strict=True) for cell in pair))
                )
    header = ("file", "found by", "case ids", "questions", *(f"at {k}" for k in FIRST), *(f"all at {k}" for k in FIRST))
    pages.draw("Recall of the needed edits", header, rows)


def given(one: Needing, index: EditIndex) -> Decision:
    """The decision of a perfect gate: the needed edits that the question names."""
    named = index.named(one.query)
    return Named().decide(one.query, EditIndex.of([index.edits[id] for id in sorted(one.needs & named)]))


def joins(data: Sequence[Hops], encoder: TextEncoder) -> None:
    """What joining adds to decisions on multi-hop questions."""
    rows = []
    for file in data:
        index = EditIndex.of(file.edits, encoder)
        gates: dict[str, Callable[[Needing], Decision]] = {
            "perfect": lambda one, index=index: given(one, index),  # type: ignore[misc]
            **{name: lambda one, gate=gate, index=index: gate.decide(one.query, index) for name, gate in GATES.items()},  # type: ignore[misc]
        }
        for name, decide in gates.items():
            for kind, odd in (("odd", True), ("even", False)):
                some = [one for one in file.questions if one.odd == odd]
                before = [decide(one) for one in some]
                for least in WEIGHED:
                    after = [joined(decision, index, least) for decision in before]
                    rows.append((file.name, name, kind, f"{least:.2f}", *joining(some, before, after)))
    header = (
        "file",
        "gate",
        "case ids",
        "evidence",
        "needed found",
        "with chains",
        "needless",
        "with chains",
        "joined rightly",
    )
    notes = ("Needless: the share of questions with an edit that is not needed. Joined rightly: of all that join.",)
    pages.draw("What joins decisions on multi-hop questions", header, rows, *notes)


def joining(some: Sequence[Needing], before: Sequence[Decision], after: Sequence[Decision]) -> list[str]:
    """Of decisions without and with chains: recall of needed edits, questions with needless ones; joins that are right."""
    ids = [[{edit.id for edit in decision.applied} for decision in of] for of in (before, after)]
    needed = sum(len(one.needs) for one in some)
    right = [sum(len(one.needs & own) for one, own in zip(some, of, strict=True)) / needed for of in ids]
    wrong = [float(np.mean([bool(own - one.needs) for one, own in zip(some, of, strict=True)])) for of in ids]
    new = [(one, b - a) for one, a, b in zip(some, *ids, strict=True)]
    share = sum(len(one.needs & own) for one, own in new) / max(1, sum(len(own) for _, own in new))
    return [f"{value:.3f}" for value in (*right, *wrong, share)]


def needless(folder: Path, mquake: Hops, encoder: TextEncoder) -> None:
    """What joins where one edit is asked for, and those that could follow are stored: MQuAKE's edits, added to others."""
    rows = []
    sets = [("MQuAKE, single questions", mquake.edits, mquake.restated)]
    for data in (halluedit(folder), counterfact(folder)):
        sets += [(f"{data.name}, {kind}", *leading(data, kind, mquake)) for kind in ("paraphrase", "same_subject")]
    for name, edits, asked in sets:
        index = EditIndex.of(edits, encoder)
        for gate in GATES:
            before = [GATES[gate].decide(query, index) for query, _ in asked]
            could = [d for d in before if any(followers(edit, index) for edit in d.applied)]
            counts = [sum(len(joined(d, index, least).applied) > len(d.applied) for d in could) for least in WEIGHED]
            rows.append((name, gate, len(asked), len(could), *counts))
    header = ("questions", "gate", "asked", "could join", *(f"joined at {least:.2f}" for least in WEIGHED))
    pages.draw("Needless joins on questions for one edit", header, rows)


def leading(data: Data, kind: str, mquake: Hops) -> tuple[tuple[EditVersion, ...], list[tuple[str, int]]]:
    """A store of MQuAKE's edits and of those of a data set that lead to one of them, and questions about the latter."""
    index = EditIndex.of(mquake.edits)
    places = [i for i, edit in enumerate(data.edits) if followers(edit, index)]
    id_of = {place: len(mquake.edits) + i for i, place in enumerate(places, 1)}
    records = [*(edit.record for edit in mquake.edits), *(data.entries[place] for place in places)]
    return versions(records), [
        (one.query, id_of[one.place]) for one in data.asked if one.kind == kind and one.place in id_of
    ]


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public files")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "drike-scope", help="of embeddings")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        encoder = load_encoder(features=options.cache)
        mquake = hops(options.data / "mquake_300.json", "MQuAKE")
        data = (mquake, hops(options.data / "ripple_pop.json", "RippleEdits"))
        where(data)
        recall(data, encoder)
        joins(data, encoder)
        needless(options.data, mquake, encoder)


if __name__ == "__main__":
    main()
