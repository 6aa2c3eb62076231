"""DR-IKE-Q as `drike train --objective s` trains it."""

from __future__ import annotations

from collections.abc import Sequence

from drike.edits.edit import EditCase
from drike.models.protocols import LanguageModel
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import QueryPolicy
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.case_answers import answers_under
from drike.research.training.s_objective import actions, train_query_policy, training_cases


def trained_policy(model: LanguageModel, pool: Pool, cases: Sequence[EditCase]) -> QueryPolicy:
    """The policy trained on these edits, in the default settings."""
    questions = training_cases(cases, pool.seed)
    asked = with_baseline_answers(questions, baseline_answers(model, questions)).cases
    answers = list(answers_under(actions(pool.roles), model, pool, asked))
    return train_query_policy(QueryPolicy.untrained(pool.encoder, pool.roles), asked, answers)[0]
