"""Evaluate editors on a run's test edits; what is recorded is not asked for again."""

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from drike.edits.edit import EditCase, Probe
from drike.errors import RunError, UsageError
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import ranks_retains
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.baseline_questions import (
    AnsweredCases,
    baseline_answers,
    with_baseline_answers,
)
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GENERATE, GREEDY, Judge, Rule
from drike.research.evaluation.metrics import Counts, Outcome, Summary, counted, summary_of
from drike.research.evaluation.unedited_answers import (
    UneditedAnswer,
    answers_by_group,
    neighbours_by_case,
)
from drike.research.runs import files
from drike.research.runs.events import PhaseStarted, Prepared
from drike.research.runs.readable import require_readable
from drike.research.runs.setup import Setup
from drike.research.runs.usage import usage_recorded

NEIGHBOURS_ASKED = "unedited answers"  # the phase, and its part of the usage
SAMPLE = 20  # edits whose prompts are kept and that are judged by greedy and by generate


@dataclass(frozen=True)
class CaseEvaluated:
    """The saved outcomes of a case under an editor."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class NeighboursAnswered:
    """The saved answers of the unedited model to the neighbours of a case."""

    answers: tuple[UneditedAnswer, ...]


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation, by the editor's name.

    unedited: the unedited model's answers to the neighbours, which the outcomes were compared with.
    both_ways: outcomes of a sample, judged by scores and by text.
    """

    rule: Rule
    cases: Sequence[EditCase]
    outcomes: Mapping[str, Sequence[Outcome]]
    unedited: Sequence[UneditedAnswer]
    both_ways: Sequence[Outcome]
    counts: Mapping[str, Counts]
    summaries: Sequence[Summary]


EvaluationEvent = (
    AnsweredCases | Prepared | PhaseStarted | NeighboursAnswered | CaseEvaluated | Evaluation
)


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
    """Evaluate every editor on the test edits.

    Yields the outcomes of every case after they are saved, then all results. Cases with the
    unedited model's own answers come first, if there are questions without a published one; then
    its answers to the neighbours, by which all readings of retention are measured. The prompts of
    `sample` edits are kept, and these are judged by greedy and by generate if the model scores and
    runs here or wrote its answers anyway. write: also record what the model generates. Raises
    UsageError for no test edit, RunError.
    """
    rule = Judge(model, rule).rule
    cases: Sequence[EditCase] = setup.split.test
    resolved = answered_cases(folder, model, cases, rule)
    if resolved is not None:
        cases = resolved.cases
        yield resolved
    if not cases:
        raise UsageError("there is no edit to test on: ask for `test` 1 or more")

    outcomes, prepared = _prepared(folder, setup, editors, cases, rule)
    yield prepared

    sampled = random.Random(setup.pool.seed).sample(cases, min(sample, len(cases)))
    sampled_ids = {case.case_id for case in sampled}
    unedited = yield from _unedited_answers(folder, model, cases, outcomes, rule)
    both_ways: list[Outcome] = []
    for editor in editors:
        recorded = outcomes[editor.name]
        yield from evaluate_rest(
            folder, editor, model, cases, recorded, judging=Judging(rule, write, unedited)
        )
        _record_prompts(folder, editor, sampled)
        of_sample = [outcome for outcome in recorded if outcome.case_id in sampled_ids]
        if rule is GREEDY and all(outcome.matched is not None for outcome in of_sample):
            both_ways += of_sample
        elif model.score and not model.info.served:
            both_ways += _judged_both_ways(folder, editor, model, sampled)

    if not rule.by_scores:
        written = [outcome.answer for each in outcomes.values() for outcome in each]
        require_readable(model, written, f" (they are kept in {folder})")
    without_edits = outcomes.get(Unedited().name, [])
    counts = {editor: counted(of_editor, without_edits) for editor, of_editor in outcomes.items()}
    summaries = [summary_of(of_editor) for of_editor in counts.values()]
    by_editor = {summary.editor: asdict(summary) for summary in summaries}
    files.write_record(folder, files.SUMMARY, by_editor)
    yield Evaluation(rule, cases, outcomes, unedited, both_ways, counts, summaries)


def _unedited_answers(
    folder: Path,
    model: LanguageModel,
    cases: Sequence[EditCase],
    outcomes: Mapping[str, Sequence[Outcome]],
    rule: Rule,
) -> Generator[PhaseStarted | NeighboursAnswered, None, list[UneditedAnswer]]:
    """The unedited model's answers to the neighbours; [] for a run begun without them.

    outcomes: recorded so far. Those of an older version were not compared with these answers, and
    a mean over some edits only would be taken for one over all.
    """
    is_older = not (folder / files.UNEDITED).exists() and any(outcomes.values())
    if is_older:
        return []
    return (yield from ask_unedited(folder, model, cases, rule, files.UNEDITED))


def ask_unedited(
    folder: Path, model: LanguageModel, cases: Sequence[EditCase], rule: Rule | None, file: str
) -> Generator[PhaseStarted | NeighboursAnswered, None, list[UneditedAnswer]]:
    """Ask the unedited model about the neighbours that a file has no answers to; return all.

    Yields the answers of each case after they are saved. Raises RunError.
    """
    path = folder / file
    answers = files.read_lines(path, UneditedAnswer, "remove it to have the model asked again")
    groups = [group for group in neighbours_by_case(cases) if group]
    expected = [(probe.query, probe.target) for group in groups for probe in group]
    recorded = [(answer.query, answer.target) for answer in answers]
    if recorded != expected[: len(recorded)]:
        raise RunError(f"{path} is about other probes: remove it to have the model asked again")

    whole = 0  # groups of which all answers are recorded
    count = 0  # answers of these
    while whole < len(groups) and count + len(groups[whole]) <= len(answers):
        count += len(groups[whole])
        whole += 1
    files.keep_lines(path, count)
    answers = answers[:count]
    if whole == len(groups):
        return answers

    yield PhaseStarted(NEIGHBOURS_ASKED, len(groups), whole)
    asked = answers_by_group(model, groups[whole:], rule)
    with usage_recorded(folder, NEIGHBOURS_ASKED, model), closing(asked):
        for of_case in asked:
            files.append(path, map(asdict, of_case))
            answers.extend(of_case)
            yield NeighboursAnswered(of_case)
    return answers


def _prepared(
    folder: Path, setup: Setup, editors: Sequence[Editor], cases: Sequence[EditCase], rule: Rule
) -> tuple[dict[str, list[Outcome]], Prepared]:
    """The outcomes in the folder by editor; and notes for people. Encodes all texts."""
    rankers = [editor.selector.ranker for editor in editors if ranks_retains(editor)]
    notes = setup.prepare(cases, rankers)
    too_long = sum(_is_too_long(probe) for case in cases for probe in case.asked)
    if too_long and rule is GENERATE:
        notes.append(
            f"{too_long} probes have right answers of more than {ANSWER_TOKENS} words, "
            "which generate never finds"
        )
    outcomes = {editor.name: recovered_outcomes(folder, editor.name, cases) for editor in editors}
    recovered = sum(_count_cases(of_editor) for of_editor in outcomes.values())
    total = len(editors) * len(setup.split.test)
    return outcomes, Prepared(tuple(notes), recovered, total)


def _is_too_long(probe: Probe) -> bool:
    """Whether even the shortest right answer has more words than the model may write tokens."""
    words = [len(answer.split()) for answer in (probe.target, *probe.also)]
    return min(words) > ANSWER_TOKENS


def _count_cases(outcomes: Sequence[Outcome]) -> int:
    return len({outcome.case_id for outcome in outcomes})


@dataclass(frozen=True)
class Judging:
    """How answers are judged.

    rule: by which they are right. write: a model that scores also writes its answers. unedited:
    those of the unedited model, with which those to neighbours are compared.
    """

    rule: Rule
    write: bool = False
    unedited: Sequence[UneditedAnswer] = ()


def evaluate_rest(
    folder: Path,
    editor: Editor,
    model: LanguageModel,
    cases: Sequence[EditCase],
    recorded: list[Outcome],
    *,
    judging: Judging,
    part: str = files.OUTCOMES,
) -> Generator[PhaseStarted | CaseEvaluated]:
    """Evaluate an editor on the cases that `recorded` has no outcomes of.

    recorded: outcomes of the first cases; those of each further one are saved and then added.
    """
    name = editor.name if part == files.OUTCOMES else f"{editor.name}, {part}"
    done = _count_cases(recorded)
    yield PhaseStarted(name, len(cases), done)

    path = files.outcomes_path(folder, editor.name, part)
    with usage_recorded(folder, name, model):
        model.forget()  # seconds are an editor's own, not what another has opened before
        new_outcomes = evaluate(
            editor,
            model,
            cases[done:],
            rule=judging.rule,
            write=judging.write,
            unedited=judging.unedited,
        )
        with closing(new_outcomes) as outcomes:
            for _, group in groupby(outcomes, key=lambda outcome: outcome.case_id):
                of_case = tuple(group)
                files.append(path, map(asdict, of_case))
                recorded.extend(of_case)
                yield CaseEvaluated(of_case)


def recovered_outcomes(
    folder: Path, editor: str, cases: Sequence[EditCase], part: str = files.OUTCOMES
) -> list[Outcome]:
    """An editor's recorded outcomes of the first of `cases`; its file is cut to whole cases.

    Raises RunError.
    """
    path = files.outcomes_path(folder, editor, part)
    outcomes = files.read_outcomes(path)
    whole = 0  # outcomes of whole cases
    for case in cases:
        of_case = outcomes[whole : whole + len(case.asked)]
        expected = [(case.case_id, probe.aspect, probe.asked, probe.target) for probe in case.asked]
        recorded = [
            (outcome.case_id, outcome.aspect, outcome.query, outcome.target) for outcome in of_case
        ]
        if recorded != expected[: len(recorded)]:
            raise RunError(
                f"{path} is about other probes: remove the file to have {editor} evaluated again"
            )
        if len(recorded) < len(expected):
            break
        whole += len(expected)
    files.keep_lines(path, whole)
    return outcomes[:whole]


def answered_cases(
    folder: Path,
    model: LanguageModel,
    cases: Sequence[EditCase],
    rule: Rule | None = None,
    file: str = files.OWN_ANSWERS,
) -> AnsweredCases | None:
    """The cases with the unedited model's own answers, which are kept in a file.

    None if no question needs one. Raises RunError.
    """
    answers = files.read_json(
        folder / file, Mapping[str, str], "remove it to have the model asked again"
    )
    if answers is None:
        answers = baseline_answers(model, cases, rule)
        if not answers:
            return None
        files.write_record(folder, file, answers)
    return with_baseline_answers(cases, answers)


def _judged_both_ways(
    folder: Path, editor: Editor, model: LanguageModel, cases: Sequence[EditCase]
) -> list[Outcome]:
    """The outcomes of a sample by scores and by text; saved when complete, read where saved.

    Raises RunError.
    """
    path = files.outcomes_path(folder, editor.name, files.BOTH_WAYS)
    outcomes = files.read_outcomes(path)
    recorded = [(outcome.case_id, outcome.query) for outcome in outcomes]
    expected = [(case.case_id, probe.asked) for case in cases for probe in case.asked]
    if recorded == expected:
        return outcomes

    judged = evaluate(editor, model, cases, rule=GREEDY, write=True)
    with usage_recorded(folder, "judged both ways", model), closing(judged):
        outcomes = list(judged)
    files.write_lines(path, map(asdict, outcomes))
    return outcomes


def _record_prompts(folder: Path, editor: Editor, cases: Sequence[EditCase]) -> None:
    """Save an editor's prompts of a sample of cases, unless they are saved already."""
    path = files.outcomes_path(folder, editor.name, files.PROMPTS)
    if path.exists():
        return
    records = [asdict(_case_prompts(editor, case)) for case in cases]
    files.write_lines(path, records)


def _case_prompts(editor: Editor, case: EditCase) -> files.CasePrompts:
    """The prompts of a case, with each block once."""
    queries = list(dict.fromkeys(probe.query for probe in case.asked))
    prompts = editor.prompts(case.edits, queries)
    blocks = list(dict.fromkeys(block for prompt in prompts for block in prompt.blocks))
    positions = {}
    for query, prompt in zip(queries, prompts, strict=True):
        positions[query] = tuple(blocks.index(block) for block in prompt.blocks)
    return files.CasePrompts(case.case_id, tuple(blocks), positions)
