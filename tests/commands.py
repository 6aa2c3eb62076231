"""The command line in this process."""

from __future__ import annotations

from drike.cli import main


def run(*arguments: str) -> int:
    """The exit code of a command."""
    try:
        main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
