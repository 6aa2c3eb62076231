"""The gate on firms' questions, once it is known when a fact is written what it answers. No model is asked.

    python benchmarks/written.py [--written hand smollm2 templates] [--stored firm|all]

The development half of `questions/firms.csv` (`benchmarks/firms.py`), of whose questions nothing was seen by what wrote
for the facts. Each gets up to ten questions that it answers and ten near misses, as `drike edits reword` would store
them all, after the checks of `drike.live.suggestions`. They come from `questions/firms_written.csv`, a list by hand
that stands in for a strong model; from SmolLM2 with 135 million parameters, too weak for the task, as an upper bound
on harm (`questions/firms_smollm2.csv` holds what it wrote; `--ask smollm2` writes that file anew); and from the
templates of relations. Only firms for whose facts all of these were written count.

The gate is the default one. Rows in which only paraphrases or only near misses are stored, or in which both are stored
as if people had written them, say what each part is worth. Columns as in `firms.py`. Differences are paired, to
the first row.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drike.edits.record import EditRecord
from drike.encoders import TextEncoder, load_encoder
from drike.gates.calibration import default_gate
from drike.live.relation_templates import templated
from drike.live.suggestions import (
    END,
    Neighbourhood,
    Suggestion,
    checked_suggestions,
    fields_with,
    request,
    tokens_for,
    written_suggestions,
)
from drike.models import load
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.support.files import write_text
from drike.support.table import Cell, Difference, Number
from firms import (
    DEVELOPMENT,
    METRICS,
    NOTE,
    STORED,
    Firm,
    FirmQuestion,
    NamedIndex,
    counted,
    rates,
    read_firms,
)
from lib import pages

TITLE = "What an edit answers, known when it is written"
FOLDER = Path(__file__).parent / "questions"
HAND = FOLDER / "firms_written.csv"
WRITERS = ("hand", "smollm2", "templates")

# The suggestions for each fact, by its name.
Suggested = Mapping[str, Sequence[Suggestion]]


@dataclass(frozen=True)
class Variant:
    """What is stored of the suggestions. as_people: without the mark of who wrote them."""

    name: str
    paraphrases: bool = True
    near_misses: bool = True
    as_people: bool = False

    def record(self, record: EditRecord, suggested: Sequence[Suggestion]) -> EditRecord:
        """The record with what is stored."""
        kept = [
            one
            for one in suggested
            if not one.problem and (self.near_misses if one.never else self.paraphrases)
        ]
        stored = replace(record, **fields_with(record, kept, "benchmark"))
        return replace(stored, written_by=None) if self.as_people else stored


BOTH = Variant("both")
VARIANTS = (
    BOTH,
    Variant("paraphrases alone", near_misses=False),
    Variant("near misses alone", paraphrases=False),
    Variant("both, as if by people", as_people=True),
)


def main() -> None:
    """Print the tables as Markdown."""
    parser = pages.parser(__doc__)
    parser.add_argument("--written", nargs="*", choices=WRITERS, default=WRITERS)
    parser.add_argument(
        "--stored", choices=STORED, default=STORED[0], help="whose facts are in force"
    )
    parser.add_argument(
        "--ask",
        default="",
        metavar="MODEL",
        help="let a model write the file of its name, and stop",
    )
    options = parser.parse_args()
    firms = firms_by_hand(read_firms(DEVELOPMENT))
    if options.ask:
        ask(options.ask, firms)
        return
    with pages.measured(options, TITLE, __doc__):
        measure(options, firms)


def firms_by_hand(firms: Mapping[str, Firm]) -> dict[str, Firm]:
    """The firms for whose facts somebody wrote by hand."""
    written = {row["id"] for row in rows_of(HAND)}
    return {name: firm for name, firm in firms.items() if written.intersection(firm.facts)}


def rows_of(file: Path) -> list[dict[str, str]]:
    """The rows of a file."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def ask(name: str, firms: Mapping[str, Firm]) -> None:
    """Let a model write for all facts, and keep what it wrote as it is."""
    model = load(name)
    written = []
    for firm in firms.values():
        for fact, record in firm.facts.items():
            [completion] = model.generate([request(record)], tokens_for(), END)
            written.append((fact, completion.text))
            print(f"  {fact}", file=sys.stderr, flush=True)
    text = "\n".join(['"id","written"', *(f'"{fact}","{quoted(text)}"' for fact, text in written)])
    write_text(FOLDER / f"firms_{name}.csv", f"{text}\n")


def quoted(text: str) -> str:
    """A text within the quotes of a CSV."""
    return text.replace('"', '""')


def measure(options: argparse.Namespace, firms: Mapping[str, Firm]) -> None:
    """Print the tables of each writer."""
    encoder = load_encoder()
    questions = [question for firm in firms.values() for question in firm.questions]
    before = applied(firms, lambda fact, record: record, encoder, options.stored)
    rows: list[list[Cell]] = [["nothing", "", *rates(questions, before), "", ""]]
    counts = []
    for writer in options.written:
        suggested = suggested_by(writer, firms, encoder)
        counts.append(count_of(writer, suggested))
        for variant in VARIANTS:
            after = applied(
                firms,
                lambda fact, record: variant.record(record, suggested.get(fact, ())),  # noqa: B023
                encoder,
                options.stored,
            )
            differences = paired(questions, before, after)
            rows.append([writer, variant.name, *rates(questions, after), *differences])
    title = (
        f"{len(questions)} questions about {sum(len(firm.facts) for firm in firms.values())} facts of "
        f"{len(firms)} firms; in force: those of {'the firm' if options.stored == 'firm' else 'all'}"
    )
    header = ("written by", "stored", *METRICS, "present, paired", "needless, paired")
    pages.draw(title, header, rows, NOTE, wide=True)
    pages.draw(
        "What the checks leave, in texts a fact",
        ("written by", "facts", "with some", "paraphrases", "near misses", "refused"),
        counts,
    )


def applied(
    firms: Mapping[str, Firm],
    stored: Callable[[str, EditRecord], EditRecord],
    encoder: TextEncoder,
    in_force: str,
) -> list[frozenset[str]]:
    """The names of the facts that each question gets, with the facts as they are stored."""
    gate = default_gate()
    facts = {
        name: {fact: stored(fact, record) for fact, record in firm.facts.items()}
        for name, firm in firms.items()
    }
    everything = {fact: record for of_firm in facts.values() for fact, record in of_firm.items()}
    whole = NamedIndex.of(everything, encoder) if in_force == "all" else None
    names = []
    for name, firm in firms.items():
        index = whole or NamedIndex.of(facts[name], encoder)
        names += [index.applied(question, gate) for question in firm.questions]
    return names


def suggested_by(writer: str, firms: Mapping[str, Firm], encoder: TextEncoder) -> Suggested:
    """What a writer suggests for each fact, checked as in the store of its firm."""
    suggested: dict[str, Sequence[Suggestion]] = {}
    rows = (
        []
        if writer == "templates"
        else rows_of(HAND if writer == "hand" else FOLDER / f"firms_{writer}.csv")
    )
    for firm in firms.values():
        neighbourhood = Neighbourhood.of(firm.facts.values())
        for fact, record in firm.facts.items():
            if writer == "hand":
                lines = [(row["text"], row["kind"] == "never") for row in rows if row["id"] == fact]
                suggested[fact] = checked_suggestions(lines, record, neighbourhood=neighbourhood)
            elif writer == "templates":
                suggested[fact] = templated(record, encoder, neighbourhood=neighbourhood)
            else:
                text = next((row["written"] for row in rows if row["id"] == fact), "")
                suggested[fact] = written_suggestions(text, record, neighbourhood=neighbourhood)
    return suggested


def count_of(writer: str, suggested: Suggested) -> list[Cell]:
    """How many facts a writer wrote for, and how many texts a fact were kept and refused."""
    texts = [one for of_fact in suggested.values() for one in of_fact]
    kept = [one for one in texts if not one.problem]
    near_misses = sum(one.never for one in kept)
    shares = [len(kept) - near_misses, near_misses, len(texts) - len(kept)]
    with_some = sum(any(not one.problem for one in of_fact) for of_fact in suggested.values())
    facts = len(suggested)
    return [writer, Number(facts), Number(with_some), *(f"{share / facts:.1f}" for share in shares)]


def paired(
    questions: Sequence[FirmQuestion],
    before: Sequence[frozenset[str]],
    after: Sequence[frozenset[str]],
) -> Iterator[Cell]:
    """The differences of present and of needless, with intervals over firms."""
    firms = dict.fromkeys(question.firm for question in questions)
    places = {firm: place for place, firm in enumerate(firms)}
    sums = np.zeros((len(places), 2, len(METRICS), 2))
    for question, one, other in zip(questions, before, after, strict=True):
        sums[places[question.firm], 0] += counted(question, one)
        sums[places[question.firm], 1] += counted(question, other)
    whole = difference(sums.sum(axis=0))
    drawn = np.array([difference(one) for one in resampled(sums)])
    estimates = estimated(whole, drawn)
    for metric in ("present", "needless"):
        yield Difference(estimates[METRICS.index(metric)])


def difference(sums: np.ndarray) -> np.ndarray:
    """The rates after less those before, (metrics)."""
    shares = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return shares[1] - shares[0]


if __name__ == "__main__":
    main()
