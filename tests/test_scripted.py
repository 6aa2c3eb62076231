"""Scripted models keep the protocols, and their scores say what they write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.errors import ModelError
from drike.judging import Question, judge
from drike.models.protocols import LanguageModel, Request, ScoringModel
from drike.models.scripted import ScriptedModel, ScriptedWriter
from drike.prompts import bare

WORDS = st.lists(st.sampled_from(["New", "York", "Newton", "Rome", "is"]), min_size=1, max_size=4).map(" ".join)


def test_a_writer_has_no_score_and_a_model_has() -> None:
    assert isinstance(ScriptedWriter(str.upper), LanguageModel)
    assert not isinstance(ScriptedWriter(str.upper), ScoringModel)
    assert isinstance(ScriptedModel(str.upper), ScoringModel)


@given(WORDS, WORDS)
def test_writing_and_scoring_lead_to_the_same_verdict(answer: str, target: str) -> None:
    question = [Question(bare("Ada comes from"), target, "Lima")]
    [scored] = judge(ScriptedModel(lambda prompt: answer), question, write=True)
    [written] = judge(ScriptedWriter(lambda prompt: answer), question)
    assert scored.correct == scored.matched == written.correct
    assert scored.exact == written.exact
    assert scored.score is not None and scored.distractor is not None
    assert scored.score.greedy == answer.startswith(target) == (scored.score.margin > 0)
    assert not scored.distractor.greedy


def test_answers_are_cut_and_calls_counted() -> None:
    model = ScriptedModel(lambda prompt: f"{prompt} one two\nthree")
    assert [c.text for c in model.generate(["a", "b"])] == [" a one two", " b one two"]
    assert model.generate(["a"], max_tokens=2)[0].text == " a one"
    assert model.generate(["a"], stop=None)[0].text == " a one two\nthree"
    model.score([Request("a", " a one")])
    assert (model.calls, model.prompts) == (4, ["a", "b", "a", "a", "a"])


def test_a_better_answer_is_more_probable() -> None:
    model = ScriptedModel(lambda prompt: "New York")
    right, half, wrong = model.score([Request("x", f" {target}") for target in ("New York", "New Rome", "Lima Rome")])
    assert right.logprob > half.logprob > wrong.logprob
    assert right.following == ""
    with pytest.raises(ModelError, match="empty"):
        model.score([Request("x", " ")])
