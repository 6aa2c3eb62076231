"""The files of a run's folder: its settings, data and versions, and its episodes and outcomes as they come.

    run.json             command, options, settings, seed, versions, data (source, sha256), model
    split.json           the case ids of every part
    episodes.jsonl       training, one line an episode
    checkpoint.safetensors  the trained policy, rewritten after every epoch
    outcomes/EDITOR.jsonl  evaluation, one line a probe
    table.md, summary.json  the tables of an evaluation
    usage.json           the model's work in each part of the run: calls, tokens, cached, seconds, money; without that
                         of processes that were killed

Lines are appended and synced case by case, so that finished work is never lost.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

from drike.edits import Aspect
from drike.errors import RunError
from drike.files import write_bytes, write_text
from drike.metrics import Outcome
from drike.models.protocols import Usage
from drike.retrieval.budget import Fraction
from drike.training.reinforce import Episode
from drike.training.rewards import Earned, RecordedRollout

_PACKAGES = ("drike", "torch", "transformers", "openai", "sentence-transformers", "safetensors", "numpy", "ray")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def write_record(folder: Path, name: str, record: Mapping[str, object]) -> None:
    """Write a JSON file of a run."""
    write_text(folder / name, json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n")


def append(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Append JSON lines and sync them to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        stream.flush()
        os.fsync(stream.fileno())


def slug(name: str) -> str:
    """A name as a file's: lower case, and a dash for whatever is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def outcomes_path(folder: Path, editor: str) -> Path:
    """Where an editor's outcomes are kept."""
    return folder / "outcomes" / f"{slug(editor)}.jsonl"


def saved(folder: Path, editor: str, outcomes: Iterable[Outcome]) -> Iterator[tuple[Outcome, ...]]:
    """Pass outcomes on case by case, each case saved before it is passed."""
    path = outcomes_path(folder, editor)
    for _, of_case in groupby(outcomes, key=lambda outcome: outcome.case_id):
        case = tuple(of_case)
        append(path, (asdict(outcome) for outcome in case))
        yield case


def read_outcomes(path: Path) -> list[Outcome]:
    """Outcomes of a file that `saved` wrote, without a last line that a crash cut off.

    Raises RunError for a line that is not an outcome.
    """
    names = {field.name for field in fields(Outcome)}
    outcomes: list[Outcome] = []
    for number, record in whole_lines(path):
        if record.keys() != names or record["aspect"] not in tuple(Aspect):
            raise RunError(
                f"{path}, line {number} is not an outcome of this version: delete the file and evaluate again"
            )
        outcomes.append(Outcome(**{**record, "aspect": Aspect(record["aspect"])}))
    return outcomes


def read_usage(folder: Path) -> dict[str, Usage]:
    """Read the model's work in each part of a run; {} if it was not recorded. Raises RunError."""
    path = folder / "usage.json"
    names = [one.name for one in fields(Usage)]
    try:
        parts = json.loads(path.read_text("utf-8")) if path.exists() else {}
        numbers = [(name, used[name]) for used in parts.values() for name in names]
        if not all(type(value) in (int, float) or (name, value) == ("money", None) for name, value in numbers):
            raise ValueError("not numbers")
        return {part: Usage(**{name: used[name] for name in names}) for part, used in parts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RunError(f"{path} is damaged or of another version: remove it, and limits count from there") from problem


def add_usage(folder: Path, part: str, used: Usage) -> None:
    """Record the model's work in a part of a run, added to that before the run was stopped."""
    known = read_usage(folder)
    known[part] = known.get(part, Usage()) + used
    parts = {name: asdict(one) | {"tokens_shared": one.tokens_shared} for name, one in known.items()}
    write_record(folder, "usage.json", parts)


def has_begun(folder: Path) -> bool:
    """Whether a run is in the folder that recorded anything."""
    records = ("episodes.jsonl", "outcomes/*.jsonl", "summary.json")
    return (folder / "run.json").exists() and any(any(folder.glob(record)) for record in records)


def answered(path: Path) -> list[RecordedRollout]:
    """Read the recorded rollouts of a file of `episode_record`s, without a last line that a crash cut off.

    Raises RunError for a line that is not an episode.
    """
    found = []
    for number, record in whole_lines(path):
        try:
            order, correct = record["order"], record["correct"]
            rewards = [float(reward) for reward in record["rewards"]]
            usable = rewards and all(map(math.isfinite, rewards)) and sorted(order) == list(range(len(order)))
            if not usable or len(correct) != len(rewards) or not {*correct} <= {True, False}:
                raise ValueError("unusable figures")
            earned = Earned(tuple(rewards), tuple(correct), record["prompt_tokens"], float(record["seconds"]))
            found.append(RecordedRollout(str(record["case_id"]), tuple(order), earned))
        except (KeyError, TypeError, ValueError) as problem:
            raise RunError(f"{path}, line {number} is not an episode: start the training again") from problem
    return found


def whole_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The JSON lines of a file, numbered, without a last one that a crash cut off. Raises RunError for other lines."""
    if not path.exists():
        return []
    found: list[tuple[int, dict[str, Any]]] = []
    *lines, _ = path.read_bytes().split(b"\n")  # without a line break behind it, the write of the last was cut off
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise RunError(f"{path}, line {number} is not JSON: delete the file and run again") from problem
        if not isinstance(record, dict):
            raise RunError(f"{path}, line {number} is not a record of a run: delete the file and run again")
        found.append((number, record))
    return found


def keep_lines(path: Path, count: int) -> None:
    """Cut a file of JSON lines to its first `count`, at once or not at all, so that more can be added behind them."""
    if path.exists():
        write_bytes(path, b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def episode_record(episode: Episode) -> dict[str, object]:
    """An episode as a JSON line."""
    record = {field.name: getattr(episode, field.name) for field in fields(episode) if field.name != "budget"}
    return record | {"k": episode.k, "share": episode.budget.share if isinstance(episode.budget, Fraction) else None}
