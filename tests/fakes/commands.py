"""Run the command line in this process."""

from __future__ import annotations

from typing import Any

from drike.cli import app, main

SMALL = ["--model", "reader", "--encoder", "hashing"]  # of a command that is done in seconds


def run(*arguments: str) -> int:
    """Run a command and return its exit code."""
    try:
        main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def commands(group: Any = app, name: str = "drike") -> dict[str, Any]:
    """Every command of a group by its name, imported, those in groups too."""
    by_name = {name: group}
    for inner, command in group.commands.items():
        full = f"{name} {inner}"
        if hasattr(command, "commands"):
            by_name |= commands(command, full)
        else:
            by_name[full] = command.load()
    return by_name
