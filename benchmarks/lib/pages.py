"""A benchmark's page in benchmarks/notes/: its findings, what it measures, then a section of tables for each command.

`--write` measures and replaces the section of this command; the other sections stay, and so do the findings and the
notes written by hand, each beyond its marker. So a page of an earlier version and one of today differ only where
figures do.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from drike.support.files import write_text
from drike.support.table import Cell, Table, as_markdown

NOTES = Path(__file__).parents[1] / "notes"
FINDINGS = "<!-- Findings by hand: `--write` keeps what stands above this line. -->"
MARKER = "<!-- Notes by hand: `--write` keeps what stands below this line. -->"
WIDTH = 120
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT")  # variables that change figures


@dataclass(frozen=True)
class Page:
    """A page as text: its head, the body of each section by its command, notes, and the findings below the title."""

    head: str
    sections: dict[str, str] = field(default_factory=dict)
    notes: str = ""
    findings: str = ""

    @classmethod
    def parse(cls, text: str) -> Page:
        """Read what `str` wrote."""
        findings = ""
        if f"\n{FINDINGS}\n" in text:
            above, _, text = text.partition(f"\n{FINDINGS}\n")
            title, _, findings = above.partition("\n")
            text = f"{title}\n{text}"
        measured, _, notes = text.partition(f"\n{MARKER}\n")
        head, *sections = re.split(r"^## `(.*)`\n", measured, flags=re.MULTILINE)
        bodies = dict(zip(sections[::2], map(str.strip, sections[1::2]), strict=True))
        return cls(head.strip(), bodies, notes.strip(), findings.strip())

    def __str__(self) -> str:
        title, _, described = self.head.partition("\n\n")
        head = [title, self.findings, FINDINGS, described] if self.findings else [self.head]
        measured = [
            *head,
            *(f"## `{command}`\n\n{body}" for command, body in self.sections.items()),
        ]
        return "\n\n".join([*measured, MARKER, *filter(None, [self.notes])]) + "\n"


def head(title: str, doc: str) -> str:
    """The top of a page: its title, and a benchmark's docstring without the commands."""
    paragraphs = [
        part
        for part in re.split(r"\n\n+", doc.strip())
        if not re.search(r"python benchmarks/", part)
    ]
    return "\n\n".join([f"# {title}", *paragraphs])


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the option for where embeddings are kept, so that a second run is quick."""
    kept = Path(tempfile.gettempdir()) / "drike-scope"
    parser.add_argument("--cache", type=Path, default=kept, help="of embeddings")


def parser(doc: str) -> argparse.ArgumentParser:
    """A parser with the options of `measured`, to which a benchmark adds its own."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--write",
        action="store_true",
        help=f"also write the page in {NOTES.parent.name}/{NOTES.name}/",
    )
    made.add_argument(
        "--out", type=Path, metavar="FILE", help="write the page to this file instead"
    )
    return made


@contextmanager
def measured(options: argparse.Namespace, title: str, doc: str) -> Iterator[None]:
    """Take what is printed as the tables of this command; with --write or --out, put them on the benchmark's page."""
    script = Path(sys.argv[0])
    target = options.out or (NOTES / f"{script.stem}.md" if options.write else None)
    if target is None:
        yield
        return
    printed = _Tee(sys.stdout)
    with redirect_stdout(printed):
        yield
    page = Page.parse(target.read_text("utf-8")) if target.exists() else Page("")
    section = {command_of(script, sys.argv[1:]): section_of(printed.getvalue())}
    written = replace(page, head=head(title, doc), sections=page.sections | section)
    write_text(target, str(written))
    print(f"wrote {target.name}", file=sys.stderr)


def section_of(printed: str, date: str = "", machine: str = "") -> str:
    """The body of a section: when and where it was measured, and what was printed, in lines of 120 characters."""
    date = date or f"{datetime.now(UTC):%Y-%m-%d}"
    parts = re.split(r"(^```.*?^```$)", printed.strip(), flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(parts), 2):  # what stands between blocks of code
        lines = (
            line if line.startswith("|") else textwrap.fill(line, WIDTH)
            for line in parts[i].splitlines()
        )
        parts[i] = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    tables = "\n".join(filter(None, parts))
    return f"Measured on {date}, on {machine or f'{os.cpu_count()} CPU cores'}.\n\n{tables}"


def command_of(script: Path, arguments: Sequence[str]) -> str:
    """The command that repeats a section, without the options of this module and without folders of this machine."""
    kept, skip = [], False
    for argument in arguments:
        if skip or argument == "--write" or argument.startswith("--out="):
            skip = False
        elif argument == "--out":
            skip = True
        else:
            kept.append(
                Path(argument).name
                if argument.startswith(("/", ".")) and len(argument) > 1
                else argument
            )
    threads = [f"{name}={value}" for name in THREADS if (value := os.environ.get(name))]
    return " ".join([*threads, shlex.join(["python", f"benchmarks/{script.name}", *kept])])


def draw(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *notes: str,
    wide: bool = False,
) -> None:
    """Print a table as Markdown."""
    print(
        as_markdown(Table(title, tuple(header), tuple(map(tuple, rows)), notes, wide)), flush=True
    )


class _Tee(io.StringIO):
    """Keeps what is printed, and shows it as well."""

    def __init__(self, shown: object) -> None:
        super().__init__()
        self._shown = shown

    def write(self, text: str) -> int:
        """Keep and show."""
        print(text, end="", file=self._shown, flush=True)  # type: ignore[call-overload]
        return super().write(text)
