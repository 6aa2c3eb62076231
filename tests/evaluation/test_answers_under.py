"""The answers under every choice of demonstrations are those that evaluation gets."""

from __future__ import annotations

from drike.encoders import HashingEncoder
from drike.research.editors.budgets import Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut, SubjectSwitch, policy_mixes
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.evaluate import evaluate
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TEST = CAPITALS[20:30]
MIXES = policy_mixes(POOL.roles)
SELECTORS = [
    *MIXES, SubjectSwitch(MIXES[-1], MIXES[0]),
    RankAndCut(Retriever(ENCODER), Threshold(0.0625)),
]  # fmt: skip


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_answers_are_those_of_evaluation_whatever_chooses_the_demonstrations() -> None:
    for limit in (None, TokenLimit(300, words)):  # type: ignore[arg-type]
        asked, evaluated = ScriptedModel(str.upper), ScriptedModel(str.upper)
        [answers] = answers_under(SELECTORS, asked, POOL, TEST[:1], limit=limit)
        for selector, column in zip(SELECTORS, zip(*answers.correct, strict=True), strict=True):
            outcomes = evaluate(
                InContextEditor("", POOL, selector, limit=limit), evaluated, TEST[:1]
            )
            assert [outcome.correct for outcome in outcomes] == list(column)
        assert {*asked.prompts} == {*evaluated.prompts}
        assert limit is None or max(words(asked.prompts)) <= 300


def test_it_works_with_a_model_that_gives_no_scores() -> None:
    model = ScriptedModel(follows_the_fact, scores=False)
    [answers] = answers_under(MIXES, model, POOL, TEST[:1])
    assert {len(row) for row in answers.correct} == {len(MIXES)}
