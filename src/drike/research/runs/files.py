"""The files of a run's folder: their names, and how records are written, read and cut."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drike.errors import RunError
from drike.research.evaluation.metrics import Outcome
from drike.support.files import named_in_errors, write_bytes, write_text
from drike.support.records import Record, parse, read

# Files of all runs.
RUN = "run.json"
SPLIT = "split.json"
USAGE = "usage.json"

# Files of a training.
EPISODES = "episodes.jsonl"
ANSWERS = "answers.jsonl"
TRAINING_UNEDITED = "training_unedited.jsonl"  # the unedited model's, about neighbours
TRAINING_ANSWERS = "training_answers.json"  # of the unedited model, to the training questions

# Files and folders of an evaluation.
SUMMARY = "summary.json"
UNEDITED = "unedited.jsonl"  # the unedited model's answers about neighbours
OWN_ANSWERS = "own_answers.json"  # of the unedited model, to the questions of the test edits
OUTCOMES = "outcomes"
DEPLOYED = "deployed"  # outcomes with many edits in force
BOTH_WAYS = "both_ways"  # outcomes of a sample, judged by scores and by text
PROMPTS = "prompts"  # of the sample
GATE = "gate.jsonl"

EVALUATIONS = "evaluations"  # folders of evaluations within that of the training


@dataclass(frozen=True)
class CasePrompts:
    """An editor's prompts of a case.

    blocks: (role, text), each once. prompts: by query the positions of its blocks, in order.
    Raises ValueError for a position without a block.
    """

    case_id: str
    blocks: tuple[tuple[str, str], ...]
    prompts: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        count = len(self.blocks)
        for positions in self.prompts.values():
            if any(not 0 <= position < count for position in positions):
                raise ValueError("prompts name blocks that are not there")


def outcomes_path(folder: Path, editor: str, part: str = OUTCOMES) -> Path:
    """Where a part of the run keeps an editor's records.

    part: OUTCOMES, DEPLOYED, BOTH_WAYS or PROMPTS.
    """
    return folder / part / f"{slug(editor)}.jsonl"


def slug(name: str) -> str:
    """A name as a file's: lower case, and a dash for whatever is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes of an editor, as `read_lines` reads them."""
    return read_lines(path, Outcome, "delete the file and evaluate again")


def write_record(folder: Path, name: str, record: Mapping[str, object]) -> None:
    """Write a JSON file of a run."""
    text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
    write_text(folder / name, text + "\n")


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """A JSON file of a run; None if there is none.

    Raises RunError with the remedy for one that is not of the kind, OSError.
    """
    if not path.exists():
        return None
    try:
        return read(kind, parse(path.read_bytes()))
    except ValueError as problem:
        raise RunError(
            f"{path} is damaged or of another version ({problem}): {remedy}"
        ) from problem


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


def _lines(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise RunError(
            f"{path} is a symbolic link, and what it links to is no part of the run: "
            "replace it by the file"
        )


def read_lines(path: Path, kind: type[Record], remedy: str) -> list[Record]:
    """The JSON lines of a file; [] if there is none. Raises RunError with the remedy, OSError.

    A last line without its end is left out, as a crash has cut it off.
    """
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(read(kind, parse(line)))
        except ValueError as problem:
            name = kind.__name__.removesuffix("Record").casefold()
            raise RunError(
                f"{path}, line {number} is not an {name} of this version ({problem}): {remedy}"
            ) from problem
    return records


def keep_lines(path: Path, count: int) -> None:
    """Cut a file of JSON lines to its first `count`, at once or not at all.

    Raises RunError for a symbolic link, OSError.
    """
    _refuse_link(path)
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        write_bytes(path, b"".join(lines[:count]))
