"""Whether a model's answers could be read: a run of which none could says nothing of any editor."""

from collections.abc import Iterable, Sequence

from drike.answers.thoughts import without_thoughts
from drike.errors import ModelError
from drike.models.protocols import LanguageModel
from drike.research.evaluation.judge import Verdict
from drike.research.training.algorithm1 import EpisodeRecord

_ENOUGH = 64  # answers, none of which can be read, after which a training does not go on


def require_readable(model: LanguageModel, answers: Iterable[str | None], kept: str = "") -> None:
    """Raise ModelError if there are answers and none has a word. kept: where they are, if known."""
    count = 0
    for answer in answers:
        if _is_readable(answer):
            return
        count += 1
    if count:
        raise _unreadable(model, f"all {count:,} are empty, or end before its thoughts do{kept}")


class ReadableTraining:
    """Listens to a training's answers, so that it ends where none can be read.

    past: its episodes so far, whose answers are not known, but whether they were right. For rules
    that judge by scores nothing is asked of the answers.
    """

    def __init__(self, model: LanguageModel, past: Sequence[EpisodeRecord] = ()) -> None:
        self._model = model
        self._is_readable = any(any(episode.correct) for episode in past)
        self._unreadable = 0

    def hear(self, verdict: Verdict) -> None:
        """Take note of an answer. Raises ModelError where enough could not be read."""
        if verdict.rule.by_scores or _is_readable(verdict.text):
            self._is_readable = True
            return
        self._unreadable += 1
        if self._unreadable >= _ENOUGH:
            self.require()

    def require(self) -> None:
        """Raise ModelError if no answer could be read, or was right in the past."""
        if not self._is_readable:
            heard = (
                f"{self._unreadable:,} of this training are empty, or end before its thoughts do"
            )
            raise _unreadable(self._model, f"{heard}, and none before was right")


def _is_readable(answer: str | None) -> bool:
    """Whether an answer has a word beside its thoughts."""
    return bool(without_thoughts(answer or "").strip())


def _unreadable(model: LanguageModel, which: str) -> ModelError:
    return ModelError(
        f"no answer of {model.info.name} could be read: {which}: ask it anew with more "
        "--thinking-tokens, or without thinking (--reasoning-effort none)"
    )
