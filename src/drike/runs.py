"""A run's folder: what was asked, on what, with which versions; episodes and outcomes as they come.

    run.json             command, settings, seed, versions, data (source, sha256), model
    split.json           the case ids of every part
    episodes.jsonl       training, one line an episode
    checkpoint/          head and budget, rewritten after every epoch
    outcomes/EDITOR.jsonl  evaluation, one line a probe
    table.md, summary.json  the tables of an evaluation
    usage.json           what the model did: requests, forwards, tokens computed, shared and remembered, seconds

Lines are appended and flushed case by case: what is done is there whatever happens next.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path

from drike.budget import Fraction
from drike.edits import Aspect
from drike.files import write_text
from drike.metrics import Outcome
from drike.reinforce import Episode

_PACKAGES = ("drike", "torch", "transformers", "openai", "sentence-transformers", "safetensors", "numpy", "ray")


class RunError(Exception):
    """A run's folder cannot be used; one sentence with the remedy."""


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
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except ValueError as problem:
            if number == len(lines):  # no line break behind it: the write was cut off
                return outcomes
            raise RunError(f"{path}, line {number} is not JSON: delete the file and evaluate again") from problem
        if not isinstance(record, dict) or record.keys() != names or record["aspect"] not in set(Aspect):
            raise RunError(
                f"{path}, line {number} is not an outcome of this version: delete the file and evaluate again"
            )
        outcomes.append(Outcome(**{**record, "aspect": Aspect(record["aspect"])}))
    return outcomes


def episode_record(episode: Episode) -> dict[str, object]:
    """An episode as a JSON line."""
    record = {field.name: getattr(episode, field.name) for field in fields(episode) if field.name != "budget"}
    return record | {"k": episode.k, "share": episode.budget.share if isinstance(episode.budget, Fraction) else None}
