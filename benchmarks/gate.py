"""The gate on public data: which query concerns which edit. No language model is asked.

Edits are split in two halves by a hash of their text: gates are calibrated on one, all figures are of the other. The
stores hold the edits of both. Features and constants of the gate were chosen on the first half, and on PokeMQA; sets of
features were also compared on both halves of HalluEditBench (last table below), so its second half is not unseen data.
What `--only unseen` asks was never put to a gate before that table was made, once.

    python benchmarks/gate.py --fit src/drike/gates/gate.json     # the calibration that drike ships
    python benchmarks/gate.py --fit-aspects src/drike/gates/gate.json     # only what `with_aspects` fits of it
    python benchmarks/gate.py [--only stores|subjects|aliases|promise|wordings|unseen] [--data FOLDER]
    OPENBLAS_THREAD_TIMEOUT=4 python benchmarks/gate.py --only times|public-times      # as `drike` sets it; when idle

Embeddings are kept in the folder --cache, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

import firms
import questions
from drike.answers.matching import normalise
from drike.edits.conflicts import conflict_keys
from drike.edits.edit import Aspect, EditCase
from drike.edits.record import EditRecord, EditVersion
from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.encoders.base import BULK, salient
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import (
    GateProbe,
    LabelledCandidate,
    calibrated,
    default_gate,
    fit,
    labelled_candidates,
    to_json,
)
from drike.gates.certificate import certify, lowest_threshold
from drike.gates.comparison import ANOTHER, Reading, compared
from drike.gates.decision import EQUAL, Gate
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery
from drike.research import datasets
from drike.research.datasets.generated import with_generated
from drike.support.table import Table, as_markdown
from drike.text.masking import masked
from drike.text.relation_wordings import built_in
from drike.text.relation_words import contrary
from drike.text.templates import query_template
from lib import pages

TITLE = "The gate on public data"

DATA = Path("../shared/datasets")
MOST_ALIKE = 3  # pairs of the same two relations that are kept of PokeMQA
FLAT = ("counterfact_flat_edit.json", "counterfact_flat_train.json")


@dataclass(frozen=True)
class Asked:
    """A question about an edit: its place among the entries, and what kind of question it is."""

    query: str
    place: int
    kind: str


@dataclass(frozen=True)
class Data:
    """Edits with questions about them."""

    name: str
    entries: tuple[EditRecord, ...]
    asked: tuple[Asked, ...]

    @property
    def edits(self) -> list[EditVersion]:
        """As a store holds them: the id is the place + 1."""
        return [EditVersion(i, i, 1, "", entry) for i, entry in enumerate(self.entries, 1)]

    def of_half(self, half: int, *kinds: str) -> list[Asked]:
        """The questions of these kinds about the edits of one half."""
        return [
            one
            for one in self.asked
            if one.kind in kinds and half_of(self.entries[one.place]) == half
        ]


def half_of(entry: EditRecord) -> int:
    """0 for calibration, 1 for figures: by subject, so that edits of one subject are in the same half."""
    return hashlib.sha256(entry.subject.encode()).digest()[0] % 2


def cases(file: Path) -> tuple[EditCase, ...]:
    """The rows of a published file whose edits name a subject."""
    return tuple(case for case in datasets.load(str(file)).cases if case.edit.subject)


def entry(case: EditCase, relation: str | None = None) -> EditRecord:
    """A case's edit as a store takes it."""
    edit = case.edit
    return EditRecord(edit.subject or "", edit.query, edit.target_new, edit.target_true, relation)


def counterfact(folder: Path) -> Data:
    """20,000 rows of the flat files, and those of the 400 original ones that they lack; conflicts superseded.

    Relations are known of the 400 rows, and so of the wordings that occur there with one relation only. Where those of
    two edits of a subject are known and differ, the query of each is a question about the other's subject.
    """
    original = cases(folder / "counterfact_400.json")
    relations: dict[str | None, set[str]] = defaultdict(set)
    for case in original:
        relations[query_template(case.edit.query, case.edit.subject or "")].add(
            case.edit.relation or ""
        )
    of_edit: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    entries: dict[tuple[str, str], EditRecord] = {}
    for case in (*(case for file in FLAT for case in cases(folder / file)), *original):
        known = relations.get(query_template(case.edit.query, case.edit.subject or ""), set())
        relation = next(iter(known)) if len(known) == 1 else None
        entries[case.edit.key] = entry(case, relation)
        of_edit[case.edit.key] += [(probe.query, str(probe.aspect)) for probe in case.probes]
    holds = {claim: key for key, one in entries.items() for claim in conflict_keys(one)}
    kept = [
        key
        for key, one in entries.items()
        if all(holds[claim] == key for claim in conflict_keys(one))
    ]
    asked = [
        Asked(query, place, kind)
        for place, key in enumerate(kept)
        for query, kind in dict.fromkeys(of_edit[key])
        if query != entries[key].query
    ]
    of_subject: dict[str, list[int]] = defaultdict(list)
    for place, key in enumerate(kept):
        if entries[key].relation:
            of_subject[entries[key].subject].append(place)
    for places in of_subject.values():
        for one, other in itertools.permutations(places, 2):
            if entries[kept[one]].relation != entries[kept[other]].relation:
                asked.append(Asked(entries[kept[other]].query, one, "same_subject"))
    return Data("CounterFact", tuple(entries[key] for key in kept), tuple(asked))


def knowedit(file: Path, name: str) -> Data:
    """One of KnowEdit's files. A probe of locality with the edit's own answer asks its own relation: left out."""
    asked, rows = [], cases(file)
    for place, case in enumerate(rows):
        own = normalise(case.edit.target_true or "")
        for probe in case.asked:
            kind = "same_subject" if probe.aspect is Aspect.NEIGHBORHOOD else str(probe.aspect)
            if kind == "same_subject" and (
                probe.aspect is not Aspect.NEIGHBORHOOD or normalise(probe.target) == own
            ):
                continue
            if probe.query != case.edit.query:
                asked.append(Asked(probe.query, place, kind))
    return Data(name, tuple(map(entry, rows)), tuple(dict.fromkeys(asked)))


def halluedit(folder: Path) -> Data:
    """All topics of HalluEditBench."""
    rows = [
        case for file in sorted((folder / "halluedit_llama2").glob("*.csv")) for case in cases(file)
    ]
    asked = [
        Asked(one.query, place, str(one.aspect))
        for place, case in enumerate(rows)
        for one in (*case.asked, *case.baseline_questions)
        if one.query != case.edit.query
    ]
    return Data("HalluEditBench", tuple(map(entry, rows)), tuple(dict.fromkeys(asked)))


def halluedit_llama3(folder: Path) -> Data:
    """HalluEditBench's edits of Llama-3-8B-Instruct; asked about are subjects that no row of Llama-2's files has."""
    seen = {one.subject for one in halluedit(folder).entries}
    files = sorted(
        (folder / "halluedit_results/hallu_edit/meta_llama_3_8b_instruct").glob("*_ICL.json")
    )
    rows = [row["requested_edit"] for file in files for row in json.loads(file.read_text("utf-8"))]
    edits = {(row["subject"], row["prompt"]): row for row in rows}
    asked = [
        Asked(query, place, kind)
        for place, row in enumerate(edits.values())
        for query, kind in (
            (row["rephrase_prompt"], "paraphrase"),
            (row["locality"]["locality"]["prompt"], "same_subject"),
        )
        if row["subject"] not in seen and query != row["prompt"]
    ]
    entries = [
        EditRecord(row["subject"], row["prompt"], row["target_new"]) for row in edits.values()
    ]
    return Data(
        "HalluEditBench, subjects of Llama-3's rows only",
        tuple(entries),
        tuple(dict.fromkeys(asked)),
    )


def qaedit(folder: Path) -> Data:
    """QAEdit: paraphrases, and five questions an edit that are about something else."""
    rows = cases(folder / "qaedit_1k.json")
    asked = [
        Asked(probe.query, place, str(probe.aspect))
        for place, case in enumerate(rows)
        for probe in case.probes
        if probe.query != case.edit.query
    ]
    return Data("QAEdit", tuple(map(entry, rows)), tuple(dict.fromkeys(asked)))


def pokemqa(folder: Path) -> Data:
    """PokeMQA's edits: the subject is the longest text in capitals that the edit and all its questions share.

    The first question becomes the edit's query, the others its paraphrases, except those that ask for something else
    (the occupation for the employer). Another edit's question about the subject is one about another relation unless
    the two relations share a wording.
    """
    entries, asked, of_subject = [], [], defaultdict(list)
    wordings: dict[str, set[str]] = defaultdict(set)
    for row in json.loads((folder / "pokemqa_cls.json").read_text("utf-8")):
        query, *others = dict.fromkeys(row["questions"])
        if subject := shared_name(row["edit"], (query, *others)):
            place = len(entries)
            entries.append(EditRecord(subject, query, row["edit"]))
            relation, *alike = (masked(one, [subject]) for one in (query, *others))
            alike = [text for text in alike if not contrary(relation, text)]
            asked += [
                Asked(other, place, "paraphrase")
                for other in others
                if masked(other, [subject]) in alike
            ]
            wordings[relation] |= {relation, *alike}
            of_subject[subject].append(place)
    relations = [masked(one.query, [one.subject]) for one in entries]
    seen: Counter[tuple[str, str]] = Counter()
    for places in of_subject.values():
        for one, other in itertools.permutations(places, 2):
            pair = relations[one], relations[other]
            if not wordings[pair[0]] & wordings[pair[1]] and seen[pair] < MOST_ALIKE:
                seen[pair] += 1
                asked.append(Asked(entries[other].query, one, "same_subject"))
    return Data("PokeMQA", tuple(entries), tuple(asked))


def tinyfacts() -> Data:
    """TinyFacts' training edits of seed 0: paraphrases, also with the last name alone, and other facts of a subject."""
    dataset = datasets.load(datasets.TINYFACTS)
    train = dataset.split(seed=0, train=TINY, test=100).train
    asked = []
    for place, (case, generated) in enumerate(zip(train, with_generated(train, 0), strict=True)):
        name, questions = case.edit.subject or "", generated.baseline_questions
        asked += [
            Asked(one.query, place, "same_subject")
            for one in questions
            if one.aspect is Aspect.SAME_SUBJECT
        ]
        asked += [Asked(one.query, place, "paraphrase") for one in case.paraphrases]
        if any(one.aspect is Aspect.ALIAS for one in questions):
            short = name.split()[-1]
            asked += [
                Asked(one.query.replace(name, short), place, "alias") for one in case.paraphrases
            ]
    return Data("TinyFacts", tuple(map(entry, train)), tuple(dict.fromkeys(asked)))


def shared_name(edit: str, questions: Sequence[str]) -> str | None:
    """The longest run of an edit's words that all questions hold, if it has a capital or digit."""
    parts = edit.split()
    runs = [
        " ".join(parts[i : i + n])
        for n in range(len(parts), 0, -1)
        for i in range(len(parts) - n + 1)
    ]
    proper = [
        run
        for run in runs
        if re.match(r"[A-Z0-9].*\b[A-Z0-9]\S*$|[A-Z0-9]\S*$", run) and run not in ("The", "A")
    ]
    fits = (
        run
        for run in proper
        if all(re.search(rf"(?<!\w){re.escape(run)}(?!\w)", one) for one in questions)
    )
    return next(fits, None)


FIRE = ("paraphrase", "alias")
QUESTIONS = ("paraphrase", "same_subject")
WIKI, ZSRE = "knowedit_wiki_counterfact_train.json", "knowedit_zsre_test.json"
PARAPHRASES = 2500  # of PokeMQA
FEW = 2.5  # what a neighbour that names a subject counts for
SPLITS = 1000
FEW_FIRE = 0.01  # shares below this have four digits
DOUBT = "In doubt: the share of questions in the grey zone, and the figures if a model answered all of these rightly."
OF_GATES = (
    "gate",
    "right",
    "fires falsely",
    "right at 5 % / 3 % fires",
    "in doubt: right, left alone",
)
DECISIONS = 200
PUBLIC = 500  # public questions of a kind that are timed
CHANGES = 20
OF_TIMES = (
    "Milliseconds: median / 99th percentile, with the embedding of the query; in brackets the embedding alone. The "
    "encoder computes in two threads and the search in all, as in a gateway."
)
RELATION, VERB = r"(?P<relation>[\w' -]+)", "(?P<verb>is|was|are|were)"
SYLLABLES = ("ba", "do", "ke", "li", "mu", "na", "ro", "si", "ta", "vu", "xe", "zo")
RELATIONS = (
    "was founded by",
    "is the capital of",
    "is written in",
    "plays for",
    "was born in",
    "is owned by",
)
Rates = dict[bool, dict[int, list[float]]]
CELL = 500.0  # how many examples each data set's questions that concern the edit count for, and those that do not
TINY, TINY_SHARE = (
    300,
    0.2,
)  # edits; of what another data set counts for: its other facts are always worded as stored
HOPS, OTHERS = (
    5,
    2000,
)  # every so many of the multi-hop questions has two hops; yes-or-no and choice questions
PRIOR = {
    "inside": -4.0,
    "ambiguous": -1.0,
    "uncased": -1.5,
}  # of names that hardly occur in public data; our questions
THRESHOLD, SETTINGS = (
    0.4,
    {"careful": 0.7, "eager": 0.2},
)  # chosen on Llama-2's recorded answers and our questions
OF_OBJECTS = ("object", "closed", "others", "subject")
# What an edit is about within its subject; and what an example of firms' facts counts for.
OF_ASPECTS = ("elsewhere", "beside", "joined", "switched", "outdone", "misfit")
FIRMS_WEIGHT = 4.0
ASPECT_EXAMPLES = 1_500  # of a public data set
FIXED = 1e9  # the strength of a prior that leaves a weight as it is
MOST = 5.0  # what a single example counts for
HEADS = (
    (
        *("masked", "margin", "same", "relation", "other", "said"),
        *("same_kind", "other_kind", "contrary", "vague"),
        *("continued", "inside", "ambiguous", "uncased", "partial", "last", "typo"),
    ),
    ("whole", "margin", "named"),
)


def blank(encoder: TextEncoder) -> Calibrated:
    """A gate that knows `PRIOR` only, from which the default one is fitted."""
    named, unnamed = (
        LogisticHead({name: PRIOR.get(name, 0.0) for name in names}, 0.0) for names in HEADS
    )
    return Calibrated(encoder.name, named, unnamed)


def probes(asked: Iterable[Asked]) -> list[GateProbe]:
    """As calibration takes them."""
    return [GateProbe(one.query, one.place + 1, one.kind in FIRE) for one in asked]


def damaged(data: Data, asked: Sequence[Asked], seed: int = 0) -> list[Asked]:
    """The same questions with a typo in the subject, without its middle words, or with its last one alone."""
    rng = random.Random(seed)
    found = []
    for one in asked:
        subject = data.entries[one.place].subject
        parts = subject.split()
        long = [part for part in parts if len(part) >= 6 and part.isalpha()]
        if len(parts) > 1 and rng.random() < 0.5:
            other = (
                parts[-1] if len(parts) == 2 or rng.random() < 0.5 else f"{parts[0]} {parts[-1]}"
            )
        elif long:
            word, at = rng.choice(long), rng.randrange(1, 5)
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            other = subject.replace(word, rng.choice((word[:at] + word[at + 1 :], swapped)))
        else:
            continue
        found.append(replace(one, query=one.query.replace(subject, other)))
    return found


def weighted(found: Sequence[LabelledCandidate], share: float = 1.0) -> list[LabelledCandidate]:
    """Examples that count `CELL` times a share for each answer, whatever their number."""
    counts = Counter(one.concerns for one in found)
    return [replace(one, weight=share * min(CELL / counts[one.concerns], MOST)) for one in found]


def material(data: Data, asked: Sequence[Asked], encoder: TextEncoder) -> list[LabelledCandidate]:
    """Examples of a data set in a store of its own: questions that need the fact concern the edit."""
    apart = ("same_subject", "neighborhood")
    asking = [GateProbe(one.query, one.place + 1, one.kind not in apart) for one in asked]
    return labelled_candidates(blank(encoder), asking, EditIndex.of(data.edits, encoder))


def of_objects(data: Data, encoder: TextEncoder) -> list[LabelledCandidate]:
    """Edits whose new object a question names: they are asked for by reverse questions of their own alone.

    Also asked are two questions of the inventory about each object. Edits with the wording of a question's own edit
    are left out: "Who was born in Graz?" may ask for all who were.
    """
    rng, index = random.Random(0), EditIndex.of(data.edits, encoder)
    known = [
        text
        for one in built_in()
        for group in one.groups
        for text in group
        if re.search(r"\bit\b.*\?$", text)
    ]
    asked = [one for one in data.asked if one.kind != "multi_hop"]
    for place, one in enumerate(data.entries):
        objects = (
            re.sub(r"\bit\b", lambda _, one=one: one.target_new, text, count=1)
            for text in rng.sample(known, 2)
        )
        asked += [Asked(query, place, "inventory") for query in objects]
    wordings = [masked(one.query, one.names) for one in data.entries]
    pairs = [
        (one, parsed, parsed.by_object(index))
        for one in asked
        for parsed in [ParsedQuery.of(one.query, index)]
    ]
    pairs = [(one, parsed, named) for one, parsed, named in pairs if named.mentions]
    texts = {
        excerpt.text
        for _, _, named in pairs
        for m in named.mentions
        for excerpt in named.excerpts({(m.begin, m.end)})
    }
    salient(encoder).encode([*texts])
    found = []
    for one, parsed, named in pairs:
        for comparison in compared([Reading(named, parsed.mentions)], index):
            id = comparison.edit.id
            own = id == one.place + 1
            if own or wordings[id - 1] != wordings[one.place]:
                concerns = own and one.kind == "reverse"
                found.append(LabelledCandidate(comparison.features, concerns, id))
    return found


def is_named(example: LabelledCandidate) -> bool:
    """Whether the query named the subject."""
    return "masked" in example.features


def fitted(folder: Path, encoder: TextEncoder) -> Calibrated:
    """The calibration that drike ships.

    The head for named subjects: PokeMQA, zsRE, HalluEditBench's edits of Llama-2 with their paraphrases, yes-or-no,
    choice and two-hop questions, half of CounterFact, TinyFacts' training edits; also with typos and short names. Its
    weights for new objects: `of_objects` of Llama-2's edits; those for aspects: `with_aspects`. The head for others: aliases of half of
    WikiData-counterfact, neighbours of half of CounterFact. `THRESHOLD` is chosen.
    """
    poke, zsre, fact = pokemqa(folder), knowedit(folder / ZSRE, "zsRE"), counterfact(folder)
    wiki, llama = knowedit(folder / WIKI, "WikiData-counterfact"), halluedit(folder)
    tiny, rng = tinyfacts(), random.Random(0)
    asked = rng.sample([one for one in poke.asked if one.kind == "paraphrase"], PARAPHRASES)
    asked += [one for one in poke.asked if one.kind == "same_subject"]
    plain = [one for one in llama.asked if one.kind in QUESTIONS]
    hops = [one for one in llama.asked if one.kind == "multi_hop"][::HOPS]
    others = rng.sample([one for one in llama.asked if one.kind in ("yes_no", "choice")], OTHERS)
    near = fact.of_half(0, "neighborhood")
    sets = [
        *(
            (poke, asked),
            (poke, damaged(poke, asked)),
            (zsre, [a for a in zsre.asked if a.kind in QUESTIONS]),
        ),
        *((llama, plain), (llama, damaged(llama, plain)), (llama, hops), (llama, others)),
        *(
            (tiny, tiny.asked),
            (fact, fact.of_half(0, *QUESTIONS)),
            (fact, near),
            (wiki, wiki.of_half(0, "alias")),
        ),
    ]
    found = [material(data, some, encoder) for data, some in sets]
    start = blank(encoder)
    shares = [TINY_SHARE if data is tiny else 1.0 for data, _ in sets[:-2]]
    named = [
        one
        for some, share in zip(found, shares, strict=False)
        for one in weighted(list(filter(is_named, some)), share)
    ]
    named += [replace(one, weight=FEW) for one in filter(is_named, found[-2])]
    unnamed = [one for one in (*found[-1], *found[-2]) if not is_named(one)]
    counts = Counter(one.concerns for one in unnamed)
    balanced = [
        replace(one, weight=CELL / counts[True] if one.concerns else 4 * CELL / counts[False])
        for one in unnamed
    ]
    head = rounded(fit(named, start.named, strength=1))
    gate = replace(
        start,
        named=with_objects(head, of_objects(llama, encoder)),
        unnamed=rounded(fit(balanced, start.unnamed, strength=1)),
        threshold=THRESHOLD,
        settings=SETTINGS,
    )
    return with_aspects(gate, folder, encoder)


def with_objects(head: LogisticHead, examples: Sequence[LabelledCandidate]) -> LogisticHead:
    """The head with weights for new objects, fitted to examples; all others, and so all other decisions, stay."""
    weights = {**head.weights, **dict.fromkeys(OF_OBJECTS, 0.0)}
    strength = np.array([1.0 if name in OF_OBJECTS else FIXED for name in (*weights, "bias")])
    fitting = fit(examples, LogisticHead(weights, head.bias), strength)
    return rounded(
        replace(head, weights={**weights, **{name: fitting.weights[name] for name in OF_OBJECTS}})
    )


def with_aspects(gate: Calibrated, folder: Path, encoder: TextEncoder) -> Calibrated:
    """The gate with weights for aspects, fitted to examples; all others stay.

    Examples are all candidates of the firms to develop on and of our own questions but those to test, and a part of
    the public questions about edits of the first halves.
    """
    examples = [replace(one, weight=FIRMS_WEIGHT) for one in of_firms(gate, encoder)]
    examples += weighted(of_questions(gate, encoder))
    rng = random.Random(2)
    for data, kinds in (
        (halluedit(folder), QUESTIONS),
        (counterfact(folder), QUESTIONS),
        (pokemqa(folder), QUESTIONS),
    ):
        asked = data.of_half(0, *kinds)
        asked = rng.sample(asked, min(ASPECT_EXAMPLES, len(asked)))
        examples += weighted(list(filter(is_named, material(data, asked, encoder))), share=0.7)
    weights = {**gate.named.weights, **dict.fromkeys(OF_ASPECTS, 0.0)}
    strength = np.array([1.0 if name in OF_ASPECTS else FIXED for name in (*weights, "bias")])
    head = fit(examples, LogisticHead(weights, gate.named.bias), strength)
    return replace(gate, named=rounded(head))


def of_firms(gate: Calibrated, encoder: TextEncoder) -> list[LabelledCandidate]:
    """The candidates of what firms are asked at once, without a system's text, of the firms to develop on."""
    found = []
    for firm in firms.read_firms(firms.DEVELOPMENT).values():
        stored = firms.NamedIndex.of(firm.facts, encoder)
        for asked in firm.questions:
            if len(asked.messages) == 1 and asked.kind not in ("time", "whole", "reversed"):
                wanted = {id for id, name in stored.names.items() if name in asked.wanted}
                found += labelled(gate, asked.messages[0]["content"], wanted, stored.index)
    return found


def of_questions(gate: Calibrated, encoder: TextEncoder) -> list[LabelledCandidate]:
    """The candidates of our own questions, but for those to test."""
    found = []
    for half, (edits, file) in questions.FILES.items():
        if half not in (questions.TEST, questions.UNSEEN):
            index = questions.stored_index(questions.FOLDER / edits, encoder)
            for asked in questions.read_questions(questions.FOLDER / file):
                if asked.half == half:
                    found += labelled(gate, asked.query, asked.wanted, index)
    return found


def labelled(
    gate: Calibrated, query: str, wanted: Collection[int], index: EditIndex
) -> list[LabelledCandidate]:
    """All candidates whose subject a question names, but for those that are decided without a probability."""
    return [
        LabelledCandidate(candidate.features, candidate.edit.id in wanted, candidate.edit.id)
        for candidate in gate.candidates(query, index)
        if "masked" in candidate.features
        and not candidate.features.get(ANOTHER)
        and EQUAL not in candidate.features
    ]


def rounded(head: LogisticHead) -> LogisticHead:
    """A head in three decimals."""
    return LogisticHead(
        {name: round(weight, 3) for name, weight in head.weights.items()}, round(head.bias, 3)
    )


def right_and_fires(
    gate: Gate, data: Data, asked: Sequence[Asked], encoder: TextEncoder, index: EditIndex
) -> Rates:
    """Per edit, the shares of its questions that fire it: of those that concern it, and of the others."""
    encoder.encode(
        [
            text
            for one in asked
            for text in (one.query, masked(one.query, data.entries[one.place].names))
        ]
    )
    shares: Rates = {True: defaultdict(list), False: defaultdict(list)}
    for one in asked:
        matched = {edit.id - 1 for edit in gate.decide(one.query, index).matched}
        shares[one.kind in FIRE][one.place].append(float(one.place in matched))
    return shares


def interval(shares: Mapping[int, Sequence[float]], seed: int = 0) -> str:
    """The share of all questions, with its 95 % interval by bootstrap over edits."""
    if not shares:
        return "n/a"
    sums, counts = np.array([[sum(some), len(some)] for some in shares.values()]).T
    drawn = np.random.default_rng(seed).integers(len(sums), size=(1000, len(sums)))
    low, high = np.quantile(sums[drawn].sum(1) / counts[drawn].sum(1), (0.025, 0.975))
    share = sums.sum() / counts.sum()
    if low == high == share:
        return f"{share:g} of {int(counts.sum()):,}"
    digits = 4 if share < FEW_FIRE else 3
    return f"{share:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] of {int(counts.sum()):,}"


def curves(
    data: Data, gate: Calibrated, asked: Sequence[Asked], index: EditIndex
) -> tuple[str, str]:
    """What any threshold and a model's answers could do, by the probability of each question's own edit.

    First the share of right fires where 5 % and 3 % of the others fire; then the share of named questions in the grey
    zone, and right fires and questions left alone if a model answered all of them rightly.
    """
    found: dict[bool, list[float]] = {True: [], False: []}
    for one in asked:
        own = (
            c.probability for c in gate.candidates(one.query, index) if c.edit.id == one.place + 1
        )
        found[one.kind in FIRE].append(next(own, 0.0))
    right, false = np.array(found[True]), np.array(found[False])
    at = (np.mean(right > np.quantile(false, 1 - share)) for share in (0.05, 0.03))
    low, high = gate.grey
    both = np.concatenate([right, false])
    grey = np.mean((both[both > 0] >= low) & (both[both > 0] < high))
    answered = f"{grey:.3f}: {np.mean(right >= low):.3f}, {np.mean(false < high):.3f}"
    return " / ".join(f"{share:.3f}" for share in at), answered


def store_rows(folder: Path, encoder: TextEncoder) -> Table:
    """CounterFact, all edits stored: paraphrases that fire their edit, and neighbours that fire it."""
    data = counterfact(folder)
    index = EditIndex.of(data.edits, encoder)
    asked = data.of_half(1, "paraphrase", "neighborhood")
    fitted = probes(data.of_half(0, "paraphrase", "neighborhood"))
    own = calibrated(default_gate(), fitted, index)
    own = replace(own, shifts={})
    gates: dict[str, Gate] = {
        "named, nearest of these": Named(),
        "default calibration": default_gate(),
    }
    gates["calibrated on the other half"] = replace(own, threshold=0.5)
    for level in (0.0014, 0.003):
        certificate = certify(own, probes(data.of_half(0, "neighborhood")), index, level)
        name = f"calibrated, {level:.2%} of false fires certified there"
        if certificate.threshold is not None:
            gates[name] = replace(own, threshold=certificate.threshold)
    rows = []
    for name, gate in gates.items():
        shares = right_and_fires(gate, data, asked, encoder, index)
        rows.append((name, interval(shares[True]), interval(shares[False])))
    title = f"CounterFact, {len(data.entries):,} edits stored, conflicts superseded; edits of the second half"
    return Table(title, ("gate", "paraphrase fires its edit", "neighbour fires it"), tuple(rows))


def subject_rows(folder: Path, encoder: TextEncoder) -> Table:
    """Questions about the edited subject: right fires and false ones, across data sets."""
    wiki, hallu = knowedit(folder / WIKI, "WikiData-counterfact"), halluedit(folder)
    wiki = with_aliases(wiki)
    rows = []
    for data, half in ((wiki, 1), (hallu, 0), (hallu, 1), (counterfact(folder), 1)):
        asked = data.of_half(half, *(("alias", "same_subject") if data is wiki else QUESTIONS))
        rows += [(data.name, f"{half + 1}", *row) for row in of_both_gates(data, asked, encoder)]
    title = "The edited subject, another question; calibrated on PokeMQA and zsRE"
    return Table(title, ("data", "half", *OF_GATES), tuple(rows), (DOUBT,))


def of_both_gates(
    data: Data, asked: Sequence[Asked], encoder: TextEncoder
) -> Iterator[tuple[str, ...]]:
    """A row for each of the gates as shipped."""
    index = EditIndex.of(data.edits, encoder)
    for name, gate in (("named, nearest", Named()), ("default calibration", default_gate())):
        shares = right_and_fires(gate, data, asked, encoder, index)
        further = curves(data, gate, asked, index) if isinstance(gate, Calibrated) else ("", "")
        yield name, interval(shares[True]), interval(shares[False]), *further


def unseen_rows(folder: Path, encoder: TextEncoder) -> Table:
    """Questions that no gate was asked before; the gates as shipped."""
    sets = (halluedit_llama3(folder), qaedit(folder))
    rows = [(data.name, *row) for data in sets for row in of_both_gates(data, data.asked, encoder)]
    return Table(
        "Questions never asked while the gate was made", ("data", *OF_GATES), tuple(rows), (DOUBT,)
    )


def with_aliases(data: Data) -> Data:
    """The same with the aliases that questions use stored: what stands there in place of the subject."""
    aliases: dict[int, list[str]] = defaultdict(list)
    for one in data.asked:
        if one.kind == "alias":
            before, _, behind = data.entries[one.place].query.partition(
                data.entries[one.place].subject
            )
            if one.query.startswith(before) and one.query.endswith(behind):
                aliases[one.place].append(one.query[len(before) : len(one.query) - len(behind)])
    entries = [
        replace(one, aliases=tuple(aliases[place])) for place, one in enumerate(data.entries)
    ]
    return replace(data, entries=tuple(entries))


def alias_rows(folder: Path, encoder: TextEncoder) -> Table:
    """Questions that use another name, with and without these names stored."""
    plain = knowedit(folder / WIKI, "WikiData-counterfact")
    rows = []
    for name, data, gate in (
        ("named in full", plain, Named()),
        ("default calibration", plain, default_gate()),
        ("default calibration, aliases stored", with_aliases(plain), default_gate()),
    ):
        asked = data.of_half(1, "alias", "same_subject")
        shares = right_and_fires(gate, data, asked, encoder, EditIndex.of(data.edits, encoder))
        rows.append((name, interval(shares[True]), interval(shares[False])))
    title = "WikiData-counterfact, second half: the subject under another name"
    return Table(
        title,
        ("gate", "alias question fires its edit", "same-subject question fires it"),
        tuple(rows),
    )


def by_rule(one: EditRecord) -> tuple[str, ...]:
    """Other forms of "The R of S is", "S's R is", and of questions with what, where the query is one of these."""
    subject = re.escape(one.subject)
    forms = (
        rf"The {RELATION} of {subject} {VERB}",
        rf"{subject}['\u2019]s? {RELATION} {VERB}",
        rf"(?:What|Who) {VERB} the {RELATION} of {subject}\?",
        rf"(?:What|Who) {VERB} {subject}['\u2019]s? {RELATION}\?",
    )
    found = next(filter(None, (re.fullmatch(form, one.query) for form in forms)), None)
    if found is None:
        return ()
    r, verb, s = found["relation"], found["verb"], one.subject
    made = (
        f"The {r} of {s} {verb}",
        f"{s}'s {r} {verb}",
        f"What {verb} the {r} of {s}?",
        f"What {verb} {s}'s {r}?",
    )
    return tuple(text for text in made if text != one.query)


def wording_rows(folder: Path, encoder: TextEncoder) -> Table:
    """Edits of the first half with more wordings stored: made by rule, or the first of several paraphrases."""
    rows = []
    for data in (halluedit(folder), counterfact(folder)):
        said: dict[int, list[str]] = defaultdict(list)
        for one in data.of_half(0, "paraphrase"):
            said[one.place].append(one.query)
        places = range(len(data.entries))
        ways = {
            "by rule": [by_rule(one) for one in data.entries],
            "a paraphrase": [
                tuple(said[place][:1]) if len(said[place]) > 1 else () for place in places
            ],
        }
        for way, made in ways.items():
            asked = [
                a
                for a in data.of_half(0, *QUESTIONS)
                if made[a.place] and a.query not in made[a.place]
            ]
            for name, wordings in (("none", [()] * len(made)), (way, made)) if asked else ():
                entries = (
                    replace(one, paraphrases=more)
                    for one, more in zip(data.entries, wordings, strict=True)
                )
                stored = replace(data, entries=tuple(entries))
                index = EditIndex.of(stored.edits, encoder)
                shares = right_and_fires(default_gate(), stored, asked, encoder, index)
                at, _ = curves(stored, default_gate(), asked, index)
                rows.append(
                    (data.name, way, name, interval(shares[True]), interval(shares[False]), at)
                )
    header = (
        "data",
        "edits that have wordings",
        "stored",
        "right",
        "fires falsely",
        "right at 5 % / 3 % fires",
    )
    return Table(
        "More wordings stored; edits of the first half, default calibration", header, tuple(rows)
    )


def promise_rows(folder: Path, encoder: TextEncoder) -> Table:
    """How often what was certified on half of the edits holds on the other, in resampled splits.

    What holds is decided by all edits: the share of false fires at the threshold over both halves.
    """
    rows = []
    fact, hallu = counterfact(folder), halluedit(folder)
    for data, kind, levels in (
        (fact, "neighborhood", (0.001, 0.002, 0.005)),
        (hallu, "same_subject", (0.02, 0.05, 0.1)),
    ):
        index = EditIndex.of(data.edits, encoder)
        asked = [one for one in data.asked if one.kind == kind]
        of_edit: dict[int, list[float]] = defaultdict(list)
        for one in asked:
            own = (
                c.probability
                for c in default_gate().candidates(one.query, index)
                if c.edit.id == one.place + 1
            )
            of_edit[one.place].append(next(own, 0.0))
        values = list(of_edit.values())
        for level in levels:
            certificates = list(resampled(values, level))
            given = [(threshold, rate) for threshold, rate in certificates if threshold is not None]
            kept = sum(rate <= level for _, rate in given) + len(certificates) - len(given)
            rows.append(
                (
                    data.name,
                    kind,
                    f"{level:.2%}",
                    f"{len(given)}",
                    f"{kept / len(certificates):.3f}",
                )
            )
    header = ("data", "questions", "level", f"certified in {SPLITS} splits", "kept")
    return Table("Certificates on half of the edits", header, tuple(rows))


def resampled(
    values: Sequence[Sequence[float]], level: float
) -> Iterator[tuple[float | None, float]]:
    """For each random half, the threshold certified on it and the share of false fires over all edits."""
    every, shares = (
        np.concatenate(values),
        np.repeat([1 / len(some) for some in values], [len(some) for some in values]),
    )
    for seed in range(SPLITS):
        half = random.Random(seed).sample(values, len(values) // 2)
        threshold = lowest_threshold(half, level)
        limit = 2.0 if threshold is None else threshold
        yield threshold, float(shares[every >= limit].sum() / len(values))


def time_rows(encoder: TextEncoder) -> Table:
    """Milliseconds of a decision, and what an index takes, with made-up edits."""
    rows = []
    for count in (100, 20_000, 200_000):
        rng = random.Random(0)
        names = [
            " ".join("".join(rng.choices(SYLLABLES, k=3)).title() for _ in "ab") + f" {i}"
            for i in range(count)
        ]
        objects = [" ".join(part[::-1].title() for part in name.split()) for name in names]
        entries = [
            EditRecord(name, f"{name} {rng.choice(RELATIONS)}", new)
            for name, new in zip(names, objects, strict=True)
        ]
        timed = Timed(encoder)
        vectors = Stand(timed)
        began = time.perf_counter()
        index = EditIndex.of(Data("", tuple(entries), ()).edits, vectors)
        built = time.perf_counter() - began
        gate = default_gate()
        named = [
            f"Could you tell me who {rng.choice(RELATIONS)} {rng.choice(names)}?"
            for _ in range(DECISIONS)
        ]
        reverse = [f"What {rng.choice(RELATIONS)} {rng.choice(objects)}?" for _ in range(DECISIONS)]
        others = [
            f"How do I cook {rng.choice(SYLLABLES)} for {i} people, and where do I buy it?"
            for i in range(DECISIONS)
        ]
        words = [rng.choice(names).split()[0] for _ in range(DECISIONS)]
        alike = [
            f"In which language is the name of {w} written in the country, and in which city?"
            for w in words
        ]
        cells = [
            milliseconds(gate, index, queries, timed) for queries in (named, reverse, alike, others)
        ]
        size = sum(vectors.matrix.nbytes for vectors in (index.texts, index.masked)) / 2**20
        changing = after_changes(gate, index, named)
        rows.append((f"{count:,}", *cells, changing, f"{built:.1f} s", f"{size:,.0f} MiB"))
    header = (
        "edits",
        "subject named",
        "new object named",
        "words of texts",
        "nothing of texts",
        "a change, then a decision",
        "index without embedding",
        "vectors",
    )
    note = f"A change: until the index is ready, and the decision after it, each the longest of {CHANGES}."
    return Table("Time of a decision, made-up edits", header, tuple(rows), (OF_TIMES, note))


def public_time_rows(folder: Path, encoder: TextEncoder) -> Table:
    """Milliseconds of a decision on public questions, with CounterFact's edits stored. No answer is looked at."""
    data, timed = counterfact(folder), Timed(encoder)
    index, rng = EditIndex.of(data.edits, timed), random.Random(0)
    kinds = {
        f"CounterFact's, {kind}": data.of_half(0, kind) for kind in ("paraphrase", "neighborhood")
    }
    kinds["QAEdit's of other things"] = [
        one for one in qaedit(folder).asked if one.kind not in FIRE
    ]
    rows = []
    for name, asked in kinds.items():
        queries = [one.query for one in rng.sample(asked, PUBLIC)]
        # Before anything else reads their words, which are kept.
        took = milliseconds(default_gate(), index, queries, timed)
        words = np.mean([len(query.split()) for query in queries])
        shares = [
            bool(ParsedQuery.of(query, index).mentions or index.sharing(query)) for query in queries
        ]
        rows.append((name, f"{words:.1f}", f"{np.mean(shares):.2f}", took))
    header = ("questions", "words", "name a subject, or share words with a text", "decision")
    title = f"Time of a decision, {len(index.edits):,} edits of CounterFact stored"
    return Table(title, header, tuple(rows), (OF_TIMES,))


def after_changes(gate: Gate, index: EditIndex, queries: Sequence[str]) -> str:
    """The longest time to have an index with one edit changed, as a gateway makes it, and of the next decision."""
    took = []
    for edit, query in zip(index.edits.values(), queries[:CHANGES], strict=False):
        began = time.perf_counter()
        index = index.changed(
            (), [replace(edit, record=replace(edit.record, target_new="Atlantis"))]
        )
        _ = index.wordings
        made = time.perf_counter()
        gate.decide(query, index)
        took.append((made - began, time.perf_counter() - made))
    return " / ".join(f"{1000 * longest:.1f}" for longest in np.max(took, axis=0))


class Timed:
    """Encodes as another encoder does. spent: the seconds that it took, together with its salient vectors."""

    def __init__(self, encoder: TextEncoder, spent: list[float] | None = None) -> None:
        self.name, self.dim, self.identity = encoder.name, encoder.dim, encoder.identity
        self._encoder, self.spent = encoder, [0.0] if spent is None else spent

    @cached_property
    def salient(self) -> Timed:
        """The same of salient vectors."""
        return Timed(salient(self._encoder), self.spent)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors [n, d]."""
        began = time.perf_counter()
        vectors = self._encoder.encode(texts)
        self.spent[0] += time.perf_counter() - began
        return vectors


class Stand:
    """Encodes stored texts as random vectors at once, and queries as a gateway's encoder does."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.name, self.dim, self.identity = encoder.name, encoder.dim, encoder.identity
        self._encoder = encoder
        self._rng = np.random.default_rng(0)

    @cached_property
    def salient(self) -> Stand:
        """The same of salient vectors."""
        return Stand(salient(self._encoder))

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors [n, d]: random ones for more texts than a query has."""
        if len(texts) > MOST_ALIKE:
            return self._rng.standard_normal((len(texts), self.dim), dtype=np.float32)
        return self._encoder.encode(texts)


def milliseconds(gate: Gate, index: EditIndex, queries: Sequence[str], encoder: Timed) -> str:
    """Median and 99th percentile of decisions, and of what the encoder of the index takes of each."""
    gate.decide(queries[-1], index)  # as a gateway does before it serves
    rows = []
    for query in queries:
        began, encoder.spent[0] = time.perf_counter(), 0.0
        gate.decide(query, index)
        rows.append((time.perf_counter() - began, encoder.spent[0]))
    [whole, embedding] = [
        f"{np.median(took):.2f} / {np.quantile(took, 0.99):.2f}"
        for took in 1000 * np.transpose(rows)
    ]
    return f"{whole} ({embedding})"


TABLES: dict[str, Callable[[Path, TextEncoder], Table]] = {
    "stores": store_rows,
    "subjects": subject_rows,
    "aliases": alias_rows,
    "wordings": wording_rows,
    "promise": promise_rows,
    "unseen": unseen_rows,
    "times": lambda folder, encoder: time_rows(encoder),
    "public-times": public_time_rows,
}
TIMES = ("times", "public-times")
ALONE = (*TIMES, "wordings", "unseen")


def main() -> None:
    """Print the tables as Markdown, or write the default calibration."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--fit", type=Path, metavar="FILE", help="write the default calibration instead"
    )
    parser.add_argument(
        "--fit-aspects",
        type=Path,
        metavar="FILE",
        help="the same with only the weights of aspects fitted anew",
    )
    parser.add_argument(
        "--only", choices=TABLES, help=f"one table; default: all but {', '.join(ALONE)}"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public files")
    pages.add_cache(parser)
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    if options.only != "times" and not options.data.is_dir():
        print(
            f"left out: there is no folder {options.data} with the public files (--data)",
            file=sys.stderr,
        )
        return
    if options.only in TIMES:  # as a gateway does, which keeps no vector of a question
        encoder = load_encoder(features=options.cache, bulk=BULK, onnx=True)
    else:
        encoder = load_encoder(features=options.cache)
    if options.fit:
        options.fit.write_text(to_json(fitted(options.data, encoder)))
        return
    if options.fit_aspects:
        gate = with_aspects(default_gate(), options.data, encoder)
        options.fit_aspects.write_text(to_json(gate))
        return
    for name in [options.only] if options.only else [name for name in TABLES if name not in ALONE]:
        print(as_markdown(TABLES[name](options.data, encoder)), flush=True)


if __name__ == "__main__":
    main()
