"""`drike cache`: the answers of served models that are kept on disk."""

from __future__ import annotations

from drike.cli.console import say
from drike.cli.options import command
from drike.models.served import cache


@command()
def info() -> None:
    """Print where answers are kept, and how many."""
    held = cache.contents()
    say(f"{held.answers:,} answers, {held.bytes / 1e6:.1f} MB, in {held.path}")


@command()
def clear() -> None:
    """Delete all answers; the same prompts are then paid for again."""
    cache.clear()
    say(f"Deleted all answers in {cache.answers_path()}")
