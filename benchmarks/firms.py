"""The gate on how people ask firms: 30 invented firms' facts and 1,233 questions. No model is asked.

    python benchmarks/firms.py [--half development|test] [--stored firm|all] [--set NAME] [--failures]

`questions/firms.csv` was written without sight of code or docs. 15 firms are to develop on; the other 15 are a test
half, to be looked at once ([looks](looks.md) counts how often). Other sets (`--set`) are in `questions`, too:
`firms_further` has names as they are typed, names that are words, times and company attributes, of other firms;
`firms_talk` has wrapped questions, whole subjects, questions by the object, ends of topics and bots. Each
conversation, with its system text and earlier turns, is read as `Corrections` and the gateway read it, with the facts
of its own firm in force, or with those of all firms of the half. What counts is the edits that the last turn gets:
*wanted* ones have to be there, *allowed* ones may.

*Present*: of the questions that want edits, the share where all of these apply. *Wrong*: the share where some apply,
none of them wanted. *Extra*: where an unwanted one applies beside a wanted one. *Needless*: of the questions that want
none, the share where any applies that is not allowed. Intervals are of 95 %, by bootstrap over firms.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord, EditVersion
from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.gates.calibration import default_gate
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.support.table import Cell, Estimate, Number
from lib import pages
from questions import METRICS
from questions import counted as counted_ids

TITLE = "The gate on how people ask firms"
SETS = Path(__file__).parent / "questions"
FILE = SETS / "firms.csv"
DEVELOPMENT, TEST = "development", "test"
STORED = ("firm", "all")
NOTE = "Brackets: 95 % interval by bootstrap over firms; by Clopper and Pearson's where all agree."


@dataclass(frozen=True)
class FirmQuestion:
    """A conversation of a firm's customer. wanted, allowed: names of facts."""

    firm: str
    kind: str
    language: str
    messages: tuple[Mapping[str, str], ...]
    wanted: frozenset[str]
    allowed: frozenset[str]


@dataclass(frozen=True)
class Firm:
    """A firm's facts by their names, and what its customers ask."""

    facts: dict[str, EditRecord] = field(default_factory=dict)
    questions: list[FirmQuestion] = field(default_factory=list)


def read_firms(half: str, file: Path = FILE) -> dict[str, Firm]:
    """The firms of a half by their names."""
    firms: dict[str, Firm] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["half"] != half:
                continue
            firm = firms.setdefault(row["firm"], Firm())
            if row["row"] == "fact":
                firm.facts[row["id"]] = EditRecord(
                    row["subject"], row["query"], row["object"], row["old"] or None
                )
            else:
                firm.questions.append(question_of(row))
    return firms


def question_of(row: Mapping[str, str]) -> FirmQuestion:
    """A question's row as a conversation."""
    messages = [{"role": "system", "content": row["system"]}] if row["system"] else []
    for user, assistant in json.loads(row["history"] or "[]"):
        messages.append({"role": "user", "content": user})
        messages.append({"role": "assistant", "content": assistant})
    messages.append({"role": "user", "content": row["text"]})
    wanted, allowed = (
        frozenset(filter(None, row[name].split(";"))) for name in ("wanted", "allowed")
    )
    return FirmQuestion(row["firm"], row["kind"], row["language"], tuple(messages), wanted, allowed)


@dataclass(frozen=True)
class NamedIndex:
    """Edits in force, and the name of each by its id."""

    index: EditIndex
    names: Mapping[int, str]

    @classmethod
    def of(cls, facts: Mapping[str, EditRecord], encoder: TextEncoder) -> NamedIndex:
        """Put facts in force."""
        versions = tuple(
            EditVersion(number, number, 1, "2026-01-01T00:00:00Z", record)
            for number, record in enumerate(facts.values(), start=1)
        )
        return cls(EditIndex.of(versions, encoder), dict(enumerate(facts, start=1)))

    def applied(self, question: FirmQuestion, gate: Gate) -> frozenset[str]:
        """The names of the facts that the last turn of a conversation gets."""
        decision = self.decision(question, gate)
        return (
            frozenset(self.names[edit.id] for edit in decision.applied) if decision else frozenset()
        )

    def decision(self, question: FirmQuestion, gate: Gate) -> Decision | None:
        """What a gate decides about the last turn of a conversation; None if it is not asked."""
        follower = Follower(lambda text: gate.decide(text, self.index), self.index, AsBlock())
        return follower.follow(read(Api.CHAT, {"messages": list(question.messages)})).decision


def counted(question: FirmQuestion, applied: frozenset[str]) -> FloatArray:
    """Hits and cases of each of METRICS, (4, 2)."""
    return counted_ids(question.wanted, applied - (question.allowed - question.wanted))


def rates(questions: Sequence[FirmQuestion], applied: Sequence[frozenset[str]]) -> list[Estimate]:
    """Each of METRICS with its interval."""
    by_firm: dict[str, FloatArray] = {}
    for question, names in zip(questions, applied, strict=True):
        empty = np.zeros((len(METRICS), 2))
        by_firm[question.firm] = by_firm.get(question.firm, empty) + counted(question, names)
    rows = np.array(list(by_firm.values()))
    with np.errstate(invalid="ignore"):
        whole, drawn = (sums[..., 0] / sums[..., 1] for sums in (rows.sum(axis=0), resampled(rows)))
    return estimated(whole, drawn, rows[..., 1].sum(axis=0))


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument("--half", choices=(DEVELOPMENT, TEST), default=DEVELOPMENT)
    parser.add_argument(
        "--stored", choices=STORED, default=STORED[0], help="whose facts are in force"
    )
    parser.add_argument(
        "--set", default=FILE.stem, metavar="NAME", help=f"a file of questions in {SETS.name}"
    )
    parser.add_argument(
        "--kinds", nargs="*", default=[], metavar="KIND", help="only these kinds of questions"
    )
    parser.add_argument(
        "--failures", action="store_true", help=f"list what fails, not of the half {TEST}"
    )
    options = parser.parse_args()
    if options.failures and options.half == TEST:
        parser.error(f"--failures shows no questions of the half {TEST}: it is not to be tuned on")
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables of a half."""
    encoder, gate = load_encoder(), default_gate()
    firms = read_firms(options.half, SETS / f"{options.set}.csv")
    every_fact = {name: fact for firm in firms.values() for name, fact in firm.facts.items()}
    whole = NamedIndex.of(every_fact, encoder) if options.stored == "all" else None
    questions: list[FirmQuestion] = []
    applied: list[frozenset[str]] = []
    for firm in firms.values():
        index = whole or NamedIndex.of(firm.facts, encoder)
        for question in firm.questions:
            if not options.kinds or question.kind in options.kinds:
                questions.append(question)
                applied.append(index.applied(question, gate))
    draw(options, questions, applied)


def draw(
    options: argparse.Namespace,
    questions: Sequence[FirmQuestion],
    applied: Sequence[frozenset[str]],
) -> None:
    """Print the rates of all questions and of each kind, and the failures if they are asked for."""
    rows: list[list[Cell]] = [["all", *counts_of(questions), *rates(questions, applied)]]
    for kind in dict.fromkeys(question.kind for question in questions):
        places = [place for place, asked in enumerate(questions) if asked.kind == kind]
        own = [questions[place] for place in places]
        rows.append([kind, *counts_of(own), *rates(own, [applied[place] for place in places])])
    title = f"{options.half} half, facts in force: of {'the' if options.stored == 'firm' else 'every'} firm"
    pages.draw(title, ("kind", "want edits", "want none", *METRICS), rows, NOTE)
    if options.failures:
        pages.draw(
            "Failures",
            ("kind", "conversation", "wanted", "applied"),
            failures(questions, applied),
            wide=True,
        )


def counts_of(questions: Sequence[FirmQuestion]) -> list[Cell]:
    """How many questions want edits, and how many none."""
    wanting = sum(bool(question.wanted) for question in questions)
    return [Number(wanting), Number(len(questions) - wanting)]


def failures(
    questions: Sequence[FirmQuestion], applied: Sequence[frozenset[str]]
) -> list[list[Cell]]:
    """The questions that lack a wanted fact or got one that is neither wanted nor allowed."""
    return [
        [
            question.kind,
            " | ".join(message["content"] for message in question.messages),
            " ".join(sorted(question.wanted)) or "none",
            " ".join(sorted(names)) or "none",
        ]
        for question, names in zip(questions, applied, strict=True)
        if not question.wanted <= names or names - question.wanted - question.allowed
    ]


if __name__ == "__main__":
    main()
