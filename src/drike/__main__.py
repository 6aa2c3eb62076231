"""`drike` and `python -m drike`: load the command line, and end quietly if interrupted while it loads."""

from __future__ import annotations

import sys
from importlib.metadata import version


def main() -> None:
    """Run a command; see `drike.cli.main`. Print the version without loading the command line, which takes seconds."""
    if sys.argv[1:] == ["--version"]:
        print(f"drike {version('drike')}")
        return
    try:
        from drike.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
