"""Evaluate editors on a run's test edits, alone and behind a gate; what is recorded is not asked for again."""

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from drike.edits.edit import EditCase
from drike.errors import RunError, UsageError
from drike.gates.decision import Gate
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.research.deployment.gate_records import GateRecord, gate_records
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores, with_stores
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import ranks_retains
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import (
    AnsweredCases,
    baseline_answers,
    evaluate,
    with_baseline_answers,
)
from drike.research.evaluation.judge import GENERATE, GREEDY, Judge, Rule
from drike.research.evaluation.metrics import Counts, Outcome, Summary, counted, summary_of
from drike.research.runs import run as files
from drike.research.runs.run import PhaseStarted, Prepared, Setup

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
    folder: Path, setup: Setup, model: LanguageModel, editors: Sequence[Editor], *, rule: Rule | None = None,
    write: bool = False, sample: int = SAMPLE,
) -> Generator[EvaluationEvent]:  # fmt: skip
    """Evaluate every editor on the test edits; yield the outcomes of every case after they are saved, then all results.

    Cases with the unedited model's own answers come first, if there are questions without a published one. The prompts
    of `sample` edits are kept, and these are judged by greedy and by generate if the model scores and runs here or
    wrote its answers anyway. write: also record what the model generates. Raises UsageError for no test edit, RunError.
    """
    rule, both_ways = Judge(model, rule).rule, list[Outcome]()
    cases: Sequence[EditCase] = setup.split.test
    if resolved := answered_cases(folder, model, cases, rule):
        cases = resolved.cases
        yield resolved
    if not cases:
        raise UsageError("there is no edit to test on: ask for `test` 1 or more")
    notes = setup.prepare(
        cases, [editor.selector.ranker for editor in editors if ranks_retains(editor)]
    )
    long = sum(
        min(len(a.split()) for a in (p.target, *p.also)) > ANSWER_TOKENS
        for case in cases
        for p in case.asked
    )
    if long and rule is GENERATE:
        notes += [
            f"{long} probes have right answers of more than {ANSWER_TOKENS} words, which generate never finds"
        ]
    outcomes = {editor.name: recovered_outcomes(folder, editor.name, cases) for editor in editors}
    recovered = sum(
        len({outcome.case_id for outcome in of_editor}) for of_editor in outcomes.values()
    )
    yield Prepared(tuple(notes), recovered, len(editors) * len(setup.split.test))
    sampled = random.Random(setup.pool.seed).sample(cases, min(sample, len(cases)))
    ids = {case.case_id for case in sampled}
    for editor in editors:
        known = outcomes[editor.name]
        yield from evaluate_rest(folder, editor, model, cases, known, rule=rule, write=write)
        of_sample = [outcome for outcome in known if outcome.case_id in ids]
        _record_prompts(folder, editor, sampled)
        if rule is GREEDY and all(outcome.matched is not None for outcome in of_sample):
            both_ways += of_sample
        elif model.score and not model.info.served:
            both_ways += _judged_both_ways(folder, editor, model, sampled)
    counts = {
        name: counted(of_editor, outcomes.get(Unedited().name, []))
        for name, of_editor in outcomes.items()
    }
    summaries = list(map(summary_of, counts.values()))
    files.write_record(
        folder, "summary.json", {summary.editor: asdict(summary) for summary in summaries}
    )
    yield Evaluation(rule, cases, outcomes, both_ways, counts, summaries)


def evaluate_rest(
    folder: Path, editor: Editor, model: LanguageModel, cases: Sequence[EditCase], known: list[Outcome], *,
    rule: Rule, write: bool = False, part: str = files.OUTCOMES,
) -> Generator[PhaseStarted | CaseEvaluated]:  # fmt: skip
    """Evaluate an editor on the cases that `known` has no outcomes of; save those of each case, and add them to it."""
    name = editor.name if part == files.OUTCOMES else f"{editor.name}, {part}"
    done = len({outcome.case_id for outcome in known})
    yield PhaseStarted(name, len(cases), done)
    with files.usage_recorded(folder, name, model):
        model.forget()  # seconds are an editor's own, not what another has opened before
        with closing(evaluate(editor, model, cases[done:], rule=rule, write=write)) as outcomes:
            for _, group in groupby(outcomes, key=lambda outcome: outcome.case_id):
                of_case = tuple(group)
                files.append(files.outcomes_path(folder, editor.name, part), map(asdict, of_case))
                known.extend(of_case)
                yield CaseEvaluated(of_case)


def answered_cases(
    folder: Path,
    model: LanguageModel,
    cases: Sequence[EditCase],
    rule: Rule | None = None,
    file: str = OWN_ANSWERS,
) -> AnsweredCases | None:
    """The cases with the unedited model's own answers, kept in a file; None if no question needs one; or RunError."""
    answers = files.read_json(
        folder / file, Mapping[str, str], "remove it to have the model asked again"
    )
    if answers is None:
        if not (answers := baseline_answers(model, cases, rule)):
            return None
        files.write_record(folder, file, answers)
    return with_baseline_answers(cases, answers)


def _judged_both_ways(
    folder: Path, editor: Editor, model: LanguageModel, cases: Sequence[EditCase]
) -> list[Outcome]:
    """The outcomes of a sample by scores and by text, saved when complete, read where saved. Raises RunError."""
    path = files.outcomes_path(folder, editor.name, files.BOTH_WAYS)
    outcomes = files.read_outcomes(path)
    asked = [(case.case_id, probe.asked) for case in cases for probe in case.asked]
    if [(outcome.case_id, outcome.query) for outcome in outcomes] != asked:
        judged = evaluate(editor, model, cases, rule=GREEDY, write=True)
        with files.usage_recorded(folder, "judged both ways", model), closing(judged):
            outcomes = list(judged)
        files.write_lines(path, map(asdict, outcomes))
    return outcomes


def _record_prompts(folder: Path, editor: Editor, cases: Sequence[EditCase]) -> None:
    """Save an editor's prompts of a sample of cases, unless they are saved already."""
    path = files.outcomes_path(folder, editor.name, files.PROMPTS)
    if path.exists():
        return
    records = []
    for case in cases:
        queries = list(dict.fromkeys(probe.query for probe in case.asked))
        prompts = dict(zip(queries, editor.prompts(case.edits, queries), strict=True))
        blocks = tuple(
            dict.fromkeys(block for prompt in prompts.values() for block in prompt.blocks)
        )
        positions = {
            query: tuple(map(blocks.index, prompt.blocks)) for query, prompt in prompts.items()
        }
        records.append(asdict(files.CasePrompts(case.case_id, blocks, positions)))
    files.write_lines(path, records)


def recovered_outcomes(
    folder: Path, name: str, cases: Sequence[EditCase], part: str = files.OUTCOMES
) -> list[Outcome]:
    """An editor's recorded outcomes of the first of `cases`; its file is cut to whole cases. Raises RunError."""
    path = files.outcomes_path(folder, name, part)
    outcomes, whole = files.read_outcomes(path), 0
    for case in cases:
        of_case = outcomes[whole : whole + len(case.asked)]
        expected = [(case.case_id, probe.aspect, probe.asked, probe.target) for probe in case.asked]
        recorded = [
            (outcome.case_id, outcome.aspect, outcome.query, outcome.target) for outcome in of_case
        ]
        if recorded != expected[: len(recorded)]:
            raise RunError(
                f"{path} is about other probes: remove the file to have {name} evaluated again"
            )
        if len(of_case) < len(expected):
            break
        whole += len(expected)
    files.keep_lines(path, whole)
    return outcomes[:whole]


@dataclass(frozen=True)
class Deployment:
    """A gate before stores of edits, questions that concern no edit, and a model to ask where the gate is uncertain."""

    gate: Gate
    stores: SimulatedStores
    questions: Sequence[str]
    model: LanguageModel | None = None

    @property
    def name(self) -> str:
        """The gate's name."""
        return type(self.gate).__name__ + (" and the model's yes or no" if self.model else "")

    @property
    def size(self) -> int:
        """How many edits are in force."""
        most = len(self.stores.whole.edits)
        return min(self.stores.size or most, most)

    def editors(self, editors: Sequence[Editor]) -> list[GatedEditor]:
        """The editors behind the gate."""
        return [GatedEditor(editor, self.gate, self.stores, self.model) for editor in editors]


@dataclass(frozen=True)
class DeployedEvaluation:
    """A finished evaluation behind a gate: outcomes by the editor's name, and all decisions of the gate."""

    outcomes: Mapping[str, Sequence[Outcome]]
    decisions: Sequence[GateRecord]


def run_deployed(
    folder: Path, deployment: Deployment, model: LanguageModel, editors: Sequence[Editor], cases: Sequence[EditCase],
    *, rule: Rule,
) -> Generator[PhaseStarted | CaseEvaluated | DeployedEvaluation]:  # fmt: skip
    """Evaluate editors behind the gate; yield each case's outcomes after they are saved, then all. Raises RunError."""
    cases, outcomes = (
        [with_stores(case, deployment.stores) for case in cases],
        dict[str, list[Outcome]](),
    )
    for editor in deployment.editors(editors):
        outcomes[editor.name] = recovered_outcomes(folder, editor.name, cases, files.DEPLOYED)
        yield from evaluate_rest(
            folder, editor, model, cases, outcomes[editor.name], rule=rule, part=files.DEPLOYED
        )
    decisions = list(
        gate_records(
            deployment.gate, deployment.stores, cases, deployment.questions, deployment.model
        )
    )
    files.write_lines(folder / files.DEPLOYED / files.GATE, map(asdict, decisions))
    yield DeployedEvaluation(outcomes, decisions)
