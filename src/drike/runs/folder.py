"""A run's folder: what was asked, on what, with which versions; episodes and outcomes as they come.

    run.json             command, options, settings, seed, versions, data (source, sha256), model
    split.json           the case ids of every part
    episodes.jsonl       training, one line an episode
    checkpoint/          head and budget, rewritten after every epoch
    outcomes/EDITOR.jsonl  evaluation, one line a probe
    table.md, summary.json  the tables of an evaluation
    usage.json           the model's work in each part of the run: calls, tokens, cached, seconds, money; without that
                         of processes that were killed

Lines are appended and flushed case by case: what is done is there whatever happens next.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

from drike.edits import Aspect, EditCase
from drike.errors import RunError
from drike.files import checksum_ok, write_bytes, write_text
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


def add_usage(folder: Path, part: str, used: Usage) -> Usage:
    """Record the model's work in a part of a run, added to that before the run was stopped; return the sum."""
    known = read_usage(folder)
    known[part] = known.get(part, Usage()) + used
    parts = {name: asdict(one) | {"tokens_shared": one.tokens_shared} for name, one in known.items()}
    write_record(folder, "usage.json", parts)
    return known[part]


def recorded(folder: Path) -> dict[str, Any]:
    """run.json with the fields that are needed. Raises RunError."""
    found = _record(folder)
    if several := _models_of(found):
        raise RunError(f"{folder} holds several runs: give one of them, such as {folder / slug(several[0])}")
    wanted = {"settings": dict, "model": dict, "data_fingerprint": str}
    missing = [name for name, kind in wanted.items() if not isinstance(found.get(name), kind)]
    settings = {} if missing else found["settings"]
    kinds = {"data": list, "model": str, "template": str, "encoder": str, "seed": int}
    missing += [name for name, kind in kinds.items() if not isinstance(settings.get(name), kind)]
    if missing:
        path = folder / "run.json"
        raise RunError(f"{path} lacks {missing[0]}: another version of drike wrote it, so run it again with this one")
    return found


def runs_in(folder: Path) -> tuple[Path, ...]:
    """The evaluated runs in a folder that `drike models` wrote, a model each; any other folder is a run itself.

    Raises RunError where there is no run, or none was evaluated.
    """
    several = _models_of(_record(folder))
    found = tuple(folder / slug(name) for name in several if any((folder / slug(name) / "outcomes").glob("*.jsonl")))
    if several and not found:
        raise RunError(f"{folder} holds no run that was evaluated: run drike models again")
    return found or (folder,)


def _models_of(record: Mapping[str, Any]) -> list[str]:
    """The models that a run of several was asked for; none for a run of one."""
    settings = record.get("settings")
    asked = settings.get("model") if isinstance(settings, dict) else None
    return [str(name) for name in asked] if isinstance(asked, list) else []


def _record(folder: Path) -> dict[str, Any]:
    """run.json as it stands, {} if it is no object. Raises RunError."""
    path = folder / "run.json"
    try:
        record = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise RunError(
            f"{folder} is not a run, as it holds no run.json ({type(problem).__name__}): "
            "give a folder that drike demo, train or evaluate wrote"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise RunError(f"{path} is damaged: run it again, or restore the file from a copy") from problem
    found: dict[str, Any] = record if isinstance(record, dict) else {}
    require_checksum(found, path)
    return found


def require_checksum(record: Mapping[str, object], path: Path) -> None:
    """Refuse a run.json that is not the one that was written. Raises RunError."""
    if not checksum_ok(record):
        raise RunError(
            f"{path} is not as it was written (its sha256 tells): restore it from a copy, or take its line sha256 out "
            "if you changed it yourself"
        )


def settings_of(folder: Path) -> dict[str, Any]:
    """What a run was asked for; data, model, template, encoder and seed are there. Raises RunError."""
    return dict(recorded(folder)["settings"])


def options_of(folder: Path) -> dict[str, Any]:
    """The options a run was asked for, by their names in the command. Raises RunError."""
    options = recorded(folder).get("options")
    if not isinstance(options, dict):
        raise RunError(f"{folder} cannot go on, as its run.json holds no options: start a new run")
    return options


def has_begun(folder: Path) -> bool:
    """Whether a run is in the folder that recorded anything."""
    records = ("episodes.jsonl", "outcomes/*.jsonl", "summary.json", "*/episodes.jsonl")  # the last: of several models
    return (folder / "run.json").exists() and any(any(folder.glob(record)) for record in records)


def recovered(folder: Path, editor: str, cases: Sequence[EditCase]) -> list[Outcome]:
    """An editor's outcomes of the first of `cases`, as a stopped evaluation left them, its file cut to whole cases.

    Raises RunError for outcomes of other probes.
    """
    path = outcomes_path(folder, editor)
    found, whole = read_outcomes(path), 0
    for case in cases:
        of_case = found[whole : whole + len(case.probes)]
        asked = [(case.case_id, probe.aspect, probe.query, probe.target) for probe in case.probes]
        if [(one.case_id, one.aspect, one.query, one.target) for one in of_case] != asked[: len(of_case)]:
            raise RunError(f"{path} is about other probes: remove the file to have {editor} evaluated again")
        if len(of_case) < len(asked):
            break
        whole += len(asked)
    keep_lines(path, whole)
    return found[:whole]


def answered(path: Path) -> list[RecordedRollout]:
    """What the model answered in the episodes of a file of `episode_record`s, but for a last line that a crash cut off.

    Raises RunError for a line that is not an episode.
    """
    found = []
    for number, record in whole_lines(path):
        try:
            order, correct = record["order"], record["correct"]
            rewards = [float(reward) for reward in record["rewards"]]
            if not rewards or not all(map(math.isfinite, rewards)) or sorted(order) != list(range(len(order))):
                raise ValueError
            if len(correct) != len(rewards) or not {*correct} <= {True, False}:
                raise ValueError
            earned = Earned(tuple(rewards), tuple(correct), record["prompt_tokens"], float(record["seconds"]))
            found.append(RecordedRollout(str(record["case_id"]), tuple(order), earned))
        except (KeyError, TypeError, ValueError) as problem:
            raise RunError(f"{path}, line {number} is not an episode: start the training again") from problem
    return found


def whole_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The JSON lines of a file, numbered; a last one that a crash cut off is none. Raises RunError for other lines."""
    if not path.exists():
        return []
    found: list[tuple[int, dict[str, Any]]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            if number == len(lines):  # no line break behind it: the write was cut off
                break
            raise RunError(f"{path}, line {number} is not JSON: delete the file and run again") from problem
        if not isinstance(record, dict):
            raise RunError(f"{path}, line {number} is not a record of a run: delete the file and run again")
        if number == len(lines):
            break  # whole, but its line break is not: written again, it is the same
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
