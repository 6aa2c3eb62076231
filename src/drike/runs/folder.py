"""The files of a run's folder: its settings, data and versions, and its episodes and outcomes as they come.

    run.json                command, options, settings, seed, versions, data (source, sha256), model
    split.json              the case ids of every part
    episodes.jsonl          training: a line for each episode
    answers.jsonl           training with --objective s: a line for each edit with the answers to its probes alone and
                            under each mix
    checkpoint.safetensors  the trained policy, rewritten after every epoch
    outcomes/EDITOR.jsonl   evaluation: a line for each probe
    both_ways/EDITOR.jsonl  the same for a sample, judged by scores and by text
    prompts/EDITOR.jsonl    the prompts of that sample: a line for each case
    deployed/EDITOR.jsonl   outcomes with many edits in force, and gate.jsonl: a line for each decision of the gate
    own_answers.json        the unedited model's answers to questions without a published one; training_answers.json:
                            to those that a policy is trained on
    table.md, summary.json  the tables of an evaluation
    usage.json              the model's work in each part of the run: calls, tokens, cached, seconds, money; without
                            that of killed processes
    evaluations/NAME        of a training run: folders of its evaluations, with files as above

Lines are appended and synced case by case, so that finished work is never lost.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drike.errors import RunError
from drike.evaluation.metrics import Outcome
from drike.models.protocols import LanguageModel, Usage
from drike.support.files import named_in_errors, write_bytes, write_text
from drike.support.records import Record, parse, read
from drike.training.algorithm1 import EpisodeRecord

ANSWERS, BOTH_WAYS, PROMPTS = "answers.jsonl", "both_ways", "prompts"
TRAINING_ANSWERS = "training_answers.json"
OUTCOMES, DEPLOYED, GATE = "outcomes", "deployed", "gate.jsonl"
EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class _UsageRecord(Usage):
    tokens_shared: object = None  # type: ignore[assignment]  # follows from the others


def write_record(folder: Path, name: str, record: Mapping[str, object]) -> None:
    """Write a JSON file of a run."""
    write_text(folder / name, json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n")


def _lines(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def write_lines(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Write a file of JSON lines, at once or not at all."""
    write_text(path, _lines(records))


def append(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Append JSON lines and sync them to disk. Raises RunError for a symbolic link, OSError."""
    _refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named_in_errors(path), path.open("a", encoding="utf-8") as stream:
        stream.write(_lines(records))
        stream.flush()
        os.fsync(stream.fileno())


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise RunError(f"{path} is a symbolic link, and what it links to is no part of the run: replace it by the file")


def slug(name: str) -> str:
    """A name as a file's: lower case, and a dash for whatever is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def outcomes_path(folder: Path, editor: str, part: str = OUTCOMES) -> Path:
    """Where an editor's outcomes are kept, in a part of the run: OUTCOMES, DEPLOYED, BOTH_WAYS; or its PROMPTS."""
    return folder / part / f"{slug(editor)}.jsonl"


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes of an editor, as `read_lines` reads them."""
    return read_lines(path, Outcome, "delete the file and evaluate again")


@dataclass(frozen=True)
class CasePrompts:
    """An editor's prompts of a case: its blocks (role, text), each once, and by query the positions of its own."""

    case_id: str
    blocks: tuple[tuple[str, str], ...]
    prompts: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        """Refuse positions without a block. Raises ValueError."""
        if any(not 0 <= i < len(self.blocks) for of_query in self.prompts.values() for i in of_query):
            raise ValueError("prompts name blocks that are not there")


def read_usage(folder: Path) -> dict[str, Usage]:
    """The model's work in each part of a run; {} if it was not recorded. Raises RunError."""
    parts = read_json(folder / "usage.json", Mapping[str, _UsageRecord], "remove it, and limits count from there")
    names = [field.name for field in fields(Usage)]
    return {part: Usage(**{name: getattr(used, name) for name in names}) for part, used in (parts or {}).items()}


def total_usage(folder: Path) -> Usage:
    """The model's work in all parts of a run; nothing if its folder does not say. Raises RunError."""
    return sum(read_usage(folder).values(), Usage())


def add_usage(folder: Path, part: str, used: Usage, known: Mapping[str, Usage] | None = None) -> None:
    """Add to a part's recorded work. known: `read_usage` from before, so that no reading fails now. Raises RunError."""
    known = read_usage(folder) if known is None else known
    parts = {**known, part: known.get(part, Usage()) + used}
    record = {name: asdict(usage) | {"tokens_shared": usage.tokens_shared} for name, usage in parts.items()}
    write_record(folder, "usage.json", record)


@contextmanager
def usage_recorded(folder: Path, part: str, model: LanguageModel) -> Iterator[None]:
    """Record the model's work within the block as that of a part of the run, however the block ends."""
    before, known = model.usage, read_usage(folder)
    try:
        yield
    finally:
        add_usage(folder, part, model.usage - before, known)


def has_records(folder: Path) -> bool:
    """Whether a folder has episodes or results of a run, even where its run.json is gone."""
    return any(any(folder.glob(record)) for record in ("episodes.jsonl", ANSWERS, "outcomes/*.jsonl", "summary.json"))


def has_begun(folder: Path) -> bool:
    """Whether a run is in the folder that recorded anything."""
    return (folder / "run.json").exists() and has_records(folder)


def read_episodes(path: Path) -> list[EpisodeRecord]:
    """The episodes of a training, as `read_lines` reads them."""
    return read_lines(path, EpisodeRecord, "train again")


def read_lines(path: Path, kind: type[Record], remedy: str) -> list[Record]:
    """The JSON lines of a file, without a last one that a crash cut off; [] for no file. Raises RunError, OSError."""
    records: list[Record] = []
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for number, line in enumerate(lines, 1):
        try:
            records.append(read(kind, parse(line)))
        except ValueError as problem:
            name = kind.__name__.removesuffix("Record").casefold()
            raise RunError(f"{path}, line {number} is not an {name} of this version ({problem}): {remedy}") from problem
    return records


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """A JSON file of a run; None if there is none. Raises RunError for one that is not of the kind, OSError."""
    try:
        return read(kind, parse(path.read_bytes())) if path.exists() else None
    except ValueError as problem:
        raise RunError(f"{path} is damaged or of another version ({problem}): {remedy}") from problem


def keep_lines(path: Path, count: int) -> None:
    """Cut a file of JSON lines to its first `count`, at once or not at all. Raises RunError for a link, OSError."""
    _refuse_link(path)
    if path.exists():
        write_bytes(path, b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, if the system has such locks. Raises RunError if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process works at {folder}: let it end, or stop it first") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
