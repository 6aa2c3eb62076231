"""`drike report`: runs as one page, with the same tables for a paper; `drike case`: one edit, side by side and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel
from rich.text import Text

from drike.cli.console import console, draw, note, progress, say
from drike.cli.opening import open_model, open_setup
from drike.cli.options import DATA, OUTPUT, ModelOptions, RunOptions, command, option
from drike.editors.catalog import TRAINED, make
from drike.editors.in_context import ranks_retains
from drike.errors import UsageError
from drike.evaluation.case_study import CaseStudy, study_case
from drike.models.served.spending import ApiOptions
from drike.report.comparison import by_model
from drike.report.groups import grouped
from drike.report.reading import read_folders, trained_run
from drike.runs import checkpoint
from drike.runs.run import Run
from drike.support.files import write_text

_SHOWING = ("ike", *TRAINED)


@command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of evaluated runs", metavar="RUN", hidden=True)],
    out: Annotated[Path | None, option("FILE", "The page, as name.html (default: report.html in the first run)",
                                       OUTPUT)] = None,
    across: Annotated[list[str] | None, option("SETTING", "A setting that the rows differ in: data, epochs, budget, "
                                              "...", DATA)] = None,
    case: Annotated[list[str] | None, option("ID", "Add a case study of this edit (asks the first run's model)",
                                            DATA)] = None,
    device: str | None = None,
) -> None:  # fmt: skip
    """Write runs as one HTML page that needs no network, with their tables as Markdown and LaTeX beside it."""
    page = out or runs[0] / "report.html"
    if page.suffix != ".html":
        raise UsageError(f"--out names the page: let {page} end in .html")
    reported = read_folders(runs, across or ())
    if not reported.runs:
        raise UsageError(f"{runs[0]} holds ceilings and no outcomes: name an evaluated run before it")
    for sentence in reported.notes:
        note(sentence)
    groups = grouped(reported.runs, across or ())
    from drike.report import document as made
    from drike.report.page import html

    with progress("tables and figures"):
        document = made.document(groups, across or (), reported.ceilings)
    studies = _studies(runs[0], case, device, ("ike", "dr-ike")) if case else []
    written = {page: html(document, studies), page.with_suffix(".md"): made.markdown(document)}
    written[page.with_suffix(".tex")] = made.latex(document)
    for path, text in written.items():
        write_text(path, text)
    for sentence in document.sections[0].text:
        say(sentence)
    if models := by_model(groups):
        draw(models)
    say(f"\nThe report is in {', '.join(map(str, written))}")


@command()
def case(
    *, run: Annotated[Path, option("RUN", "Folder of a training run, or of an evaluation of one", DATA)],
    case: Annotated[str, option("ID", "Case id of an edit; the report lists those of test edits", DATA)],
    editors: str = "ike,dr-ike", show_prompt: bool = False, device: str | None = None,
) -> None:  # fmt: skip
    """Show one edit under IKE and DR-IKE: prompts, answers, and what every retain does to them."""
    names = [name.strip().casefold() for name in editors.split(",")]
    [shown] = _studies(run, [case], device, names)
    say(shown.title, style="bold")
    draw(*shown.tables())
    if show_prompt:
        width = max(40, console.width // len(shown.columns) - 2) if console.width >= 100 else console.width
        panels = [Panel(Text(column.prompt.text), title=Text(column.editor), width=width) for column in shown.columns]
        console.print(Columns(panels, padding=(0, 1)))


def _studies(run: Path, cases: Sequence[str], device: str | None, names: Sequence[str]) -> list[CaseStudy]:
    """Case studies with a run's data, split, model and trained editors. Raises UsageError for what it does not have."""
    if unknown := next((name for name in names if name not in _SHOWING), None):
        raise UsageError(f"{unknown!r} shows no retains: choose from {', '.join(_SHOWING)}")
    past, trained = Run.open(run), trained_run(run)
    if trained is None:
        raise UsageError(f"{run} has no trained retriever, nor is the run it evaluated there: give a training run")
    past.check_encoders()
    learned, split = checkpoint.load(trained), past.split()
    setup = open_setup(
        past.data, encoder=past.encoder, seed=past.seed, split=split, target=past.zsre_target,
        paraphrases=past.paraphrases, pool=past.pool,
    )  # fmt: skip
    known = {case.case_id: case for case in setup.dataset.cases}
    if unknown := next((case_id for case_id in cases if case_id not in split.editable), None):
        some = ", ".join(split.test[:5])
        raise UsageError(f"{unknown!r} is no editable case of {split.title}: try one of its test edits, {some}")
    opened = open_model(ModelOptions(device=device), ApiOptions(), past, at=RunOptions())
    made = [make(name, pool=setup.pool, model=opened.model, trained=learned, limit=opened.limit) for name in names]
    chosen = [editor for editor in made if ranks_retains(editor)]
    with progress("asking"):
        return [study_case(opened.model, known[case_id], chosen) for case_id in cases]
