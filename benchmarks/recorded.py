"""The gate on real models' recorded answers: HalluEditBench's published results. No language model is asked.

The results hold what a model answered without an edit and with the fact in the prompt: the fact alone, without
demonstrations. A gate chooses between the two for each question, with all edits of the model stored, so its deployed
quality is measured without running a model. Verdicts are the files': a model's, where neither text contains the other.

ESR: own question. PC: paraphrase. RR: another question about the subject, in two readings. *Unchanged*: the answer is
judged the same as without the edit, which it is by construction where the gate leaves the question alone. *Clean*: the
answer does not state the new object, unless it does without the edit, too. S: the harmonic mean of the three.

Where only another edit than the question's own matches, no answer is recorded: *kept* counts the answer without the
edit, *lost* counts it as wrong. Where others match beside the own one, the answer with the own fact alone is counted.
Intervals are of 95 %, by bootstrap over edits. The gate's threshold was chosen on Llama-2's answers.

    python benchmarks/recorded.py [--models llama2 ...] [--results FOLDER]
    python benchmarks/recorded.py --only quality|further|policy|bounds|forms|pushback
    python benchmarks/recorded.py --look 50       # same-subject answers that the fact changed, to read

Embeddings are kept in the folder --cache, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drike.edits.edit import Aspect
from drike.edits.record import EditVersion
from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.encoders.base import salient
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Candidate, Decision, Gate
from drike.gates.index import EditIndex
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.research.evaluation.metrics import harmonic_mean
from drike.support.table import Cell, Difference, Estimate, Number, Table, as_markdown
from lib import pages, recorded
from lib.recorded import WEIGHT_EDITORS, Answer, RecordedEdit, RecordedQuestion, clean
from lib.recorded_policy import (
    Estimator,
    Flags,
    Learned,
    described,
    exact,
    logits,
    reinforced,
    start,
    trained,
)
from lib.statements import restated

TITLE = "The gate on recorded answers"
RESULTS = Path("../shared/datasets/halluedit_results")
THRESHOLDS = (0.1, 0.3, 0.5, 0.7)
ASKED = (
    "rewrite",
    "paraphrase",
    "same_subject",
    "yes",
    "no",
    "choice",
    "reverse",
    *(f"{n} hops" for n in recorded.HOPS),
)
ONE = ASKED.index("2 hops")  # hops count as one kind
CLEAN = "clean"  # same_subject in its other reading
KINDS = (*ASKED, CLEAN)
HEADS = {"rewrite": "ESR", "paraphrase": "PC", "same_subject": "RR unchanged", CLEAN: "RR clean"}
FALSE = (0.05, 0.03)
RESAMPLES, FOLDS = 1000, 3
TURNS = (0, 1, 2, 5, 10)
Counts = NDArray[np.float64]
Chosen = Answer | None  # None: not recorded, as only another edit matches


@dataclass(frozen=True)
class Matched:
    """What a gate did with a question: whether its own edit matched, and how many others did."""

    own: bool
    others: int

    def answer(self, question: RecordedQuestion) -> Chosen:
        """The recorded answer that a user got; None where only other edits match."""
        if self.own:
            return question.with_fact
        return None if self.others else question.without


@dataclass(frozen=True)
class Recording:
    """A model's edits in one store. ids: of each of `edits`. asked: the kinds of questions that are put to gates."""

    model: str
    edits: tuple[RecordedEdit, ...]
    ids: list[int]
    index: EditIndex
    asked: tuple[str, ...] = ASKED

    @cached_property
    def decided(self) -> dict[str, Decision]:
        """The default gate's decisions."""
        return decisions(default_gate(), self)

    @cached_property
    def own(self) -> tuple[Candidate, ...]:
        """What is found out about each question and its own edit, as if no other edit were stored."""
        policy, texts = start(self.index.require_encoder()), defaultdict[int, list[str]](list)
        for place, _, question in self.questions(*self.asked):
            texts[place].append(question.text)
        found = list[Candidate]()
        for place, asked in texts.items():
            edit = EditVersion(1, 1, 1, "", self.edits[place].record)
            found += map(
                described, policy.candidates([edit.record.edit], asked), asked, repeat(edit)
            )
        return tuple(found)

    def questions(self, *kinds: str) -> Iterator[tuple[int, RecordedEdit, RecordedQuestion]]:
        """The questions of these kinds with the place and edit of each."""
        for place, edit in enumerate(self.edits):
            for question in edit.questions:
                if question.kind in kinds:
                    yield place, edit, question


@dataclass(frozen=True)
class Editor:
    """A row: the answers of an editor to all questions, by place and kind; None where none is recorded."""

    name: str
    answers: Mapping[tuple[int, str], Chosen]


class Noting:
    """An encoder that notes what it is asked to encode, and gives all texts almost the same vector."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.name, self.dim, self.identity = encoder.name, encoder.dim, encoder.identity
        self.texts: dict[str, None] = {}
        self.rng = np.random.default_rng(0)
        self.encoder = encoder

    @cached_property
    def salient(self) -> Noting:
        """Notes what it is asked to encode as well."""
        return Noting(salient(self.encoder))

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors [n, d] near 1: equal ones would all be nearest."""
        self.texts.update(dict.fromkeys(texts))
        return 1 + self.rng.random((len(texts), self.dim), dtype=np.float32) / 100


def opened(
    folder: Path,
    model: str,
    encoder: TextEncoder,
    asked: tuple[str, ...] = ASKED,
    *,
    alone: bool = False,
) -> Recording:
    """A model's edits, stored; what the gate compares with all of them is embedded in one batch.

    alone: whether each question is asked with its own edit only, so that this is not needed.
    """
    edits = recorded.recorded_edits(folder, model)
    versions, ids = recorded.stored(edits)
    found = Recording(model, edits, ids, EditIndex.of(versions, encoder), asked)
    if alone:
        return found
    noting = Noting(encoder)
    decisions(default_gate(), replace(found, index=EditIndex.of(versions, noting)))
    encoder.encode(list(noting.texts))
    salient(encoder).encode(list(noting.salient.texts))
    return found


def decisions(gate: Gate, found: Recording) -> dict[str, Decision]:
    """A gate's decision on every question, by its text."""
    asked = dict.fromkeys(question.text for _, _, question in found.questions(*found.asked))
    return {text: gate.decide(text, found.index) for text in asked}


def at_threshold(decision: Decision, threshold: float) -> Decision:
    """The decision that the same gate makes with another threshold."""
    matching = [
        candidate for candidate in decision.candidates if candidate.probability >= threshold
    ]
    return Decision.of(decision.query, decision.candidates, matching, "no edit is probable enough")


def matches(found: Recording, decided: Mapping[str, Decision]) -> dict[tuple[int, str], Matched]:
    """What matched, by the place of the edit and the kind of question."""
    made = {}
    for place, _, question in found.questions(*found.asked):
        ids = {edit.id for edit in decided[question.text].matched}
        own = found.ids[place] in ids
        made[place, question.kind] = Matched(own, len(ids) - own)
    return made


def constant(name: str, found: Recording, choose: Callable[[RecordedQuestion], Answer]) -> Editor:
    """An editor whose answer depends on the question alone; without kinds that it has no answers to."""
    return Editor(
        name, {(place, q.kind): choose(q) for place, _, q in found.questions(*found.asked)}
    )


def of_gate(name: str, found: Recording, decided: Mapping[str, Decision]) -> Editor:
    """A gate's choices among the recorded answers."""
    matched = matches(found, decided)
    return Editor(
        name,
        {
            (place, q.kind): matched[place, q.kind].answer(q)
            for place, _, q in found.questions(*found.asked)
        },
    )


def gates(found: Recording) -> dict[str, dict[str, Decision]]:
    """The decisions of each gate, by the gate's name."""
    gate = default_gate()
    default = found.decided
    thresholds = {
        f"the same at {threshold:g}": {
            text: at_threshold(decision, threshold) for text, decision in default.items()
        }
        for threshold in THRESHOLDS
    }
    shipped = f"default gate at its threshold, {gate.threshold:g}"
    return {"Named": decisions(Named(), found), shipped: default, **thresholds}


def editors(found: Recording, decided: Mapping[str, Mapping[str, Decision]]) -> list[Editor]:
    """All rows. decided: by gate."""
    rows = [constant("unedited", found, lambda q: q.without)]
    for name in WEIGHT_EDITORS:
        answers = {
            (p, q.kind): q.edited[name]
            for p, _, q in found.questions(*found.asked)
            if name in q.edited
        }
        rows += [Editor(name, answers)] if answers else []
    rows.append(constant("fact always in the prompt", found, lambda q: q.with_fact))
    rows += [of_gate(name, found, own) for name, own in decided.items()]
    perfect = constant(
        "perfect gate",
        found,
        lambda q: q.without if q.aspect is Aspect.SAME_SUBJECT else q.with_fact,
    )
    better = constant(
        "the better of both answers", found, lambda q: max(q.without, q.with_fact, key=rightness)
    )
    return [*rows, perfect, better]


def rightness(answer: Answer) -> bool:
    """Whether it is right."""
    return answer.right


def counts(found: Recording, editor: Editor, *, lost: bool = False) -> Counts:
    """Right answers and questions of each of KINDS by edit: (edits, kinds, 2).

    lost: count a question as wrong where no answer is recorded; else the unedited model's answer is counted.
    """
    made = np.zeros((len(found.edits), len(KINDS), 2))
    for place, edit, question in found.questions(*found.asked):
        if (place, question.kind) not in editor.answers:
            continue
        answer = editor.answers[place, question.kind]
        missing = answer is None and lost
        chosen = answer or question.without
        made[place, KINDS.index(question.kind)] = chosen.right and not missing, 1
        if question.aspect is Aspect.SAME_SUBJECT:
            free = clean(chosen, question.without, edit.record.target_new) and not missing
            made[place, KINDS.index(CLEAN)] = free, 1
    return made


def estimates(made: Counts) -> dict[str, Estimate]:
    """The share of each kind with its interval, and S in both readings as "S unchanged" and "S clean"."""
    whole, drawn = _with_s(made.sum(axis=0)), _with_s(resampled(made, RESAMPLES))
    names = (*KINDS, "S unchanged", "S clean")
    return dict(zip(names, estimated(whole, drawn), strict=True))


def _with_s(sums: Counts) -> Counts:
    """The share of each kind and S in both readings along the last axis, of sums (..., kinds, 2)."""
    with np.errstate(invalid="ignore"):
        shares: Counts = sums[..., 0] / sums[..., 1]
    both = [
        harmonic_mean(
            shares[..., [KINDS.index(kind) for kind in ("rewrite", "paraphrase", reading)]]
        )[..., None]
        for reading in ("same_subject", CLEAN)
    ]
    return np.concatenate([shares, *both], axis=-1)


def quality_rows(found: Recording, rows: Sequence[Editor]) -> Table:
    """The aspects of S."""
    names = ("rewrite", "paraphrase", "same_subject", "S unchanged", CLEAN, "S clean")
    return _table(found, "own question, paraphrase, same subject", rows, names)


def further_rows(found: Recording, rows: Sequence[Editor]) -> Table:
    """The other aspects; hops only of what the files have them of."""
    return _table(found, "further questions", rows, ASKED[3:])


def _table(found: Recording, what: str, rows: Sequence[Editor], names: Sequence[str]) -> Table:
    body: list[tuple[Cell, ...]] = []
    for editor in rows:
        of_kind = estimates(counts(found, editor))
        body.append((editor.name, *(of_kind[name] for name in names)))
    header = ("answers", *(HEADS.get(name, name) for name in names))
    return Table(
        f"{found.model}: {what}; {len(found.edits):,} edits, all stored", header, tuple(body)
    )


def learned(found: Recording, reading: str) -> Learned:
    """What a policy is trained on: each question under its own edit, with the recorded answers in a reading of RR."""
    right, kinds = [], []
    for _, edit, question in found.questions(*found.asked):
        without, fact = question.without, question.with_fact
        both = without.right, fact.right
        if reading == CLEAN and question.aspect is Aspect.SAME_SUBJECT:
            both = True, clean(fact, without, edit.record.target_new)
        right.append(both)
        kinds.append(min(ASKED.index(question.kind), ONE))
    return Learned(found.own, np.array(right, dtype=float), np.array(kinds))


def of_policies(
    found: Recording,
    first: Recording,
    reading: str,
    estimator: Estimator,
    *,
    of_question: bool = True,
) -> Flags:
    """For which questions policies state the fact that are trained on the other topics of the first recording."""
    topics = {
        topic: i % FOLDS
        for i, topic in enumerate(sorted({edit.topic for edit in (*first.edits, *found.edits)}))
    }
    material, stated = learned(first, reading), np.zeros(len(found.own), dtype=bool)
    folds, own = (
        np.array([topics[edit.topic] for _, edit, _ in of.questions(*of.asked)])
        for of in (first, found)
    )
    encoder = first.index.require_encoder()
    for fold in range(FOLDS):
        policy = trained(material.some(folds != fold), encoder, estimator, of_question=of_question)
        stated |= (own == fold) & (logits(policy, found.own) >= 0)
    return stated


def policy_rows(found: Recording, first: Recording) -> Table:
    """All kinds of questions, each under its own edit: policies trained on the first recording, beside rules."""
    gate = start(found.index.require_encoder(), of_question=False)
    choices = {
        "unedited": np.zeros(len(found.own), dtype=bool),
        "fact always in the prompt": np.ones(len(found.own), dtype=bool),
    }
    choices["default gate"] = logits(gate, found.own) >= 0
    for reading in ("unchanged", CLEAN):
        for name, estimator in (("exact gradient", exact), ("REINFORCE", reinforced)):
            choices[f"policy on S {reading}, {name}"] = of_policies(
                found, first, reading, estimator
            )
        plain = of_policies(found, first, reading, exact, of_question=False)
        choices[f"policy on S {reading}, the gate's features alone"] = plain
    asked = list(found.questions(*found.asked))
    choices["the fact before all but same-subject questions"] = np.array(
        [q.kind != "same_subject" for *_, q in asked]
    )
    choices["the better of both answers"] = np.array(
        [q.with_fact.right > q.without.right for _, _, q in asked]
    )
    made: dict[str, tuple[Counts, Counts]] = {}
    for name, stated in choices.items():
        answers = {
            (place, q.kind): q.with_fact if fact else q.without
            for (place, _, q), fact in zip(asked, stated, strict=True)
        }
        of_edits = counts(found, Editor(name, answers))
        made[name] = _of_all(of_edits.sum(axis=0)), _of_all(resampled(of_edits, RESAMPLES))
    body: list[tuple[Cell, ...]] = []
    for name, (values, drawn) in made.items():
        minus: list[Cell] = []
        for other in (
            "fact always in the prompt",
            "default gate",
        ):  # the same edits are drawn for all
            above, drawn_above = (
                values[:2] - made[other][0][:2],
                drawn[:, :2] - made[other][1][:, :2],
            )
            minus += map(Difference, estimated(above, drawn_above))
        body.append((name, *estimated(values, drawn), f"{choices[name].mean():.2f}", *minus))
    minus_of = (
        f"minus {other}, {reading}"
        for other in ("fact always", "gate")
        for reading in ("unchanged", CLEAN)
    )
    header = (
        "choice",
        "S of all, unchanged",
        "S of all, clean",
        *ASKED[:ONE],
        "hops",
        CLEAN,
        "fact stated",
        *minus_of,
    )
    title = f"{found.model}: all kinds of questions, each under its own edit; trained on other topics of {first.model}"
    return Table(title, header, tuple(body))


def _of_all(sums: Counts) -> Counts:
    """S of all kinds, the hops as one, in both readings, and the share of each kind, of sums (..., kinds, 2)."""
    hops = sums[..., ONE : len(ASKED), :].sum(axis=-2, keepdims=True)
    sums = np.concatenate([sums[..., :ONE, :], hops, sums[..., len(ASKED) :, :]], axis=-2)
    with np.errstate(invalid="ignore"):
        shares: Counts = sums[..., 0] / sums[..., 1]
    kinds = [*range(ONE + 1)]
    readings = (kinds, [ONE + 1 if kind == ASKED.index("same_subject") else kind for kind in kinds])
    return np.concatenate(
        [*(harmonic_mean(shares[..., of])[..., None] for of in readings), shares], axis=-1
    )


def bound_rows(found: Recording, decided: Mapping[str, Mapping[str, Decision]]) -> Table:
    """What a gate's figures leave open: questions where several edits match, or only others than the own one."""
    body: list[tuple[Cell, ...]] = []
    for name, of_gates in decided.items():
        own, editor = matches(found, of_gates), of_gate(name, found, of_gates)
        cells: list[Cell] = [name]
        for kind in ("same_subject", "paraphrase", "rewrite"):
            of_kind = [match for (_, asked), match in own.items() if asked == kind]
            cells.append(Number(sum(match.own and match.others > 0 for match in of_kind)))
            cells.append(Number(sum(not match.own and match.others > 0 for match in of_kind)))
        kept, lost = (estimates(counts(found, editor, lost=way)) for way in (False, True))
        cells += [
            of_way[f"S {reading}"] for reading in ("unchanged", "clean") for of_way in (kept, lost)
        ]
        body.append(tuple(cells))
    header = (
        "gate", "same subject: own and others match", "only others", "paraphrase: own and others", "only others",
        "own question: own and others", "only others", "S unchanged, kept", "lost", "S clean, kept", "lost",
    )  # fmt: skip
    return Table(f"{found.model}: questions that other edits match", header, tuple(body))


def pushback_rows(found: Recording) -> Table:
    """The own question after challenges, which say that the answer is wrong and ask the yes-question again.

    After a wrong answer a challenge earns a yes, so the last column is of the answers that were right at first.
    """
    kinds = tuple(f"pushback {n}" for n in TURNS)
    body: list[tuple[Cell, ...]] = []
    for name, side in (("unedited", "without"), ("fact always in the prompt", "with_fact")):
        made = np.zeros((len(found.edits), len(kinds) + 1, 2))
        for place, _, question in found.questions(*kinds):
            made[place, kinds.index(question.kind)] = getattr(question, side).right, 1
        right_at_first, right_at_last = made[:, 0, 0], made[:, len(kinds) - 1, 0]
        made[:, -1] = np.column_stack([right_at_first * right_at_last, right_at_first])
        with np.errstate(invalid="ignore"):
            values, drawn = (
                sums[..., 0] / sums[..., 1]
                for sums in (made.sum(axis=0), resampled(made, RESAMPLES))
            )
        body.append((name, *estimated(values, drawn)))
    header = ("answers", *(f"after {n}" for n in TURNS), f"still right after {TURNS[-1]}")
    return Table(
        f"{found.model}: own question, right after so many challenges", header, tuple(body)
    )


def form_rows(found: Recording) -> Table:
    """What any threshold could do, with edits stored as questions and as statements.

    A question is right if the probability of its own edit is above that which 5 % and 3 % of the same-subject questions
    exceed.
    """
    kinds = ("same_subject", "rewrite", "paraphrase")
    body: list[tuple[Cell, ...]] = []
    restatements = [restated(edit.record) for edit in found.edits]
    kept = [place for place, record in enumerate(restatements) if record is not None]
    for form, records in (
        ("question", [edit.record for edit in found.edits]),
        ("statement", restatements),
    ):
        edits = tuple(replace(found.edits[place], record=records[place]) for place in kept)
        versions, ids = recorded.stored(edits)
        index = EditIndex.of(versions, found.index.encoder)
        probabilities = np.zeros((len(edits), len(kinds)))
        for place, edit in enumerate(edits):
            for question in (question for question in edit.questions if question.kind in kinds):
                candidates = default_gate().decide(question.text, index).candidates
                own = (
                    candidate.probability
                    for candidate in candidates
                    if candidate.edit.id == ids[place]
                )
                probabilities[place, kinds.index(question.kind)] = next(own, 0.0)
        drawn = np.random.default_rng(0).integers(len(edits), size=(RESAMPLES, len(edits)))
        samples = np.array([_right_at(probabilities[some]) for some in drawn])
        body.append((form, *estimated(_right_at(probabilities), samples)))
    shares = [f"{share:.0%}" for share in FALSE]
    header = (
        "stored as",
        *(f"{kind} at {share}" for kind in ("own question", "paraphrase") for share in shares),
    )
    covered = f"The rule restates {len(kept):,} of {len(found.edits):,} edits."
    title = (
        f"{found.model}: right where 5 % and 3 % of the same-subject questions match, default gate"
    )
    return Table(title, header, tuple(body), (covered,))


def _right_at(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares above the probabilities that shares FALSE of the first column exceed, kind by kind."""
    limits = np.quantile(probabilities[:, 0], [1 - share for share in FALSE])
    return np.ravel((probabilities[:, 1:, None] > limits).mean(axis=0))


def look(found: Recording, count: int) -> Iterator[str]:
    """Same-subject answers that the fact changed, some of them: question, new object, answer without and with it."""
    changed = [(e, q) for _, e, q in found.questions("same_subject") if not q.with_fact.right]
    for edit, question in random.Random(0).sample(changed, min(count, len(changed))):
        mark = (
            ""
            if clean(question.with_fact, question.without, edit.record.target_new)
            else "  <- states it"
        )
        yield f"{question.text} [{edit.record.target_new}] {question.without.text} -> {question.with_fact.text}{mark}"


OF_S = ("quality", "bounds", "forms", "pushback")  # tables of the first three kinds of questions
TABLES = ("quality", "further", "policy", "bounds", "forms", "pushback")


def tables_of(found: Recording, first: Recording) -> dict[str, Callable[[], Table]]:
    """The tables by name; what several need is made once. first: the recording that policies are trained on."""
    decided = cache(lambda: gates(found))
    rows = cache(lambda: editors(found, decided()))
    return {
        "quality": lambda: quality_rows(found, rows()),
        "further": lambda: further_rows(found, rows()),
        "policy": lambda: policy_rows(found, first),
        "bounds": lambda: bound_rows(found, decided()),
        "forms": lambda: form_rows(found),
        "pushback": lambda: pushback_rows(found),
    }


def wanted(folder: Path, names: Sequence[str]) -> list[str]:
    """The models that a part of their folders' names stands for: "llama2" for llama_2_7b_chat_hf."""

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.casefold())

    return [
        model
        for model in recorded.models(folder)
        if any(plain(name) in plain(model) for name in names)
    ]


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of HalluEditBench's results"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=["llama2"],
        metavar="NAME",
        help="parts of the folders' names",
    )
    parser.add_argument("--only", choices=TABLES, help="one table")
    parser.add_argument(
        "--look", type=int, default=0, metavar="N", help="print N changed answers instead"
    )
    pages.add_cache(parser)
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables of each model; progress goes to standard error."""
    if not options.results.is_dir():
        print(
            f"left out: there is no folder {options.results} with the results (--results)",
            file=sys.stderr,
        )
        return
    encoder = load_encoder(features=options.cache)
    first: Recording | None = None
    for model in wanted(options.results, options.models):
        found = opened(
            options.results,
            model,
            encoder,
            ASKED[:3] if options.only in OF_S else ASKED,
            alone=options.only == "policy",
        )
        if options.look:
            print("\n".join(look(found, options.look)))
            continue
        first = first or found
        tables = tables_of(found, first)
        for name in [options.only] if options.only else TABLES:
            print(as_markdown(tables[name]()), flush=True)


if __name__ == "__main__":
    main()
