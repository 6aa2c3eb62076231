"""Resume a stopped run: check that it is the same run, keep other processes out, and recover what is recorded.

A run continues with the same rows, split, weights and trained policy as it began with, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from drike.edits import EditCase
from drike.errors import RunError
from drike.evaluation.answer_matrix import CaseAnswers
from drike.evaluation.metrics import Outcome
from drike.runs import folder as files
from drike.runs.run import Run, Setup
from drike.support.extras import versions
from drike.training.rewards import RecordedRollout


def check_same(run: Run, setup: Setup, identity: Mapping[str, object], trained_sha256: str | None = None) -> list[str]:
    """The packages that have another version now, and may compute other last digits.

    Raises RunError unless rows, split, encoders, weights and trained policy are those the run began with.
    """
    folder = run.folder
    if run.record.data_fingerprint != setup.dataset.fingerprint:
        raise RunError(f"{folder} was begun on other rows: give it the data it began with, or start a new run")
    if run.split() != setup.split.ids:
        raise RunError(f"{folder} was begun on another split of its rows: start a new run")
    run.check_encoders()
    if run.record.model.get("weights_sha256") != identity.get("weights_sha256"):
        raise RunError(f"{folder} was begun with other weights of its model: start a new run")
    if run.record.trained_sha256 != trained_sha256:
        raise RunError(f"{folder} was begun with another trained policy than its --run holds now: start a new run")
    before = run.record.versions
    return [name for name, now in versions().items() if before and before.get(name) != now]


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


def recovered_episodes(folder: Path) -> list[RecordedRollout]:
    """The recorded episodes of a stopped training run; its file is cut to whole episodes. Raises RunError."""
    path = folder / "episodes.jsonl"
    records = files.read_episodes(path)
    files.keep_lines(path, len(records))
    return [record.rollout for record in records]


def recovered_answers(folder: Path, cases: Sequence[EditCase], choices: int) -> list[CaseAnswers]:
    """Recorded answers to the first of `cases` under so many choices; the file is cut to them. Raises RunError."""
    path = folder / files.ANSWERS
    answers = files.read_lines(path, CaseAnswers, "remove the file to have the model asked again")
    shapes = [(of_case.case_id, [len(row) for row in of_case.correct]) for of_case in answers]
    if shapes != [(case.case_id, [choices] * len(case.probes)) for case in cases[: len(answers)]]:
        raise RunError(f"{path} is about other probes: remove the file to have the model asked again")
    files.keep_lines(path, len(answers))
    return answers


def recovered_outcomes(
    folder: Path, editor: str, cases: Sequence[EditCase], part: str = files.OUTCOMES
) -> list[Outcome]:
    """An editor's recorded outcomes of the first of `cases`; its file is cut to whole cases. Raises RunError."""
    path = files.outcomes_path(folder, editor, part)
    outcomes, whole = files.read_outcomes(path), 0
    for case in cases:
        of_case = outcomes[whole : whole + len(case.asked)]
        expected = [(case.case_id, probe.aspect, probe.asked, probe.target) for probe in case.asked]
        recorded = [(outcome.case_id, outcome.aspect, outcome.query, outcome.target) for outcome in of_case]
        if recorded != expected[: len(recorded)]:
            raise RunError(f"{path} is about other probes: remove the file to have {editor} evaluated again")
        if len(of_case) < len(expected):
            break
        whole += len(expected)
    files.keep_lines(path, whole)
    return outcomes[:whole]
