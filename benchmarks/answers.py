"""How well `drike.answers.statements` reads answers about what companies store, on a set of our own.

20 kinds of object with two edits each, one in the development half, one in the test half; of each some short answers as
chat models write them, with the verdict of the author, who wrote all of them before reading the rules. *Agreement*: the
rules give that verdict; a refusal is *neither*. *False new*: the share of the answers that do not state the new object
alone for which the rules say so. *False old*: the same of the old one. *Found*: the share of those that state the new
object for which the rules say so. The rules were tuned on the development half.

*Held-out*: 124 further answers about 21 further edits, by another author, who had seen how the rules are built but
tuned nothing; rules were mended by what they missed of these, which are development data since. *SmolLM2*: 200 greedy
answers of SmolLM2-135M-Instruct to questions about 50 facts of companies, of which the system text had the new one for
three quarters, the old one or none for the others; labelled twice in different orders, and by a second labeller who
saw question, fact and answer alone.

*Chat*: 150 longer answers about 50 further edits, as a chat model writes them (tables, hedges, old values that are
restated or negated, five languages), by an author who wrote all of them before reading the rules, in two halves with
different firms and phrasings: *chat-development*, by whose errors rules were mended, and *chat-test*. *Chat-fresh* are
50 further ones about 25 further edits, by the same author, written when rules had been mended by both halves.

*Voice*: 96 answers about 32 edits of 16 kinds, in the voice of a chat model (full sentences, Markdown, tables, offers
of more), by another author, who wrote all of them before reading the rules: *voice-development* and *voice-test*, each
with firms of its own. *Voice-further* are 142 by the same author about the kinds that the development half showed to be
weak; 49 of them, kind *hard*, were written against the mended rules. The first figures of both are in the findings.

*Blind* are 66, 45 and 43 short answers about 54 further edits of 14 kinds in four languages, by another author, who
wrote each part before reading the rules, or before reading what they make of it: rules were mended by the failures of a
part, then the next was run once. The first figures are in the findings; the failures were mended afterwards.

    python benchmarks/answers.py                                       # the development half
    python benchmarks/answers.py --half test                           # looks at the test half
    python benchmarks/answers.py --half held-out                       # and at these
    python benchmarks/answers.py --half smollm2
    python benchmarks/answers.py --half chat-development
    python benchmarks/answers.py --half chat-test
    python benchmarks/answers.py --half chat-fresh
    python benchmarks/answers.py --half voice-development
    python benchmarks/answers.py --half voice-further
    python benchmarks/answers.py --half voice-test
    python benchmarks/answers.py --half blind-first
    python benchmarks/answers.py --half blind-second
    python benchmarks/answers.py --half blind-third
    python benchmarks/answers.py --judge smollm2                       # a model on what rules leave undecided
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drike.answers.statements import Stated, stated
from drike.edits.record import EditRecord
from drike.live.answer_judge import JudgedAnswer, settled
from drike.models import load
from drike.support.table import Cell, Estimate
from lib import pages

TITLE = "Judging answers about what companies store"
QUESTIONS = Path(__file__).parent / "questions"
FILES = {
    "development": "answers.csv",
    "test": "answers.csv",
    "held-out": "answers.csv",
    "smollm2": "smollm2_answers.csv",
    "chat-development": "chat_answers.csv",
    "chat-test": "chat_answers.csv",
    "chat-fresh": "chat_answers.csv",
    "voice-development": "voice_answers.csv",
    "voice-further": "voice_answers.csv",
    "voice-test": "voice_answers.csv",
    "blind-first": "blind_answers.csv",
    "blind-second": "blind_answers.csv",
    "blind-third": "blind_answers.csv",
}
WORDS = 300  # of the long answer whose time is measured
REPEATS = 20
RESAMPLES = 2000


@dataclass(frozen=True)
class Answer:
    """An answer to a question about an edit, and what it states."""

    kind: str
    half: str
    subject: str
    query: str
    new: str
    old: str
    question: str
    answer: str
    verdict: str
    second: str = ""  # the verdict of another labeller, who saw neither the first nor the rules'

    @property
    def judged(self) -> str:
        """What the rules say that it states."""
        return _judged(self, self.answer)


@dataclass(frozen=True)
class Judged:
    """An answer with the rules' verdict."""

    answer: Answer
    says: str

    @property
    def agrees(self) -> bool:
        """Whether the rules give the author's verdict."""
        return self.says == self.answer.verdict


def answers(half: str) -> list[Answer]:
    """The answers of a half."""
    with (QUESTIONS / FILES[half]).open(encoding="utf-8", newline="") as file:
        rows = [Answer(**row) for row in csv.DictReader(file)]
    return [row for row in rows if row.half == half]


def _judged(answer: Answer, text: str) -> str:
    says = stated(
        text, [answer.new], [answer.old], about=[answer.subject], question=answer.question
    )
    return str(Stated.NEITHER if says is Stated.REFUSED else says)


def _line(name: str, rows: Sequence[Judged]) -> list[Cell]:
    cells: list[Cell] = [name, str(len(rows))]
    cells.append(Estimate.share(sum(row.agrees for row in rows), len(rows)))
    new = [row for row in rows if row.answer.verdict == Stated.NEW]
    cells.append(Estimate.share(sum(row.agrees for row in new), len(new)))
    for verdict in (Stated.NEW, Stated.OLD):
        others = [row for row in rows if row.answer.verdict != verdict]
        cells.append(Estimate.share(sum(row.says == verdict for row in others), len(others)))
    return cells


def draw(rows: Sequence[Judged]) -> None:
    """Agreement and errors by kind of object."""
    kinds = list(dict.fromkeys(row.answer.kind for row in rows))
    lines = [
        _line(kind.replace("_", " "), [row for row in rows if row.answer.kind == kind])
        for kind in kinds
    ]
    header = ["object", "answers", "agreement", "found", "false new", "false old"]
    pages.draw(
        f"{rows[0].answer.half} half", header, [*lines, _line("all", rows)], _speed_note(rows)
    )
    if rows[0].answer.second:
        print(_labellers_note(rows))


def draw_judge(name: str) -> None:
    """How a model judges what the rules leave undecided of all answers, beside simple rules."""
    every = [answer for half in FILES for answer in answers(half)]
    to_judge = [_to_judge(answer) for answer in every]
    undecided = [i for i, answer in enumerate(to_judge) if answer.is_undecided]
    model = load(name)
    says = settled([to_judge[i] for i in undecided], model)
    by_model = [Judged(every[i], str(each)) for i, each in zip(undecided, says, strict=True)]
    by_rules = [Judged(every[i], str(to_judge[i].stated)) for i in undecided]
    lines = [
        _line("the rules", by_rules),
        _line(name, by_model),
        *(
            _line(f"always {said}", [Judged(every[i], said) for i in undecided])
            for said in ("new", "old")
        ),
    ]
    header = ["judge", "answers", "agreement", "found", "false new", "false old"]
    changed = sum(
        first.says != second.says for first, second in zip(by_rules, by_model, strict=True)
    )
    pages.draw(f"undecided answers, judged by {name}", header, lines, f"{changed} verdicts changed")


def _to_judge(answer: Answer) -> JudgedAnswer:
    record = EditRecord(answer.subject, answer.query, answer.new, answer.old)
    return JudgedAnswer(record, answer.question, answer.answer, Stated(answer.judged))


def _labellers_note(rows: Sequence[Judged]) -> str:
    """How far two labellers agree, and the rules with the second."""
    first = [row.answer.verdict for row in rows]
    second = [row.answer.second for row in rows]
    judged = sum(row.says == row.answer.second for row in rows) / len(rows)
    draw = random.Random(0)
    kappas = []
    for _ in range(RESAMPLES):
        numbers = draw.choices(range(len(rows)), k=len(rows))
        kappas.append(kappa([first[i] for i in numbers], [second[i] for i in numbers]))
    kappas.sort()
    low, high = kappas[RESAMPLES // 40], kappas[-RESAMPLES // 40 - 1]
    same = sum(map(str.__eq__, first, second)) / len(rows)
    return (
        f"Two labellers: {same:.3f} the same, kappa {kappa(first, second):.3f} "
        f"[{low:.2f},{high:.2f}]; the rules agree with {judged:.3f} of the second's labels.\n"
    )


def kappa(first: Sequence[str], second: Sequence[str]) -> float:
    """Cohen's kappa of two labellers."""
    same = sum(map(str.__eq__, first, second)) / len(first)
    shares = Counter(first)
    of_second = Counter(second)
    by_chance = sum(shares[name] * of_second[name] for name in shares) / len(first) ** 2
    return (same - by_chance) / (1 - by_chance)


def _speed_note(rows: Sequence[Judged]) -> str:
    """How much processor time an answer of 300 words takes, over the edits.

    Each time it is another text, as of one that was read before the words are kept.
    """
    edits = list({row.answer.query: row.answer for row in rows}.values())
    words = " ".join(row.answer.answer for row in rows).split()[:WORDS]
    took = []
    for edit in edits:
        _judged(edit, " ".join(words))  # the edit's names are read once
        for turn in range(1, REPEATS + 1):
            text = " ".join(words[turn:] + words[:turn])
            begun = time.thread_time()
            _judged(edit, text)
            took.append(time.thread_time() - begun)
    took.sort()
    middle, late = took[len(took) // 2], took[len(took) * 99 // 100]
    return (
        f"{len(words)} words: {middle * 1e3:.1f} ms of processor time at the median, "
        f"{late * 1e3:.1f} at the 99th percentile"
    )


def show(rows: Sequence[Judged]) -> None:
    """Print disagreements, to read."""
    for row in rows:
        if not row.agrees:
            answer = row.answer
            print(f"{answer.kind}: {answer.question} {answer.old!r} -> {answer.new!r}")
            print(f"    {answer.answer!r}: {answer.verdict}, judged {row.says}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run."""
    parser = pages.parser(__doc__ or "")
    parser.add_argument("--half", choices=list(FILES), default="development")
    parser.add_argument(
        "--judge",
        metavar="MODEL",
        help="let this model judge what the rules leave undecided, of all halves",
    )
    parser.add_argument("--errors", action="store_true", help="print disagreements instead")
    options = parser.parse_args(arguments)
    with pages.measured(options, TITLE, __doc__ or ""):
        run(options)
    return 0


def run(options: argparse.Namespace) -> None:
    """Print the table, or the disagreements."""
    if options.judge:
        draw_judge(options.judge)
        return
    rows = [Judged(answer, answer.judged) for answer in answers(options.half)]
    if options.errors:
        show(rows)
    else:
        draw(rows)


if __name__ == "__main__":
    sys.exit(main())
