"""Pages: `drike report`, of runs, with the same tables beside it, and `drike tour`, of the embedded model's answers."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from drike.cli.console import draw, note, progress, say
from drike.cli.options import command, page_name
from drike.report.groups import grouped, read_folders
from drike.report.paper import by_model
from drike.support.files import write_text


@command()
def report(runs: list[Path], *, out: Path | None = None, across: list[str] | None = None) -> None:
    """Write runs as one HTML page that needs no network, with their tables as Markdown beside it."""
    page = page_name(out or runs[0] / "report.html")
    reported, notes = read_folders(runs, across or ())
    for sentence in notes:
        note(sentence)
    groups = grouped(reported, across or ())
    from drike.report import document as made
    from drike.report.page import html

    with progress("tables and figures"):
        document = made.document(groups)
    written = {page: html(document), page.with_suffix(".md"): made.markdown(document)}
    for path, text in written.items():
        write_text(path, text)
    for sentence in document.sections[0].text:
        say(sentence)
    if models := by_model(groups):
        draw(models)
    say(f"\nThe report is in {', '.join(map(str, written))}")


@command()
def tour(*, out: Path = Path("drike-tour.html"), no_open: bool = False) -> None:
    """Show what drike does, on one page: answers before and after, how questions find edits, recorded results."""
    from drike import datasets
    from drike.cli.encoding import watched_encoder
    from drike.conversations.tuning import demonstrating
    from drike.deployment.edited_model import EditedModel
    from drike.gates.store_gate import open_gate
    from drike.models import EMBEDDED, load
    from drike.report.tour import TOURED, edits_of, html

    page_name(out)
    cases = edits_of(datasets.load(datasets.TINYFACTS).cases)
    gate = open_gate(None)
    encoder = watched_encoder(gate)
    with progress("asking the embedded model"):
        edited = EditedModel(load(EMBEDDED), demonstrating(), [case.edit for case in cases], gate=gate, encoder=encoder)
        page = html(edited, cases[: len(TOURED)])
    write_text(out, page)
    opened = not no_open and webbrowser.open(out.resolve().as_uri())
    say(f"The tour is in {out}" + ("" if opened else ": open it in a browser"))
