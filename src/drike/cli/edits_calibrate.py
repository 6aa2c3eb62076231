"""`drike edits calibrate`: a gate of a store's own, and what is certified about it."""

from typing import Annotated

from drike.cli.commands import METHOD, command, flag, option
from drike.cli.console import say
from drike.cli.options import FILE, Store
from drike.cli.stored_edits import in_force, store_at
from drike.edits.record import StoreError
from drike.support.table import counted


@command()
def calibrate(
    *,
    store: Store = FILE,
    false_fire: Annotated[
        float,
        option(
            "--false-fire",
            "X",
            METHOD,
            "Largest share of matches among questions that must not match",
            min=1e-06,
            max=0.5,
        ),
    ] = 0.002,
    confidence: Annotated[
        float, option("--confidence", "X", METHOD, "How sure the bound is", min=0.5, max=0.9999)
    ] = 0.95,
    remove: Annotated[
        bool, flag("--remove", METHOD, "Go back to the default gate instead")
    ] = False,
) -> None:
    """Calibrate a gate on paraphrases and negative exemplars."""
    from drike.gates.calibration import default_gate, to_json
    from drike.live import store_gate

    with store_at(store) as opened:
        if remove:
            opened.save_gate("")
            say(f"{opened.name} has the default gate from now on")
            return
        edits = in_force(opened)
        say(store_gate.requirements(edits, false_fire, confidence))
        encoder = store_gate.encoder_of(default_gate())
        assert encoder is not None  # noqa: S101 - this gate has one
        gate, certificate = store_gate.calibrate(edits, encoder, false_fire, confidence)
        say(f"{counted(len(edits), 'edit')} in force: {certificate.sentence}")
        if certificate.threshold is None:
            raise StoreError("no gate was stored: the one in use stays as it was")
        opened.save_gate(to_json(gate))
        say(f"{opened.name} has this gate from now on, with threshold {certificate.threshold:.3f}")
