"""The readings of retention: all neighbours, those the model knows, and its own answers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from drike.edits.edit import Aspect
from drike.errors import ModelError
from drike.models.protocols import CustomModel, Request, Score
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GENERATE, GREEDY, OwnAnswer, Rule
from drike.research.evaluation.metrics import Outcome, summarise
from drike.research.evaluation.unedited_answers import Retention, retained, unedited_answers
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel

CASES = CAPITALS[:4]
FIRST = CASES[0].neighborhood[0]


def wrong_about_the_first(prompt: str) -> str:
    """Know every neighbour but one, whatever else the prompt says."""
    if prompt.endswith(FIRST.query):
        return "nothing of note"
    answers = {probe.query: probe.target for case in CASES for probe in case.neighborhood}
    return next((target for query, target in answers.items() if prompt.endswith(query)), "none")


def neighbours(outcomes: list[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.aspect is Aspect.NEIGHBORHOOD]


@pytest.mark.parametrize("rule", [GREEDY, GENERATE], ids=lambda rule: rule.name)
def test_a_model_that_is_left_alone_answers_as_ever_right_or_wrong(rule: Rule) -> None:
    model = ScriptedModel(wrong_about_the_first, scores=rule is GREEDY)
    unedited = unedited_answers(model, CASES, rule)
    for editor in (Unedited(), FactPrompt()):
        outcomes = list(evaluate(editor, model, CASES, rule=rule, unedited=unedited))
        summary = summarise(outcomes)
        assert summary.rr_unchanged.value == 1
        assert summary.rr_known.value == 1
        assert summary.rr.value is not None and summary.rr.value < 1
        assert {outcome.unchanged for outcome in neighbours(outcomes)} == {True}


@pytest.mark.parametrize("rule", [GREEDY, GENERATE], ids=lambda rule: rule.name)
def test_an_answer_that_is_still_right_may_have_changed(rule: Rule) -> None:
    def longer_with_a_fact(prompt: str) -> str:
        answer = wrong_about_the_first(prompt)
        return answer if "\n" not in prompt else f"{answer} of old"

    model = ScriptedModel(longer_with_a_fact, scores=rule is GREEDY)
    unedited = unedited_answers(model, CASES, rule)
    edited = list(evaluate(FactPrompt(), model, CASES, rule=rule, unedited=unedited))
    summary = summarise(edited)
    assert summary.rr_known.value == 1
    assert summary.rr_unchanged.value == 0
    assert summary.s_unchanged.value == 0


def test_each_s_has_its_own_retention() -> None:
    model = ScriptedModel(wrong_about_the_first)
    unedited = unedited_answers(model, CASES)
    outcomes = list(evaluate(FactPrompt(), model, CASES, unedited=unedited))
    right = [
        replace(outcome, correct=True) if outcome.aspect is not Aspect.NEIGHBORHOOD else outcome
        for outcome in outcomes
    ]
    summary = summarise(right)
    assert summary.rr.value is not None
    assert summary.s.value == pytest.approx(3 / (2 + 1 / summary.rr.value))
    assert summary.s_known.value == summary.s_unchanged.value == 1


def test_retention_is_not_measured_without_the_unedited_model() -> None:
    model = ScriptedModel(wrong_about_the_first)
    summary = summarise(list(evaluate(FactPrompt(), model, CASES)))
    assert summary.rr_unchanged.value is summary.s_unchanged.value is None


def test_an_answer_that_ended_must_end_again() -> None:
    def score(following: str) -> Score:
        return Score((-0.1,), greedy=True, logit_gap=1.0, following=following)

    ended = OwnAnswer(" Lima.", ended=True)
    assert ended.is_written_by(score("\n"))
    assert ended.is_written_by(score(""))
    assert not ended.is_written_by(score(" It"))
    cut_off = OwnAnswer(" Lima, which is", ended=False)
    assert cut_off.is_written_by(score(" a"))
    assert not cut_off.is_written_by(replace(score(" a"), greedy=False))


def test_training_counts_the_neighbours_of_a_reading() -> None:
    unedited = unedited_answers(ScriptedModel(wrong_about_the_first), CASES)
    known = retained(CASES, unedited, Retention.KNOWN)
    unchanged = retained(CASES, unedited, Retention.UNCHANGED)
    assert retained(CASES, unedited, Retention.ALL) == tuple(CASES)
    assert FIRST.query not in {probe.query for probe in known[0].neighborhood}
    targets = {probe.query: probe.target for probe in unchanged[0].neighborhood}
    assert targets[FIRST.query] == "nothing of note"
    for case, of_known, of_own in zip(CASES, known, unchanged, strict=True):
        edit_probes = [probe for probe in case.probes if probe not in case.neighborhood]
        for changed in (of_known, of_own):
            assert [p for p in changed.probes if p not in changed.neighborhood] == edit_probes


def test_an_answer_that_goes_on_in_the_middle_of_a_word_is_not_compared() -> None:
    """A local model refuses to score what merges with the query: one such answer stops nothing."""
    scripted = ScriptedModel(lambda prompt: "Lima")
    [case, *_] = CAPITALS
    first = case.neighborhood[0].query

    def generate(prompts: Sequence[str], limit: int, stop: str | None) -> list[str]:
        return ["ish" if prompt == first else " Lima" for prompt in prompts]

    def score(requests: Sequence[Request]) -> list[Score]:
        for request in requests:
            if not request.continuation.startswith(" "):
                raise ModelError(f"{request.continuation!r} merges with the end of its prompt")
        return scripted.score(requests)

    model = CustomModel("local", generate, score)
    answers = unedited_answers(model, [case])
    assert len(answers) == len(case.neighborhood) > 1
    for answer in answers:
        assert (answer.own is None) == (answer.query == first)
