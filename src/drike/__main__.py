"""`drike` and `python -m drike`: loads the command line, and ends quietly where it is stopped while it loads."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; see `drike.cli.main`."""
    try:
        from drike.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
