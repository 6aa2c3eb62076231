"""A run: its data, split and pool (`Setup`), its folder, and its options, settings and model in run.json (`Run`)."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drike.edits.edit import EditCase
from drike.encoders import load_encoder
from drike.errors import RunError
from drike.models.protocols import LanguageModel, Template, Usage
from drike.research.datasets import Dataset, load
from drike.research.datasets.dataset import Split, SplitIds
from drike.research.datasets.form import Paraphrases, Target
from drike.research.editors.pool import Pool, rotations
from drike.research.editors.rankings import Ranker
from drike.research.editors.retriever import Retriever
from drike.research.evaluation.judge import RuleName
from drike.research.evaluation.metrics import Outcome
from drike.research.runs import checkpoint
from drike.support.extras import versions
from drike.support.files import (
    checksum_ok,
    named_in_errors,
    sha256,
    with_checksum,
    write_bytes,
    write_text,
)
from drike.support.records import Record, parse, read

FILE, SPLIT = "run.json", "split.json"
ANSWERS, BOTH_WAYS, PROMPTS = "answers.jsonl", "both_ways", "prompts"
TRAINING_ANSWERS = "training_answers.json"
OUTCOMES, DEPLOYED, GATE = "outcomes", "deployed", "gate.jsonl"
EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    def prepare(self, cases: Sequence[EditCase], rankers: Iterable[Ranker]) -> list[str]:
        """Encode the texts that retrievers will read for these edits, before any is timed. Returns notes for people."""
        candidates = self.pool.for_groups(
            [edits for case in cases for edits in rotations(case.edits)]
        )
        for ranker in rankers:
            if isinstance(ranker, Retriever):
                ranker.encoder.encode(
                    sorted({text for group in candidates for text in ranker.texts(group)})
                )
        notes, excluded = (
            list(self.pool.fallbacks),
            [group.excluded for group in candidates if group.excluded],
        )
        if excluded:
            what = f"Excluded {sum(excluded)} records that share subject and relation with the edit"
            notes.append(f"{what}, at {len(excluded)} edits")
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

    def dataset(self) -> Dataset:
        """Its data with its pool. Raises DataError."""
        return load(
            *self.data,
            target=self.zsre_target or "alt",
            paraphrases=self.paraphrases,
            pool=self.pool or (),
        )


@dataclass(frozen=True)
class _File:
    """A data file in run.json: its form and its SHA-256."""

    given: str
    sha256: str
    rows: int
    form: str


@dataclass(frozen=True)
class RunRecord:
    """What run.json holds. Raises ValueError for a run without the hashes that it must have."""

    command: tuple[str, ...]
    started: str
    options: Mapping[str, object] | None  # those of the command line, if the command can be resumed
    settings: Mapping[str, object]  # the values in use
    model: Mapping[str, object]  # its identity
    trained_sha256: str | None  # of the checkpoint that an evaluation used
    data: tuple[_File, ...]
    data_fingerprint: str
    encoders: Mapping[str, Mapping[str, str | None]]  # the identity of each by its name
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
                changed = f"encoder {name} has changed since {self.folder} began"
                raise RunError(f"{changed}: restore its files, or start a new run")

    def check_same(
        self, setup: Setup, identity: Mapping[str, object], trained_sha256: str | None = None
    ) -> list[str]:
        """The packages whose version differs now. Raises RunError if data, split, encoders, weights or policy do."""
        record, data, new = self.record, setup.dataset, "start a new run"
        rows = (record.data_fingerprint, *(file.sha256 for file in record.data))
        same_rows = rows == (data.fingerprint, *(source.sha256 for source in data.sources))
        self.check_encoders()
        for same, problem in (
            (same_rows, f"on other rows: give it its data, or {new}"),
            (self.split() == setup.split.ids, f"on another split of its rows: {new}"),
            (
                record.model.get("weights_sha256") == identity.get("weights_sha256"),
                f"with other weights: {new}",
            ),
            (
                record.trained_sha256 == trained_sha256,
                f"with another trained policy than its --run holds now: {new}",
            ),
        ):
            if not same:
                raise RunError(f"{self.folder} was begun {problem}")
        return [
            name
            for name, now in versions().items()
            if record.versions and record.versions.get(name) != now
        ]

    @staticmethod
    def create(
        folder: Path, setup: Setup, identity: Mapping[str, object], settings: Mapping[str, object], *,
        options: Mapping[str, object] | None = None, trained_sha256: str | None = None,
    ) -> None:  # fmt: skip
        """Write split.json and run.json. Raises RunError if another process has begun a run there meanwhile."""
        require_new(folder)
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
            record = read(
                RunRecord, {"sha256": None, **parsed} if isinstance(parsed, dict) else parsed
            )
            settings = read(
                Settings,
                {field.name: record.settings.get(field.name) for field in fields(Settings)},
            )
        except (FileNotFoundError, NotADirectoryError) as problem:
            remedy = "give a folder that drike demo, train or evaluate wrote"
            raise RunError(f"{folder} is not a run, as it holds no {FILE}: {remedy}") from problem
        except OSError as problem:
            raise RunError(
                f"{path} cannot be read ({problem.strerror}): check its permissions"
            ) from problem
        except ValueError as problem:
            damaged = f"{path} is damaged, or another version of drike wrote it ({problem})"
            raise RunError(f"{damaged}: run it again, or restore the file from a copy") from problem
        if not checksum_ok(parsed):
            raise RunError(
                f"{path} has changed since it was written: restore it from a copy, or run it again"
            )
        return cls(**vars(settings), folder=folder, record=record)


@dataclass(frozen=True)
class TrainedRun:
    """A training run that is used again, with its split and its checkpoint."""

    run: Run
    split: SplitIds
    trained: checkpoint.Checkpoint
    trained_sha256: str

    @classmethod
    def open(cls, folder: Path) -> TrainedRun:
        """Read a training run's folder. Raises RunError, CheckpointError or DataError with the remedy."""
        run = Run.open(folder)
        run.check_encoders()
        return cls(run, run.split(), checkpoint.load(folder), sha256(folder / checkpoint.FILE))


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
        raise RunError(
            f"{path} is a symbolic link, and what it links to is no part of the run: replace it by the file"
        )


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
        if any(
            not 0 <= i < len(self.blocks) for of_query in self.prompts.values() for i in of_query
        ):
            raise ValueError("prompts name blocks that are not there")


def read_usage(folder: Path) -> dict[str, Usage]:
    """The model's work in each part of a run; {} if it was not recorded. Raises RunError."""
    parts = read_json(
        folder / "usage.json", Mapping[str, _UsageRecord], "remove it, and limits count from there"
    )
    return {part: Usage() + used for part, used in (parts or {}).items()}


def total_usage(folder: Path) -> Usage:
    """The model's work in all parts of a run; nothing if its folder does not say. Raises RunError."""
    return sum(read_usage(folder).values(), Usage())


def add_usage(
    folder: Path, part: str, used: Usage, known: Mapping[str, Usage] | None = None
) -> None:
    """Add to a part's recorded work. known: `read_usage` from before, so that no reading fails now. Raises RunError."""
    known = read_usage(folder) if known is None else known
    parts = {**known, part: known.get(part, Usage()) + used}
    record = {
        name: asdict(usage) | {"tokens_shared": usage.tokens_shared}
        for name, usage in parts.items()
    }
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
    return any(
        any(folder.glob(record))
        for record in ("episodes.jsonl", ANSWERS, "outcomes/*.jsonl", "summary.json")
    )


def has_begun(folder: Path) -> bool:
    """Whether a run is in the folder that recorded anything."""
    return (folder / FILE).exists() and has_records(folder)


def require_new(folder: Path) -> None:
    """Raise RunError if a folder holds a run; one that recorded nothing is begun again."""
    if has_begun(folder):
        raise RunError(
            f"{folder} already holds a run: choose another --out, continue it with --resume, or remove it"
        )
    if has_records(folder):
        raise RunError(
            f"{folder} holds results of a run whose run.json is gone: choose another --out, or remove them"
        )


def read_lines(path: Path, kind: type[Record], remedy: str) -> list[Record]:
    """The JSON lines of a file, without a last one that a crash cut off; [] for no file. Raises RunError, OSError."""
    records: list[Record] = []
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for number, line in enumerate(lines, 1):
        try:
            records.append(read(kind, parse(line)))
        except ValueError as problem:
            name = kind.__name__.removesuffix("Record").casefold()
            raise RunError(
                f"{path}, line {number} is not an {name} of this version ({problem}): {remedy}"
            ) from problem
    return records


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """A JSON file of a run; None if there is none. Raises RunError for one that is not of the kind, OSError."""
    try:
        return read(kind, parse(path.read_bytes())) if path.exists() else None
    except ValueError as problem:
        raise RunError(
            f"{path} is damaged or of another version ({problem}): {remedy}"
        ) from problem


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
            raise RunError(
                f"another process works at {folder}: let it end, or stop it first"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
