"""A training run that is used again: evaluated, explained, or asked to edit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drike.datasets.splits import SplitIds
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.run import Run


@dataclass(frozen=True)
class TrainedRun:
    """A training run, its split, and its checkpoint."""

    run: Run
    split: SplitIds
    trained: Checkpoint
    trained_sha256: str

    @property
    def unfinished(self) -> str:
        """A sentence about a training that was stopped; empty for one that came to its end."""
        done, epochs = self.trained.training.get("episodes"), self.run.epochs
        if not isinstance(done, int) or epochs is None or done >= (whole := epochs * len(self.split.train)):
            return ""
        folder = self.run.folder
        return f"{folder} was stopped after {done} of {whole} episodes; drike train --resume {folder} continues it"


def open_trained_run(folder: Path) -> TrainedRun:
    """Read a training run's folder. Raises RunError, CheckpointError or DataError with the remedy if it is not one."""
    run = Run.open(folder)
    return TrainedRun(run, run.split(), checkpoint.load(folder), checkpoint.fingerprint(folder))
