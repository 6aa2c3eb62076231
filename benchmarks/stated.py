"""How well `drike.answers.statements` reads free text: agreement with published verdicts. No language model is asked.

*Short answers*: HalluEditBench's recorded answers to an edit's own question and its paraphrase, of the unedited model,
with the fact in the prompt, and of all weight editors in the files. The files' verdict says whether an answer is right
about the new object: where one text contains the other letter by letter it is, else a model decided. *Rule*: `stated`
gives the new object, knowing the subject and the question. *Words*: the new object's words stand in the answer.

*Long answers*: claims about passages (long-form evaluation of edited models). A claim states the old or the new object;
people labelled whether the passage supports or contradicts it, or is neutral. *Alone*: a claim is taken as supported
where `stated` finds its object and not the rival; *or both*: where it finds the object. String rules fail here by
nature: a passage names many things, and says in other words.

The rules were tuned on Llama-2's answers; Llama-3's were looked at once, afterwards.

    python benchmarks/stated.py --datasets ../shared/datasets --models llama_2_7b_chat_hf
    python benchmarks/stated.py --datasets ../shared/datasets --errors 40     # disagreements, to read
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drike.answers.statements import Stated, stated
from drike.edits.edit import Aspect
from drike.support.table import Cell, Number
from lib import pages
from lib.recorded import RecordedEdit, recorded_edits, states

TITLE = "Judging free text"
DATASETS = Path("../shared/datasets")
ASKED = (Aspect.REWRITE, Aspect.PARAPHRASE)
NEW_FACT, OLD_FACT = "New fact is true", "Old fact is true"
ALONE, BESIDE = (Stated.NEW,), (Stated.NEW, Stated.BOTH)
LONG = 30  # words of a passage


@dataclass(frozen=True)
class Judged:
    """An answer to a question about an edit. right: the files' verdict. says: the rules'."""

    edit: RecordedEdit
    editor: str
    question: str
    answer: str
    right: bool
    says: Stated

    @property
    def agrees(self) -> bool:
        """Whether the rules give the verdict."""
        return (self.says is Stated.NEW) == self.right

    @property
    def kind(self) -> str:
        """What sort of disagreement it is, by the letters and words of answer and object."""
        new = self.edit.record.target_new
        answer, target = (re.sub(r"[\W_]+", "", text.casefold()) for text in (self.answer, new))
        if self.says is Stated.NEW:
            return "named, verdict wrong: " + (
                "same letters" if target in answer else "a part or another form"
            )
        if states(new, self.answer):
            return "not named, verdict right: a part that tells nothing, or that the question has"
        letters = answer in target or target in answer
        return "not named, verdict right: " + ("some letters" if letters else "in other words")


@dataclass(frozen=True)
class Claim:
    """A claim about a passage. says: new if the passage states what the claim does, old if it states the rival."""

    label: str
    passage: str
    says: Stated


def judged(edits: Sequence[RecordedEdit]) -> Iterator[Judged]:
    """The answers to the own questions and paraphrases of edits."""
    for edit in edits:
        record = edit.record
        for question in (question for question in edit.questions if question.aspect in ASKED):
            answers = {"unedited": question.without, "ICL": question.with_fact, **question.edited}
            for editor, answer in answers.items():
                says = stated(
                    answer.text, [record.target_new], about=[record.subject], question=question.text
                )
                yield Judged(edit, editor, question.text, answer.text, answer.right, says)


def claims(path: Path) -> Iterator[Claim]:
    """The claims of a file that has for each new fact the old one, which differs in its last words."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["question_type"] in (NEW_FACT, OLD_FACT)]
    texts = [
        [part.strip() for part in row["content"].removeprefix("Passage:").rpartition("Claim:")[::2]]
        for row in rows
    ]
    facts = {(row["question_type"], claim) for row, (_, claim) in zip(rows, texts, strict=True)}
    for row, (passage, claim) in zip(rows, texts, strict=True):
        kind = row["question_type"]
        rivals = [_split(claim, other) for other_kind, other in facts if other_kind != kind]
        about, own, rival = max(rivals, key=lambda parts: len(parts[0]), default=("", claim, ""))
        if len(about.split()) > 1:
            words = about.split()
            subjects = [
                " ".join(words[:n]) for n in range(2, len(words))
            ]  # one of which is the subject
            yield Claim(
                row["classification"], passage, stated(passage, [own], [rival], about=subjects)
            )


def _split(claim: str, other: str) -> tuple[str, str, str]:
    """The words at the beginning that two claims share, and the rest of each."""
    own, its = claim.split(), other.split()
    same = next((i for i, (a, b) in enumerate(zip(own, its, strict=False)) if a != b), 0)
    return " ".join(own[:same]), " ".join(own[same:]), " ".join(its[same:])


def _agreement(rows: Sequence[Judged]) -> list[Cell]:
    words = [states(row.answer, row.edit.record.target_new) == row.right for row in rows]
    distinct = len({(row.question, row.answer) for row in rows})
    agrees = sum(row.agrees for row in rows)
    return [
        f"{len(rows):,}",
        f"{distinct:,}",
        Number(agrees / len(rows), ".4f"),
        Number(sum(words) / len(rows), ".4f"),
    ]


def draw_short(model: str, rows: Sequence[Judged], seconds: float) -> None:
    """Agreement by editor, and disagreements by kind."""
    editors = list(dict.fromkeys(row.editor for row in rows))
    table = [[name, *_agreement([row for row in rows if row.editor == name])] for name in editors]
    note = f"{seconds / len(rows) * 1e6:.0f} µs an answer"
    draw = pages.draw
    draw(f"{model}: agreement", ["answers of", "answers", "distinct", "rule", "words"],
         [*table, ["all", *_agreement(rows)]], note)  # fmt: skip
    kinds = Counter(row.kind for row in rows if not row.agrees)
    draw(
        f"{model}: disagreements",
        ["kind", "answers"],
        [[kind, f"{count:,}"] for kind, count in kinds.most_common()],
    )


def draw_long(rows: Sequence[Claim]) -> None:
    """Agreement on passages, short and long ones."""
    table: list[list[Cell]] = []
    for name, some in (
        (f"up to {LONG} words", [row for row in rows if len(row.passage.split()) <= LONG]),
        (f"over {LONG} words", [row for row in rows if len(row.passage.split()) > LONG]),
        ("all", rows),
    ):
        alone, beside = (
            Number(
                sum((row.says in states_it) == (row.label == "supports") for row in some)
                / len(some),
                ".3f",
            )
            for states_it in (ALONE, BESIDE)
        )
        rates = [
            Number(sum(row.says in BESIDE for row in labelled) / max(1, len(labelled)), ".3f")
            for label in ("supports", "contradicts", "neutral")
            for labelled in [[row for row in some if row.label == label]]
        ]
        table.append([name, f"{len(some):,}", alone, beside, *rates])
    header = [
        "passages",
        "claims",
        "agreement, alone",
        "or both",
        "stated if supported",
        "if contradicted",
        "if neutral",
    ]
    pages.draw("Claims about passages", header, table)


def show(rows: Sequence[Judged], count: int) -> None:
    """Print disagreements at random, to read."""
    wrong = sorted(
        {
            (row.kind, row.question, row.edit.record.target_new, row.answer)
            for row in rows
            if not row.agrees
        }
    )
    for kind, question, new, answer in random.Random(0).sample(wrong, min(count, len(wrong))):
        print(f"{kind}\n  {question} -> {new!r}: {answer!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run."""
    parser = pages.parser(__doc__ or "")
    parser.add_argument("--datasets", type=Path, default=DATASETS, metavar="FOLDER")
    parser.add_argument("--models", nargs="+", default=["llama_2_7b_chat_hf"], metavar="NAME")
    parser.add_argument(
        "--errors", type=int, default=0, metavar="COUNT", help="print some disagreements instead"
    )
    parser.add_argument("--long", action="store_true", help="also the claims about passages")
    options = parser.parse_args(arguments)
    with pages.measured(options, TITLE, __doc__ or ""):
        run(options)
    return 0


def run(options: argparse.Namespace) -> None:
    """Print the tables."""
    for model in options.models:
        edits = recorded_edits(options.datasets / "halluedit_results", model)
        begun = time.perf_counter()
        rows = list(judged(edits))
        seconds = time.perf_counter() - begun
        if options.errors:
            show(rows, options.errors)
        else:
            draw_short(model, rows, seconds)
    if options.long:
        draw_long(list(claims(options.datasets / "longform_annotations.csv")))


if __name__ == "__main__":
    sys.exit(main())
