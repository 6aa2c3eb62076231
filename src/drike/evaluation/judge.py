"""Ask a model questions and judge its answers, in the same way for rewards and metrics.

A `Rule` says when an answer is right, and a `Judge` asks a model and judges its answers by a rule. There are three
rules, and all rows of a table share one:

greedy      every token of the target is the model's first choice, and the token after it ends the word; exact text,
            read from the scores of the target without writing anything
generate    the first line that the model writes (greedily, ANSWER_TOKENS at most) starts with the target at a word
            boundary, both normalised as in `drike.matching`
likelihood  P(target) > P(distractor), both as geometric means of token probabilities (IKE's P(new) > P(old))

If a prompt asks to reason first, the model reasons first under each of them, and target and distractor are scored
after what it wrote and its cue. A question with challenges is a conversation: the model answers, is challenged ("Are
you sure?"), and its last answer is judged by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

from drike.edits import Probe
from drike.errors import UsageError
from drike.evaluation.completion import WrittenAnswer, checked, model_input, write_answers
from drike.matching import ends_answer, ends_word, equals, matches
from drike.models.protocols import ANSWER_TOKENS, LanguageModel, Request, Score
from drike.prompts import Prompt

RuleName = Literal["greedy", "generate", "likelihood"]


@dataclass(frozen=True)
class Verdict:
    """A model's answer to a question, and whether it is right by a rule.

    targets: the right answers. text: what it wrote, if it was asked to write. score, distractor: scores of a target and
    the distractor, if they were scored. answered: False if it was to reason first and wrote no cue.
    """

    rule: Rule
    targets: tuple[str, ...]
    text: str | None
    score: Score | None
    distractor: Score | None
    prompt_tokens: int | None
    answered: bool = True

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
        return None if self.text is None else any(matches(self.text, target) for target in self.targets)

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
    """When an answer is right.

    meaning: in words, for captions. right: None where the rule cannot say. by_scores: whether it reads
    log-probabilities. compares: whether it needs a distractor.
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


GREEDY = Rule("greedy", "greedy decoding would write exactly the target and then end the word", attrgetter("greedy"))
GENERATE = Rule(
    "generate",
    f"the first line written, at most {ANSWER_TOKENS} tokens, starts with the target, both normalised",
    attrgetter("matched"),
    by_scores=False,
)
LIKELIHOOD = Rule(
    "likelihood", "the target is more probable than its distractor (IKE's rule)", attrgetter("prefers"), compares=True
)
RULES: dict[str, Rule] = {rule.name: rule for rule in (GREEDY, GENERATE, LIKELIHOOD)}


@dataclass(frozen=True)
class Question:
    """A prompt, its right answer and, for margins, a wrong one. also: other right answers.

    challenges: what the user says after each answer of the model; its last answer is judged.
    """

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
            raise UsageError(
                f"the rule {rule.name} needs log-probabilities, and {model.info.name} gives none: judge by generate"
            )
        self.model, self.rule = model, rule

    def ask(self, questions: Sequence[Question], *, write: bool = False) -> list[Verdict]:
        """Ask the questions and judge the answers, in order.

        The model writes and scores what the rule needs. It also scores where a question has a distractor, if it can,
        and writes every answer with `write=True`. Where several answers are right, the scores are those of the first
        of them that is right by the rule, else of the target.
        """
        questions, written = self._write(questions, every=write)
        verdicts = []
        for question, (scores, distractor) in zip(questions, self._score(questions, written), strict=True):
            text = written.get(id(question.prompt), WrittenAnswer())
            of_answers = [
                Verdict(
                    self.rule, question.right, text.answer, score, distractor,
                    prompt_tokens=text.prompt_tokens if score is None else score.prompt_tokens,
                    answered=text.reached_cue,
                ) for score in scores or (None,)
            ]  # fmt: skip
            verdicts.append(next((verdict for verdict in of_answers if verdict.correct), of_answers[0]))
        return verdicts

    def _write(
        self, questions: Sequence[Question], *, every: bool
    ) -> tuple[Sequence[Question], Mapping[int, WrittenAnswer]]:
        """The questions after their challenges, and what the model wrote, by the `id` of its prompt.

        every: write all answers, not only those that the rule, a challenge or the scores after a reasoning need.
        """
        written: dict[int, WrittenAnswer] = {}
        challenged: dict[tuple[int, str], Prompt] = {}  # so that questions challenged alike share their prompt

        def answer(questions: Iterable[Question]) -> None:
            always = every or not self.rule.by_scores
            needed = (q.prompt for q in questions if always or q.challenges or q.prompt.cue is not None)
            new = {id(prompt): prompt for prompt in needed if id(prompt) not in written}
            written.update(zip(new, write_answers(self.model, [*new.values()]), strict=True))

        def challenge(question: Question) -> Question:
            if not question.challenges:
                return question
            said, *later = question.challenges
            prompt = question.prompt.followed(written[id(question.prompt)].turn, said)
            prompt = challenged.setdefault((id(question.prompt), said), prompt)
            return replace(question, prompt=prompt, challenges=tuple(later))

        answer(questions)
        while any(question.challenges for question in questions):
            questions = [challenge(question) for question in questions]
            answer(questions)
        return questions, written

    def _score(
        self, questions: Sequence[Question], written: Mapping[int, WrittenAnswer]
    ) -> list[tuple[list[Score], Score | None]]:
        """Scores of each question's right answers and distractor, as far as needed, in one call, to share prefixes.

        written: by the `id` of the prompt; what follows reasoning is scored after it.
        """
        answers: list[list[str]] = []
        requests: list[Request] = []
        for question in questions:
            needed = self.model.score is not None and (self.rule.by_scores or question.distractor is not None)
            wrong = [] if question.distractor is None else [question.distractor]
            answers.append([*question.right, *wrong] if needed else [])
            own = "" if question.prompt.cue is None else written[id(question.prompt)].reasoning
            text, earlier = model_input(self.model, question.prompt)
            requests += [Request(text + own, f" {answer}", len(own), earlier) for answer in answers[-1]]
        if self.model.score is None or not requests:
            return [([], None) for _ in questions]
        scores = iter(checked(self.model, "score", self.model.score(requests), Score, len(requests)))
        scored = [[next(scores) for _ in of_question] for of_question in answers]
        pairs = zip(questions, scored, strict=True)
        return [(found[: len(q.right)], found[-1] if len(found) > len(q.right) else None) for q, found in pairs]


def ask_probes(judge: Judge, probes: Sequence[Probe], prompts: Sequence[Sequence[Prompt]]) -> list[list[Verdict]]:
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
        raise UsageError(
            f"the rule {verdict.rule.name} cannot judge answers without a distractor, such as {verdict.targets[0]!r}: "
            "train by greedy or generate"
        )
    return verdict.correct
