"""Show and sum what models behind an API cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from drike.cli.console import say
from drike.models.protocols import LanguageModel, Usage
from drike.runs.folder import add_usage, read_usage


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used since it was opened, however the block ends.

    The calls that opening it took are recorded in the run's folder here, all others by the part that makes them.
    """
    opened = model.usage
    if folder is not None and opened.requests:
        add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {sentence(model.usage)}")


def used_in(folder: Path) -> Usage:
    """Sum the usage of all parts of a run; nothing if its folder does not say. Raises RunError."""
    return sum(read_usage(folder).values(), Usage())


def sentence(used: Usage) -> str:
    """Describe calls, tokens and money in a sentence."""
    parts = [
        f"{used.calls:,} calls in {used.requests:,} requests, {used.cached:,} answers from the cache",
        f"{used.prompt_tokens:,} prompt tokens, {used.completion_tokens:,} generated",
        *([f"{used.tokens_shared:,} prompt tokens from the server's own cache"] if used.tokens_shared else []),
        *([f"token counts of {used.estimated:,} calls estimated"] if used.estimated else []),
        *([] if used.money is None else [f"cost {used.money:.4f}"]),
    ]
    return "; ".join(parts)


def live(model: LanguageModel) -> Callable[[], str] | None:
    """What the progress bar shows while a served model works."""
    if not model.info.served:
        return None

    def status() -> str:
        used = model.usage
        cost = "" if used.money is None else f" {used.money:.3f}"
        return f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"

    return status
