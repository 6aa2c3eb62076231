"""Which edits a gate finds for thousands of questions: public ones, of which only digests are kept, and our own.

A digest is of what a decision is made of: edits, candidates with their names and features, and the reason. Beside it
stand probabilities, as those of another processor may differ in the last digits.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

import drike
from tests.fakes.indexes import default_encoder
from tests.golden.compare import digest, near_golden, rounded

T = TypeVar("T")
SHARED = Path(__file__).parents[3] / "shared" / "datasets"
BLOCK = 50  # questions
WITHIN = 2e-4  # of probabilities with four digits
ALL, FEW = (1000, 1050), (80, 100)  # edits and questions of each source
SOURCES = {"CounterFact": "counterfact_400.json", "QAEdit": "qaedit_1k.json",
           "HalluEditBench": "halluedit_llama2", "PokeMQA": "pokemqa_cls.json"}  # fmt: skip
SHOWN = 40  # characters of a question
# Halves of our questions; `make slow` reads those of the second line.
OFTEN, SELDOM = (
    ("development",),
    ("unseen", "further", "tune", "test", "blind", "second"),
)
UNSEEN = ("test", "unseen")  # of them, those that are not to be looked at

needs_files = pytest.mark.skipif(
    not all((SHARED / name).exists() for name in SOURCES.values()),
    reason=f"needs the public data sets in {SHARED}",
)


@dataclass(frozen=True)
class Asked:
    """Records to be stored, and questions about them and about other things."""

    records: Sequence[drike.EditRecord]
    questions: Sequence[str]

    def index(self, encoder: drike.TextEncoder | None) -> drike.EditIndex:
        """The edits as a gate sees them; every tenth is in shadow, every seventh comes before others."""
        records = [
            replace(
                record,
                status=drike.Status.ACTIVE if i % 10 else drike.Status.SHADOW,
                priority=int(i % 7 == 0),
            )
            for i, record in enumerate(self.records, 1)
        ]
        return drike.EditIndex.of(
            [drike.EditVersion(i, i, 1, "", record) for i, record in enumerate(records, 1)], encoder
        )


def spread(items: Sequence[T], most: int) -> list[T]:
    """So many items, evenly from all of them."""
    return [items[i * len(items) // most] for i in range(most)] if len(items) > most else [*items]


def of_cases(*files: Path, edits: int, questions: int) -> Asked:
    """The edits of published files, and their questions of all kinds."""
    cases = [
        case for file in files for case in drike.load_dataset(str(file)).cases if case.edit.subject
    ]
    chosen, asked = spread(cases, edits), dict[str, None]()
    for case in chosen:
        asked |= dict.fromkeys(probe.query for probe in (*case.asked, *case.baseline_questions))
    made = [case.edit for case in chosen]
    records = [
        drike.EditRecord(e.subject or "", e.query, e.target_new, e.target_true, e.relation)
        for e in made
    ]
    return Asked(records, spread([*asked], questions))


def of_sentences(file: Path, *, edits: int, questions: int) -> Asked:
    """PokeMQA's: an edit as a sentence with its questions, whose subject is what all have in common."""
    records, asked = [], dict[str, None]()
    for row in spread(json.loads(file.read_text("utf-8")), edits):
        words = row["edit"].split()
        runs = [
            " ".join(words[i : i + n])
            for n in range(len(words), 0, -1)
            for i in range(len(words) - n + 1)
        ]
        common = (
            run for run in runs if run[0].isupper() and all(run in one for one in row["questions"])
        )
        if subject := next(common, None):
            query, *others = row["questions"]
            records.append(drike.EditRecord(subject, query, words[-1]))
            asked |= dict.fromkeys(others)
    return Asked(records, spread([*asked], questions))


def public(source: str, edits: int, questions: int) -> Asked:
    place = SHARED / SOURCES[source]
    if source == "PokeMQA":
        return of_sentences(place, edits=edits, questions=questions)
    files = sorted(place.glob("*.csv")) if place.is_dir() else [place]
    return of_cases(*spread(files, max(2, edits // 40)), edits=edits, questions=questions)


@cache
def encoder() -> drike.TextEncoder:
    """The default gate's as a gateway runs it, without vectors of an earlier time."""
    default_encoder()  # skips
    return drike.load_encoder(keep=False, onnx=True)


def decided(decision: drike.Decision) -> list[object]:
    """What a decision is made of, without numbers that a model of vectors has computed."""
    candidates = sorted(
        [c.edit.id, c.name or "", sorted(c.features), c.uncertain, c.follows or 0]
        for c in decision.candidates
    )
    return [[edit.id for edit in decision.matched], candidates, decision.reason]


def probabilities(decision: drike.Decision) -> str:
    """Those of the candidates together: a number that any change of one changes."""
    return f"{sum(c.probability for c in decision.candidates):.4f}".removeprefix("0")


def block(
    decisions: Sequence[drike.Decision], part: Callable[[drike.Decision], object]
) -> dict[str, object]:
    """Of some questions how many match, and a digest of a part of their decisions."""
    matched = sum(bool(decision.matched) for decision in decisions)
    return {"matched": matched, "sha256": digest([part(decision) for decision in decisions])}


def exactly(decision: drike.Decision) -> list[object]:
    """The same with all numbers."""
    numbers = [[c.edit.id, c.probability, dict(c.features)] for c in decision.candidates]
    return [decided(decision), rounded(numbers)]


def blocks(decisions: Sequence[drike.Decision]) -> dict[str, object]:
    """Of each block of questions how many match, a digest of the decisions, and the probabilities."""
    found = {}
    for begin in range(0, len(decisions), BLOCK):
        some = decisions[begin : begin + BLOCK]
        found[f"from {begin}"] = {
            **block(some, decided),
            "probability": " ".join(map(probabilities, some)),
        }
    return found


def of_public(source: str, edits: int, questions: int) -> dict[str, object]:
    """What both gates decide on a source. `Named` goes by words, so that its numbers are exact."""
    asked = public(source, edits, questions)
    named, index = asked.index(None), asked.index(encoder())
    by_name = [drike.Named().decide(question, named) for question in asked.questions]
    gate = drike.default_gate()
    by_default = [gate.decide(question, index) for question in asked.questions]
    counts = {"edits": len(asked.records), "questions": len(asked.questions)}
    exact = {
        f"from {i}": block(by_name[i : i + BLOCK], exactly) for i in range(0, len(by_name), BLOCK)
    }
    return {**counts, "named": exact, "default": blocks(by_default)}


@needs_files
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.sampled(2)
def test_a_sample_of_public_questions(source: str) -> None:
    near_golden(f"gate_sample_{source.lower()}", of_public(source, *FEW), WITHIN)


@needs_files
@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_public_questions(source: str) -> None:
    near_golden(f"gate_public_{source.lower()}", of_public(source, *ALL), WITHIN)


def listed(decision: drike.Decision) -> str:
    """The matched edits and behind a bar other candidates, with probabilities."""
    by_id = {c.edit.id: f"{c.edit.id} {c.probability:.4f}" for c in decision.candidates}
    matched = [by_id.pop(edit.id) for edit in decision.matched]
    others = [
        by_id[c.edit.id]
        for c in decision.candidates
        if c.edit.id in by_id and round(c.probability, 2)
    ]
    return " | ".join(filter(None, (", ".join(matched) or "none", ", ".join(sorted(others)))))


@pytest.mark.parametrize(
    "half", [*OFTEN, *(pytest.param(half, marks=pytest.mark.slow) for half in SELDOM)]
)
def test_our_own_questions(half: str) -> None:
    """By number in their file, with their beginnings; of those that nothing is tuned on only digests are kept."""
    own = importlib.import_module("benchmarks.questions")
    edits, file = own.FILES[half]
    index, gate, found = own.stored_index(own.FOLDER / edits, encoder()), drike.default_gate(), {}
    for number, asked in enumerate(own.read_questions(own.FOLDER / file), 1):
        if asked.half == half:
            beginning = re.sub(r"\s+", " ", asked.query)[:SHOWN]
            found[f"{number} {beginning}"] = gate.decide(asked.query, index)
    shown = (
        blocks([*found.values()]) if half in UNSEEN else {k: listed(v) for k, v in found.items()}
    )
    near_golden(f"gate_own_{half}", shown, WITHIN)
