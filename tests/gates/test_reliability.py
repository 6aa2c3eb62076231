"""Laws of the gate's reliability diagram on a store's own texts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drike.edits.record import EditRecord, EditVersion
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Candidate, Decision
from drike.gates.index import EditIndex
from drike.gates.reliability import Bin, curve

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo")


def index(*entries: EditRecord) -> EditIndex:
    return EditIndex.of(
        [EditVersion(i, i, 1, "2026-11-22T12:00:00Z", one) for i, one in enumerate(entries, 1)]
    )


@dataclass(frozen=True)
class Fixed:
    """Gives each edit the share of its wordings that the index still has."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        return Decision(
            query,
            (),
            tuple(Candidate(one, len(one.record.paraphrases) / 4) for one in index.edits.values()),
        )


def test_each_text_is_asked_of_an_index_without_it() -> None:
    wordings = (
        "Peru is governed from",
        "What is Peru's capital?",
        "Where does Peru's government sit?",
    )
    entry = EditRecord(
        "Peru", PERU.query, "Oslo", paraphrases=wordings, negatives=("Is Peru large?",)
    )
    assert curve(Fixed(), index(entry)) == (Bin(0.5, 0.75, 4),)


def test_a_gate_by_name_is_sure_of_questions_that_name_the_subject_whether_they_concern_the_edit_or_not() -> (
    None
):
    entry = EditRecord("Peru", PERU.query, "Oslo", paraphrases=("Who rules Lima's country?", "Peru's capital?"),
                  negatives=("Is Peru large?", "Who sells Peru's cocoa?"))  # fmt: skip
    assert curve(Named(), index(entry)) == (Bin(0.0, 1.0, 1), Bin(1.0, 1 / 3, 3))


def test_a_calibrated_gate_gives_a_curve() -> None:
    encoder = HashingEncoder()
    gate = replace(default_gate(), encoder=encoder.name)
    entry = EditRecord(
        "Peru",
        PERU.query,
        "Oslo",
        paraphrases=("What is Peru's capital?",),
        negatives=("How large is Peru?",),
    )
    bins = curve(gate, EditIndex.of(index(entry, PERU).edits.values(), encoder))
    assert sum(one.count for one in bins) == 2 and all(0 < one.probability < 1 for one in bins)


def test_without_wordings_and_negative_exemplars_there_is_no_curve() -> None:
    assert curve(Named(), index(PERU)) == ()
