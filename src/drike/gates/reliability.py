"""How well a gate's probabilities hold on a store's own wordings and negative exemplars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.stores.records import EditVersion

_FOLDS = 5
_MOST = 500  # texts that are asked


@dataclass(frozen=True)
class Bin:
    """Questions to which the gate gave similar probabilities: the mean, the share that concern the edit, the number."""

    probability: float
    share: float
    count: int


def curve(gate: Gate, index: EditIndex, bins: int = 10) -> tuple[Bin, ...]:
    """The reliability diagram over wordings, which concern their edit, and negative exemplars, which do not.

    By cross-validation: each text is asked of an index without it and without those of its fold. Bins have equal
    widths, and empty ones are left out. Of more than `_MOST` texts some are not asked. No language model is asked.
    """
    found: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    edits = sorted(index.edits.values(), key=lambda one: one.id)
    for fold in range(_FOLDS):
        texts = list(_texts(edits, fold))[: _MOST // _FOLDS]
        rest = EditIndex.of([_without(one, fold) for one in edits], index.encoder, index) if texts else index
        for edit, text, concerned in texts:
            candidates = gate.decide(text, rest).candidates
            probability = next((one.probability for one in candidates if one.edit.id == edit), 0.0)
            found[min(int(probability * bins), bins - 1)].append((probability, concerned))
    columns = [tuple(zip(*found[i], strict=True)) for i in sorted(found)]
    return tuple(Bin(sum(given) / len(given), sum(true) / len(true), len(true)) for given, true in columns)


def _texts(edits: Sequence[EditVersion], fold: int) -> Iterator[tuple[int, str, bool]]:
    """The texts of a fold: the edit's id, the text, and whether it concerns the edit."""
    for one in edits:
        for texts, concerned in ((one.record.wordings, True), (one.record.negatives, False)):
            yield from ((one.id, text, concerned) for i, text in enumerate(texts) if (one.id + i) % _FOLDS == fold)


def _without(one: EditVersion, fold: int) -> EditVersion:
    """The edit without its texts of a fold."""
    wordings, negatives = (
        tuple(text for i, text in enumerate(texts) if (one.id + i) % _FOLDS != fold)
        for texts in (one.record.wordings, one.record.negatives)
    )
    return replace(one, record=replace(one.record, wordings=wordings, negatives=negatives))
