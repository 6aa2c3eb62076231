"""`drike data inspect`: what a data set holds, before anything is run on it."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import say
from drike.cli.options import VALUES_OF_DATA, command
from drike.datasets import Paraphrases, Target, load
from drike.datasets.inspect import lines


@command(VALUES_OF_DATA)
def inspect(
    sources: Annotated[list[str], typer.Argument(help="Several are read as one", metavar="DATA", hidden=True)], *,
    zsre_target: Target = "alt", paraphrases: Paraphrases | None = None,
) -> None:  # fmt: skip
    """Print counts, what was left out and why, how paraphrases were cut, and an example."""
    for line in lines(load(*sources, target=zsre_target, paraphrases=paraphrases)):
        say(line)
