"""A run: its data, split and pool (`Setup`), and its options, settings and model, recorded in run.json."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from drike.datasets import Dataset
from drike.datasets.dataset import Split, SplitIds
from drike.datasets.form import Paraphrases, Target
from drike.editors.pool import Pool, rotations
from drike.editors.retriever import Retriever
from drike.editors.selectors import Ranker
from drike.edits import EditCase
from drike.encoders import load_encoder
from drike.errors import RunError
from drike.evaluation.judge import RuleName
from drike.models.protocols import Template
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import write_record
from drike.support.extras import versions
from drike.support.files import checksum_ok, with_checksum
from drike.support.records import parse, read

FILE, SPLIT = "run.json", "split.json"


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    def prepare(self, cases: Sequence[EditCase], rankers: Iterable[Ranker]) -> list[str]:
        """Encode all texts that the retrievers among `rankers` will read for these edits, before any edit is timed.

        Returns notes on the demonstrations: synthetic ones, and records that share subject and relation with an edit.
        """
        candidates = self.pool.for_groups([edits for case in cases for edits in rotations(case.edits)])
        for ranker in rankers:
            if isinstance(ranker, Retriever):
                ranker.encoder.encode(sorted({text for group in candidates for text in ranker.texts(group)}))
        notes, excluded = list(self.pool.fallbacks), [group.excluded for group in candidates if group.excluded]
        if excluded:
            sentence = f"Excluded {sum(excluded)} records that share subject and relation with the edit"
            notes.append(f"{sentence}, at {len(excluded)} edits")
        return notes


@dataclass(frozen=True)
class Prepared:
    """All texts are encoded. notes: on the demonstrations. recovered: episodes or edits in the folder, of `total`."""

    notes: tuple[str, ...]
    recovered: int
    total: int


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins: `total` records will follow, less the `done` ones that a stopped run has saved already."""

    name: str
    total: int
    done: int = 0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run that other commands use; what is None has its default."""

    data: tuple[str, ...]
    model: str
    template: Template | None
    encoder: str
    seed: int
    zsre_target: Target | None = None
    paraphrases: Paraphrases | None = None
    pool: tuple[str, ...] | None = None
    prompt_tokens: int | None = None
    tokenizer: str | None = None
    epochs: int | None = None
    budget: str | None = None
    judge: RuleName | None = None
    run: str | None = None
    editors: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _File:
    """A data file in run.json: its form and its SHA-256."""

    given: str
    sha256: str
    rows: int
    form: str


@dataclass(frozen=True)
class RunRecord:
    """What run.json holds. Raises ValueError for a run without the hashes that it must have.

    settings: the values in use. options: those of the command line, if the command can be resumed. model: its identity.
    encoders: the identity of each by its name. trained_sha256: of the checkpoint that an evaluation used.
    """

    command: tuple[str, ...]
    started: str
    options: Mapping[str, object] | None
    settings: Mapping[str, object]
    model: Mapping[str, object]
    trained_sha256: str | None
    data: tuple[_File, ...]
    data_fingerprint: str
    encoders: Mapping[str, Mapping[str, str | None]]
    fallbacks: tuple[str, ...]
    versions: Mapping[str, str]
    sha256: str | None

    def __post_init__(self) -> None:
        if self.model.get("weights_sha256", "") is None:
            raise ValueError("model: its weights_sha256 is null")
        if self.trained_sha256 is None and self.settings.get("run") is not None:
            raise ValueError("trained_sha256 is null, although a trained run was used")


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """A run's folder, and what is recorded there."""

    folder: Path
    record: RunRecord

    def split(self) -> SplitIds:
        """Its split. Raises DataError."""
        return SplitIds.load(self.folder / SPLIT)

    def check_encoders(self) -> None:
        """Raise RunError unless its encoders have the files they had when it began."""
        for name, identity in self.record.encoders.items():
            if load_encoder(name).identity.get("sha256") != identity.get("sha256"):
                raise RunError(
                    f"encoder {name} has changed since {self.folder} began: restore its files, or start a new run"
                )

    def check_same(self, setup: Setup, identity: Mapping[str, object], trained_sha256: str | None = None) -> list[str]:
        """The packages that have another version now, and may compute other last digits.

        Raises RunError unless rows, split, encoders, weights and trained policy are those the run began with.
        """
        record, new = self.record, "start a new run"
        self.check_encoders()
        for same, problem in (
            (record.data_fingerprint == setup.dataset.fingerprint, f"on other rows: give it its data, or {new}"),
            (self.split() == setup.split.ids, f"on another split of its rows: {new}"),
            (record.model.get("weights_sha256") == identity.get("weights_sha256"), f"with other weights: {new}"),
            (record.trained_sha256 == trained_sha256, f"with another trained policy than its --run holds now: {new}"),
        ):
            if not same:
                raise RunError(f"{self.folder} was begun {problem}")
        return [name for name, now in versions().items() if record.versions and record.versions.get(name) != now]

    @staticmethod
    def create(
        folder: Path, setup: Setup, identity: Mapping[str, object], settings: Mapping[str, object], *,
        options: Mapping[str, object] | None = None, trained_sha256: str | None = None,
    ) -> None:  # fmt: skip
        """Write split.json and run.json."""
        encoders = {settings["encoder"], settings.get("policy_encoder") or settings["encoder"]}
        record = RunRecord(
            command=("drike", *sys.argv[1:]), started=time.strftime("%Y-%m-%dT%H:%M:%S%z"), options=options,
            settings=settings, model=identity, trained_sha256=trained_sha256,
            data=tuple(_File(s.given, s.sha256, s.rows, s.form) for s in setup.dataset.sources),
            data_fingerprint=setup.dataset.fingerprint,
            encoders={str(name): load_encoder(str(name)).identity for name in encoders},
            fallbacks=setup.pool.fallbacks, versions=versions(), sha256=None,
        )  # fmt: skip
        setup.split.ids.save(folder / SPLIT)  # first, since a folder with run.json is a run
        write_record(folder, FILE, with_checksum(asdict(record)))

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run's folder. Raises RunError if it is not one, is damaged, or is of another version."""
        path = folder / FILE
        try:
            parsed = parse(path.read_bytes())
            record = read(RunRecord, {"sha256": None, **parsed} if isinstance(parsed, dict) else parsed)
            settings = read(Settings, {field.name: record.settings.get(field.name) for field in fields(Settings)})
        except (FileNotFoundError, NotADirectoryError) as problem:
            raise RunError(
                f"{folder} is not a run, as it holds no {FILE}: give a folder that drike demo, train or evaluate wrote"
            ) from problem
        except OSError as problem:
            raise RunError(f"{path} cannot be read ({problem.strerror}): check its permissions") from problem
        except ValueError as problem:
            raise RunError(
                f"{path} is damaged, or another version of drike wrote it ({problem}): run it again, or restore the "
                "file from a copy"
            ) from problem
        if not checksum_ok(parsed):
            raise RunError(f"{path} has changed since it was written: restore it from a copy, or run it again")
        return cls(**vars(settings), folder=folder, record=record)


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
        run.check_encoders()
        return cls(run, run.split(), checkpoint.load(folder), checkpoint.fingerprint(folder))
