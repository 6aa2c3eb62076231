"""A task with a model that believes any fact it is shown, and a policy trained on its answers."""

from __future__ import annotations

from drike.edits.edit import EditCase
from drike.encoders import HashingEncoder
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import QueryPolicy
from drike.research.evaluation.case_answers import answers_under
from drike.research.training.s_objective import actions, train_query_policy
from tests.fakes.capitals import CAPITALS, old_object
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TRAIN, TEST = CAPITALS[:20], CAPITALS[20:30]
ACTIONS = actions(POOL.roles)
UNTRAINED = QueryPolicy.untrained(ENCODER, POOL.roles)


def suggestible(prompt: str) -> str:
    """Answer every question with the new object unless that stands alone."""
    *shown, question = prompt.splitlines()
    return shown[-1].split()[-1] if shown else old_object(question)


MODEL = ScriptedModel(suggestible)


def trained(*, price: float = 0.05, cases: tuple[EditCase, ...] = TRAIN) -> QueryPolicy:
    """DR-IKE-Q's policy, trained on the model's answers."""
    return train_query_policy(
        UNTRAINED, cases, list(answers_under(ACTIONS, MODEL, POOL, cases)), price=price
    )[0]
