"""A run: its folder, and its options, settings and model in run.json."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from drike.encoders import load_encoder
from drike.errors import RunError
from drike.models.protocols import Template
from drike.research.datasets import Dataset, load
from drike.research.datasets.dataset import SplitIds
from drike.research.datasets.form import Paraphrases, Target
from drike.research.evaluation.judge import RuleName
from drike.research.runs import checkpoint
from drike.research.runs.files import RUN, SPLIT, write_record
from drike.research.runs.folders import require_new
from drike.research.runs.setup import Setup
from drike.support.extras import versions
from drike.support.files import checksum_ok, sha256, with_checksum
from drike.support.records import parse, read


@dataclass(frozen=True, kw_only=True)
class RunSettings:
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

    def dataset(self) -> Dataset:
        """Its data with its pool. Raises DataError."""
        return load(
            *self.data,
            target=self.zsre_target or "alt",
            paraphrases=self.paraphrases,
            pool=self.pool or (),
        )


@dataclass(frozen=True)
class DataFile:
    """A data file in run.json: its form and its SHA-256."""

    given: str
    sha256: str
    rows: int
    form: str


@dataclass(frozen=True)
class RunRecord:
    """What run.json holds.

    options: those of the command line, if the command can be resumed. settings: the values in use.
    model: its identity. trained_sha256: of the checkpoint that an evaluation used. encoders: the
    identity of each by its name. Raises ValueError for a run without the hashes that it must have.
    """

    command: tuple[str, ...]
    started: str
    options: Mapping[str, object] | None
    settings: Mapping[str, object]
    model: Mapping[str, object]
    trained_sha256: str | None
    data: tuple[DataFile, ...]
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
class Run(RunSettings):
    """A run's folder, and what is recorded there."""

    folder: Path
    record: RunRecord

    @staticmethod
    def create(
        folder: Path,
        setup: Setup,
        identity: Mapping[str, object],
        settings: Mapping[str, object],
        *,
        options: Mapping[str, object] | None = None,
        trained_sha256: str | None = None,
    ) -> None:
        """Write split.json and run.json.

        identity: of the model. Raises RunError if another process has begun a run there meanwhile.
        """
        require_new(folder)
        encoders = {settings["encoder"], settings.get("policy_encoder") or settings["encoder"]}
        record = RunRecord(
            command=("drike", *sys.argv[1:]),
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            options=options,
            settings=settings,
            model=identity,
            trained_sha256=trained_sha256,
            data=_data_files(setup.dataset),
            data_fingerprint=setup.dataset.fingerprint,
            encoders={str(name): load_encoder(str(name)).identity for name in encoders},
            fallbacks=setup.pool.fallbacks,
            versions=versions(),
            sha256=None,
        )
        # The split goes first, since a folder with run.json is a run.
        setup.split.ids.save(folder / SPLIT)
        write_record(folder, RUN, with_checksum(asdict(record)))

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run's folder.

        Raises RunError if it is not one, is damaged, or is of another version.
        """
        path = folder / RUN
        try:
            parsed = parse(path.read_bytes())
            completed = parsed
            if isinstance(parsed, dict):
                completed = {"sha256": None, **parsed}  # early runs have no checksum
            record = read(RunRecord, completed)
            names = [field.name for field in fields(RunSettings)]
            settings = read(RunSettings, {name: record.settings.get(name) for name in names})
        except (FileNotFoundError, NotADirectoryError) as problem:
            raise RunError(
                f"{folder} is not a run, as it holds no {RUN}: "
                "give a folder that drike demo, train or evaluate wrote"
            ) from problem
        except OSError as problem:
            raise RunError(
                f"{path} cannot be read ({problem.strerror}): check its permissions"
            ) from problem
        except ValueError as problem:
            raise RunError(
                f"{path} is damaged, or another version of drike wrote it ({problem}): "
                "run it again, or restore the file from a copy"
            ) from problem
        if not checksum_ok(parsed):
            raise RunError(
                f"{path} has changed since it was written: restore it from a copy, or run it again"
            )
        here = {"data": _where_files_are(settings.data, record.data, folder)}
        if settings.pool:
            here["pool"] = _where_files_are(settings.pool, record.data, folder)
        return cls(**{**vars(settings), **here}, folder=folder, record=record)

    def split(self) -> SplitIds:
        """Its split. Raises DataError."""
        return SplitIds.load(self.folder / SPLIT)

    def check_encoders(self) -> None:
        """Raise RunError unless its encoders have the files they had when it began."""
        for name, identity in self.record.encoders.items():
            if load_encoder(name).identity.get("sha256") != identity.get("sha256"):
                raise RunError(
                    f"encoder {name} has changed since {self.folder} began: "
                    "restore its files, or start a new run"
                )

    def check_same(
        self, setup: Setup, identity: Mapping[str, object], trained_sha256: str | None = None
    ) -> list[str]:
        """The packages whose version differs now.

        Raises RunError if data, split, encoders, weights or the trained policy differ.
        """
        record = self.record
        self.check_encoders()
        if not self._has_rows_of(setup.dataset):
            raise self._begun("on other rows: give it its data, or start a new run")
        if self.split() != setup.split.ids:
            raise self._begun("on another split of its rows: start a new run")
        if record.model.get("weights_sha256") != identity.get("weights_sha256"):
            raise self._begun("with other weights: start a new run")
        if record.trained_sha256 != trained_sha256:
            raise self._begun(
                "with another trained policy than its --run holds now: start a new run"
            )

        if not record.versions:
            return []
        return [name for name, now in versions().items() if record.versions.get(name) != now]

    def _has_rows_of(self, dataset: Dataset) -> bool:
        recorded = [file.sha256 for file in self.record.data]
        now = [source.sha256 for source in dataset.sources]
        return self.record.data_fingerprint == dataset.fingerprint and recorded == now

    def _begun(self, how: str) -> RunError:
        return RunError(f"{self.folder} was begun {how}")


def _data_files(dataset: Dataset) -> tuple[DataFile, ...]:
    """The files that a data set was read from."""
    return tuple(
        DataFile(source.given, source.sha256, source.rows, source.form)
        for source in dataset.sources
    )


def _where_files_are(
    given: tuple[str, ...], files: tuple[DataFile, ...], folder: Path
) -> tuple[str, ...]:
    """A run's data files where they were, or where they are now if they moved with the run.

    A run may be copied to another machine together with its data, or be opened from another working
    directory: a file that is not where it was is looked for beside the run and beside each folder
    above it, under as much of its path as fits. Only a file with the recorded checksum is taken.
    """
    checksum_of = {file.given: file.sha256 for file in files}
    return tuple(_moved(name, checksum_of.get(name), folder) or name for name in given)


def _moved(name: str, checksum: str | None, folder: Path) -> str | None:
    """Where a recorded data file is now, if it is not where it was; None if it was not found."""
    path = Path(name)
    if checksum is None or path.suffix == "" or path.exists():
        return None  # a public name or address has no suffix of a file, or no file beside a run

    first = 1 if path.is_absolute() else 0
    tails = [Path(*path.parts[start:]) for start in range(first, len(path.parts))]
    for above in folder.resolve().parents:
        for tail in tails:
            candidate = above / tail
            if candidate.is_file() and sha256(candidate) == checksum:
                return str(candidate)
    return None


@dataclass(frozen=True)
class TrainedRun:
    """A training run that is used again, with its split and its checkpoint."""

    run: Run
    split: SplitIds
    trained: checkpoint.Checkpoint
    trained_sha256: str

    @classmethod
    def open(cls, folder: Path) -> TrainedRun:
        """Read a training run's folder.

        Raises RunError, CheckpointError or DataError with the remedy.
        """
        run = Run.open(folder)
        run.check_encoders()
        split = run.split()
        trained = checkpoint.load(folder)
        return cls(run, split, trained, sha256(folder / checkpoint.FILE))
