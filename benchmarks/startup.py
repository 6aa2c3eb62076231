"""How long commands take that need no model: CPU seconds of a process of their own.

The commands take turns, and the median of each is given, so that other work on the machine strikes all alike. The last
column is in units of a process that only imports torch, measured in the same turns.

    python benchmarks/startup.py [--turns 9]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

from lib import pages

TITLE = "Starting the command line"

FACT = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
COMMANDS = {
    "drike --help": ("--help",),
    "drike --version": ("--version",),
    "drike edits add": ("edits", "add", *FACT, "--supersede"),
    "drike edits list": ("edits", "list"),
    "drike edits show": ("edits", "show", "1"),
    "drike data inspect": ("data", "inspect", "tinyfacts"),
    "drike train --help": ("train", "--help"),
}


def main() -> None:
    """Print the table."""
    parser = pages.parser(__doc__)
    parser.add_argument("--turns", type=int, default=9, help="how often each command runs")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the CPU seconds of each command."""
    processes = {name: ("-P", "-m", "drike", *arguments) for name, arguments in COMMANDS.items()}
    processes |= {"import torch": ("-c", "import torch")}
    seconds: dict[str, list[float]] = {name: [] for name in processes}
    with tempfile.TemporaryDirectory() as folder:
        cpu_seconds(processes["drike edits add"], folder)  # makes the store, and compiled modules
        for _ in range(options.turns):
            for name, arguments in processes.items():
                seconds[name].append(cpu_seconds(arguments, folder))
    torch = median(seconds["import torch"])
    rows = [(name, f"{median(of):.2f}", f"{median(of) / torch:.2f}") for name, of in seconds.items()]
    pages.draw("CPU seconds of a process", ("process", "seconds", "of torch's"), rows)


def cpu_seconds(arguments: tuple[str, ...], folder: str) -> float:
    """User and system time of Python with these arguments, in a folder."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=False)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    main()
