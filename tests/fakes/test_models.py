"""Scripted models follow the protocols, and their scores agree with their answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.errors import ModelError
from drike.models.protocols import Completion, CustomModel, LanguageModel, ModelInfo, Request, Score
from drike.prompts import Prompt
from drike.research.evaluation.judge import Judge, Question
from tests.fakes.models import ScriptedModel

WORDS = st.lists(
    st.sampled_from(["New", "York", "Newton", "Rome", "is"]), min_size=1, max_size=4
).map(" ".join)


def test_a_scripted_model_scores_unless_it_only_writes() -> None:
    models: list[LanguageModel] = [ScriptedModel(str.upper, scores=False), ScriptedModel(str.upper)]
    assert [model.score is not None for model in models] == [False, True]


@given(WORDS, WORDS)
def test_scripted_generation_and_scores_give_the_same_verdict(answer: str, target: str) -> None:
    question = [Question(Prompt("Ada comes from"), target, "Lima")]
    [scored] = Judge(ScriptedModel(lambda prompt: answer)).ask(question, write=True)
    [written] = Judge(ScriptedModel(lambda prompt: answer, scores=False)).ask(question)
    assert scored.correct == scored.matched == written.correct
    assert scored.exact == written.exact
    assert scored.score is not None and scored.distractor is not None
    assert scored.score.greedy == answer.startswith(target) == (scored.score.logit_gap > 0)
    assert not scored.distractor.greedy


def test_scripted_answers_are_cut_and_calls_counted() -> None:
    model = ScriptedModel(lambda prompt: f"{prompt} one two\nthree")
    assert [c.text for c in model.generate(["a", "b"])] == [" a one two", " b one two"]
    assert model.generate(["a"], max_tokens=2)[0].text == " a one"
    assert model.generate(["a"], stop=None)[0].text == " a one two\nthree"
    model.score([Request("a", " a one")])
    assert (model.calls, model.prompts) == (4, ["a", "b", "a", "a", "a"])


def test_a_better_answer_is_more_probable() -> None:
    model = ScriptedModel(lambda prompt: "New York")
    right, half, wrong = model.score(
        [Request("x", f" {target}") for target in ("New York", "New Rome", "Lima Rome")]
    )
    assert right.logprob > half.logprob > wrong.logprob
    assert right.following == ""
    with pytest.raises(ModelError, match="empty"):
        model.score([Request("x", " ")])


def test_a_custom_model_is_built_from_functions() -> None:
    def generate(
        prompts: Sequence[str], max_tokens: int, stop: str | None
    ) -> list[str | Completion]:
        return [f" {prompts[0]} {max_tokens}\nmore", Completion(" kept\nwhole", 3)]

    model: LanguageModel = CustomModel("mine", generate)
    assert model.generate(["a", "b"], 5) == [Completion(" a 5"), Completion(" kept\nwhole", 3)]
    assert (model.info, model.score, model.count_tokens) == (ModelInfo("mine"), None, None)
    assert (model.usage.calls, model.usage.prompts) == (1, 2) and model.usage.seconds > 0
    rated = Score((-1.0,), True, 2.0)
    scoring = CustomModel(
        "mine",
        generate,
        lambda requests: [rated],
        count_tokens=lambda prompts: [7],
        calls_at_once=3,
    )
    assert scoring.score is not None and scoring.score([Request("a", " b")]) == [rated]
    assert scoring.count_tokens is not None and scoring.count_tokens(["a"]) == [7]
    assert (scoring.info.calls_at_once, scoring.usage.prompts) == (3, 1)
