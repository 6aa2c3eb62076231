"""How well a gate is calibrated on a store's own paraphrases and negative exemplars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.stores.records import EditVersion

_FOLDS, _BINS = 5, 10
_MAX_TEXTS = 500


@dataclass(frozen=True)
class Bin:
    """Questions with similar probabilities: their mean, the share of questions that concern the edit, their number."""

    probability: float
    share: float
    count: int


def curve(gate: Gate, index: EditIndex) -> tuple[Bin, ...]:
    """The reliability diagram over paraphrases, which concern their edit, and negative exemplars, which do not.

    By cross-validation: the gate decides on each text with an index that lacks the texts of its fold. Bins have equal
    widths, and empty ones are left out. Of more than `_MAX_TEXTS` texts some are not asked. No language model is asked.
    """
    rows: dict[int, list[tuple[float, bool]]] = defaultdict(list)  # by bin
    edits = sorted(index.edits.values(), key=lambda edit: edit.id)
    for fold in range(_FOLDS):
        texts = list(_texts(edits, fold))[: _MAX_TEXTS // _FOLDS]
        rest = EditIndex.of([_without(edit, fold) for edit in edits], index.encoder, index) if texts else index
        for id, text, concerned in texts:
            candidates = gate.decide(text, rest).candidates
            probability = next((candidate.probability for candidate in candidates if candidate.edit.id == id), 0.0)
            rows[min(int(probability * _BINS), _BINS - 1)].append((probability, concerned))
    columns = [tuple(zip(*rows[i], strict=True)) for i in sorted(rows)]
    return tuple(
        Bin(sum(probabilities) / len(concerned), sum(concerned) / len(concerned), len(concerned))
        for probabilities, concerned in columns
    )


def _texts(edits: Sequence[EditVersion], fold: int) -> Iterator[tuple[int, str, bool]]:
    """The texts of a fold: the edit's id, the text, and whether it concerns the edit."""
    for edit in edits:
        for texts, concerned in ((edit.record.paraphrases, True), (edit.record.negatives, False)):
            yield from ((edit.id, text, concerned) for i, text in enumerate(texts) if (edit.id + i) % _FOLDS == fold)


def _without(edit: EditVersion, fold: int) -> EditVersion:
    """The edit without its texts of a fold."""
    paraphrases, negatives = (
        tuple(text for i, text in enumerate(texts) if (edit.id + i) % _FOLDS != fold)
        for texts in (edit.record.paraphrases, edit.record.negatives)
    )
    return replace(edit, record=replace(edit.record, paraphrases=paraphrases, negatives=negatives))
