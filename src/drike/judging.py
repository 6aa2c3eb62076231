"""Ask a model and judge its answers: one definition of a right answer, for rewards and metrics alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from drike.answers import ends_answer, ends_word, equals, matches
from drike.errors import ModelError
from drike.models.protocols import (
    MAX_ANSWER_TOKENS,
    MAX_REASONING_TOKENS,
    Completion,
    LanguageModel,
    Request,
    Score,
    ScoringModel,
)
from drike.prompts import Prompt

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Verdict:
    """A probe's answer, judged.

    correct: the definition used for reward and metrics. matched / exact: by the text, where one was written.
    score / distractor: of target and distractor, where the model gives scores.
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
    """A prompt with the answer that would be right and, for margins, the one that must lose."""

    prompt: Prompt
    target: str
    distractor: str | None = None


def judge(model: LanguageModel, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
    """Ask and judge, in order (design: a right answer).

    With a model that scores, an answer is right when greedy decoding would write the target and then leave the word;
    `write=True` also records the text. Without scores, or where the model reasons before it answers, the text decides.
    """
    if not isinstance(model, ScoringModel):
        return [
            _by_text(question, text, None, None, n)
            for question, (text, n) in zip(questions, complete(model, [q.prompt for q in questions]), strict=True)
        ]
    scores = _score(model, questions)
    written = [i for i, question in enumerate(questions) if write or question.prompt.cue is not None]
    texts = dict(zip(written, complete(model, [questions[i].prompt for i in written]), strict=True))
    verdicts = []
    for i, (question, (score, distractor)) in enumerate(zip(questions, scores, strict=True)):
        text, _ = texts.get(i, (None, None))
        if question.prompt.cue is not None:
            verdicts.append(_by_text(question, text, score, distractor, score.prompt_tokens))
        else:
            verdicts.append(_by_score(question, text, score, distractor))
    return verdicts


def _score(model: ScoringModel, questions: Sequence[Question]) -> list[tuple[Score, Score | None]]:
    """Target and distractor of every question in one call, so that a backend can share their prefixes."""
    requests: list[Request] = []
    for question in questions:
        # A model that reasons first is scored behind the cue alone: its free text is not part of the measure.
        text = question.prompt.text if question.prompt.cue is None else f"{question.prompt.text}\n{question.prompt.cue}"
        requests.append(Request(text, f" {question.target}"))
        if question.distractor is not None:
            requests.append(Request(text, f" {question.distractor}"))
    scores = iter(_given(model, "score", model.score(requests), Score, len(requests)))
    return [(next(scores), next(scores) if question.distractor is not None else None) for question in questions]


def complete(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = MAX_ANSWER_TOKENS
) -> list[tuple[str, int | None]]:
    """The answers a model writes, with the prompt tokens it read.

    An answer ends with its line. Where a prompt asks to reason first, the reply may run on (MAX_REASONING_TOKENS) and
    the answer is what follows its last cue.
    """
    texts: dict[int, tuple[str, int | None]] = {}
    for reasons in (False, True):
        which = [i for i, prompt in enumerate(prompts) if (prompt.cue is not None) == reasons]
        if not which:
            continue
        limit, stop = (MAX_REASONING_TOKENS, None) if reasons else (max_tokens, "\n")
        written = model.generate([prompts[i].text for i in which], limit, stop)
        for i, completion in zip(which, _given(model, "generate", written, Completion, len(which)), strict=True):
            texts[i] = (_after_cue(completion.text, prompts[i].cue), completion.prompt_tokens)
    return [texts[i] for i in range(len(prompts))]


def _given(model: LanguageModel, method: str, answers: list[Answer], kind: type[Answer], count: int) -> list[Answer]:
    """What a model returned, if it is what it should be. Raises ModelError."""
    wrong = next((answer for answer in answers if not isinstance(answer, kind)), None)
    if wrong is not None:
        raise ModelError(f"{model.name}.{method} returned a {type(wrong).__name__}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(
            f"{model.name}.{method} returned {len(answers)} answers to {count} prompts: return one for each"
        )
    return answers


def _after_cue(text: str, cue: str | None) -> str:
    """What follows the last cue; "" if the model never wrote it: no answer was given."""
    if cue is None:
        return text
    _, found, answer = text.rpartition(cue)
    return answer if found else ""


def _by_text(
    question: Question, text: str | None, score: Score | None, distractor: Score | None, tokens: int | None
) -> Verdict:
    matched = matches(text or "", question.target)
    return Verdict(matched, text, matched, equals(text or "", question.target), score, distractor, tokens)


def _by_score(question: Question, text: str | None, score: Score, distractor: Score | None) -> Verdict:
    correct = score.greedy and (score.following is None or ends_word(score.following))
    matched = None if text is None else matches(text, question.target)
    exact = equals(text, question.target) if text is not None else None
    if exact is None and score.following is not None:
        exact = score.greedy and ends_answer(score.following)
    return Verdict(correct, text, matched, exact, score, distractor, score.prompt_tokens)
