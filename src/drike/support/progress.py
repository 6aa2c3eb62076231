"""Progress of what takes long below the command line, which shows it; a library shows nothing.

An encoder counts many texts, and a model's file is converted in steps.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


def show(texts: int) -> AbstractContextManager[Callable[[int], None]]:
    """What takes the number of texts, of `texts`, that are done.

    `drike` puts its bar in place of this function, for all threads.
    """
    return nullcontext(_ignore)


def tell(sentence: str) -> None:
    """Say what is being done. `drike` puts its own way to say it in place of this function."""


def _ignore(done: int) -> None:
    """Show nothing."""
