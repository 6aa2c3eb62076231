"""Where encoders count many texts: the command line shows a bar, a library nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


def show(texts: int) -> AbstractContextManager[Callable[[int], None]]:
    """What takes the number of texts that are done. `drike` puts its bar in place of this, for all threads."""
    return nullcontext(lambda done: None)
