"""A model's answers to all probes of an edit under every mix: asked once, and used by training and by ceilings.

The model and the demonstrations do not change, so an answer that is known need not be asked again. All prompts of an
edit go to the model in one call: they share most of their text.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from drike.editors.per_query import prompt_with
from drike.edits import EditCase
from drike.judging import Question, judge
from drike.models.protocols import LanguageModel
from drike.parallel import in_order
from drike.prompts import PromptStyle
from drike.retrieval.budget import TokenLimit
from drike.retrieval.mixes import Mix
from drike.retrieval.pool import Pool


@dataclass(frozen=True)
class CaseAnswers:
    """Whether the answers to a case's probes were right under each mix.

    correct: [probes, mixes]. prompt_tokens: read, as if prompts shared nothing, [probes, mixes]; None if unknown.
    """

    case_id: str
    correct: tuple[tuple[bool, ...], ...]
    prompt_tokens: tuple[tuple[int | None, ...], ...]


def answers_under(
    mixes: Sequence[Mix],
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
) -> Generator[CaseAnswers, None, None]:
    """Ask the probes of every case under each mix, several cases at once where the model takes several calls.

    limit: prompts that are longer lose demonstrations from their end, as in evaluation.
    Raises PoolError, and the ModelErrors of the model.
    """
    pool.candidates([case.edit for case in cases])  # all in one search

    def ask(case: EditCase) -> CaseAnswers:
        [candidates] = pool.candidates([case.edit])
        shown = [mix.shown(candidates) for mix in mixes]
        verdicts = judge(
            model,
            [
                Question(prompt_with(demonstrations, case.edit, probe.query, style, limit), probe.target)
                for probe in case.probes
                for demonstrations in shown
            ],
        )
        rows = [verdicts[i : i + len(mixes)] for i in range(0, len(verdicts), len(mixes))]
        return CaseAnswers(
            case.case_id,
            tuple(tuple(verdict.correct for verdict in row) for row in rows),
            tuple(tuple(verdict.prompt_tokens for verdict in row) for row in rows),
        )

    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered
