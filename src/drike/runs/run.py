"""A run: its data, split and pool (`Setup`), and what it was asked for, kept in the run.json of its folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drike.datasets import Dataset
from drike.datasets.splits import Split, SplitIds
from drike.edits import EditCase
from drike.errors import RunError
from drike.files import checksum_ok, with_checksum
from drike.retrieval.learned_budget import Controller
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import versions, write_record

FILE, SPLIT = "run.json", "split.json"
_SETTINGS = {"data": list, "model": str, "template": str, "encoder": str, "seed": int}
_OPTIONAL = {"zsre_target": str, "prompt_tokens": int, "tokenizer": str, "epochs": int, "run": str, "editors": list}


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    def prepare(self, cases: Sequence[EditCase], parts: Iterable[object]) -> list[str]:
        """Encode at once all texts that the retrievers and learned budgets among `parts` read for these edits.

        Batches are faster than pool by pool, and seconds per edit are then not the first look-up's. Returns notes on
        the demonstrations: synthetic ones, and records that share subject and relation with an edit.
        """
        candidates = self.pool.candidates([case.edit for case in cases])
        for part in parts:
            if isinstance(part, Retriever | Controller) and part.encoder is not None:
                part.encoder.encode(sorted({text for one in candidates for text in part.texts(one)}))
        excluded = [one.excluded for one in candidates if one.excluded]
        return [
            *self.pool.fallbacks,
            *([f"Excluded {sum(excluded)} records that share subject and relation with the edit, at {len(excluded)} "
               "edits"] if excluded else []),
        ]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run's folder and what is recorded there.

    data, model, template, encoder, seed and the optional ones after them are settings that other commands use;
    `settings` has all that the options came to. options: as given, of a command that can be resumed. identity: of the
    model. sources: data files with their SHA-256. trained_sha256: of the checkpoint that an evaluation used.
    """

    folder: Path
    data: tuple[str, ...]
    model: str
    template: str
    encoder: str
    seed: int
    zsre_target: str | None
    prompt_tokens: int | None
    tokenizer: str | None
    epochs: int | None
    run: str | None
    editors: list[str] | None
    settings: Mapping[str, Any]
    options: Mapping[str, Any] | None
    identity: Mapping[str, Any]
    sources: tuple[Mapping[str, Any], ...]
    fingerprint: str
    trained_sha256: str | None
    started: str
    versions: Mapping[str, str]

    def split(self) -> SplitIds:
        """Its split. Raises DataError."""
        return SplitIds.load(self.folder / SPLIT)

    @classmethod
    def create(
        cls,
        folder: Path,
        setup: Setup,
        identity: Mapping[str, object],
        settings: Mapping[str, object],
        *,
        options: Mapping[str, object] | None = None,
        trained_sha256: str | None = None,
    ) -> Run:
        """Write split.json and run.json, and return the run."""
        record = {
            "command": ["drike", *sys.argv[1:]],
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "options": None if options is None else dict(options),
            "settings": dict(settings),
            "model": dict(identity),
            "trained_sha256": trained_sha256,
            "data": [
                {"given": one.given, "sha256": one.sha256, "rows": one.rows, "form": one.form}
                for one in setup.dataset.sources
            ],
            "data_fingerprint": setup.dataset.fingerprint,
            "encoder": setup.pool.encoder.name,
            "fallbacks": setup.pool.fallbacks,
            "versions": versions(),
        }
        setup.split.ids.save(folder / SPLIT)  # first, since a folder with run.json is a run
        write_record(folder, FILE, with_checksum(record))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run's folder. Raises RunError if it is not one, is damaged, or is of another version."""
        path = folder / FILE
        try:
            record = json.loads(path.read_text("utf-8"))
        except OSError as problem:
            raise RunError(
                f"{folder} is not a run, as it holds no {FILE} ({type(problem).__name__}): "
                "give a folder that drike demo, train or evaluate wrote"
            ) from problem
        except (ValueError, RecursionError) as problem:
            raise RunError(f"{path} is damaged: run it again, or restore the file from a copy") from problem
        record = record if isinstance(record, dict) else {}
        if not checksum_ok(record):
            raise RunError(f"{path} has changed since it was written: restore it from a copy, or run it again")
        settings = found if isinstance(found := record.get("settings"), dict) else {}
        missing = [
            *(name for name, kind in {"settings": dict, "model": dict, "data_fingerprint": str}.items()
              if not isinstance(record.get(name), kind)),
            *(name for name, kind in _SETTINGS.items() if not isinstance(settings.get(name), kind)),
        ]  # fmt: skip
        if missing:
            raise RunError(f"{path} lacks {missing[0]}: another version of drike wrote it, so run it again")
        wrong = [name for name, kind in _OPTIONAL.items() if not isinstance(settings.get(name), kind | None)]
        if wrong or not all(isinstance(source, str) for source in settings["data"]):
            raise RunError(f"{path} has no usable {(wrong or ['data'])[0]}: run it again with this version of drike")
        options, found, sources = (record.get(name) for name in ("options", "versions", "data"))
        return cls(
            folder=folder,
            **{name: settings.get(name) for name in (*_SETTINGS, *_OPTIONAL)} | {"data": tuple(settings["data"])},
            settings=settings,
            options=options if isinstance(options, dict) else None,
            identity=record["model"],
            sources=tuple(one for one in sources if isinstance(one, dict)) if isinstance(sources, list) else (),
            fingerprint=record["data_fingerprint"],
            trained_sha256=record.get("trained_sha256"),
            started=str(record.get("started", "")),
            versions={name: str(value) for name, value in found.items()} if isinstance(found, dict) else {},
        )


@dataclass(frozen=True)
class TrainedRun:
    """A training run that is used again, with its split and its checkpoint."""

    run: Run
    split: SplitIds
    trained: Checkpoint
    trained_sha256: str

    @classmethod
    def open(cls, folder: Path) -> TrainedRun:
        """Read a training run's folder. Raises RunError, CheckpointError or DataError with the remedy."""
        run = Run.open(folder)
        return cls(run, run.split(), checkpoint.load(folder), checkpoint.fingerprint(folder))

    @property
    def unfinished(self) -> str:
        """A sentence about a training that was stopped; empty if it was finished."""
        done, epochs = self.trained.training.get("episodes"), self.run.epochs
        if not isinstance(done, int) or epochs is None or done >= (whole := epochs * len(self.split.train)):
            return ""
        folder = self.run.folder
        return f"{folder} was stopped after {done} of {whole} episodes; drike train --resume {folder} continues it"
