"""Run the command line in this process."""

from __future__ import annotations

from drike.cli import main

SMALL = ["--model", "reader", "--encoder", "hashing"]  # of a command that is done in seconds


def run(*arguments: str) -> int:
    """Run a command and return its exit code."""
    try:
        main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
