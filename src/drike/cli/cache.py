"""`drike cache`: what is kept of the answers that were paid for, and forgetting it."""

from __future__ import annotations

import typer

from drike.cli.console import say
from drike.cli.options import Command
from drike.models.served import store

app = typer.Typer(help="Answers of models behind an API that are kept on disk.", no_args_is_help=True)


@app.command("info", cls=Command)
def info() -> None:
    """Say where answers are kept, and how many."""
    held = store.contents()
    say(f"{held.answers:,} answers, {held.bytes / 1e6:.1f} MB, in {held.path}")


@app.command("clear", cls=Command)
def clear() -> None:
    """Forget all answers; what is asked again is paid again."""
    store.clear()
    say(f"No answers are left in {store.answers_path()}")
