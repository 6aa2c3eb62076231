"""Record training and evaluation in a run's folder as they go, so that they can be stopped at any time."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import EditCase
from drike.evaluation.evaluate import evaluate
from drike.evaluation.judge import GREEDY
from drike.evaluation.metrics import Outcome
from drike.models.protocols import LanguageModel
from drike.runs import checkpoint
from drike.runs import folder as files
from drike.runs.checkpoint import Checkpoint
from drike.support.files import write_text
from drike.training.algorithm1 import Episode


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


def recorded_training(
    folder: Path,
    episodes: Generator[Episode],
    editor: InContextEditor[RankAndCut],
    model: LanguageModel,
    training: Mapping[str, object],
    *,
    per_epoch: int,
    past: int = 0,
) -> Generator[Episode]:
    """Pass on the episodes of an editor's training, each after it is saved.

    The checkpoint is saved after each epoch and when the training ends or is stopped, as is the model's work. training:
    its description for the checkpoint. past: number of episodes that the folder holds already.
    """
    retriever, budget = editor.selector.ranker, editor.selector.budget
    done = 0
    assert isinstance(retriever, Retriever)  # noqa: S101 - only these are trained
    head = deepcopy(retriever.head.state_dict())

    def save() -> None:
        checkpoint.save(Checkpoint(retriever, budget, editor.style, {**training, "episodes": done}), folder)

    with usage_recorded(folder, "training", model), closing(episodes):  # it waits for edits that are still asked about
        try:
            for episode in episodes:
                # Head, budget and count belong together whenever Ctrl-C comes: the next step may be half done by then.
                budget, done, head = episode.budget, done + 1, deepcopy(retriever.head.state_dict())
                if done > past:
                    files.append(folder / "episodes.jsonl", [asdict(files.EpisodeRecord.of(episode))])
                    if done % per_epoch == 0:
                        save()
                yield episode
        finally:
            retriever.head.load_state_dict(head)
            if done:
                save()


def judged_both_ways(
    folder: Path, editor: Editor, model: LanguageModel, cases: Sequence[EditCase]
) -> tuple[Outcome, ...]:
    """The outcomes of a sample by scores and by text, saved when complete, read where saved. Raises RunError."""
    path = files.outcomes_path(folder, editor.name, files.BOTH_WAYS)
    outcomes = files.read_outcomes(path)
    asked = [(case.case_id, probe.asked) for case in cases for probe in case.asked]
    if [(outcome.case_id, outcome.query) for outcome in outcomes] != asked:
        with (
            usage_recorded(folder, "judged both ways", model),
            closing(evaluate(editor, model, cases, rule=GREEDY, write=True)) as judged,
        ):
            outcomes = list(judged)
        write_text(path, "".join(json.dumps(asdict(outcome), ensure_ascii=False) + "\n" for outcome in outcomes))
    return tuple(outcomes)


def recorded_prompts(folder: Path, editor: Editor, cases: Sequence[EditCase]) -> None:
    """Save an editor's prompts of a sample of cases, unless they are saved already."""
    path = files.outcomes_path(folder, editor.name, files.PROMPTS)
    if path.exists():
        return
    lines = []
    for case in cases:
        queries = list(dict.fromkeys(probe.query for probe in case.asked))
        prompts = dict(zip(queries, editor.prompts(case.edits, queries), strict=True))
        blocks = tuple(dict.fromkeys(block for prompt in prompts.values() for block in prompt.blocks))
        position = {block: i for i, block in enumerate(blocks)}
        positions = {query: tuple(position[block] for block in prompt.blocks) for query, prompt in prompts.items()}
        lines.append(json.dumps(asdict(files.CasePrompts(case.case_id, blocks, positions)), ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


@contextmanager
def usage_recorded(folder: Path, part: str, model: LanguageModel) -> Iterator[None]:
    """Record the model's work within the block as that of a part of the run, however the block ends."""
    before, known = model.usage, files.read_usage(folder)
    try:
        yield
    finally:
        files.add_usage(folder, part, model.usage - before, known)
