"""`drike` and `python -m drike`: load the command line, and end quietly if that is interrupted.

No module is taken from the working folder, where anybody's files may be, neither here nor by
processes that this one starts; `python -P -m drike` also keeps Python from looking there before
this runs.
"""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]


def main() -> None:
    """Run a command; see `drike.cli.main`. Print the version without loading the command line."""
    os.environ["PYTHONSAFEPATH"] = "1"
    if sys.argv[1:] == ["--version"]:
        from drike.support.extras import version_and_extras

        print(version_and_extras())
        return
    try:
        from drike.support.secrets_in_text import hide_arguments

        hide_arguments()
        from drike.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
