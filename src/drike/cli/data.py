"""`drike data inspect`: what a data set holds, before anything is run on it."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import console, progress
from drike.cli.setup import ZsreTarget, open_data, open_encoder
from drike.datasets.inspect import inspect as look
from drike.datasets.inspect import lines
from drike.encoders import MINILM

app = typer.Typer(help="Look at data sets.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at data sets."""


@app.command("inspect")
def inspect(
    sources: Annotated[
        list[str], typer.Argument(help="tinyfacts, files, addresses or public names; several are read as one data set")
    ],
    encoder: Annotated[
        str, typer.Option("--encoder", help="Encoder for the similarity of neighbours; none to leave it out")
    ] = MINILM,
    editable: Annotated[int | None, typer.Option("--editable", help="First rows that are edited")] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Nearest records per edit")] = 32,
    zsre_target: ZsreTarget = "alt",
) -> None:
    """Print counts, what was left out and why, how paraphrases were cut, an example, and how near neighbours are."""
    dataset = open_data(sources, zsre_target)
    with progress("encoding") as (bar, task):
        seen = look(
            dataset,
            None if encoder == "none" else open_encoder(encoder),
            editable=editable,
            k=k,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    for line in lines(seen):
        console.print(line, markup=False, soft_wrap=True)
