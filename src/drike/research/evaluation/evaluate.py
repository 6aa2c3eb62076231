"""Evaluation: an editor, a model and cases in; one outcome per probe out (paper, section 5.1)."""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from drike.edits.edit import Aspect, EditCase, Probe, trained_on
from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.research.editors.editor import Editor
from drike.research.evaluation.judge import Judge, Question, Rule, Verdict
from drike.research.evaluation.metrics import Outcome
from drike.research.evaluation.unedited_answers import UneditedAnswer
from drike.support.parallel import in_groups, in_order


def evaluate(
    editor: Editor,
    model: LanguageModel,
    cases: Iterable[EditCase],
    *,
    rule: Rule | None = None,
    write: bool = False,
    parallel: int | None = None,
    allow_trained: bool = False,
    unedited: Iterable[UneditedAnswer] = (),
) -> Generator[Outcome]:
    """Yield the outcomes of all probes, case by case; those of a case go to the model in one call.

    So do those of several cases, where a model answers these faster together.

    rule: by which answers are right; default: greedy, or generate for a model without scores.
    write: a model that scores also writes its answers. parallel: cases evaluated at once, each in a
    thread, which also calls the editor; only `seconds` then differ; default: `info.calls_at_once`,
    beyond which ValueError is raised. allow_trained: also evaluate edits that the editor was
    trained on, which flatters it. unedited: the unedited model's answers to the neighbours, with
    which the editor's are compared. Raises UsageError for such edits otherwise, and for a rule that
    the model cannot be judged by, before the model is asked.
    """
    cases = list(cases)
    judge = Judge(model, rule)
    if not allow_trained:
        _require_untrained(editor, cases)
    limit = model.info.calls_at_once
    if parallel is not None and not 1 <= parallel <= limit:
        raise ValueError(f"{model.info.name} takes 1 to {limit} edits at once, not {parallel}")

    answer_by_probe = {(answer.query, answer.target): answer for answer in unedited}
    answer = partial(_outcomes_of_cases, editor, judge, write, answer_by_probe)
    groups = in_groups(cases, model.info.edits_per_call)
    with closing(in_order(answer, groups, parallel or limit)) as answered:
        for outcomes in answered:
            yield from outcomes


def _require_untrained(editor: Editor, cases: list[EditCase]) -> None:
    """Raise UsageError for cases that the editor was trained on."""
    trained = trained_on(editor)
    count = sum(any(edit.key in trained for edit in case.edits) for case in cases)
    if count:
        raise UsageError(
            f"{editor.name} was trained on {count} of these {len(cases)} edits: leave them out, "
            "as data.split(exclude=retriever.trained_on) does, or pass allow_trained=True"
        )


def _outcomes_of_cases(
    editor: Editor,
    judge: Judge,
    write: bool,
    unedited: Mapping[tuple[str, str], UneditedAnswer],
    cases: Sequence[EditCase],
) -> list[Outcome]:
    """Ask all probes of some cases in one call; each gets an equal share of the seconds.

    unedited: answers to neighbours, by query and target.
    """
    began = time.perf_counter()
    asked = [asked for case in cases for asked in _asked_of_case(editor, case, unedited)]
    verdicts = judge.ask([each.question for each in asked], write=write)
    seconds = (time.perf_counter() - began) / max(1, len(verdicts))

    outcomes = []
    for each, verdict in zip(asked, verdicts, strict=True):
        outcome = _outcome(each, verdict, editor=editor.name, seconds=seconds)
        outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Asked:
    """A probe of a case, its question, and what the unedited model answers, if it is known."""

    case_id: str
    probe: Probe
    question: Question
    unedited: UneditedAnswer | None


def _asked_of_case(
    editor: Editor, case: EditCase, unedited: Mapping[tuple[str, str], UneditedAnswer]
) -> list[_Asked]:
    """The questions of a case under an editor."""
    queries = list(dict.fromkeys(probe.query for probe in case.asked))  # two aspects may share one
    prompts = editor.prompts(case.edits, queries)
    prompt_by_query = dict(zip(queries, prompts, strict=True))
    asked = []
    for probe in case.asked:
        answer = _unedited_answer(probe, unedited)
        question = Question(
            prompt_by_query[probe.query],
            probe.target,
            probe.distractor,
            probe.also,
            probe.challenges,
            answer.own if answer else None,
        )
        asked.append(_Asked(case.case_id, probe, question, answer))
    return asked


def _unedited_answer(
    probe: Probe, unedited: Mapping[tuple[str, str], UneditedAnswer]
) -> UneditedAnswer | None:
    """The unedited model's answer to a neighbour; None for others, and if it was not asked."""
    if probe.aspect is not Aspect.NEIGHBORHOOD:
        return None
    return unedited.get((probe.query, probe.target))


def _outcome(asked: _Asked, verdict: Verdict, *, editor: str, seconds: float) -> Outcome:
    probe = asked.probe
    prompt = asked.question.prompt
    score = verdict.score
    distractor = verdict.distractor
    prob_margin = None
    logprob_margin = None
    if score is not None and distractor is not None:
        prob_margin = score.mean_probability - distractor.mean_probability
        logprob_margin = score.logprob - distractor.logprob
    return Outcome(
        editor=editor,
        case_id=asked.case_id,
        aspect=probe.aspect,
        query=probe.asked,
        target=probe.target,
        distractor=probe.distractor,
        correct=verdict.correct,
        answer=verdict.text,
        matched=verdict.matched,
        exact=verdict.exact,
        prefers=verdict.prefers,
        prob_margin=prob_margin,
        logprob_margin=logprob_margin,
        logit_gap=None if score is None else score.logit_gap,
        shots=prompt.shots,
        pruned=prompt.pruned,
        prompt_tokens=verdict.prompt_tokens,
        calls=prompt.calls + len(probe.challenges),
        seconds=seconds,
        hops=probe.hops,
        known=asked.unedited.correct if asked.unedited else None,
        unchanged=verdict.unchanged,
    )
