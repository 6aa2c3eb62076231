"""`drike tour`: a page that shows what drike does, made on the spot by the embedded model."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from drike.cli.console import progress, say
from drike.cli.encoding import watched_encoder
from drike.cli.options import OUTPUT, command, flag, option
from drike.errors import UsageError
from drike.support.files import write_text


@command()
def tour(
    *, out: Annotated[Path, option("FILE", "The page (default: drike-tour.html)", OUTPUT)] = Path("drike-tour.html"),
    no_open: Annotated[bool, flag("--no-open", "Do not open it in a browser", OUTPUT)] = False,
) -> None:  # fmt: skip
    """Show what drike does, on one page: answers before and after, how questions find edits, recorded results."""
    from drike import datasets
    from drike.conversations.placements import demonstrating
    from drike.deployment.edited_model import EditedModel
    from drike.gates.store_gate import open_gate
    from drike.models import EMBEDDED, load
    from drike.report.tour import TOURED, edits_of, html, stops

    if out.suffix != ".html":
        raise UsageError(f"--out names the page: let {out} end in .html")
    cases = edits_of(datasets.load(datasets.TINYFACTS).cases)
    gate = open_gate(None)
    encoder = watched_encoder(gate)
    with progress("asking the embedded model"):
        edited = EditedModel(load(EMBEDDED), demonstrating(), [case.edit for case in cases], gate=gate, encoder=encoder)
        page = html(cases[: len(TOURED)], stops(edited), len(edited.index.edits))
    write_text(out, page)
    opened = not no_open and webbrowser.open(out.resolve().as_uri())
    say(f"The tour is in {out}" + ("" if opened else ": open it in a browser"))
