"""`drike cache`: the answers of served models that are kept on disk."""

from __future__ import annotations

import typer

from drike.cli.console import say
from drike.cli.options import command
from drike.models.served import cache

app = typer.Typer(help="The cache of answers from models behind an API.", no_args_is_help=True)


@command(app, "info")
def info() -> None:
    """Print where answers are kept, and how many."""
    held = cache.contents()
    say(f"{held.answers:,} answers, {held.bytes / 1e6:.1f} MB, in {held.path}")


@command(app, "clear")
def clear() -> None:
    """Delete all answers; the same prompts are then paid for again."""
    cache.clear()
    say(f"Deleted all answers in {cache.answers_path()}")
