"""A model's answers to all probes of an edit under every cut: asked once, and used by training and by ceilings.

The model and the demonstrations do not change, so an answer that is known need not be asked again. All prompts of an
edit go to the model in one call: they share most of their text.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from drike.edits import EditCase
from drike.judging import Question, judge
from drike.models.protocols import LanguageModel
from drike.parallel import in_order
from drike.prompts import PromptStyle
from drike.retrieval.cuts import Cut
from drike.retrieval.pool import Pool


@dataclass(frozen=True)
class CaseAnswers:
    """Whether the answers to a case's probes were right under each cut.

    correct: [probes, cuts]. prompt_tokens: read, as if prompts shared nothing, [probes, cuts]; None if unknown.
    """

    case_id: str
    correct: tuple[tuple[bool, ...], ...]
    prompt_tokens: tuple[tuple[int | None, ...], ...]


def answers_under(
    cuts: Sequence[Cut],
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    style: PromptStyle = PromptStyle(),
) -> Generator[CaseAnswers, None, None]:
    """Ask the probes of every case under each cut, several cases at once where the model takes several calls.

    Raises PoolError, and the ModelErrors of the model.
    """
    pool.candidates([case.edit for case in cases])  # all in one search

    def ask(case: EditCase) -> CaseAnswers:
        [candidates] = pool.candidates([case.edit])
        shown = [cut.shown(candidates) for cut in cuts]
        verdicts = judge(
            model,
            [
                Question(style.write(case.edit, demonstrations, [probe.query])[0], probe.target)
                for probe in case.probes
                for demonstrations in shown
            ],
        )
        rows = [verdicts[i : i + len(cuts)] for i in range(0, len(verdicts), len(cuts))]
        return CaseAnswers(
            case.case_id,
            tuple(tuple(verdict.correct for verdict in row) for row in rows),
            tuple(tuple(verdict.prompt_tokens for verdict in row) for row in rows),
        )

    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered
