"""`drike report`: runs as one page, with the same tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import draw, note, progress, say
from drike.cli.options import DATA, OUTPUT, command, option
from drike.errors import UsageError
from drike.report.comparison import by_model
from drike.report.groups import grouped
from drike.report.reading import read_folders
from drike.support.files import write_text


@command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of evaluated runs", metavar="RUN", hidden=True)],
    out: Annotated[Path | None, option("FILE", "The page, as name.html (default: report.html in the first run)",
                                       OUTPUT)] = None,
    across: Annotated[list[str] | None, option("SETTING", "A setting that the rows differ in: data, epochs, budget, "
                                              "...", DATA)] = None,
) -> None:  # fmt: skip
    """Write runs as one HTML page that needs no network, with their tables as Markdown beside it."""
    page = out or runs[0] / "report.html"
    if page.suffix != ".html":
        raise UsageError(f"--out names the page: let {page} end in .html")
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
