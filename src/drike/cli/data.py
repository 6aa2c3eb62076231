"""`drike data inspect`: what a data set holds, before anything is run on it."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import progress, say
from drike.cli.options import METHOD, VALUES_OF_DATA, Command, option, takes_options
from drike.cli.setup import WatchedEncoder
from drike.datasets import load
from drike.datasets.inspect import lines, nearness
from drike.encoders import MINILM

app = typer.Typer(help="Look at data sets.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at data sets."""


@app.command("inspect", cls=Command, epilog=VALUES_OF_DATA)
@takes_options
def inspect(
    sources: Annotated[
        list[str], typer.Argument(help="Data sets; several are read as one", metavar="DATA", hidden=True)
    ],
    encoder: Annotated[
        str, option("NAME", "Encoder for the similarity of neighbours, or none (default: MiniLM)", METHOD)
    ] = MINILM,
    editable: int | None = None,
    k: Annotated[int, option("N", "Nearest records per edit", METHOD, least=1)] = 32,
    zsre_target: str = "alt",
) -> None:
    """Print counts, what was left out and why, how paraphrases were cut, an example, and how near neighbours are."""
    dataset = load(*sources, target=zsre_target)  # type: ignore[arg-type]
    near = None
    if encoder != "none":
        with progress("encoding") as (bar, task):
            near = nearness(
                dataset,
                WatchedEncoder(encoder),
                editable=editable,
                k=k,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    for line in lines(dataset, near):
        say(line)
