"""Ask a model questions and judge its answers, in the same way for rewards and metrics.

An answer is right by one of three `RULES`. If a prompt asks to reason first, target and distractor
are scored after what the model wrote and its cue. A question with challenges is a conversation: the
model answers, is challenged ("Are you sure?"), and its last answer is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

from drike.answers.matching import ends_answer, ends_word, equals, first_line, matches
from drike.edits.edit import Probe
from drike.errors import UsageError
from drike.models.answers import (
    WrittenAnswer,
    checked,
    contrast_input,
    model_input,
    write_answers,
)
from drike.models.protocols import ANSWER_TOKENS, LanguageModel, Request, Score
from drike.prompts import Prompt

RuleName = Literal["greedy", "generate", "likelihood"]


@dataclass(frozen=True)
class OwnAnswer:
    """What the unedited model writes behind a query, letter for letter, up to the end of its line.

    text: with the white space before it. ended: whether its line ended there; where the limit on
    tokens cut it off, what the model writes next is not compared.
    """

    text: str
    ended: bool

    def is_written_by(self, score: Score) -> bool:
        """Whether greedy decoding would write this answer. score: of its text."""
        ends_alike = not self.ended or ends_line(score.following)
        return score.greedy and ends_alike


def ends_line(following: str | None) -> bool:
    """Whether a line ends where `following` comes next: with a line break, or with the text."""
    return following is not None and following.strip(" ")[:1] in {"", "\n", "\r"}


@dataclass(frozen=True)
class Verdict:
    """A model's answer to a question, with its right answers, and whether it is right by a rule.

    text: what it wrote, if it was asked to. score: of a target, if it was scored. distractor: the
    distractor's score, if it was scored. answered: False if it was to reason first and wrote no
    cue. unchanged: whether the answer is the unedited model's own; None if that one is not known.
    """

    rule: Rule
    targets: tuple[str, ...]
    text: str | None
    score: Score | None
    distractor: Score | None
    prompt_tokens: int | None
    answered: bool = True
    unchanged: bool | None = None

    @property
    def correct(self) -> bool | None:
        """Whether it is right by the rule.

        None if the rule cannot say, as likelihood without a distractor.
        """
        return self.rule.right(self)

    @property
    def greedy(self) -> bool | None:
        """Whether greedy decoding would write the target and end the word; None without scores."""
        if self.score is None:
            return None
        following = self.score.following
        return self.answered and self.score.greedy and (following is None or ends_word(following))

    @property
    def matched(self) -> bool | None:
        """Whether the text starts with a target, both normalised; None without text."""
        if self.text is None:
            return None
        return any(matches(self.text, target) for target in self.targets)

    @property
    def exact(self) -> bool | None:
        """Whether the answer is a target and nothing else; None if that is not known."""
        if self.text is not None:
            return any(equals(self.text, target) for target in self.targets)
        if self.score is None or self.score.following is None:
            return None
        return self.score.greedy and ends_answer(self.score.following)

    @property
    def prefers(self) -> bool | None:
        """Whether the target is more probable than the distractor; None unless both were scored."""
        if self.score is None or self.distractor is None:
            return None
        return self.score.mean_probability > self.distractor.mean_probability


@dataclass(frozen=True)
class Rule:
    """When an answer is right, in words (`meaning`) and as a function.

    by_scores: it reads log-probabilities. compares: with a distractor, without which it cannot say.
    """

    name: RuleName
    meaning: str
    right: Callable[[Verdict], bool | None] = field(repr=False)
    by_scores: bool = True
    compares: bool = False

    @property
    def caption(self) -> str:
        """A sentence for a table whose rows were judged by it."""
        return f"Judged by {self.name}: an answer is right if {self.meaning}."


# From the scores of the target alone, without writing anything.
GREEDY = Rule(
    "greedy",
    "greedy decoding would write exactly the target and then end the word",
    attrgetter("greedy"),
)
GENERATE = Rule(
    "generate",
    f"the first line written, at most {ANSWER_TOKENS} tokens, starts with the target, "
    "both normalised",
    attrgetter("matched"),
    by_scores=False,
)
# By geometric means of token probabilities.
LIKELIHOOD = Rule(
    "likelihood",
    "the target is more probable than its distractor (IKE's rule)",
    attrgetter("prefers"),
    compares=True,
)
RULES: dict[str, Rule] = {rule.name: rule for rule in (GREEDY, GENERATE, LIKELIHOOD)}


@dataclass(frozen=True)
class Question:
    """A prompt and its right answer.

    distractor: a wrong answer, for margins. also: other right answers. challenges: the user's turns
    after each answer of the model. own: what the unedited model answers, to compare with.
    """

    prompt: Prompt
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()
    challenges: tuple[str, ...] = ()
    own: OwnAnswer | None = None

    @property
    def right(self) -> tuple[str, ...]:
        """All right answers, the target first."""
        return (self.target, *self.also)


class Judge:
    """Asks a model and judges its answers by a rule.

    rule: default: greedy, or generate for a model without scores. Raises UsageError for a rule that
    needs scores where there are none.
    """

    def __init__(self, model: LanguageModel, rule: Rule | None = None) -> None:
        if rule is None:
            rule = GENERATE if model.score is None else GREEDY
        elif rule.by_scores and model.score is None:
            raise UsageError(
                f"the rule {rule.name} needs log-probabilities, and {model.info.name} gives none: "
                "judge by generate"
            )
        self.model = model
        self.rule = rule

    def ask(self, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
        """Ask the questions and judge the answers, in order.

        The model writes and scores what the rule needs, scores also where a question has a
        distractor, if it can, and writes all answers with `write`. Scores are those of the first
        right answer by the rule, else of the target.
        """
        answered = self._write(questions, every=write)
        scores_by_question = self._score(answered)
        return [
            self._verdict(question, written, scores)
            for (question, written), scores in zip(answered, scores_by_question, strict=True)
        ]

    def _verdict(
        self, question: Question, written: WrittenAnswer, scores: Sequence[Score]
    ) -> Verdict:
        """The verdict on an answer. scores: those of `_score`."""
        count = len(question.right)
        has_distractor = len(scores) > count and question.distractor is not None
        distractor = scores[count] if has_distractor else None
        scores_of_right: Sequence[Score | None] = scores[:count] or [None]
        unchanged = _is_unchanged(question, written, scores)
        verdicts = []
        for score in scores_of_right:
            verdict = Verdict(
                rule=self.rule,
                targets=question.right,
                text=written.answer,
                score=score,
                distractor=distractor,
                prompt_tokens=written.prompt_tokens if score is None else score.prompt_tokens,
                answered=written.reached_cue,
                unchanged=unchanged,
            )
            if verdict.correct:
                return verdict
            verdicts.append(verdict)
        return verdicts[0]

    def _write(
        self, questions: Sequence[Question], *, every: bool
    ) -> list[tuple[Question, WrittenAnswer]]:
        """The questions after all their challenges, with what the model wrote.

        It writes `every` answer, or those that the rule, a challenge or reasoning needs; each
        round of challenges is a call.
        """
        must_write = every or not self.rule.by_scores
        written: dict[int, WrittenAnswer] = {}  # by the `id` of its prompt
        challenged: dict[tuple[int, str], Prompt] = {}
        while True:
            new: dict[int, Prompt] = {}
            for question in questions:
                prompt = question.prompt
                needed = must_write or question.challenges or prompt.cue is not None
                if needed and id(prompt) not in written:
                    new[id(prompt)] = prompt
            answers = write_answers(self.model, list(new.values()))
            written.update(zip(new, answers, strict=True))

            if not any(question.challenges for question in questions):
                nothing = WrittenAnswer()
                return [
                    (question, written.get(id(question.prompt), nothing)) for question in questions
                ]
            questions = [_challenged(question, written, challenged) for question in questions]

    def _score(self, answered: Sequence[tuple[Question, WrittenAnswer]]) -> list[list[Score]]:
        """The scores of each question's right answers, its distractor and its own answer, or [].

        All in one call, so that the model can share prefixes.
        """
        requests_by_question = [self._requests(question, written) for question, written in answered]
        requests = [request for of_question in requests_by_question for request in of_question]
        if self.model.score is None or not requests:
            return [[] for _ in answered]
        answers = self.model.score(requests)
        scores = iter(checked(f"{self.model.info.name}.score", answers, Score, len(requests)))
        return [[next(scores) for _ in of_question] for of_question in requests_by_question]

    def _requests(self, question: Question, written: WrittenAnswer) -> list[Request]:
        """What is scored of a question, as far as the model can and the rule or margins need it."""
        is_needed = self.rule.by_scores or question.distractor is not None
        if self.model.score is None or not is_needed:
            return []
        continuations = [f" {answer}" for answer in question.right]
        if question.distractor is not None:
            continuations.append(f" {question.distractor}")
        if question.own is not None:
            continuations.append(question.own.text)
        text, earlier = model_input(self.model, question.prompt)
        against = contrast_input(self.model, question.prompt)
        prompt = text + written.reasoning
        return [
            Request(prompt, continuation, len(written.reasoning), earlier, against)
            for continuation in continuations
        ]


def _is_unchanged(
    question: Question, written: WrittenAnswer, scores: Sequence[Score]
) -> bool | None:
    """Whether the answer is the unedited model's own; None without one.

    scores: those of `Judge._score`, by which greedy decoding is followed where there are any.
    """
    if question.own is None:
        return None
    if scores:
        return written.reached_cue and question.own.is_written_by(scores[-1])
    return first_line(written.answer or "") == first_line(question.own.text)


def _challenged(
    question: Question,
    written: dict[int, WrittenAnswer],
    challenged: dict[tuple[int, str], Prompt],
) -> Question:
    """The question after the model's answer and its first challenge; itself without a challenge.

    written: by the `id` of a prompt. challenged: the prompts made so far, by that `id` and the
    challenge, so that questions that are challenged alike share their prompt and are asked once.
    """
    if not question.challenges:
        return question
    challenge, *later = question.challenges
    key = (id(question.prompt), challenge)
    if key not in challenged:
        written_answer = written[id(question.prompt)]
        answer = f"{written_answer.reasoning} {first_line(written_answer.answer or '')}".strip()
        challenged[key] = question.prompt.followed(answer, challenge)
    return replace(question, prompt=challenged[key], challenges=tuple(later))


def ask_probes(
    judge: Judge, probes: Sequence[Probe], prompts: Sequence[Sequence[Prompt]]
) -> list[list[Verdict]]:
    """The verdict on each probe under each choice, [choices][probes], asked in one call.

    prompts: [choices][probes], too.
    """
    [verdicts] = ask_cases(judge, [probes], [prompts])
    return verdicts


def ask_cases(
    judge: Judge,
    probes_by_case: Sequence[Sequence[Probe]],
    prompts_by_case: Sequence[Sequence[Sequence[Prompt]]],
) -> list[list[list[Verdict]]]:
    """What `ask_probes` returns for each of several cases, asked in one call."""
    questions = []
    for probes, prompts in zip(probes_by_case, prompts_by_case, strict=True):
        for prompts_of_choice in prompts:
            for prompt, probe in zip(prompts_of_choice, probes, strict=True):
                distractor = probe.distractor if judge.rule.compares else None
                questions.append(Question(prompt, probe.target, distractor))
    verdicts = iter(judge.ask(questions))
    return [
        [[next(verdicts) for _ in probes] for _ in prompts]
        for probes, prompts in zip(probes_by_case, prompts_by_case, strict=True)
    ]


def is_right(verdict: Verdict) -> bool:
    """Whether an answer is right.

    Raises UsageError where the rule cannot say, so that it cannot be learned from.
    """
    if verdict.correct is None:
        raise UsageError(
            f"the rule {verdict.rule.name} cannot judge answers without a distractor, such as "
            f"{verdict.targets[0]!r}: train by greedy or generate"
        )
    return verdict.correct
