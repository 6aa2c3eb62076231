import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from drike.edits.edit import Aspect, Edit, rewrite_probe
from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.prompts import Prompt
from drike.research.editors.budgets import Fraction, SameCount, Threshold
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Judge, Question
from drike.research.evaluation.metrics import summarise
from drike.research.training.algorithm1 import rewrite_reward, train
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.models import ScriptedModel

CASES = CAPITALS[:10]
POOL = Pool(CAPITALS[10:], HashingEncoder())


def test_a_perfect_reader_scores_1_when_edited_and_keeps_its_old_facts_unedited() -> None:
    model = ScriptedModel(follows_the_fact)
    plain = list(evaluate(Unedited(), model, CASES))
    edited = list(
        evaluate(
            InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0))), model, CASES
        )
    )
    summary = summarise(edited, plain)
    assert (summary.esr.value, summary.pc.value) == (1, 1)
    assert summary.rr_known.value == 1
    before = summarise(plain, plain)
    assert (before.esr.value, before.pc.value, before.s.value) == (0, 0, 0)
    assert before.rr.value == summary.rr.value


def test_every_probe_has_exactly_one_outcome_in_order() -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES))
    assert [(o.case_id, o.query) for o in outcomes] == [
        (c.case_id, p.query) for c in CASES for p in c.probes
    ]
    assert {o.editor for o in outcomes} == {"FactPrompt"}


def test_a_case_takes_one_model_call() -> None:
    model = ScriptedModel(follows_the_fact)
    list(evaluate(FactPrompt(), model, CASES))
    assert model.calls == len(CASES)


def test_a_generate_only_model_has_the_same_rates_and_no_margins() -> None:
    scored = summarise(list(evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES)))
    written = summarise(
        list(evaluate(FactPrompt(), ScriptedModel(follows_the_fact, scores=False), CASES))
    )
    assert (written.esr, written.pc, written.rr, written.s) == (
        scored.esr,
        scored.pc,
        scored.rr,
        scored.s,
    )
    assert written.esm.value is None and scored.esm.value is not None


def test_margins_compare_the_target_with_its_distractor() -> None:
    [outcome, *_] = evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES[:1])
    assert outcome.aspect is Aspect.REWRITE
    assert outcome.prob_margin == pytest.approx(0.9 - 0.001)
    assert outcome.logprob_margin == pytest.approx(math.log(0.9 / 0.001))
    assert outcome.prefers and outcome.correct and outcome.exact


def test_generated_answers_recorded_beside_scores_agree_with_them() -> None:
    for outcome in evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES[:2], write=True):
        assert outcome.answer is not None
        assert outcome.matched == outcome.correct


@pytest.mark.parametrize(
    ("written", "right"), [("New", True), ("Newton", False), ("New York", True), ("Old", False)]
)
def test_a_scored_target_is_right_only_at_a_word_boundary(written: str, right: bool) -> None:
    question = [Question(Prompt("It is"), "New", "Old")]
    assert Judge(ScriptedModel(lambda p: written)).ask(question)[0].correct is right
    assert Judge(ScriptedModel(lambda p: written, scores=False)).ask(question)[0].correct is right


def test_edits_the_retriever_was_trained_on_are_refused_unless_allowed() -> None:
    model, encoder = ScriptedModel(follows_the_fact), HashingEncoder()
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(encoder), Threshold()))
    list(evaluate(editor, model, CASES))
    list(train(editor, rewrite_reward(model), CASES[:2], epochs=1))
    asked = len(model.prompts)
    control = replace(
        editor, selector=RankAndCut(Similarity(), SameCount(editor.selector.ranker, Threshold()))
    )
    for one in (editor, control):
        with pytest.raises(
            UsageError, match=f"trained on 2 of these {len(CASES)} edits: leave them out"
        ):
            next(evaluate(one, model, CASES))
    assert len(model.prompts) == asked, "the model must not be called"
    assert len(list(evaluate(editor, model, CASES, allow_trained=True))) == sum(
        len(case.probes) for case in CASES
    )
    assert list(evaluate(editor, model, CASES[2:]))


@dataclass(frozen=True)
class Own:
    """An editor that says which edits it was trained on."""

    trained_on: frozenset[tuple[str, str]]
    name: str = "own"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        return FactPrompt().prompts(edits, queries)


def test_all_edits_of_a_case_are_in_force_and_checked_against_training() -> None:
    second = CAPITALS[20].edit
    case = replace(
        CASES[0], probes=(*CASES[0].probes, rewrite_probe(second)), other_edits=(second,)
    )
    model = ScriptedModel(
        lambda prompt: next((f for f in facts(prompt) if asks(prompt, f)), "?").split()[-1]
    )

    def facts(prompt: str) -> list[str]:
        return [line.removeprefix("Imagine that ").rstrip(".") for line in prompt.splitlines()[:-1]]

    def asks(prompt: str, fact: str) -> bool:
        return fact.startswith(prompt.splitlines()[-1])

    outcomes = list(evaluate(FactPrompt(), model, [case]))
    assert [one.correct for one in outcomes if one.aspect is Aspect.REWRITE] == [True, True]
    assert list(evaluate(Own(frozenset()), model, [case]))
    with pytest.raises(UsageError, match="own was trained on 1 of these 2 edits"):
        list(evaluate(Own(frozenset({second.key})), model, [CASES[1], case]))
