"""Ask a model and judge its answers, in the same way for rewards and metrics.

A `Judge` is a rule by which an answer is right. There are three, and all rows of a table share one:

greedy      every token of the target is the model's first choice, and the token after it ends the word; exact text,
            read from the scores of the target without writing anything
generate    the first line that the model writes (greedily, MAX_ANSWER_TOKENS at most) starts with the target at a word
            boundary, both normalised as in `drike.matching`
likelihood  P(target) > P(distractor), both as geometric means of token probabilities (IKE's P(new) > P(old))

If a prompt asks to reason first, the model reasons first under each of them, and target and distractor are scored
behind what it wrote and its cue. A doubted question is a conversation: the model answers, is doubted, and its last
answer is judged by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, TypeVar

from drike.errors import ModelError, UsageError
from drike.matching import ends_answer, ends_word, equals, first_line, matches
from drike.models.protocols import (
    MAX_ANSWER_TOKENS,
    MAX_REASONING_TOKENS,
    Completion,
    LanguageModel,
    Request,
    Score,
    Turns,
)
from drike.prompts import Prompt

Returned = TypeVar("Returned")
JudgeName = Literal["greedy", "generate", "likelihood"]


@dataclass(frozen=True)
class Verdict:
    """A model's answer to a question, and whether it is right by a rule.

    targets: the right answers. text: what it wrote, if it was asked to write. score, distractor: scores of a target and
    the distractor, if they were scored. answered: False if it was to reason first and wrote no cue.
    """

    judge: Judge
    targets: tuple[str, ...]
    text: str | None
    score: Score | None
    distractor: Score | None
    prompt_tokens: int | None
    answered: bool = True

    @property
    def correct(self) -> bool | None:
        """Whether it is right by the rule; None if the rule cannot say, as likelihood without a distractor."""
        return self.judge.right(self)

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
class Judge:
    """A rule by which an answer is right.

    meaning: when an answer is right, for captions. right: None where the rule cannot say. by_scores: whether it reads
    log-probabilities. compares: whether it needs a distractor.
    """

    name: JudgeName
    meaning: str
    right: Callable[[Verdict], bool | None] = field(repr=False)
    by_scores: bool = True
    compares: bool = False

    @property
    def caption(self) -> str:
        """A sentence for a table whose rows it judged."""
        return f"Judged by {self.name}: an answer is right if {self.meaning}."


GREEDY = Judge("greedy", "greedy decoding would write exactly the target and then end the word", attrgetter("greedy"))
GENERATE = Judge(
    "generate",
    f"the first line written, at most {MAX_ANSWER_TOKENS} tokens, starts with the target, both normalised",
    attrgetter("matched"),
    by_scores=False,
)
LIKELIHOOD = Judge(
    "likelihood", "the target is more probable than its distractor (IKE's rule)", attrgetter("prefers"), compares=True
)
JUDGES: dict[str, Judge] = {one.name: one for one in (GREEDY, GENERATE, LIKELIHOOD)}


def judge_for(model: LanguageModel, judge: Judge | None = None) -> Judge:
    """The given rule, or the default for a model: greedy if it gives log-probabilities, else generate.

    Raises UsageError for a rule that reads log-probabilities if the model gives none.
    """
    if judge is None:
        return GENERATE if model.score is None else GREEDY
    if judge.by_scores and model.score is None:
        raise UsageError(
            f"the rule {judge.name} needs log-probabilities, and {model.info.name} gives none: judge by generate"
        )
    return judge


@dataclass(frozen=True)
class Question:
    """A prompt, its right answer and, for margins, a wrong one. also: other right answers.

    doubts: what the user says after each answer of the model; judged is its answer to the last one.
    """

    prompt: Prompt
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """All right answers, the target first."""
        return (self.target, *self.also)


def judge(
    model: LanguageModel, questions: Sequence[Question], by: Judge | None = None, *, write: bool = False
) -> list[Verdict]:
    """Ask the questions and judge the answers by a rule (default: `judge_for` the model), in order.

    The model writes and scores what the rule needs. It also scores where a question has a distractor, if it can, and
    writes every answer with `write=True`. Where several answers are right, the scores are those of the first of them
    that is right by the rule, else of the target. Raises UsageError for a rule that the model cannot be judged by.
    """
    by = judge_for(model, by)
    written: dict[int, _Written] = {}  # by the `id` of the prompt

    def answer(prompts: Iterable[Prompt]) -> None:
        new = {id(one): one for one in prompts if id(one) not in written}
        written.update(zip(new, _write(model, [*new.values()]), strict=True))

    def must_write(one: Question) -> bool:
        return write or bool(one.doubts) or one.prompt.cue is not None or not by.by_scores

    answer(one.prompt for one in questions if must_write(one))
    asked, followed = questions, dict[tuple[int, str], Prompt]()
    while any(one.doubts for one in asked):
        asked = [_doubted(one, written, followed) if one.doubts else one for one in asked]
        answer(one.prompt for one in asked if must_write(one))
    verdicts = []
    for question, (scores, distractor) in zip(asked, _score(model, asked, written, by), strict=True):
        text = written.get(id(question.prompt), _NOTHING)
        found = [
            Verdict(
                by, question.right, text.answer, score, distractor,
                prompt_tokens=text.prompt_tokens if score is None else score.prompt_tokens, answered=text.answered,
            ) for score in scores or (None,)
        ]  # fmt: skip
        verdicts.append(next((one for one in found if one.correct), found[0]))
    return verdicts


def _score(
    model: LanguageModel, questions: Sequence[Question], written: Mapping[int, _Written], by: Judge
) -> list[tuple[list[Score], Score | None]]:
    """Scores of each question's right answers and distractor, as far as needed, in one call, to share prefixes.

    written: by the `id` of the prompt; what follows reasoning is scored behind it.
    """
    wanted: list[list[str]] = []
    requests: list[Request] = []
    for one in questions:
        needed = model.score is not None and (by.by_scores or one.distractor is not None)
        wanted.append([*one.right, *([one.distractor] if one.distractor is not None else [])] if needed else [])
        own = "" if one.prompt.cue is None else written[id(one.prompt)].before
        text, earlier = _sent(model, one.prompt)
        requests += [Request(text + own, f" {answer}", len(own), earlier) for answer in wanted[-1]]
    if model.score is None or not requests:
        return [([], None) for _ in questions]
    scores = iter(_checked(model, "score", model.score(requests), Score, len(requests)))
    found = []
    for one, answers in zip(questions, wanted, strict=True):
        of_right = [next(scores) for _ in one.right] if answers else []
        found.append((of_right, next(scores) if len(answers) > len(of_right) else None))
    return found


@dataclass(frozen=True)
class _Written:
    """A written answer, the reasoning before it, up to its cue, and whether the model wrote that cue."""

    before: str
    answer: str | None
    answered: bool
    prompt_tokens: int | None

    @property
    def reply(self) -> str:
        """Reasoning and answer, as a turn of a conversation."""
        return f"{self.before} {first_line(self.answer or '')}".strip()


_NOTHING = _Written("", None, True, None)


def complete(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = MAX_ANSWER_TOKENS
) -> list[tuple[str, int | None]]:
    """Let the model answer; return each answer with its number of prompt tokens.

    An answer is one line. If a prompt asks to reason first, the reply may have MAX_REASONING_TOKENS, and the answer is
    the text after its last cue; "" if the model wrote no cue.
    """
    return [(one.answer or "", one.prompt_tokens) for one in _write(model, prompts, max_tokens)]


def _write(model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = MAX_ANSWER_TOKENS) -> list[_Written]:
    """The answers of `complete` with the reasoning before them, which ends in a cue even if the model wrote none."""
    found: dict[int, _Written] = {}
    for reasons in (False, True):
        which = [i for i, prompt in enumerate(prompts) if (prompt.cue is not None) == reasons]
        if not which:
            continue
        limit, stop = (MAX_REASONING_TOKENS, None) if reasons else (max_tokens, "\n")
        texts = (_sent(model, prompts[i]) for i in which)
        written = model.generate([(*earlier, text) if earlier else text for text, earlier in texts], limit, stop)
        for i, completion in zip(which, _checked(model, "generate", written, Completion, len(which)), strict=True):
            before, answer, answered = "", completion.text, True
            if (cue := prompts[i].cue) is not None:
                reasoning, ended, answer = completion.text.rpartition(cue)
                answered = bool(ended)
                before = reasoning + cue if answered else f"{completion.text}\n{cue}"
            found[i] = _Written(before, answer if answered else "", answered, completion.prompt_tokens)
    return [found[i] for i in range(len(prompts))]


def _doubted(one: Question, written: Mapping[int, _Written], followed: dict[tuple[int, str], Prompt]) -> Question:
    """The question after its first doubt; `followed` has the prompts of other questions that are doubted alike."""
    doubt, *later = one.doubts
    prompt = one.prompt.followed(written[id(one.prompt)].reply, doubt)
    return replace(one, prompt=followed.setdefault((id(one.prompt), doubt), prompt), doubts=tuple(later))


def _sent(model: LanguageModel, prompt: Prompt) -> tuple[str, Turns]:
    """A prompt as the model takes it, and the turns before it: none for a model that takes conversations as text."""
    if not prompt.earlier:
        return prompt.text, ()
    return (prompt.text, prompt.earlier) if model.info.turns else (prompt.conversation, ())


def _checked(
    model: LanguageModel, method: str, answers: list[Returned], kind: type[Returned], count: int
) -> list[Returned]:
    """Return a model's answers if they are of the right kind and number. Raises ModelError."""
    called = f"{model.info.name}.{method}"
    if wrong := [type(answer).__name__ for answer in answers if not isinstance(answer, kind)]:
        raise ModelError(f"{called} returned a {wrong[0]}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(f"{called} returned {len(answers)} answers to {count} prompts: return one for each")
    return answers


def is_right(verdict: Verdict) -> bool:
    """Whether an answer is right. Raises UsageError where the rule cannot say, so that it cannot be learned from."""
    if verdict.correct is None:
        raise UsageError(
            f"the rule {verdict.judge.name} cannot judge answers without a distractor, such as {verdict.targets[0]!r}: "
            "train by greedy or generate"
        )
    return verdict.correct
