"""Ask a model and judge its answers, in the same way for rewards and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from drike.answers import ends_answer, ends_word, equals, matches
from drike.errors import ModelError
from drike.models.protocols import MAX_ANSWER_TOKENS, MAX_REASONING_TOKENS, Completion, LanguageModel, Request, Score
from drike.prompts import Prompt

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Verdict:
    """The judgement of an answer.

    correct: as used for rewards and metrics. matched, exact: whether the text, if there is one, starts with the target,
    or equals it. score, distractor: scores of the target and the distractor, if the model scores.
    """

    correct: bool
    text: str | None
    matched: bool | None
    exact: bool | None
    score: Score | None
    distractor: Score | None
    prompt_tokens: int | None


@dataclass(frozen=True)
class Question:
    """A prompt, its right answer and, for margins, a wrong one. also: other right answers."""

    prompt: Prompt
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()


def judge(model: LanguageModel, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
    """Ask the questions and judge the answers, in order.

    With a model that scores, an answer is right if greedy decoding would write the target and then end the word;
    `write=True` also generates the text. Without scores, or if the prompt asks to reason first, the text decides.
    Where several answers are right, the verdict is that of the first of them that the model gives, else of the target.
    """
    every = [replace(one, target=target, also=()) for one in questions for target in (one.target, *one.also)]
    verdicts = iter(_judge_each(model, every, write=write))
    of_each = ([next(verdicts) for _ in range(1 + len(one.also))] for one in questions)
    return [next((one for one in found if one.correct), found[0]) for found in of_each]


def _judge_each(model: LanguageModel, questions: Sequence[Question], *, write: bool) -> list[Verdict]:
    """Judge questions with one right answer each; questions that share a prompt object share its text."""
    scores = _score(model, questions)
    written = {id(one.prompt): one.prompt for one in questions if write or one.prompt.cue is not None or not scores}
    texts = dict(zip(written, complete(model, list(written.values())), strict=True))
    verdicts = []
    for i, question in enumerate(questions):
        text, tokens = texts.get(id(question.prompt), (None, None))
        score, distractor = scores[i] if scores else (None, None)
        correct = matched = None if text is None else matches(text, question.target)
        exact = None if text is None else equals(text, question.target)
        if score is not None:
            tokens = score.prompt_tokens
            if question.prompt.cue is None:
                correct = score.greedy and (score.following is None or ends_word(score.following))
            if exact is None and score.following is not None:
                exact = score.greedy and ends_answer(score.following)
        verdicts.append(Verdict(bool(correct), text, matched, exact, score, distractor, tokens))
    return verdicts


def _score(model: LanguageModel, questions: Sequence[Question]) -> list[tuple[Score, Score | None]]:
    """Score target and distractor of every question in one call, so that prefixes are shared; [] without scores."""
    if model.score is None:
        return []
    requests: list[Request] = []
    for question in questions:
        # If the model is to reason first, it is scored after the cue, without any reasoning.
        text = question.prompt.text if question.prompt.cue is None else f"{question.prompt.text}\n{question.prompt.cue}"
        requests.append(Request(text, f" {question.target}"))
        if question.distractor is not None:
            requests.append(Request(text, f" {question.distractor}"))
    scores = iter(_checked(model, "score", model.score(requests), Score, len(requests)))
    return [(next(scores), next(scores) if question.distractor is not None else None) for question in questions]


def complete(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = MAX_ANSWER_TOKENS
) -> list[tuple[str, int | None]]:
    """Let the model answer; return each answer with its number of prompt tokens.

    An answer is one line. If a prompt asks to reason first, the reply may have MAX_REASONING_TOKENS, and the answer is
    the text after its last cue; "" if the model wrote no cue.
    """
    texts: dict[int, tuple[str, int | None]] = {}
    for reasons in (False, True):
        which = [i for i, prompt in enumerate(prompts) if (prompt.cue is not None) == reasons]
        if not which:
            continue
        limit, stop = (MAX_REASONING_TOKENS, None) if reasons else (max_tokens, "\n")
        written = model.generate([prompts[i].text for i in which], limit, stop)
        for i, completion in zip(which, _checked(model, "generate", written, Completion, len(which)), strict=True):
            _, cue, answer = completion.text.rpartition(prompts[i].cue or "\n")
            texts[i] = (completion.text if not reasons else answer if cue else "", completion.prompt_tokens)
    return [texts[i] for i in range(len(prompts))]


def _checked(model: LanguageModel, method: str, answers: list[Answer], kind: type[Answer], count: int) -> list[Answer]:
    """Return a model's answers if they are of the right kind and number. Raises ModelError."""
    called = f"{model.info.name}.{method}"
    if wrong := [type(answer).__name__ for answer in answers if not isinstance(answer, kind)]:
        raise ModelError(f"{called} returned a {wrong[0]}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(f"{called} returned {len(answers)} answers to {count} prompts: return one for each")
    return answers
