"""`drike data`: look at data sets."""

from typing import Annotated

from drike.cli.commands import argument, command
from drike.cli.console import say_lines
from drike.cli.options import VALUES_OF_DATA, AnyParaphrases, ZsreTarget
from drike.research.datasets import description, load


@command(VALUES_OF_DATA)
def inspect(
    sources: Annotated[list[str], argument("DATA", "Several are read as one")],
    *,
    zsre_target: ZsreTarget = "alt",
    paraphrases: AnyParaphrases = None,
) -> None:
    """Print what a data set holds."""
    say_lines(description(load(*sources, target=zsre_target, paraphrases=paraphrases)))
