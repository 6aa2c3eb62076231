"""`drike report` and `drike tour`: pages about runs, and about what drike does."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drike.cli.commands import DATA, OUTPUT, argument, command, flag, option, page_name
from drike.cli.console import draw, note, progress, say, say_lines
from drike.errors import UsageError
from drike.models import EMBEDDED, load, local_default
from drike.research.datasets import TINYFACTS
from drike.research.datasets import load as load_data
from drike.support.files import write_text

if TYPE_CHECKING:  # it takes long to import, and help does not need it
    from drike.research.report.tour import CorrectedChat

_CORRECTED = 3  # of the ten facts, so that the page is there within a minute


@command()
def report(
    runs: Annotated[list[Path], argument("RUN", "Folders of evaluated runs")],
    *,
    across: Annotated[
        list[str] | None,
        option(
            "--across",
            "SETTING",
            DATA,
            "A setting that the rows differ in: data, epochs, budget, ...",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            "FILE",
            OUTPUT,
            "The page, as name.html (default: report.html in the first run)",
        ),
    ] = None,
) -> None:
    """Write runs as one HTML page, with their tables as Markdown beside it."""
    from drike.research.report.document import document, markdown
    from drike.research.report.groups import grouped, read_folders
    from drike.research.report.page import html
    from drike.research.report.paper import by_model

    page = page_name(out or runs[0] / "report.html")
    tables = page.with_suffix(".md")
    if tables.exists() and not page.exists():
        raise UsageError(
            f"{tables} would be written, too, and exists: move it, or choose another --out"
        )
    reported, notes = read_folders(runs, across or ())
    for sentence in notes:
        note(sentence)
    groups = grouped(reported, across or ())
    with progress("tables and figures"):
        report_document = document(groups)
    write_text(page, html(report_document))
    write_text(tables, markdown(report_document))

    say_lines(report_document.sections[0].text)
    models = by_model(groups)
    if models:
        draw(models)
    say(f"\nThe report is in {page}, {tables}")


@command()
def tour(
    *,
    out: Annotated[
        Path, option("--out", "FILE", OUTPUT, "The page (default: drike-tour.html)")
    ] = Path("drike-tour.html"),
    no_open: Annotated[bool, flag("--no-open", OUTPUT, "Do not open it in a browser")] = False,
) -> None:
    """Show what drike does, on one page."""
    from drike.live.store_gate import open_gate
    from drike.research.deployment.edited_model import EditedModel
    from drike.research.editors.placements import demonstrating
    from drike.research.report.tour import TOURED, edits_of, html

    corrected = _corrected_chats()

    page_name(out)
    cases = edits_of(load_data(TINYFACTS).cases)
    edits = [case.edit for case in cases]
    gate = open_gate(None)
    with progress("asking the embedded model"):
        edited = EditedModel(load(EMBEDDED), demonstrating(), edits, gate=gate)
        write_text(out, html(edited, cases[: len(TOURED)], corrected))
    is_open = not no_open and webbrowser.open(out.resolve().as_uri())
    say(f"The tour is in {out}" + ("" if is_open else ": open it in a browser"))


def _corrected_chats() -> "list[CorrectedChat]":
    """What a real chat model says before and after it is corrected; nothing if none is here."""
    model = local_default()
    if model == EMBEDDED:
        return []
    from drike.cli.ten_facts_view import answers_about
    from drike.gateway.proving.ten_facts import TEN_FACTS
    from drike.research.report.tour import CorrectedChat

    with progress(f"correcting {model}"):
        answered = answers_about(TEN_FACTS[:_CORRECTED], model)
    chats = []
    for answers in answered:
        fact = answers.fact
        new = fact.record.target_new
        chats += [
            CorrectedChat(model, fact.question, new, answers.before, answers.after),
            CorrectedChat(model, fact.rewording, new, None, answers.reworded),
            CorrectedChat(model, fact.other, None, answers.other_before, answers.other),
        ]
    return chats
