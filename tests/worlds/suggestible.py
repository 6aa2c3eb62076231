"""A model that gives the new object to every question unless four retains are shown, and a policy trained on it."""

from __future__ import annotations

from drike.editors.pool import Pool
from drike.editors.query_policy import QueryPolicy
from drike.editors.role_counts import mixes_of
from drike.edits import EditCase
from drike.encoders import HashingEncoder
from drike.evaluation.answer_matrix import answers_under
from drike.training.s_objective import train_query_policy
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS, old_object

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TRAIN, TEST = CAPITALS[:20], CAPITALS[20:30]
MIXES = mixes_of(POOL.roles)


def suggestible(prompt: str) -> str:
    """Answer every question with the new object, unless at least four demonstrations keep their old one."""
    *shown, question = prompt.splitlines()
    kept = sum(line.startswith("Prompt: ") and line.split()[-1].startswith("Old") for line in shown)
    return old_object(question) if kept >= 4 else shown[-1].split()[-1]


MODEL = ScriptedModel(suggestible)


def trained(*, price: float = 0.05, cases: tuple[EditCase, ...] = TRAIN, named: bool = True) -> QueryPolicy:
    """DR-IKE-Q's policy, trained on the model's answers."""
    policy = QueryPolicy(ENCODER, MIXES, named=named)
    answers = list(answers_under(MIXES, MODEL, POOL, cases))
    *_, _ = train_query_policy(policy, cases, answers, price=price)
    return policy
