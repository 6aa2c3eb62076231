"""Train a run's retriever and budget, as a generator that saves what it yields."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.research.editors.budgets import Budget
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.judge import LIKELIHOOD, Judge
from drike.research.runs import checkpoint, files
from drike.research.runs.events import PhaseStarted, Prepared
from drike.research.runs.method import Method, require_within_limit
from drike.research.runs.readable import ReadableTraining
from drike.research.runs.setup import Setup
from drike.research.runs.usage import usage_recorded
from drike.research.training import algorithm1
from drike.research.training.algorithm1 import (
    Episode,
    EpisodeRecord,
    in_blocks,
    replayed,
    rewrite_reward,
)

TrainingEvent = Prepared | PhaseStarted | Episode


@dataclass(frozen=True)
class _Progress:
    """What some episodes have left.

    Head, budget and count belong together whenever Ctrl-C comes: by then the next step may be half
    done.
    """

    head: Mapping[str, Any]
    budget: Budget
    episodes: int


def run_training(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: InContextEditor[RankAndCut],
    method: Method,
    *,
    described: Mapping[str, object],
    past: Sequence[EpisodeRecord] = (),
) -> Generator[TrainingEvent]:
    """Train the editor's retriever and budget; yield every episode after it is saved.

    The checkpoint is saved after each epoch and when the training ends or is stopped, as is the
    model's work. described: the model, for the checkpoint. past: episodes that this run recorded
    already; they are yielded again. Raises UsageError if there is no edit to train on, ReplayError
    for the episodes of another training, ModelError where no answer can be read.
    """
    retriever = editor.selector.ranker
    cases = setup.split.train
    total = method.epochs * len(cases)
    _require_trainable(setup, method)
    notes = setup.prepare(cases, [retriever])
    yield Prepared(tuple(notes), len(past), total)

    require_within_limit(editor, method, cases)
    readable = ReadableTraining(model, past)
    episodes = algorithm1.train(
        editor,
        replayed(past, rewrite_reward(model, rule=method.rule, hear=readable.hear)),
        cases,
        epochs=method.epochs,
        learning_rate=method.learning_rate,
        schedule=in_blocks(method.parallel_edits, model.info.calls_at_once),
    )
    yield PhaseStarted("training", total)

    assert isinstance(retriever, Retriever)  # noqa: S101 - only these are trained
    training = _training(setup, method, described)

    def save(progress: _Progress) -> None:
        details = {**training, "episodes": progress.episodes}
        trained = checkpoint.Checkpoint(retriever, progress.budget, editor.style, details)
        checkpoint.save(trained, folder)

    progress = _Progress(deepcopy(retriever.head.state_dict()), editor.selector.budget, 0)
    # Closing waits for edits that are still asked about, so their work is recorded, too.
    with usage_recorded(folder, "training", model), closing(episodes):
        try:
            for number, episode in enumerate(episodes, 1):
                progress = _Progress(deepcopy(retriever.head.state_dict()), episode.budget, number)
                if number > len(past):
                    files.append(folder / files.EPISODES, [episode.record])
                    if number % len(cases) == 0:
                        save(progress)
                yield episode
            if not Judge(model, method.rule).rule.by_scores:
                readable.require()
        finally:
            retriever.head.load_state_dict(progress.head)
            if progress.episodes:
                save(progress)


def _require_trainable(setup: Setup, method: Method) -> None:
    """Raise UsageError if there is no edit to train on, or one that the rule cannot judge."""
    cases = setup.split.train
    if not cases:
        raise UsageError(
            "there is no edit to train on: ask for fewer `test` edits or more `editable` rows"
        )
    unknown = sum(case.edit.target_true is None for case in (*cases, *setup.split.validation))
    if unknown and method.rule is LIKELIHOOD:
        raise UsageError(
            f"the rule likelihood compares with old objects, unknown for {unknown} of the edits: "
            "give their `target_true`, or train by greedy or generate"
        )


def _training(
    setup: Setup, method: Method, described: Mapping[str, object]
) -> Mapping[str, object]:
    """What the checkpoint says of the training, for people."""
    return {
        "model": dict(described),
        "data": setup.dataset.name,
        "data_fingerprint": setup.dataset.fingerprint,
        "edits": len(setup.split.train),
        "seed": setup.pool.seed,
        "method": asdict(method),
    }


def recovered_episodes(folder: Path) -> list[EpisodeRecord]:
    """The recorded episodes of a stopped training run; its file is cut to whole episodes.

    Raises RunError.
    """
    path = folder / files.EPISODES
    records = files.read_lines(path, EpisodeRecord, "train again")
    files.keep_lines(path, len(records))
    return records
