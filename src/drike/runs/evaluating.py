"""Evaluate editors on a run's test edits, as a generator that saves what it yields and asks for nothing twice."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from drike.editors.baselines import Unedited
from drike.editors.editor import Editor
from drike.editors.in_context import ranks_retains
from drike.edits import EditCase
from drike.errors import UsageError
from drike.evaluation.baseline_answers import AnsweredCases, baseline_answers, with_baseline_answers
from drike.evaluation.evaluate import evaluate
from drike.evaluation.judge import GREEDY, Judge, Rule
from drike.evaluation.metrics import Counts, Outcome, Summary, counted, summary_of
from drike.models.protocols import LanguageModel
from drike.runs.folder import OUTCOMES, append, outcomes_path, read_json, write_record
from drike.runs.recording import PhaseStarted, Prepared, judged_both_ways, recorded_prompts, usage_recorded
from drike.runs.resume import recovered_outcomes
from drike.runs.run import Setup

OWN_ANSWERS = "own_answers.json"  # of the unedited model, to questions that it is asked first
SAMPLE = 20  # edits whose prompts are kept and that are judged by greedy and by generate


@dataclass(frozen=True)
class CaseEvaluated:
    """The saved outcomes of a case under an editor."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation, by the editor's name. both_ways: outcomes of a sample, judged by scores and by text."""

    rule: Rule
    cases: Sequence[EditCase]
    outcomes: Mapping[str, Sequence[Outcome]]
    both_ways: Sequence[Outcome]
    counts: Mapping[str, Counts]
    summaries: Sequence[Summary]


EvaluationEvent = AnsweredCases | Prepared | PhaseStarted | CaseEvaluated | Evaluation


def run_evaluation(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editors: Sequence[Editor],
    *,
    rule: Rule | None = None,
    write: bool = False,
    sample: int = SAMPLE,
) -> Generator[EvaluationEvent]:
    """Evaluate every editor on the test edits; yield the outcomes of every case after they are saved, then all results.

    If there are questions without a published answer, the cases with the unedited model's own answers come first.
    The prompts of `sample` edits are kept, and these are judged by greedy and by generate if the model scores and runs
    here or wrote its answers anyway. write: also record the text that the model generates. Raises UsageError if there
    is no edit to test on, RunError for a damaged folder, and what the model raises.
    """
    rule, both_ways = Judge(model, rule).rule, list[Outcome]()
    cases: Sequence[EditCase] = setup.split.test
    resolved = answered_cases(folder, model, cases, rule)
    if resolved is not None:
        cases = resolved.cases
        yield resolved
    if not cases:
        raise UsageError("there is no edit to test on: ask for `test` edits")
    notes = setup.prepare(cases, [editor.selector.ranker for editor in editors if ranks_retains(editor)])
    outcomes = {editor.name: recovered_outcomes(folder, editor.name, cases) for editor in editors}
    recovered = sum(map(number_of_cases, outcomes.values()))
    yield Prepared(tuple(notes), recovered, len(editors) * len(setup.split.test))
    sampled = random.Random(setup.pool.seed).sample(cases, min(sample, len(cases)))
    ids = {case.case_id for case in sampled}
    for editor in editors:
        known = outcomes[editor.name]
        yield from evaluate_rest(folder, editor, model, cases, known, rule=rule, write=write)
        of_sample = [outcome for outcome in known if outcome.case_id in ids]
        recorded_prompts(folder, editor, sampled)
        if rule is GREEDY and all(outcome.matched is not None for outcome in of_sample):
            both_ways += of_sample
        elif model.score and not model.info.served:
            both_ways += judged_both_ways(folder, editor, model, sampled)
    unedited = outcomes.get(Unedited().name, [])
    counts = {name: counted(of_editor, unedited) for name, of_editor in outcomes.items()}
    summaries = list(map(summary_of, counts.values()))
    write_record(folder, "summary.json", {summary.editor: asdict(summary) for summary in summaries})
    yield Evaluation(rule, cases, outcomes, both_ways, counts, summaries)


def evaluate_rest(
    folder: Path,
    editor: Editor,
    model: LanguageModel,
    cases: Sequence[EditCase],
    known: list[Outcome],
    *,
    rule: Rule,
    write: bool = False,
    part: str = OUTCOMES,
) -> Generator[PhaseStarted | CaseEvaluated]:
    """Evaluate an editor on the cases that `known` has no outcomes of; save those of each case, and add them to it."""
    name, done = editor.name if part == OUTCOMES else f"{editor.name}, {part}", number_of_cases(known)
    yield PhaseStarted(name, len(cases), done)
    with usage_recorded(folder, name, model):
        model.forget()  # seconds are an editor's own, not what another has opened before
        with closing(evaluate(editor, model, cases[done:], rule=rule, write=write)) as outcomes:
            for _, group in groupby(outcomes, key=lambda outcome: outcome.case_id):
                of_case = tuple(group)
                append(outcomes_path(folder, editor.name, part), map(asdict, of_case))
                known.extend(of_case)
                yield CaseEvaluated(of_case)


def answered_cases(
    folder: Path, model: LanguageModel, cases: Sequence[EditCase], rule: Rule | None = None, file: str = OWN_ANSWERS
) -> AnsweredCases | None:
    """The cases with the unedited model's own answers where none are published; None if there are no such questions.

    The answers are recorded in this file of the folder. Raises RunError for a damaged record.
    """
    answers = read_json(folder / file, Mapping[str, str], "remove it to have the model asked again")
    if answers is None:
        answers = baseline_answers(model, cases, rule)
        if not answers:
            return None
        write_record(folder, file, answers)
    return with_baseline_answers(cases, answers)


def number_of_cases(outcomes: Sequence[Outcome]) -> int:
    """How many different cases outcomes are about."""
    return len({outcome.case_id for outcome in outcomes})
