"""The model's work in each part of a run, in usage.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.models.protocols import LanguageModel, Usage
from drike.research.runs.files import USAGE, read_json, write_record


@dataclass(frozen=True)
class _UsageRecord(Usage):
    # It follows from the other numbers, and is written for people.
    tokens_shared: object = None  # type: ignore[assignment]


def read_usage(folder: Path) -> dict[str, Usage]:
    """The model's work in each part of a run; {} if it was not recorded. Raises RunError."""
    records: Mapping[str, _UsageRecord] | None = read_json(
        folder / USAGE, Mapping[str, _UsageRecord], "remove it, and limits count from there"
    )
    if records is None:
        return {}
    return {part: Usage() + record for part, record in records.items()}


def total_usage(folder: Path) -> Usage:
    """The model's work in all parts of a run; nothing if its folder does not say.

    Raises RunError.
    """
    return sum(read_usage(folder).values(), Usage())


def add_usage(
    folder: Path, part: str, used: Usage, recorded: Mapping[str, Usage] | None = None
) -> None:
    """Add to a part's recorded work. Raises RunError.

    recorded: `read_usage` from before, so that no reading fails now.
    """
    if recorded is None:
        recorded = read_usage(folder)
    usage_by_part = {**recorded, part: recorded.get(part, Usage()) + used}
    record = {}
    for name, usage in usage_by_part.items():
        record[name] = asdict(usage) | {"tokens_shared": usage.tokens_shared}
    write_record(folder, USAGE, record)


@contextmanager
def usage_recorded(folder: Path, part: str, model: LanguageModel) -> Iterator[None]:
    """Record the model's work within the block as that of a part, however the block ends."""
    before = model.usage
    recorded = read_usage(folder)
    try:
        yield
    finally:
        add_usage(folder, part, model.usage - before, recorded)
