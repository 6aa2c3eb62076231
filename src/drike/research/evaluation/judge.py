"""Ask a model questions and judge its answers, in the same way for rewards and metrics, by one of three `RULES`.

If a prompt asks to reason first, target and distractor are scored after what the model wrote and its cue. A question
with challenges is a conversation: the model answers, is challenged ("Are you sure?"), and its last answer is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

from drike.answers.matching import ends_answer, ends_word, equals, first_line, matches
from drike.edits.edit import Probe
from drike.errors import UsageError
from drike.models.answers import WrittenAnswer, checked, model_input, write_answers
from drike.models.protocols import ANSWER_TOKENS, LanguageModel, Request, Score
from drike.prompts import Prompt

RuleName = Literal["greedy", "generate", "likelihood"]


@dataclass(frozen=True)
class Verdict:
    """A model's answer to a question, with its right answers, and whether it is right by a rule."""

    rule: Rule
    targets: tuple[str, ...]
    text: str | None  # what it wrote, if it was asked to
    score: Score | None  # of a target, if it was scored
    distractor: Score | None  # that of the distractor, if it was scored
    prompt_tokens: int | None
    answered: bool = True  # False if it was to reason first and wrote no cue

    @property
    def correct(self) -> bool | None:
        """Whether it is right by the rule; None if the rule cannot say, as likelihood without a distractor."""
        return self.rule.right(self)

    @property
    def greedy(self) -> bool | None:
        """Whether greedy decoding would write the target and then end the word; None without scores."""
        if self.score is None:
            return None
        following = self.score.following
        return self.answered and self.score.greedy and (following is None or ends_word(following))

    @property
    def matched(self) -> bool | None:
        """Whether the text starts with a target, both normalised; None without text."""
        return (
            None
            if self.text is None
            else any(matches(self.text, target) for target in self.targets)
        )

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
    """When an answer is right, in words (`meaning`) and as a function; by_scores: it reads log-probabilities."""

    name: RuleName
    meaning: str
    right: Callable[[Verdict], bool | None] = field(repr=False)
    by_scores: bool = True
    compares: bool = False  # with a distractor, without which it cannot say

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
    "generate", f"the first line written, at most {ANSWER_TOKENS} tokens, starts with the target, both normalised",
    attrgetter("matched"), by_scores=False,
)  # fmt: skip
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
    """A prompt, its right answer, a wrong one for margins, other right ones, and the user's turns after each answer."""

    prompt: Prompt
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()
    challenges: tuple[str, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """All right answers, the target first."""
        return (self.target, *self.also)


class Judge:
    """Asks a model and judges its answers by a rule; default: greedy, without scores generate. Raises UsageError."""

    def __init__(self, model: LanguageModel, rule: Rule | None = None) -> None:
        if rule is None:
            rule = GENERATE if model.score is None else GREEDY
        elif rule.by_scores and model.score is None:
            lacking = f"needs log-probabilities, and {model.info.name} gives none"
            raise UsageError(f"the rule {rule.name} {lacking}: judge by generate")
        self.model, self.rule = model, rule

    def ask(self, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
        """Ask the questions and judge the answers, in order.

        The model writes and scores what the rule needs, scores also where a question has a distractor, if it can, and
        writes all answers with `write`. Scores are those of the first right answer by the rule, else of the target.
        """
        asked = self._write(questions, every=write)
        verdicts = []
        for (question, written), scores in zip(asked, self._score(asked), strict=True):
            of_right: Sequence[Score | None] = scores[: len(question.right)] or (None,)
            distractor = scores[-1] if len(scores) > len(question.right) else None
            of_answers = [
                Verdict(
                    self.rule, question.right, written.answer, score, distractor, answered=written.reached_cue,
                    prompt_tokens=written.prompt_tokens if score is None else score.prompt_tokens,
                ) for score in of_right
            ]  # fmt: skip
            verdicts.append(
                next((verdict for verdict in of_answers if verdict.correct), of_answers[0])
            )
        return verdicts

    def _write(
        self, questions: Sequence[Question], *, every: bool
    ) -> list[tuple[Question, WrittenAnswer]]:
        """The questions after their challenges, with what the model wrote: `every` answer, or those that are needed."""
        written: dict[int, WrittenAnswer] = {}  # by the `id` of its prompt
        challenged: dict[
            tuple[int, str], Prompt
        ] = {}  # so that questions challenged alike share their prompt

        def challenge(question: Question) -> Question:
            if not question.challenges:
                return question
            said, *later = question.challenges
            given = written[id(question.prompt)]
            prompt = question.prompt.followed(
                f"{given.reasoning} {first_line(given.answer or '')}".strip(), said
            )
            prompt = challenged.setdefault((id(question.prompt), said), prompt)
            return replace(question, prompt=prompt, challenges=tuple(later))

        always = every or not self.rule.by_scores
        while True:
            needed = (
                q.prompt for q in questions if always or q.challenges or q.prompt.cue is not None
            )
            new = {id(prompt): prompt for prompt in needed if id(prompt) not in written}
            written.update(zip(new, write_answers(self.model, [*new.values()]), strict=True))
            if not any(question.challenges for question in questions):
                return [
                    (question, written.get(id(question.prompt), WrittenAnswer()))
                    for question in questions
                ]
            questions = [challenge(question) for question in questions]

    def _score(self, asked: Sequence[tuple[Question, WrittenAnswer]]) -> list[list[Score]]:
        """Scores of each question's right answers and distractor, as far as needed, in one call, to share prefixes."""
        answers: list[list[str]] = []
        requests: list[Request] = []
        for question, written in asked:
            needed = self.model.score is not None and (
                self.rule.by_scores or question.distractor is not None
            )
            wrong = [] if question.distractor is None else [question.distractor]
            answers.append([*question.right, *wrong] if needed else [])
            own, (text, earlier) = written.reasoning, model_input(self.model, question.prompt)
            requests += [
                Request(text + own, f" {answer}", len(own), earlier) for answer in answers[-1]
            ]
        if self.model.score is None or not requests:
            return [[] for _ in asked]
        scores = iter(
            checked(
                f"{self.model.info.name}.score", self.model.score(requests), Score, len(requests)
            )
        )
        return [[next(scores) for _ in of_question] for of_question in answers]


def ask_probes(
    judge: Judge, probes: Sequence[Probe], prompts: Sequence[Sequence[Prompt]]
) -> list[list[Verdict]]:
    """The verdict on each probe under each choice, [choices][probes], asked in one call; `prompts` has that shape."""
    questions = [
        Question(prompt, probe.target, probe.distractor if judge.rule.compares else None)
        for under_choice in prompts
        for prompt, probe in zip(under_choice, probes, strict=True)
    ]
    verdicts = iter(judge.ask(questions))
    return [[next(verdicts) for _ in probes] for _ in prompts]


def is_right(verdict: Verdict) -> bool:
    """Whether an answer is right. Raises UsageError where the rule cannot say, so that it cannot be learned from."""
    if verdict.correct is None:
        problem = f"cannot judge answers without a distractor, such as {verdict.targets[0]!r}"
        raise UsageError(f"the rule {verdict.rule.name} {problem}: train by greedy or generate")
    return verdict.correct
