"""Questions without a published answer: the unedited model's own answer becomes the right one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli.dry_run import CountingModel, count_own_answers
from drike.edits.edit import Aspect, BaselineQuestion, EditCase
from drike.models.served import ApiOptions
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Judge
from drike.research.evaluation.metrics import summarise
from drike.research.runs.evaluation_run import answered_cases
from tests.fakes.capitals import CAPITALS, old_object
from tests.fakes.models import ScriptedModel


def with_question(case: EditCase) -> EditCase:
    """Make a case that asks for the age of its subject, whose answer is published nowhere."""
    return replace(
        case,
        baseline_questions=(
            BaselineQuestion(Aspect.SAME_SUBJECT, f"How old is {case.edit.subject}?"),
        ),
    )


def ages(prompt: str) -> str:
    """Answer with an age; not at all for Land1, and with the new object for Land2."""
    question = prompt.splitlines()[-1]
    if not question.startswith("How old"):
        return old_object(question)
    return {"Land1?": " ", "Land2?": "New2 is its age"}.get(
        question.split()[-1], "12 years, as far as it is known"
    )


@pytest.mark.parametrize("scores", [True, False])
def test_an_unanswered_question_is_right_where_the_unedited_model_stays_with_its_own_answer(
    scores: bool,
) -> None:
    model, cases = ScriptedModel(ages, scores=scores), [*map(with_question, CAPITALS[:4])]
    answers = baseline_answers(model, [*cases, *cases])
    assert len(model.prompts) == 4 + 6 * scores, (
        "each question is asked once; answers are scored with and without the last word"
    )
    answered = with_baseline_answers(cases, answers)
    assert (answered.asked, answered.unusable, answered.new) == (4, 1, 1)
    assert [[(p.target, p.distractor) for p in case.further] for case in answered.cases] == [
        [("12 years", "New0")], [], [], [("12 years", "New3")],
    ]  # fmt: skip
    assert not any(case.baseline_questions for case in answered.cases)
    never = summarise(list(evaluate(Unedited(), model, answered.cases)))
    always = summarise(
        list(evaluate(Unedited(), ScriptedModel(lambda prompt: "New0"), answered.cases))
    )
    assert [summary.aspects["same_subject"].estimate.value for summary in (never, always)] == [
        1.0,
        0.0,
    ]
    assert not baseline_answers(model, CAPITALS[:4])


@pytest.mark.parametrize("template", ["plain", "chat"])
def test_a_dry_run_counts_what_the_unedited_model_is_asked_and_no_more_is(template: str) -> None:
    cases = [*map(with_question, CAPITALS[:4])]
    known = BaselineQuestion(Aspect.MULTI_HOP, "How old is Land3?", ("12 years",), "80 years")
    cases[3] = replace(cases[3], baseline_questions=(known,))
    counting = CountingModel("vllm:m@http://127.0.0.1:9/v1", template, ApiOptions())
    answered = count_own_answers(counting, cases, Judge(counting).rule)
    assert (answered.asked, answered.unusable, answered.new) == (4, 0, 0)
    assert counting.calls == (4 if template == "chat" else 12)
    model = ScriptedModel(ages, scores=template == "plain")
    resolved = with_baseline_answers(cases, baseline_answers(model, cases))
    for asked, asked_about in ((counting, answered.cases), (model, resolved.cases)):
        list(evaluate(FactPrompt(), asked, asked_about))
    assert len({*model.prompts}) <= len(model.prompts) <= counting.calls


def test_an_answer_that_would_be_wrong_of_the_unedited_model_itself_is_not_used() -> None:
    cases = [*map(with_question, CAPITALS[:4])]
    inconsistent = ScriptedModel(lambda prompt: "12 years")
    inconsistent.generate = ScriptedModel(lambda prompt: "12 ye").generate  # type: ignore[method-assign]
    assert set(baseline_answers(inconsistent, cases).values()) == {"12"}, (
        "the last word was cut off"
    )
    inconsistent.generate = ScriptedModel(lambda prompt: "twelve").generate  # type: ignore[method-assign]
    assert set(baseline_answers(inconsistent, cases).values()) == {""}
    assert with_baseline_answers(cases, baseline_answers(inconsistent, cases)).unusable == 4


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Paris.", "Paris"),
        (" Paris, the capital of France", "Paris"),
        ("3.5 km\nNext", "3.5 km"),
        ("a long answer without a full stop", "a long answer without a full stop"),
        ("New York City", "New York City"),
        ("", ""),
    ],
)
def test_the_models_own_answer_is_kept_to_the_end_of_its_first_clause(text: str, kept: str) -> None:
    case = EditCase(
        "1",
        CAPITALS[1].edit,
        CAPITALS[1].probes,
        (),
        (BaselineQuestion(Aspect.SAME_SUBJECT, "q?"),),
    )
    answers = baseline_answers(ScriptedModel(lambda prompt: text), [case])
    assert answers == {"q?": kept}


def test_baseline_answers_are_recorded_and_asked_for_once_per_run(
    tmp_path: Path,
) -> None:
    model, cases = ScriptedModel(ages), [*map(with_question, CAPITALS[:4])]
    first = answered_cases(tmp_path, model, cases)
    assert first is not None and first.asked == 4
    assert answered_cases(tmp_path, ScriptedModel(lambda prompt: "else"), cases) == first
    assert answered_cases(tmp_path / "other", model, CAPITALS[:4]) is None
