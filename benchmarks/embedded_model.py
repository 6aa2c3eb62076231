"""Check the embedded model: what it knows, and how its answers depend on the demonstrations in the prompt.

The rows with a requirement are those that `python -m tools.tinyfacts check` enforces when the model is built. The rows
from "own facts: yes_no" on are about the further questions of `--probes all`: generated probes of edits turned round,
so that the old object is right, and TinyFacts' own questions, asked of the unedited model and all editable rows.

    python benchmarks/embedded_model.py [--model embedded]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from lib import pages

TITLE = "Checks of the embedded model"


def main() -> None:
    """Read the options, and write the page where asked to."""
    parser = pages.parser(__doc__)
    parser.add_argument("--model", default="embedded", help="model to check, or a folder that build wrote")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print what the tool prints."""
    command = [sys.executable, "-m", "tools.tinyfacts", "check", "--model", options.model]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=False)
    print(f"```\n{done.stdout.strip()}\n```")


if __name__ == "__main__":
    main()
