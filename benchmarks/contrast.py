"""Contrastive decoding where an edit is shown: alpha chosen on validation edits, tables on test edits.

The next token is the best by (1 + alpha) log p(. | prompt) - alpha log p(. | query), among tokens with at least a
tenth of the best probability under the prompt. ESR, PC: greedy decoding writes exactly the target, for the edit's own
query and for its paraphrases; "likelihood": the new object is more probable than the old one, by the same
distribution. For each way of writing a prompt, alpha (0 among them) is the one with the largest mean of ESR and PC on
the validation edits; "adaptive" multiplies it at each token by the divergence of the two distributions (AdaCAD).
Differences are paired, intervals resample edits.

The three conditions after CUB: the fact itself (the prompt states the old object; right is that), a fact that
contradicts it (the new object; right is that), another's fact (of another subject, with the same relation; right is
the unedited model's own answer, letter for letter). "behind a gate": what names no edited subject reaches the model
as it is.

    python benchmarks/contrast.py [--model smollm2] [--validation 200] [--test 200] [--device cuda] [--minutes 30]

With --prepare FILE only the prompts are written, which a machine without an encoder asks by --prompts FILE. Answers
are kept in --answers as they are made, and a later call goes on; every alpha is computed from one reading.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drike.edits.edit import Edit, EditCase
from drike.encoders import load_encoder
from drike.prompts import Contrast
from drike.research import datasets
from drike.research.datasets.dataset import Dataset, Split
from drike.research.editors.catalog import NO_RETAINS, make
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.placements import NEW_FACTS
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.bootstrap import Floats, estimated, resampled
from drike.research.report.tables import INTERVALS
from drike.support.table import Cell, Difference, Estimate
from drike.text.words import mentions
from lib import pages
from lib.prepared import (
    PLAIN,
    Answered,
    AnsweredCase,
    PreparedCase,
    PreparedQuestion,
    add_options,
    ask,
    load_answers,
    save_cases,
)

TITLE = "Contrastive decoding where an edit is shown"
DATA = Path("../shared/datasets/counterfact_rebuilt.json.gz")
KEPT = Path(tempfile.gettempdir()) / "drike-contrast"

ALPHAS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
ADAPTIVE = (1.0,)
EVERY_TOKEN = (
    ", all tokens"  # without the least probability, which rules out most targets of likelihood
)

IMAGINE, FACT, OWN_COPY, COPIES = (
    "imagine",
    "fact alone",
    "fact with its own copy",
    "copies and updates",
)
WAYS = (IMAGINE, FACT, OWN_COPY, COPIES)
CUB_WAYS = (IMAGINE, OWN_COPY)
REWRITE, PARAPHRASE = "rewrite", "paraphrase"
ITSELF, CONTRADICTS, ANOTHER = "the fact itself", "a fact that contradicts it", "another's fact"


def contrasts(alphas: Sequence[float] = ALPHAS) -> dict[str, Contrast]:
    """All that are compared, by name; alpha 0 first."""
    found = {PLAIN: Contrast(0.0, 0.0)}
    found |= {f"{alpha:g}": Contrast(alpha) for alpha in alphas}
    found |= {f"adaptive {alpha:g}": Contrast(alpha, adaptive=True) for alpha in ADAPTIVE}
    found |= {f"{alpha:g}{EVERY_TOKEN}": Contrast(alpha, 0.0) for alpha in alphas}
    return found


def main() -> None:
    """Prepare, ask, and print the tables, as far as asked for."""
    parser = pages.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="CounterFact's form, also gzipped")
    parser.add_argument("--encoder", default=None, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--validation", type=int, default=200, help="edits that choose alpha")
    parser.add_argument("--test", type=int, default=200, help="edits of the tables")
    every = ",".join(f"{alpha:g}" for alpha in ALPHAS)
    parser.add_argument("--alphas", default=every, help="those besides 0, separated by commas")
    add_options(parser)
    options = parser.parse_args()
    if options.prepare:
        save_cases(options.prepare, prepared(options))
        return
    name = f"{Path(options.model).name}-{options.validation}-{options.test}.jsonl"
    answers = options.answers or KEPT / name
    if not options.tables:
        alphas = [float(alpha) for alpha in options.alphas.split(",")]
        ask(options, prepared, contrasts(alphas), answers)
    with pages.measured(options, TITLE, __doc__):
        show(load_answers(answers), options.model)


def opened(path: Path) -> Dataset:
    """The data set in a file, unpacked beside the answers if need be."""
    if path.suffix != ".gz":
        return datasets.load(path)
    unpacked = KEPT / path.stem
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        unpacked.write_bytes(gzip.decompress(path.read_bytes()))
    return datasets.load(unpacked)


def prepared(options: argparse.Namespace) -> Iterator[PreparedCase]:
    """The validation and test edits in turn, so that a run that is cut short has both."""
    dataset = opened(options.data)
    parts = dataset.split(seed=0, train=0, validation=options.validation, test=options.test)
    pool = Pool(
        parts.demonstrations, load_encoder(options.encoder) if options.encoder else load_encoder()
    )
    ways = editors(pool)
    others = others_of(parts)
    named = [("validation", case) for case in parts.validation]
    tested = [("test", case) for case in parts.test]
    longest = max(len(named), len(tested))
    for at in range(longest):
        for part, case in [*named[at : at + 1], *tested[at : at + 1]]:
            yield PreparedCase(case.case_id, part, tuple(questions(case, ways, others)))


def editors(pool: Pool) -> Mapping[str, Editor]:
    """The ways of writing a prompt, by name."""
    return {
        IMAGINE: FactPrompt(),
        FACT: NEW_FACTS,
        OWN_COPY: InContextEditor(OWN_COPY, pool, RoleCounts(0, 0, 0)),
        COPIES: make(NO_RETAINS, pool=pool),
    }


def others_of(parts: Split) -> Callable[[EditCase], Edit]:
    """For each case another's fact: of another subject, with the same relation if there is one."""
    by_relation: dict[str | None, list[Edit]] = defaultdict(list)
    for case in parts.demonstrations:
        by_relation[case.edit.relation].append(case.edit)
    every = [case.edit for case in parts.demonstrations]

    def other(case: EditCase) -> Edit:
        rng = random.Random(case.case_id)
        candidates = by_relation[case.edit.relation] or every
        subjects = [
            edit for edit in candidates if not mentions(case.edit.query, edit.subject or "")
        ]
        return rng.choice(subjects)

    return other


def questions(
    case: EditCase, ways: Mapping[str, Editor], other_of: Callable[[EditCase], Edit]
) -> Iterator[PreparedQuestion]:
    """All questions of a case under all ways."""
    edit = case.edit
    kinds = {edit.query: REWRITE} | {probe.query: PARAPHRASE for probe in case.paraphrases}
    for way, editor in ways.items():
        prompts = editor.prompts([edit], list(kinds))
        for (query, kind), prompt in zip(kinds.items(), prompts, strict=True):
            yield PreparedQuestion(way, kind, query, prompt.text, edit.target_new, edit.target_true)
    if edit.target_true is None:
        return
    itself = replace(edit, target_new=edit.target_true, target_true=None)
    other = other_of(case)
    for way in CUB_WAYS:
        [prompt] = ways[way].prompts([itself], [edit.query])
        yield PreparedQuestion(
            way, ITSELF, edit.query, prompt.text, edit.target_true, edit.target_new
        )
        [prompt] = ways[way].prompts([other], [edit.query])
        yield PreparedQuestion(
            way,
            ANOTHER,
            edit.query,
            prompt.text,
            edit.target_true,
            other.target_new if other.target_new != edit.target_true else None,
            own=True,
            named=False,
        )


@dataclass(frozen=True)
class Reading:
    """One way, decoded in one way: how many of a case's answers are right, [cases, kinds, 2].

    The last axis has those that are right and all; kinds are the own query and paraphrases.
    """

    counts: Floats

    @property
    def rates(self) -> Floats:
        """ESR and PC."""
        totals = self.counts.sum(axis=0)
        return np.asarray(totals[:, 0] / totals[:, 1])

    @property
    def mean(self) -> float:
        """The mean of ESR and PC, by which alpha is chosen."""
        return float(self.rates.mean())

    def estimates(self) -> list[Estimate]:
        """ESR and PC with their intervals."""
        drawn = resampled(self.counts)
        return estimated(self.rates, drawn[:, :, 0] / drawn[:, :, 1], len(self.counts))

    def minus(self, other: Reading) -> list[Difference]:
        """Differences of ESR, PC and their mean, paired."""
        together = resampled(np.stack([self.counts, other.counts], axis=1))
        rates = together[..., 0] / together[..., 1]
        drawn = rates[:, 0] - rates[:, 1]
        drawn = np.concatenate([drawn, drawn.mean(axis=1, keepdims=True)], axis=1)
        values = self.rates - other.rates
        values = np.append(values, values.mean())
        return [Difference(estimate) for estimate in estimated(values, drawn)]


def reading(cases: Sequence[AnsweredCase], way: str, contrast: str, *, strict: bool) -> Reading:
    """How many answers are right under a way and a contrast."""
    counts = np.zeros((len(cases), 2, 2))
    for at, case in enumerate(cases):
        for found in case.answers:
            if found.way == way and found.kind in (REWRITE, PARAPHRASE):
                right = (found.strict if strict else found.prefers)[contrast]
                counts[at, (REWRITE, PARAPHRASE).index(found.kind)] += (bool(right), 1)
    return Reading(counts)


def names_in(cases: Sequence[AnsweredCase]) -> Sequence[str]:
    """The contrasts that all cases were answered under; alpha 0 first."""
    by_case = [list(case.answers[0].strict) for case in cases]
    return [name for name in by_case[0] if all(name in names for names in by_case)]


def chosen(cases: Sequence[AnsweredCase], way: str, *, strict: bool) -> str:
    """The contrast with the largest mean of ESR and PC; of equal ones the first, as alpha 0 is."""
    names = [name for name in names_in(cases) if not strict or not name.endswith(EVERY_TOKEN)]
    return max(names, key=lambda name: reading(cases, way, name, strict=strict).mean)


def show(cases: Sequence[AnsweredCase], model: str) -> None:
    """Print all tables of a model."""
    validation = [case for case in cases if case.part == "validation"]
    test = [case for case in cases if case.part == "test"]
    if not validation or not test:
        print("too few edits are answered for a table: run it again", file=sys.stderr)
        return
    for strict, rule in ((True, "strict"), (False, "likelihood")):
        compare(validation, test, f"{model}, {rule}", strict=strict)
    show_curve(validation, model)
    show_conditions(validation, test, model)


def compare(
    validation: Sequence[AnsweredCase], test: Sequence[AnsweredCase], name: str, *, strict: bool
) -> None:
    """A way of writing prompts on a line, without and with the contrast chosen for it."""
    choice = {way: chosen(validation, way, strict=strict) for way in WAYS}
    plain = {way: reading(test, way, PLAIN, strict=strict) for way in WAYS}
    contrasted = {way: reading(test, way, choice[way], strict=strict) for way in WAYS}
    rows: list[tuple[Cell, ...]] = []
    for way in WAYS:
        tokens = [found.tokens or 0 for case in test for found in case.answers if found.way == way]
        rows.append(
            (
                way,
                *plain[way].estimates(),
                choice[way],
                *contrasted[way].estimates(),
                contrasted[way].minus(plain[way])[-1],
                f"{np.mean(tokens):.0f}",
            )
        )
    title = f"{name}: {len(validation)} validation and {len(test)} test edits"
    header = (
        "prompt",
        "ESR",
        "PC",
        "alpha",
        "ESR, contrast",
        "PC, contrast",
        "mean, difference",
        "tokens",
    )
    pages.draw(title, header, rows, INTERVALS)

    on_validation = {
        way: (
            reading(validation, way, PLAIN, strict=strict).mean,
            reading(validation, way, choice[way], strict=strict).mean,
        )
        for way in WAYS
    }
    best_plain = max(WAYS, key=lambda way: on_validation[way][0])
    best = max(WAYS, key=lambda way: on_validation[way][1])
    differences = contrasted[best].minus(plain[best_plain])
    header = ("by validation", "ESR", "PC", "mean")
    rows = [
        (f"{best_plain}, plain", *plain[best_plain].estimates(), f"{plain[best_plain].mean:.3f}"),
        (f"{best}, {choice[best]}", *contrasted[best].estimates(), f"{contrasted[best].mean:.3f}"),
        ("difference", *differences),
    ]
    pages.draw(f"{name}: the best contrast and the best prompt", header, rows, INTERVALS)


def show_curve(validation: Sequence[AnsweredCase], model: str) -> None:
    """ESR and PC of every alpha on the validation edits."""
    rows = []
    for name in names_in(validation):
        cells = []
        for way in WAYS:
            strict = reading(validation, way, name, strict=True).rates
            prefers = reading(validation, way, name, strict=False).rates
            cells.append(" / ".join(f"{rate:.3f}" for rate in (*strict, *prefers)))
        rows.append((name, *cells))
    title = f"{model}: {len(validation)} validation edits, strict ESR / PC / likelihood ESR / PC"
    pages.draw(title, ("alpha", *WAYS), rows, wide=True)


def show_conditions(
    validation: Sequence[AnsweredCase], test: Sequence[AnsweredCase], model: str
) -> None:
    """CUB's conditions, plain and with the contrast that the validation edits chose."""
    rows: list[tuple[Cell, ...]] = []
    for way in CUB_WAYS:
        compared = [PLAIN, chosen(validation, way, strict=True), "1", "adaptive 1"]
        for contrast in [name for name in names_in(test) if name in compared]:
            for is_gated in (False, True):
                kinds = {ITSELF: ITSELF, CONTRADICTS: REWRITE, ANOTHER: ANOTHER}
                cells = [
                    share(test, way, kind, contrast, is_gated=is_gated) for kind in kinds.values()
                ]
                gate = "behind a gate" if is_gated else "always"
                rows.append((f"{way}, {gate}", contrast, *cells))
    title = f"{model}: {len(test)} test edits, strict, by what the prompt states"
    pages.draw(title, ("prompt", "alpha", ITSELF, CONTRADICTS, ANOTHER), rows, INTERVALS)


def share(
    cases: Sequence[AnsweredCase], way: str, kind: str, contrast: str, *, is_gated: bool
) -> Estimate:
    """The share of right answers to one question a case. is_gated: what is not named is left alone."""
    found = [
        answer
        for case in cases
        for answer in case.answers
        if (answer.way, answer.kind) == (way, kind)
    ]
    told = [answer for answer in found if answer.strict[contrast] is not None]
    right = [is_right(answer, contrast, is_gated=is_gated) for answer in told]
    return Estimate.share(sum(right), len(right))


def is_right(answer: Answered, contrast: str, *, is_gated: bool) -> bool:
    """Whether an answer is right; left alone it is the unedited model's own by construction."""
    is_left_alone = is_gated and not answer.named
    return is_left_alone or bool(answer.strict[contrast])


if __name__ == "__main__":
    main()
