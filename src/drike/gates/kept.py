"""The gate of a store: the one calibrated for it, which is kept beside its file, or `Named`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drike.encoders.base import TextEncoder
from drike.errors import UsageError
from drike.gates.calibrating import Certificate, calibrated, certify, default, load, written
from drike.gates.scope import Calibrated, EditIndex, Named, Scope
from drike.stores.store import POSTGRES, StoredEdit, StoreError

GROWN = 1.2  # a gate is to be calibrated again for a store that has grown by this factor


def gate_path(address: str | Path) -> Path | None:
    """Where the gate of a store is kept; None for a PostgreSQL database, which has no folder."""
    return None if str(address).startswith(POSTGRES) else Path(f"{address}.gate.json")


def open_gate(address: str | Path, name: str | None = None) -> Scope:
    """The gate for a store: the one calibrated for it, else `Named`; or by name: "named", "calibrated", or a file.

    Raises StoreError if its file is damaged, UsageError if there is no such file.
    """
    if name == "calibrated":
        return default()
    path = gate_path(address) if name is None else Path(name)
    if name == "named" or path is None or (name is None and not path.is_file()):
        return Named()
    try:
        return load(path)
    except OSError as problem:
        raise UsageError(
            f"the gate {path} cannot be read ({problem.strerror}): give --gate named, calibrated or another file"
        ) from None


def calibrate(
    edits: Sequence[StoredEdit], encoder: TextEncoder, level: float, confidence: float = 0.95
) -> tuple[Calibrated, Certificate]:
    """A gate calibrated on the probes written with a half of the edits, and certified on those of the other half.

    level: of false fires. The gate has the lowest threshold that is certified, or if none is, that of the default gate.
    Raises StoreError where no edit of the other half has a question that must not fire.
    """
    bare, probes = written(edits)
    index = EditIndex.of(bare, encoder)
    ids = sorted({probe.edit for probe in probes})
    fitted = set(random.Random(0).sample(ids, len(ids) // 2))
    gate = calibrated(default(), [probe for probe in probes if probe.edit in fitted], index)
    held_out = [probe for probe in probes if probe.edit not in fitted]
    if all(probe.concerns for probe in held_out):
        raise StoreError(
            "nothing can be certified, as no question is known on which these edits must not fire: give edits negative "
            "exemplars (drike edits add --never), or several edits to a subject"
        )
    found = certify(gate, held_out, index, level, confidence)
    return gate if found.threshold is None else replace(gate, threshold=found.threshold), found


def outgrown(gate: Scope, edits: int) -> bool:
    """Whether a store has grown so much since its gate was calibrated that it is to be calibrated again."""
    return isinstance(gate, Calibrated) and 0 < gate.edits * GROWN <= edits
