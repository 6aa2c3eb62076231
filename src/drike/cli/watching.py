"""Watch long work: a bar for each phase of a run, and what its model used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from drike.cli.console import progress, say
from drike.cli.dry_run import usage_sentence
from drike.evaluation.evaluate import CaseAnswers
from drike.models.protocols import LanguageModel
from drike.runs.evaluating import CaseEvaluated
from drike.runs.folder import add_usage
from drike.runs.run import PhaseStarted
from drike.training.algorithm1 import Episode

Event = TypeVar("Event")
_RECORDS = (Episode, CaseAnswers, CaseEvaluated)  # one step of a phase each


def watch(events: Generator[Event], show: Callable[[Event], str | None], model: LanguageModel) -> Event:
    """Run work to its end, with a bar for each phase; return its last event. show: prints one, or returns figures."""
    with ExitStack() as phase, closing(events):
        for event in events:
            if not isinstance(event, _RECORDS):
                phase.close()
            figures = show(event)
            if isinstance(event, PhaseStarted):
                bar, task = phase.enter_context(progress(event.name, live_usage(model)))
                bar.update(task, total=event.total, completed=event.done)
            elif isinstance(event, _RECORDS):
                bar.update(task, advance=1, status=figures or "")
    return event


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used since it was opened, however the block ends.

    folder: of a run, where the calls made while opening the model are recorded; its parts record all others.
    """
    opened = model.usage
    if folder is not None and opened.requests:
        add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {usage_sentence(model.usage)}")


def live_usage(model: LanguageModel) -> Callable[[], str] | None:
    """The figures that a progress bar shows while a served model works; None for a model on this machine."""
    if not model.info.served:
        return None

    def status() -> str:
        used = model.usage
        cost = "" if used.money is None else f" {used.money:.3f}"
        return f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"

    return status
