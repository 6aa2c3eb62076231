"""Train a run's policy per query, as a generator that saves what it yields."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from drike.edits.edit import EditCase
from drike.errors import RunError
from drike.models.protocols import LanguageModel
from drike.prompts import Role
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import (
    LeaveAlone,
    RankAndCut,
    RoleCounts,
    first_mixes,
    policy_mixes,
)
from drike.research.evaluation.case_answers import CaseAnswers, answers_under
from drike.research.evaluation.judge import Rule
from drike.research.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.research.evaluation.unedited_answers import Retention, retained
from drike.research.runs import checkpoint, files
from drike.research.runs.evaluation_run import NeighboursAnswered, answered_cases, ask_unedited
from drike.research.runs.events import PhaseStarted
from drike.research.runs.method import Method
from drike.research.runs.setup import Setup
from drike.research.runs.usage import usage_recorded
from drike.research.training.s_objective import (
    Expected,
    certify,
    train_query_policy,
    training_cases,
)

QueryPolicyEvent = PhaseStarted | NeighboursAnswered | CaseAnswers | Expected | CertifiedGuarantee


def run_query_policy(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: InContextEditor[RankAndCut],
    method: Method,
    *,
    guarantee: Guarantee | None = None,
) -> Generator[QueryPolicyEvent]:
    """Train the policy that decides for each query, and save it beside the folder's retriever.

    Yields the answers to every edit that are not in the folder yet, what training expects, and the
    certified guarantee if one is asked for, each after it is saved. Raises GuaranteeError if it is
    not certified.
    """
    retriever = editor.selector.ranker
    assert isinstance(retriever, Retriever)  # noqa: S101 - only these are trained
    trained = checkpoint.load(folder, encoder=retriever.encoder)

    train = setup.split.train
    cases = _cases_asked(folder, setup, model, method)
    cases = yield from _with_retention(folder, model, cases, method)

    roles = setup.pool.roles
    mixes = mixes_asked(folder, roles)
    answers = yield from _answers_to(
        folder, model, cases, editor, mixes=mixes, pool=setup.pool, rule=method.rule
    )
    policy, expected = train_query_policy(
        QueryPolicy.untrained(trained.retriever.encoder, roles, mixes),
        cases[: len(train)],
        answers[: len(train)],
        price=method.shot_price,
    )
    trained = replace(trained, per_query=policy)
    checkpoint.save(trained, folder)
    yield expected
    if guarantee is None:
        return

    policy, certified = _certified(
        policy,
        cases[len(train) :],
        answers[len(train) :],
        guarantee,
        max_probes=_most_probes(setup.dataset.cases, guarantee),
        price=method.shot_price,
    )
    checkpoint.save(replace(trained, per_query=policy, promise=certified), folder)
    yield certified


def _answers_to(
    folder: Path,
    model: LanguageModel,
    cases: Sequence[EditCase],
    editor: InContextEditor[RankAndCut],
    *,
    mixes: Sequence[RoleCounts],
    pool: Pool,
    rule: Rule | None,
) -> Generator[PhaseStarted | CaseAnswers, None, list[CaseAnswers]]:
    """Ask every case under every action that the folder has no answers to; return all answers.

    Yields the answers to each case after they are saved. Raises RunError.
    """
    choices = (LeaveAlone(), *mixes)
    answers = recovered_answers(folder, cases, len(choices))
    yield PhaseStarted("asking", len(cases), len(answers))
    new_answers = answers_under(
        choices,
        model,
        pool,
        cases[len(answers) :],
        style=editor.style,
        limit=editor.limit,
        rule=rule,
    )
    with usage_recorded(folder, "answers", model), closing(new_answers):
        for case_answers in new_answers:
            files.append(folder / files.ANSWERS, [asdict(case_answers)])
            answers.append(case_answers)
            yield case_answers
    return answers


def _cases_asked(
    folder: Path, setup: Setup, model: LanguageModel, method: Method
) -> tuple[EditCase, ...]:
    """The training edits with the questions that a policy is trained on, then those held out."""
    questions = training_cases(setup.split.train, setup.pool.seed)
    with usage_recorded(folder, "answers", model):
        resolved = answered_cases(folder, model, questions, method.rule, files.TRAINING_ANSWERS)
    held_out = [replace(case, further=(), baseline_questions=()) for case in setup.split.validation]
    return (*(resolved.cases if resolved else questions), *held_out)


def _with_retention(
    folder: Path, model: LanguageModel, cases: tuple[EditCase, ...], method: Method
) -> Generator[PhaseStarted | NeighboursAnswered, None, tuple[EditCase, ...]]:
    """The cases with the neighbours that count by the method's reading of retention.

    Raises RunError for recorded answers of an older version, which were judged by another reading.
    """
    if method.reading is Retention.ALL:
        return cases
    has_neighbours = any(case.neighborhood for case in cases)
    is_older = has_neighbours and not (folder / files.TRAINING_UNEDITED).exists()
    if is_older and (folder / files.ANSWERS).exists():
        raise RunError(
            f"{folder / files.ANSWERS} counts all neighbours, and this training those by "
            f"`retention` {method.reading.value}: remove the file to have the model asked again"
        )
    answers = yield from ask_unedited(folder, model, cases, method.rule, files.TRAINING_UNEDITED)
    return retained(cases, answers, method.reading)


def _certified(
    policy: QueryPolicy,
    held_out: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    guarantee: Guarantee,
    *,
    max_probes: int,
    price: float,
) -> tuple[QueryPolicy, CertifiedGuarantee]:
    """The policy shifted so that a guarantee holds, and the guarantee. Raises GuaranteeError.

    answers: to the held-out cases, on which the policy then counts as trained.
    """
    certified = certify(policy, held_out, answers, guarantee, max_probes=max_probes, price=price)
    calibrated_on = {edit.key for case in held_out for edit in case.edits}
    shifted = policy.shifted(certified.offset)
    return replace(shifted, trained_on=policy.trained_on | calibrated_on), certified


def _most_probes(cases: Sequence[EditCase], guarantee: Guarantee) -> int:
    """The most probes that a case has of those that the guarantee is about."""
    return max(sum(probe.aspect is guarantee.aspect for probe in case.probes) for case in cases)


def mixes_asked(folder: Path, roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a folder's recorded answers were asked under, else those of this version.

    So a run of an earlier version, which had fewer of them, goes on as it began. Raises RunError.
    """
    answers = _recorded_answers(folder)
    first_choices = 1 + len(first_mixes(roles))
    if answers and {len(of_probe) for of_probe in answers[0].correct} == {first_choices}:
        return first_mixes(roles)
    return policy_mixes(roles)


def _recorded_answers(folder: Path) -> list[CaseAnswers]:
    return files.read_lines(
        folder / files.ANSWERS, CaseAnswers, "remove the file to have the model asked again"
    )


def recovered_answers(folder: Path, cases: Sequence[EditCase], choices: int) -> list[CaseAnswers]:
    """Recorded answers to the first of `cases`; the file is cut to them. Raises RunError.

    choices: of demonstrations, under each of which every probe was asked.
    """
    path = folder / files.ANSWERS
    answers = _recorded_answers(folder)
    recorded = []
    for case_answers in answers:
        choices_by_probe = [len(of_probe) for of_probe in case_answers.correct]
        recorded.append((case_answers.case_id, choices_by_probe))
    expected = []
    for case in cases[: len(answers)]:
        expected.append((case.case_id, [choices] * len(case.asked)))
    if recorded != expected:
        raise RunError(
            f"{path} is about other probes: remove the file to have the model asked again"
        )
    files.keep_lines(path, len(answers))
    return answers
