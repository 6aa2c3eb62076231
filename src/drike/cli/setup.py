"""What every command opens: data and its split, a model, an encoder, a run's folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drike import datasets
from drike.cli import console as showing
from drike.cli.dry_run import token_counter
from drike.datasets import Dataset
from drike.datasets.splits import Split, SplitIds
from drike.datasets.subsets import SUBSETS
from drike.encoders import MINILM, FloatArray, Progress, TextEncoder, load_encoder
from drike.errors import RunError, UsageError
from drike.files import with_checksum
from drike.models.protocols import LanguageModel
from drike.retrieval.pool import Pool
from drike.retrieval.token_limit import TokenLimit
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import has_begun, settings_of, versions, write_record

TINYFACTS = "tinyfacts"

Fact = tuple[str, str]


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over its demonstration rows."""

    dataset: Dataset
    split: SplitIds
    parts: Split
    pool: Pool

    @property
    def title(self) -> str:
        """What is measured on: the data set, and the subset of it that is edited if not all are."""
        return self.split.title


def open_data(sources: Sequence[str], target: str = "alt") -> Dataset:
    """The embedded benchmark by its name, or files, addresses and public names; `target` is that of zsRE's edits."""
    if target not in ("alt", "answers"):
        raise UsageError(f"--zsre-target must be alt or answers, not {target}")
    return datasets.load(*sources, target=target)  # type: ignore[arg-type]


def open_setup(
    sources: Sequence[str],
    *,
    encoder: str,
    seed: int,
    split: SplitIds | None = None,
    train: int | None = None,
    test: int | None = None,
    editable: int | None = None,
    subset: str | None = None,
    target: str = "alt",
    leave_out: Collection[Fact] = (),
) -> Setup:
    """Load, split and embed; `seed` draws the split and deals the roles.

    Sizes that are None are the paper's, or what there is. A given `split` is kept. leave_out: facts that are not to be
    edited, as they were trained on. Raises UsageError for a subset that does not exist, DataError if the split was
    drawn from other rows.
    """
    if subset is not None and subset not in SUBSETS:
        raise UsageError(f"--subset must be {' or '.join(SUBSETS)}, not {subset}")
    dataset = open_data(sources, target)
    if split is None:
        split = dataset.split(
            seed=seed, train=train, test=test, editable=editable, subset=subset, exclude=leave_out
        ).ids
    parts = dataset.restore(split)
    return Setup(dataset, split, parts, Pool(parts.demonstrations, open_encoder(encoder), seed=seed))


@dataclass(frozen=True)
class TrainedRun:
    """A training run that is used again: what it was asked for, its split, what it learned."""

    data: tuple[str, ...]
    model: str
    template: str
    encoder: str
    seed: int
    split: SplitIds
    trained: Checkpoint
    trained_sha256: str
    zsre_target: str = "alt"
    prompt_tokens: int | None = None
    tokenizer: str | None = None


def open_trained_run(folder: Path) -> TrainedRun:
    """Read a training run's folder. Raises RunError with the remedy if it is not one; CheckpointError, DataError."""
    settings = {"zsre_target": "alt", "prompt_tokens": None, "tokenizer": None} | settings_of(folder)
    kinds = {"zsre_target": str, "prompt_tokens": int | None, "tokenizer": str | None}
    wrong = [name for name, kind in kinds.items() if not isinstance(settings[name], kind)]
    if wrong or not all(isinstance(source, str) for source in settings["data"]):
        raise RunError(f"{folder / 'run.json'} has no usable {(wrong or ['data'])[0]}: train again")
    told = {name: settings[name] for name in ("model", "template", "encoder", "seed", *kinds)}
    past = TrainedRun(
        **told, data=tuple(settings["data"]), split=SplitIds.load(folder / "split.json"),
        trained=checkpoint.load(folder), trained_sha256=checkpoint.fingerprint(folder),
    )  # fmt: skip
    done, epochs = past.trained.training.get("episodes"), settings.get("epochs")
    if isinstance(done, int) and isinstance(epochs, int) and done < (asked := epochs * len(past.split.train)):
        showing.note(f"{folder} was stopped after {done} of {asked} episodes; drike train --resume {folder} ends it")
    return past


def trained_facts(past: TrainedRun) -> frozenset[Fact]:
    """The facts that a run trained on. Raises DataError where its data are not to be had any more."""
    dataset = open_data(past.data, past.zsre_target)
    return frozenset(case.edit.key for case in dataset.restore(past.split).train)


def open_encoder(name: str = MINILM) -> TextEncoder:
    """A frozen text encoder with its features on disk; many texts at once show a bar."""
    return _Watched(load_encoder(name), "encoding")


class _Watched:
    """An encoder that shows a bar while it has many texts to do."""

    def __init__(self, encoder: TextEncoder, what: str) -> None:
        self._encoder, self._what = encoder, what
        self.name, self.dim = encoder.name, encoder.dim

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """As the encoder, with a bar of its own unless the caller watches."""
        if progress is not None or len(texts) < 200:
            return self._encoder.encode(texts, progress)
        with showing.progress(self._what) as (bar, task):
            return self._encoder.encode(texts, lambda done, total: bar.update(task, completed=done, total=total))


def limit_to(
    tokens: int | None, model: LanguageModel, tokenizer: str | None = None, template: str = "plain"
) -> TokenLimit | None:
    """A limit on prompt tokens as this model counts them, or else `tokenizer`. Raises UsageError if neither does."""
    if tokens is None:
        return None
    if model.count_tokens is not None:
        return TokenLimit(tokens, model.count_tokens)
    if tokenizer is None:
        raise UsageError(
            f"{model.info.name} does not count tokens, as --prompt-tokens needs it: "
            "give the folder or hub name of its tokenizer as --tokenizer"
        )
    count = token_counter(tokenizer, template)
    return TokenLimit(tokens, lambda prompts: list(map(count, prompts)))


def describe_model(name: str, model: LanguageModel) -> dict[str, object]:
    """What a run's folder records of a model: the name it was asked for by, and what it is."""
    return {"asked": name, "name": model.info.name, **model.info.identity}


def new_run(out: Path | None, command: str) -> Path:
    """Where a run will be kept: `out`, or runs/<date>-<command>; made when first written to.

    Raises RunError if it already holds a run; one that recorded nothing is begun again.
    """
    folder = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{command}"
    if has_begun(folder):
        raise RunError(f"{folder} already holds a run: choose another --out, go on with it by --resume, or remove it")
    return folder


def record_run(
    folder: Path,
    setup: Setup,
    model: Mapping[str, object],
    settings: Mapping[str, object],
    *,
    options: Mapping[str, object] | None = None,
    trained: str | None = None,
) -> None:
    """Write split.json, then run.json: what is needed to do the run again, or to go on with it.

    settings: what the options came to. options: as given, of a command that can go on. trained: SHA-256 of the policy
    that is evaluated.
    """
    data = [{"given": s.given, "sha256": s.sha256, "rows": s.rows, "form": s.form} for s in setup.dataset.sources]
    record = {
        "command": ["drike", *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "options": None if options is None else dict(options),
        "settings": dict(settings),
        "model": dict(model),
        "trained_sha256": trained,
        "data": data,
        "data_fingerprint": setup.dataset.fingerprint,
        "encoder": setup.pool.encoder.name,
        "fallbacks": setup.pool.fallbacks,
        "versions": versions(),
    }
    setup.split.save(folder / "split.json")  # first, as a folder with run.json is a run
    write_record(folder, "run.json", with_checksum(record))
