"""What the unedited model answers about neighbours, against which retention is read.

Retention has three readings. RR, the paper's: the neighbour's true object is answered. RR known:
the same, of neighbours that the unedited model answers right; where it knows few of them, RR over
all measures what the prompt tells about them. RR unchanged: the answer is the unedited model's own
(Definition 3.1, second condition), whether that is right or wrong.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import islice

from drike.answers.matching import first_line, normalise
from drike.edits.edit import Aspect, EditCase, Probe
from drike.errors import ModelError
from drike.models.answers import checked, complete, model_input
from drike.models.protocols import LanguageModel, Request, Score
from drike.prompts import Prompt
from drike.research.evaluation.judge import (
    Judge,
    OwnAnswer,
    Question,
    Rule,
    Verdict,
    ends_line,
)
from drike.support.parallel import in_groups, in_order


class Retention(StrEnum):
    """Which neighbours count, and which answer to them is right."""

    ALL = "all"  # all, by their true objects
    KNOWN = "known"  # those that the unedited model answers right
    UNCHANGED = "unchanged"  # all, by the unedited model's own answers


@dataclass(frozen=True)
class UneditedAnswer:
    """The unedited model's answer to a neighbour.

    correct: by the rule of the evaluation; None if it cannot say. text, ended: those of
    `OwnAnswer`; the text is "" where it could not be compared with another answer.
    """

    query: str
    target: str
    correct: bool | None
    text: str
    ended: bool

    @property
    def own(self) -> OwnAnswer | None:
        """The answer to compare with, if there is one."""
        return OwnAnswer(self.text, self.ended) if self.text else None


def neighbours_by_case(cases: Iterable[EditCase]) -> list[tuple[Probe, ...]]:
    """The neighbours of each case that no case before it has, each query with its target once."""
    seen: set[tuple[str, str]] = set()
    groups = []
    for case in cases:
        new = {(probe.query, probe.target): probe for probe in case.neighborhood}
        groups.append(tuple(probe for key, probe in new.items() if key not in seen))
        seen.update(new)
    return groups


def unedited_answers(
    model: LanguageModel, cases: Iterable[EditCase], rule: Rule | None = None
) -> list[UneditedAnswer]:
    """The unedited model's answers to the neighbours of all cases, for `evaluate`.

    Raises UsageError for a rule that the model cannot be judged by.
    """
    groups = neighbours_by_case(cases)
    return [answer for answers in answers_by_group(model, groups, rule) for answer in answers]


def answers_by_group(
    model: LanguageModel, groups: Iterable[Sequence[Probe]], rule: Rule | None = None
) -> Generator[tuple[UneditedAnswer, ...]]:
    """Ask the unedited model about groups of neighbours; yield the answers to each group.

    A model that scores must find its own answer the greedy one, if need be without its last word:
    the text of an answer may be cut into other tokens than those that the model wrote. Raises
    UsageError as `unedited_answers`.
    """
    answer = partial(_answers_to_groups, Judge(model, rule))
    calls = in_groups(groups, model.info.edits_per_call)
    with closing(in_order(answer, calls, model.info.calls_at_once)) as answered:
        for of_call in answered:
            yield from of_call


def _answers_to_groups(
    judge: Judge, groups: Sequence[Sequence[Probe]]
) -> list[tuple[UneditedAnswer, ...]]:
    """The answers to several groups of neighbours, asked in one call."""
    answers = iter(_answers_to(judge, [probe for group in groups for probe in group]))
    return [tuple(islice(answers, len(group))) for group in groups]


def _answers_to(judge: Judge, probes: Sequence[Probe]) -> tuple[UneditedAnswer, ...]:
    prompt_by_query = {probe.query: Prompt(probe.query) for probe in probes}
    verdicts = judge.ask([_question(probe, prompt_by_query) for probe in probes])
    own_by_query = {
        probe.query: OwnAnswer(f" {probe.target}", ended=True)
        for probe, verdict in zip(probes, verdicts, strict=True)
        if _is_whole_answer(verdict)
    }
    to_write = {
        query: prompt for query, prompt in prompt_by_query.items() if query not in own_by_query
    }
    if to_write:
        own_by_query |= _written(judge.model, to_write)

    answers = []
    for probe, verdict in zip(probes, verdicts, strict=True):
        own = own_by_query.get(probe.query, OwnAnswer("", ended=False))
        answers.append(
            UneditedAnswer(probe.query, probe.target, verdict.correct, own.text, own.ended)
        )
    return tuple(answers)


def _question(probe: Probe, prompt_by_query: Mapping[str, Prompt]) -> Question:
    prompt = prompt_by_query[probe.query]
    return Question(prompt, probe.target, probe.distractor, probe.also)


def _is_whole_answer(verdict: Verdict) -> bool:
    """Whether the scores say that the model writes the target and nothing more.

    Then it need not write it. Of several right answers it is not known which one was scored.
    """
    score = verdict.score
    is_of_target = len(verdict.targets) == 1
    return is_of_target and score is not None and score.greedy and ends_line(score.following)


def _written(model: LanguageModel, prompt_by_query: Mapping[str, Prompt]) -> dict[str, OwnAnswer]:
    """The answers that the model writes, as far as they can be compared with others, by query."""
    answers = complete(model, list(prompt_by_query.values()))
    texts = {
        query: text
        for query, text in zip(prompt_by_query, answers, strict=True)
        if normalise(first_line(text))
    }
    if model.score is None:
        return {query: OwnAnswer(text, ended=True) for query, text in texts.items()}

    candidates = []
    for query, text in texts.items():
        without_last_word, _, _ = text.rstrip().rpartition(" ")
        candidates += [(query, text), (query, without_last_word)]  # the whole comes first
    return _greedy(model, candidates, prompt_by_query)


def _greedy(
    model: LanguageModel,
    candidates: Sequence[tuple[str, str]],
    prompt_by_query: Mapping[str, Prompt],
) -> dict[str, OwnAnswer]:
    """For each query the first of its candidate texts that greedy decoding would begin with."""
    queries = []
    requests = []
    for query, text in candidates:
        if text.strip():
            queries.append(query)
            prompt, earlier = model_input(model, prompt_by_query[query])
            requests.append(Request(prompt, text, earlier=earlier))

    answers: dict[str, OwnAnswer] = {}
    for query, request, score in zip(queries, requests, _scores(model, requests), strict=True):
        if score is not None and score.greedy and query not in answers:
            answers[query] = OwnAnswer(request.continuation, ended=ends_line(score.following))
    return answers


def _scores(model: LanguageModel, requests: Sequence[Request]) -> Sequence[Score | None]:
    """The scores of answers; None for one that cannot be scored.

    A model may go on in the middle of a word, whose letters then merge with the query's last ones.
    """
    assert model.score is not None  # noqa: S101 - as its caller has seen
    if not requests:
        return []
    try:
        answers = model.score(requests)
    except ModelError:
        if model.info.served or len(requests) == 1:
            raise
        return [_score_or_none(model, request) for request in requests]
    return checked(f"{model.info.name}.score", answers, Score, len(requests))


def _score_or_none(model: LanguageModel, request: Request) -> Score | None:
    try:
        [score] = _scores(model, [request])
    except ModelError:
        return None
    return score


def retained(
    cases: Sequence[EditCase], answers: Iterable[UneditedAnswer], retention: Retention
) -> tuple[EditCase, ...]:
    """The cases with the neighbours that count, to train on one reading of retention.

    For `UNCHANGED` the target of a neighbour is the unedited model's own answer, and neighbours
    whose answer cannot be compared are left out. Raises KeyError for one that is not in `answers`.
    """
    if retention is Retention.ALL:
        return tuple(cases)
    answer_by_probe = {(answer.query, answer.target): answer for answer in answers}
    changed = []
    for case in cases:
        probes = []
        for probe in case.probes:
            if probe.aspect is not Aspect.NEIGHBORHOOD:
                probes.append(probe)
                continue
            answer = answer_by_probe[probe.query, probe.target]
            if retention is Retention.KNOWN and answer.correct:
                probes.append(probe)
            if retention is Retention.UNCHANGED and answer.own is not None:
                probes.append(replace(probe, target=answer.text.strip(), also=()))
        changed.append(replace(case, probes=tuple(probes)))
    return tuple(changed)
