"""`drike data inspect`: what a data set holds, before anything is run on it."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import say
from drike.cli.encoding import WatchedEncoder
from drike.cli.options import METHOD, VALUES_OF_DATA, command, flag, option
from drike.datasets import Paraphrases, Target, load
from drike.datasets.inspect import lines, nearness
from drike.encoders import MINILM


@command(VALUES_OF_DATA)
def inspect(
    sources: Annotated[list[str], typer.Argument(help="Several are read as one", metavar="DATA", hidden=True)], *,
    similarity: Annotated[bool, flag("--similarity", "Encode all edits; measure their similarity", METHOD)] = False,
    encoder: Annotated[str | None, option("NAME", "Measure --similarity with this text encoder (default: MiniLM)",
                                          METHOD)] = None,
    k: Annotated[int, option("N", "Nearest records per edit", METHOD, minimum=1)] = 32,
    editable: int | None = None, zsre_target: Target = "alt", paraphrases: Paraphrases | None = None,
) -> None:  # fmt: skip
    """Print counts, what was left out and why, how paraphrases were cut, and an example."""
    name = encoder or (MINILM if similarity else "none")
    dataset = load(*sources, target=zsre_target, paraphrases=paraphrases)
    near = None if name == "none" else nearness(dataset, WatchedEncoder(name), editable=editable, k=k)
    for line in lines(dataset, near):
        say(line)
