"""How far a gate's probabilities can be believed: a reliability diagram."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.edits.record import EditVersion
from drike.gates.calibration import GateProbe, probability_of
from drike.gates.decision import Gate
from drike.gates.index import EditIndex

_FOLDS = 5
_BINS = 10
_MAX_TEXTS = 500


@dataclass(frozen=True)
class Bin:
    """Questions with similar probabilities.

    probability: their mean. share: how many concern the edit. count: their number.
    """

    probability: float
    share: float
    count: int


@dataclass(frozen=True)
class _Outcome:
    """The probability that a question concerns an edit, and whether it does."""

    probability: float
    concerns: bool


def curve(gate: Gate, index: EditIndex) -> tuple[Bin, ...]:
    """The reliability diagram over paraphrases and negative exemplars.

    Paraphrases concern their edit, negative exemplars do not. By cross-validation: the gate decides
    on each of some `_MAX_TEXTS` texts with an index that lacks the texts of its fold. Bins have
    equal widths, and empty ones are left out. No language model is asked.
    """
    edits = sorted(index.edits.values(), key=lambda edit: edit.id)
    outcomes_by_bin: dict[int, list[_Outcome]] = defaultdict(list)
    for fold in range(_FOLDS):
        probes: list[GateProbe] = []
        for edit in edits:
            probes += _probes_in_fold(edit, fold)
        if not probes:
            continue
        edits_without = [_without_fold(edit, fold) for edit in edits]
        without = EditIndex.of(edits_without, index.encoder, index)
        for probe in probes[: _MAX_TEXTS // _FOLDS]:
            decision = gate.decide(probe.query, without)
            probability = probability_of(probe.edit, decision.candidates)
            number = min(int(probability * _BINS), _BINS - 1)
            outcomes_by_bin[number].append(_Outcome(probability, probe.concerns))
    return tuple(_bin(outcomes_by_bin[number]) for number in sorted(outcomes_by_bin))


def _bin(outcomes: Sequence[_Outcome]) -> Bin:
    count = len(outcomes)
    mean = sum(outcome.probability for outcome in outcomes) / count
    share = sum(outcome.concerns for outcome in outcomes) / count
    return Bin(mean, share, count)


def _probes_in_fold(edit: EditVersion, fold: int) -> list[GateProbe]:
    """The paraphrases and negative exemplars of an edit that are held out with a fold."""
    paraphrases = _texts_of_fold(edit, edit.record.paraphrases, fold)
    negatives = _texts_of_fold(edit, edit.record.negatives, fold)
    return [
        *(GateProbe(text, edit.id, True) for text in paraphrases),
        *(GateProbe(text, edit.id, False) for text in negatives),
    ]


def _without_fold(edit: EditVersion, fold: int) -> EditVersion:
    """The edit without the texts that are held out with a fold."""
    record = replace(
        edit.record,
        paraphrases=_texts_outside_fold(edit, edit.record.paraphrases, fold),
        negatives=_texts_outside_fold(edit, edit.record.negatives, fold),
    )
    return replace(edit, record=record)


def _texts_of_fold(edit: EditVersion, texts: Sequence[str], fold: int) -> Sequence[str]:
    """Every `_FOLDS`th text, from another one on in each edit."""
    return texts[(fold - edit.id) % _FOLDS :: _FOLDS]


def _texts_outside_fold(edit: EditVersion, texts: Sequence[str], fold: int) -> tuple[str, ...]:
    """The texts that `_texts_of_fold` leaves."""
    return tuple(text for i, text in enumerate(texts) if (edit.id + i) % _FOLDS != fold)
