"""Edits that contradict one another in different words, and edits of one subject that do not, on public data.

A pair is two edits of one subject with different objects: they contradict each other if they state the same relation.
Pairs of the same relation are an edit with its published paraphrase, or with another wording of its relation; the
others state another relation of the subject, contrary and inverse ones among them (mother and father, born and died).
Pairs are split in two halves by the subject, those of our own wordings by the relation: the model and all thresholds
were chosen on the first half and on drike's own inventory of relations, the figures are of the second. Many wordings
are in both halves, so those pairs are also counted apart of which fitting has not seen both wordings.

Of the second half a first sample was looked at three times. The figures are of a second one, drawn after the first
400 pairs of each data set and answer, and of contrary relations of our own that were written for it. Some pairs that
the data sets list as other relations ask for the same ("Whom is X named after?", "X named after"); they count as false.

    python benchmarks/conflicts.py --fit    # the weights and the threshold that drike ships
    python benchmarks/conflicts.py          # the table, and the pairs that the rule judges wrongly

`--fit` takes more pairs of each data set than the figures do. Embeddings are kept in the folder --cache, so that a
second run is quick.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditRecord
from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.encoders.base import salient, unit
from drike.gates.calibrated import LogisticHead
from drike.live import contradictions as conflicts
from drike.live.contradictions import wordings as texts
from drike.support.table import Estimate
from drike.text.relation_wordings import built_in
from drike.text.relation_words import asked_parts
from drike.text.templates import query_template
from drike.text.words import mentions
from gate import (
    DATA,
    FLAT,
    WIKI,
    ZSRE,
    Data,
    cases,
    half_of,
    halluedit,
    halluedit_llama3,
    knowedit,
    pokemqa,
    qaedit,
)
from lib import pages

TITLE = "Conflicts by meaning"

MOST, FITTED = 400, 1200  # pairs of a data set, a half and an answer, for figures and for fitting
GIVEN = {"distance": -10.0, "opposite": -20.0}  # weights; opposites are never the same
RANK, DECAY, STEPS = (
    24,
    5e-5,
    120,
)  # of a space; chosen on wordings of the first half that were left out
SEEDS = 3  # of the models whose mean is taken: their spaces side by side
FOLDS = 3
FALSE = 0.01  # the share of other relations of the first half that may pass the threshold
VAGUE = (
    "P30 P17 P131 P276",
    "P103 P1412",
    "P364 P407",
    "P176 P178",
    "P108 P937",
)  # whose wordings do not tell
KINDS = (  # Wikidata's properties in CounterFact, of subjects of one kind
    "P19 P20 P27 P937 P103 P1412 P106 P413 P641 P1303 P140 P39 P108 P101 P136 P264",
    "P36 P37 P30 P17 P190 P1376 P463",
    "P159 P740 P127 P176 P178 P449 P495 P364 P407 P131 P276 P138 P136",
)
OWN = (  # contrary relations, of each some wordings, to fit to
    (
        ("The father of {} is", "Who is {}'s father?", "{}'s dad is"),
        ("The mother of {} is", "Who is {}'s mother?", "{}'s mum is"),
        ("The sister of {} is", "Who is {}'s sister?"),
        ("The son of {} is", "Who is {}'s son?"),
    ),
    (
        ("The capital of {} is", "Which city is the capital of {}?", "{} is governed from"),
        (
            "The largest city of {} is",
            "What is the biggest city in {}?",
            "The most populous city in {} is",
        ),
        ("The currency of {} is", "What money is used in {}?", "In {} people pay with"),
    ),
    (
        ("{} was born in", "Where was {} born?", "The birthplace of {} is"),
        ("{} died in", "Where did {} die?", "The place of death of {} is"),
        ("{} is buried in", "Where is {} buried?", "The grave of {} is in"),
        ("{} grew up in", "Where did {} spend their childhood?"),
    ),
    (
        ("The year in which {} was born is", "When was {} born?", "{}'s date of birth is"),
        ("The year in which {} died is", "When did {} die?", "{}'s date of death is"),
    ),
    (
        ("The CEO of {} is", "Who runs {}?", "The chief executive of {} is"),
        ("The founder of {} is", "Who founded {}?", "{} was started by"),
        ("The chairperson of {} is", "Who chairs {}?"),
        ("The owner of {} is", "Who owns {}?", "{} belongs to"),
    ),
    (
        ("The director of {} is", "Who directed {}?", "{} was directed by"),
        ("The producer of {} is", "Who produced {}?", "{} was produced by"),
        ("The composer of the music of {} is", "Who composed the music for {}?"),
        ("The screenwriter of {} is", "Who wrote the script of {}?"),
    ),
    (
        ("The author of {} is", "Who wrote {}?", "{} was written by"),
        ("The publisher of {} is", "Who published {}?", "{} was published by"),
        ("The translator of {} is", "Who translated {}?"),
    ),
    (
        ("The headquarters of {} are in", "Where is {} based?", "{}'s head office is in"),
        (
            "{} was founded in the city of",
            "Where was {} founded?",
            "The place where {} was started is",
        ),
    ),
    (
        ("{} was founded in the year", "When was {} founded?", "The founding year of {} is"),
        (
            "{} was dissolved in the year",
            "When was {} closed down?",
            "The year in which {} ended is",
        ),
    ),
    (
        ("The predecessor of {} is", "Who came before {}?", "{} succeeded"),
        ("The successor of {} is", "Who came after {}?", "{} was succeeded by"),
    ),
    (
        (
            "The population of {} is",
            "How many people live in {}?",
            "The number of inhabitants of {} is",
        ),
        ("The area of {} is", "How large is {}?", "The surface of {} in square kilometres is"),
    ),
    (
        ("The price of {} is", "How much does {} cost?", "For {} you pay"),
        ("The delivery time of {} is", "How long does it take to deliver {}?"),
        ("The warranty of {} lasts", "How long is the warranty of {}?", "{} is under warranty for"),
        ("The weight of {} is", "How heavy is {}?", "{} weighs"),
    ),
    (
        ("The phone number of {} is", "How can I call {}?", "To ring {}, dial"),
        ("The email address of {} is", "Where can I write to {} by email?"),
        ("The street address of {} is", "In which street is {}?"),
    ),
    (
        ("{} opens at", "When does {} open?", "The opening time of {} is"),
        ("{} closes at", "When does {} close?", "The closing time of {} is"),
    ),
)
FRESH = (  # the same, of the second half
    (
        ("The coach of {} is", "Who trains {}?", "{} is coached by"),
        ("The captain of {} is", "Who captains {}?", "{} is led onto the pitch by"),
        ("The main sponsor of {} is", "Who sponsors {}?"),
    ),
    (
        ("The president of {} is", "Who is {}'s head of state?", "{} is presided over by"),
        ("The prime minister of {} is", "Who heads the government of {}?"),
        ("The foreign minister of {} is", "Who runs {}'s foreign policy?"),
    ),
    (
        ("The highest mountain of {} is", "What is the tallest peak in {}?"),
        ("The longest river of {} is", "Which river is the longest in {}?"),
        ("The largest lake of {} is", "What is the biggest lake in {}?"),
    ),
    (
        ("The landlord of {} is", "Who rents {} out?"),
        ("The tenant of {} is", "Who lives in {} at the moment?"),
        ("The architect of {} is", "Who designed {}?"),
    ),
    (
        ("The lead singer of {} is", "Who sings in {}?", "{} is fronted by"),
        ("The drummer of {} is", "Who plays the drums in {}?"),
        ("The manager of {} is", "Who manages {}?"),
    ),
    (
        ("A ticket to {} for an adult costs", "What do adults pay to get into {}?"),
        ("A ticket to {} for a child costs", "What do children pay to get into {}?"),
        ("Parking at {} costs", "How much is parking at {}?"),
    ),
    (
        ("Returns to {} are accepted within", "How long do I have to send something back to {}?"),
        ("The free trial of {} lasts", "For how long can I try {} for free?"),
        ("The notice period of {} is", "How early must I cancel {}?"),
    ),
    (
        ("The supplier of {} is", "Who supplies {}?", "{} gets its parts from"),
        ("The largest customer of {} is", "Who buys most from {}?"),
        ("The main competitor of {} is", "Who is {}'s biggest rival?"),
    ),
    (
        ("{} runs on the operating system", "Which operating system does {} use?"),
        ("{} is written in the programming language", "What language is {} coded in?"),
        ("The licence of {} is", "Under which licence is {} released?"),
    ),
    (
        ("The deadline of {} is", "When must {} be finished?", "{} has to be done by"),
        ("{} begins on", "When does {} start?", "The first day of {} is"),
        ("The next meeting about {} is on", "When do we talk about {} again?"),
    ),
)
OURS, PUBLIC = "our contrary relations", "public data"
INVENTORY, SHARE = "our inventory", 0.5  # a data set to fit to, and its weight beside the others'
INVENTED, NEAREST = 12, 4  # its pairs of a relation and an answer, and the relations near one
LISTED = 6
INTERVALS = "In brackets 95 % intervals, edits resampled. Thresholds were set on the first half."
NAMES = (
    "Norland",
    "Avery Quill",
    "Kestrel Works",
    "The Ninth Gate",
    "Tamsin Vale",
    "Port Ester",
)  # of subjects


@dataclass(frozen=True)
class Pair:
    """Two edits of a subject, whether they state the same relation, and where they come from. half: 0 for choosing."""

    first: EditRecord
    second: EditRecord
    same: bool
    data: str
    half: int
    kind: str = ""  # of our own wordings: which relations

    @property
    def fold(self) -> int:
        """Which third of a half it is left out with: pairs of one wording, or of some relations, together."""
        return hashlib.sha256((self.kind or texts(self.first)[0]).encode()).digest()[0] % FOLDS


Judged = NDArray[np.float64]
Rule = Callable[
    [Sequence[Pair]], Judged
]  # a score for each pair: the larger, the rather the same relation


def of_data(name: str, data: Data) -> Iterator[Pair]:
    """An edit with its paraphrases, and with other questions about its subject."""
    for one in data.asked:
        entry = data.entries[one.place]
        kinds = (
            ("same_subject",) if name == "WikiData-counterfact" else ("paraphrase", "same_subject")
        )
        if one.kind in kinds and mentions(one.query, entry.subject):
            second = EditRecord(entry.subject, one.query, "another object")
            yield Pair(entry, second, one.kind == "paraphrase", name, half_of(entry))


def counterfact_pairs(folder: Path) -> Iterator[Pair]:
    """CounterFact's edits in other wordings of their relation, and in those of others that their subjects may have."""
    original = cases(folder / "counterfact_400.json")
    relations: dict[str, set[str]] = defaultdict(set)
    for case in original:
        if template := query_template(case.edit.query, case.edit.subject or ""):
            relations[template].add(case.edit.relation or "")
    wordings: dict[str, list[str]] = defaultdict(list)
    for template, known in relations.items():
        if len(known) == 1:
            wordings[next(iter(known))].append(template)
    rng = random.Random(0)
    for case in rng.sample([case for file in FLAT for case in cases(folder / file)], 6000):
        subject = case.edit.subject or ""
        known = relations.get(query_template(case.edit.query, subject) or "", set())
        if len(known) != 1:
            continue
        relation, entry = (
            next(iter(known)),
            EditRecord(subject, case.edit.query, case.edit.target_new),
        )
        of_kind = [group.split() for group in KINDS if relation in group.split()]
        alike = {relation}.union(*(group.split() for group in VAGUE if relation in group.split()))
        others = sorted(
            {
                other
                for group in of_kind[:1]
                for other in group
                if other not in alike and wordings[other]
            }
        )
        for same, choice in ((True, [relation]), (False, others)):
            templates = [
                text
                for name in choice
                for text in wordings[name]
                if text.format(subject) != entry.query
            ]
            if templates:
                second = EditRecord(
                    subject, rng.choice(templates).format(subject), "another object"
                )
                yield Pair(entry, second, same, "CounterFact", half_of(entry))


def mquake_pairs(folder: Path) -> Iterator[Pair]:
    """MQuAKE's single hops, each as a question and as a sentence, and with the other hops about the same subject."""
    rows = json.loads((folder / "mquake_300.json").read_text("utf-8"))
    for row in rows:
        for edit in row["requested_rewrite"]:
            subject = edit["subject"]
            entry = EditRecord(subject, edit["prompt"].format(subject), edit["target_new"]["str"])
            if mentions(edit["question"], subject):
                second = EditRecord(subject, edit["question"], "another object")
                yield Pair(entry, second, True, "MQuAKE", half_of(entry))


def own_pairs(half: int) -> Iterator[Pair]:
    """Our wordings of contrary relations, with made-up subjects."""
    for group in (OWN, FRESH)[half]:
        texts = [(relation, text) for relation, wordings in enumerate(group) for text in wordings]
        for place, ((one, text), (other, rest)) in enumerate(itertools.combinations(texts, 2)):
            name = NAMES[place % len(NAMES)]
            first, second = (EditRecord(name, each.format(name), each[:9]) for each in (text, rest))
            yield Pair(first, second, one == other, OURS, half, group[0][0])


def inventory_pairs(encoder: TextEncoder) -> list[Pair]:
    """Wordings of each relation of drike's inventory among themselves, and beside those of the relations near it."""
    wordings = [
        [text for group in relation.groups[:2] for text in group] for relation in built_in()
    ]
    means = unit(
        np.stack([unit(salient(encoder).encode(texts)).mean(axis=0) for texts in wordings])
    )
    near = np.argsort(-means @ means.T - 2 * np.eye(len(means)), axis=1)[:, 1 : NEAREST + 1]
    rng, found = random.Random(0), []
    for place, own in enumerate(wordings):
        chosen = [(*rng.sample(own, 2), True) for _ in range(INVENTED)]
        others = (wordings[rng.choice(near[place].tolist())] for _ in range(INVENTED))
        for one, text, same in [
            *chosen,
            *((rng.choice(own), rng.choice(other), False) for other in others),
        ]:
            first, second = (EditRecord("it", each, each[:9]) for each in (one, text))
            found.append(Pair(first, second, same, INVENTORY, 0, str(place)))
    return found


def pairs(folder: Path, half: int, most: int, begin: int = 0) -> list[Pair]:
    """The pairs of a half, each once, none that words alone show; of a data set and an answer `most` from `begin` on.

    Our own are there in any case.
    """
    sets = {
        "PokeMQA": pokemqa(folder), "zsRE": knowedit(folder / ZSRE, "zsRE"),
        "WikiData-counterfact": knowedit(folder / WIKI, "WikiData-counterfact"), "QAEdit": qaedit(folder),
        "HalluEditBench": halluedit(folder), "HalluEditBench, new subjects": halluedit_llama3(folder),
    }  # fmt: skip
    found = [pair for name, data in sets.items() for pair in of_data(name, data)]
    found += [*counterfact_pairs(folder), *mquake_pairs(folder), *own_pairs(0)]
    random.Random(0).shuffle(found)
    found += own_pairs(1)
    kept: dict[tuple[str, bool], list[Pair]] = defaultdict(list)
    for pair in dict.fromkeys(pair for pair in found if pair.half == half):
        if not conflict_keys(pair.first) & conflict_keys(pair.second):
            kept[pair.data, pair.same].append(pair)
    return [
        pair for group in kept.values() for pair in group[0 if group[0].kind else begin :][:most]
    ]


def fitted(some: Sequence[Pair], encoder: TextEncoder) -> conflicts.SameRelation:
    """The model, fitted to all pairs; its threshold is one that `FALSE` of those pass that were left out, in turn."""
    rows = compared(some, encoder)
    ends = [
        unit(salient(encoder).encode([texts(one)[0] for one in side]))
        for side in zip(*map(records, some), strict=True)
    ]
    apart, folds = ends[0] - ends[1], np.array([pair.fold for pair in some])
    same, scores = np.array([pair.same for pair in some]), np.zeros(len(some))
    public = np.array([pair.data != INVENTORY for pair in some])
    for fold in range(FOLDS):
        kept = (folds != fold) | ~public
        head, space = fit(some, rows, apart, kept)
        for i in np.flatnonzero(~kept):
            scores[i] = head.logit(rows[i] | {"distance": float(((apart[i] @ space) ** 2).sum())})
    threshold = float(np.quantile(scores[public & ~same], 1 - FALSE))
    recall = (scores[public & same] >= threshold).mean()
    print(f"left out: recall {recall:.3f} at {threshold:.2f}", file=sys.stderr)
    head, space = fit(some, rows, apart, np.ones(len(some), bool))
    return conflicts.SameRelation(head, space, threshold, encoder)


def fit(
    some: Sequence[Pair],
    rows: Sequence[Mapping[str, float]],
    apart: FloatArray,
    kept: NDArray[np.bool_],
) -> tuple[LogisticHead, FloatArray]:
    """The weights and the space, fitted to those pairs that are kept so that each data set counts alike."""
    import torch

    names, use = conflicts.FEATURES[len(GIVEN) :], np.flatnonzero(kept)
    known = torch.tensor([[rows[i][name] for name in names] for i in use])
    away, same = torch.tensor(apart[use]), torch.tensor([float(some[i].same) for i in use])
    counts = Counter((some[i].data, some[i].same) for i in use)
    weights = torch.tensor(
        [
            (SHARE if some[i].data == INVENTORY else 1)
            * min(MOST / counts[some[i].data, some[i].same], 3.0)
            for i in use
        ]
    )
    heads, spaces = [], []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        head = torch.nn.Linear(len(names), 1)
        torch.nn.init.zeros_(head.weight)
        space = torch.nn.Parameter(0.02 * torch.randn(apart.shape[1], RANK))
        optimiser = torch.optim.Adam(
            [{"params": head.parameters(), "lr": 0.05}, {"params": [space], "lr": 0.003}]
        )
        for _ in range(STEPS):
            optimiser.zero_grad()
            logits = head(known)[:, 0] + GIVEN["distance"] * ((away @ space) ** 2).sum(1)
            errors = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, same, weights, reduction="sum"
            )
            (errors / weights.sum() + DECAY * (space**2).sum()).backward()
            optimiser.step()
        heads.append(np.append(head.weight[0].tolist(), head.bias.item()))
        spaces.append(space.detach().numpy() / SEEDS**0.5)
    *mean, bias = np.mean(heads, axis=0).tolist()
    by_name = GIVEN | dict(zip(names, mean, strict=True))
    return LogisticHead(by_name, bias), np.hstack(spaces).astype(np.float16).astype(np.float32)


def save(model: conflicts.SameRelation, path: Path) -> None:
    """Write a model as drike reads it."""
    weights = np.array([model.head.weights[name] for name in conflicts.FEATURES])
    np.savez_compressed(
        path, encoder=model.encoder.identity["sha256"], weights=weights, bias=model.head.bias,
        threshold=model.threshold, space=model.space.astype(np.float16),
    )  # fmt: skip


def records(pair: Pair) -> tuple[EditRecord, EditRecord]:
    """The two edits."""
    return pair.first, pair.second


def compared(
    some: Sequence[Pair], encoder: TextEncoder, space: FloatArray | None = None
) -> list[dict[str, float]]:
    """The features of pairs."""
    salient(encoder).encode(
        list(dict.fromkeys(text for pair in some for one in records(pair) for text in texts(one)))
    )
    return [conflicts.features(pair.first, [pair.second], encoder, space)[0] for pair in some]


def by_model(model: conflicts.SameRelation) -> Rule:
    """The rule of a model."""
    return lambda some: np.array(
        [model.head.logit(row) for row in compared(some, model.encoder, model.space)]
    )


def by_cosine(encoder: TextEncoder) -> Rule:
    """The cosine of the queries."""

    def rule(some: Sequence[Pair]) -> Judged:
        ends = [
            unit(encoder.encode([one.query for one in side]))
            for side in zip(*map(records, some), strict=True)
        ]
        return np.asarray((ends[0] * ends[1]).sum(axis=1), dtype=np.float64)

    return rule


def by_words(some: Sequence[Pair]) -> Judged:
    """Whether the queries have the same words besides the subject and those that say nothing about what is asked."""
    said = [
        [
            frozenset().union(*(stems for _, stems in asked_parts(texts(one)[0])))
            for one in records(p)
        ]
        for p in some
    ]
    return np.array([float(one == other) for one, other in said])


def table(some: Sequence[Pair], scores: Mapping[str, tuple[Judged, float]], seen: set[str]) -> None:
    """Print recall and false conflicts of each rule, all and by data set, with intervals by the edit."""
    same = np.array([pair.same for pair in some])
    new = np.array([not {texts(one)[0] for one in records(pair)} <= seen for pair in some])
    public = np.array([pair.data != OURS for pair in some])
    whole = {PUBLIC: public, f"{PUBLIC}, a wording that fitting has not seen": public & new}
    groups = whole | {
        name: np.array([pair.data == name for pair in some])
        for name in dict.fromkeys(p.data for p in some)
    }
    names = np.array([pair.first.query for pair in some])
    last = np.flatnonzero(same), next(reversed(scores))
    rows = []
    for group, chosen in groups.items():
        cells = [(chosen & same), (chosen & ~same)]
        for name, (score, threshold) in scores.items():
            if group not in whole and name != last[1]:
                continue
            hits = score >= threshold
            shares = [share(hits[cell], names[cell]) for cell in cells]
            gain = (
                ""
                if name == last[1]
                else gained(scores[last[1]], (score, threshold), cells[0], names)
            )
            rows.append((group, name, f"{cells[0].sum():,} / {cells[1].sum():,}", *shares, gain))
    header = (
        "pairs",
        "rule",
        "same / other relation",
        "recall",
        "false",
        "recall of drike's rule more than this",
    )
    pages.draw("Two edits of one subject: do they contradict each other?", header, rows, INTERVALS)


def share(hits: NDArray[np.bool_], names: NDArray[np.str_]) -> Estimate | str:
    """A share with its interval, by the edit."""
    if not len(hits):
        return ""
    low, high = resampled(hits.astype(float), names)
    return Estimate(float(hits.mean()), low, high)


def gained(
    best: tuple[Judged, float],
    other: tuple[Judged, float],
    cell: NDArray[np.bool_],
    names: NDArray[np.str_],
) -> str:
    """How much more a rule finds than another, of the same pairs, with its interval."""
    more = (best[0] >= best[1]).astype(float)[cell] - (other[0] >= other[1]).astype(float)[cell]
    low, high = resampled(more, names[cell])
    return f"{more.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def resampled(values: Judged, names: NDArray[np.str_], times: int = 1000) -> tuple[float, float]:
    """The 95 % interval of a mean, edits resampled."""
    _, which = np.unique(names, return_inverse=True)
    sums, sizes = np.bincount(which, values), np.bincount(which)
    drawn = np.random.default_rng(0).integers(len(sums), size=(times, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


def errors(some: Sequence[Pair], score: Judged, threshold: float) -> None:
    """Print what the rule judges wrongly, some of each data set."""
    rng, found = random.Random(0), defaultdict(list)
    for pair, value in zip(some, score, strict=True):
        if pair.same != (value >= threshold):
            found[pair.data, pair.same].append(pair)
    rows = [
        (data, "missed" if same else "false", pair.first.query, pair.second.query)
        for (data, same), of in sorted(found.items())
        for pair in (of if not same else rng.sample(of, min(LISTED, len(of))))
    ]
    pages.draw(f"Errors: all false conflicts, and up to {LISTED} missed ones of a data set",
               ("data", "error", "one edit", "the other"), rows, wide=True)  # fmt: skip


def main() -> None:
    """Print the tables as Markdown, or write the model."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--fit", action="store_true", help="write the model that drike ships instead"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public files")
    pages.add_cache(parser)
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    if not options.data.is_dir():
        print(
            f"left out: there is no folder {options.data} with the public files (--data)",
            file=sys.stderr,
        )
        return
    encoder = load_encoder(features=options.cache, keep=True)
    fitting = pairs(options.data, 0, FITTED) + inventory_pairs(encoder)
    if options.fit:
        save(fitted(fitting, encoder), Path(conflicts.__file__).with_name(conflicts.FILE))
        return
    model = conflicts.same_relation(encoder)
    assert model is not None
    chosen, some = pairs(options.data, 0, MOST), pairs(options.data, 1, MOST, MOST)
    cosine, apart = by_cosine(encoder), ~np.array([pair.same for pair in chosen])
    at = float(np.quantile(cosine(chosen)[apart], 1 - FALSE))
    scores = {
        "same name": (np.ones(len(some)), 1.0), f"same name, cosine from {at:.2f}": (cosine(some), at),
        "same name, equal content words": (by_words(some), 1.0),
        "drike's rule": (by_model(model)(some), model.threshold),
    }  # fmt: skip
    table(some, scores, {text for pair in fitting for one in records(pair) for text in texts(one)})
    errors(some, *scores["drike's rule"])


if __name__ == "__main__":
    main()
