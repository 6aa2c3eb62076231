"""Train a run's retriever and budget, and its policy per query, as generators that save what they yield."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from drike.edits.edit import EditCase, Probe, rewrite_probe
from drike.encoders import TextEncoder
from drike.errors import RunError, UsageError
from drike.models.protocols import LanguageModel
from drike.prompts import Layout, PromptStyle, RetainForm
from drike.research.editors.budgets import Flip, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.retriever import Form, Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import CaseAnswers, answers_under
from drike.research.evaluation.judge import LIKELIHOOD, RULES, Rule, RuleName
from drike.research.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.research.runs import checkpoint
from drike.research.runs import run as files
from drike.research.runs.evaluating import answered_cases
from drike.research.runs.run import PhaseStarted, Prepared, Setup, usage_recorded
from drike.research.training import algorithm1
from drike.research.training.algorithm1 import (
    Episode,
    EpisodeRecord,
    in_blocks,
    replayed,
    rewrite_reward,
)
from drike.research.training.s_objective import (
    Expected,
    actions,
    certify,
    train_query_policy,
    training_cases,
)

TrainingEvent = Prepared | PhaseStarted | Episode
QueryPolicyEvent = PhaseStarted | CaseAnswers | Expected | CertifiedGuarantee


@dataclass(frozen=True)
class Method:
    """How a run is trained. The fields are options of `drike train`, and keys of run.json and of the checkpoint."""

    objective: Literal["paper", "s", "balanced"] = "paper"
    named: bool = False  # without effect, as the gate reads names; runs record it
    shot_price: float = 0.05
    promise: str | None = None
    calibrate_on: int | None = None
    epochs: int = 5
    budget: Literal["threshold", "all", "half"] = "threshold"
    max_shots: int = 16
    learning_rate: float = 1e-4
    encoder: str | None = None
    policy_encoder: str | None = None
    parallel_edits: int = 1
    form: Form = "dot"
    flip: Flip = "offender"
    layout: Layout = "append"
    retain: RetainForm = "headed"
    own_copy: bool = True
    judge: RuleName | None = None

    @property
    def is_per_query(self) -> bool:
        """Whether a policy per query is trained on S, too; "balanced" is the former name of "s"."""
        return self.objective != "paper"

    @property
    def style(self) -> PromptStyle:
        """The style of the prompts."""
        return PromptStyle(self.layout, self.own_copy, self.retain)

    @property
    def rule(self) -> Rule | None:
        """The rule by which answers are right; None for the model's default."""
        return RULES[self.judge] if self.judge else None


def run_training(
    folder: Path, setup: Setup, model: LanguageModel, editor: InContextEditor[RankAndCut], method: Method, *,
    described: Mapping[str, object], past: Sequence[EpisodeRecord] = (),
) -> Generator[TrainingEvent]:  # fmt: skip
    """Train the editor's retriever and budget; yield every episode after it is saved.

    The checkpoint is saved after each epoch and when the training ends or is stopped, as is the model's work.
    described: the model, for the checkpoint. past: episodes that this run recorded already; they are yielded again.
    Raises UsageError if there is no edit to train on, ReplayError for the episodes of another training.
    """
    retriever, budget, cases = editor.selector.ranker, editor.selector.budget, setup.split.train
    if not cases:
        raise UsageError(
            "there is no edit to train on: ask for fewer `test` edits or more `editable` rows"
        )
    unknown = sum(case.edit.target_true is None for case in (*cases, *setup.split.validation))
    if unknown and method.rule is LIKELIHOOD:
        problem = (
            f"the rule likelihood compares with old objects, unknown for {unknown} of the edits"
        )
        raise UsageError(f"{problem}: give their `target_true`, or train by greedy or generate")
    yield Prepared(tuple(setup.prepare(cases, [retriever])), len(past), method.epochs * len(cases))
    _check_limit(editor, method, cases)
    training = {
        "model": dict(described), "data": setup.dataset.name, "data_fingerprint": setup.dataset.fingerprint,
        "edits": len(cases), "seed": setup.pool.seed, "method": asdict(method),
    }  # fmt: skip
    episodes = algorithm1.train(
        editor, replayed(past, rewrite_reward(model, rule=method.rule)), cases, epochs=method.epochs,
        learning_rate=method.learning_rate, schedule=in_blocks(method.parallel_edits, model.info.calls_at_once),
    )  # fmt: skip
    yield PhaseStarted("training", method.epochs * len(cases))
    assert isinstance(retriever, Retriever)  # noqa: S101 - only these are trained
    done, head = 0, deepcopy(retriever.head.state_dict())

    def save() -> None:
        checkpoint.save(
            checkpoint.Checkpoint(retriever, budget, editor.style, {**training, "episodes": done}),
            folder,
        )

    with (
        usage_recorded(folder, "training", model),
        closing(episodes),
    ):  # it waits for edits that are still asked about
        try:
            for episode in episodes:
                # Head, budget and count belong together whenever Ctrl-C comes: the next step may be half done by then.
                budget, done, head = episode.budget, done + 1, deepcopy(retriever.head.state_dict())
                if done > len(past):
                    files.append(folder / "episodes.jsonl", [episode.record])
                    if done % len(cases) == 0:
                        save()
                yield episode
        finally:
            retriever.head.load_state_dict(head)
            if done:
                save()


def _check_limit(
    editor: InContextEditor[RankAndCut], method: Method, cases: Sequence[EditCase]
) -> None:
    """Raise UsageError if prompts are longer than the limit even with a single retain."""
    if editor.limit is None:
        return
    longest = 0
    for case in cases:
        queries = [probe.query for probe in scored_probes(method, case)]
        [selection, *_] = editor.select(case.edits, queries)
        prompts = editor.show(selection.without_last(selection.prunable - 1), queries)
        longest = max(longest, *editor.limit.count([prompt.text for prompt in prompts]))
    if longest > editor.limit.tokens:
        why = "only retains are dropped, and with copies, updates and one retain prompts have up to"
        problem = (
            f"`prompt_tokens` {editor.limit.tokens} cannot be kept, since {why} {longest:,} tokens"
        )
        raise UsageError(f"{problem}: allow that many, or give shorter records")


def run_query_policy(
    folder: Path, setup: Setup, model: LanguageModel, editor: InContextEditor[RankAndCut], method: Method, *,
    guarantee: Guarantee | None = None,
) -> Generator[QueryPolicyEvent]:  # fmt: skip
    """Train the policy that decides for each query, and save it beside the retriever that is in the folder.

    Yields the answers to every edit that are not in the folder yet, what training expects, and the certified guarantee
    if one is asked for, each after it is saved. Raises GuaranteeError if it is not certified.
    """
    retriever = editor.selector.ranker
    assert isinstance(retriever, Retriever)  # noqa: S101 - only these are trained
    trained, train = checkpoint.load(folder, encoder=retriever.encoder), setup.split.train
    questions = training_cases(train, setup.pool.seed)
    with usage_recorded(folder, "answers", model):
        resolved = answered_cases(folder, model, questions, method.rule, files.TRAINING_ANSWERS)
    held_out = [replace(case, further=(), baseline_questions=()) for case in setup.split.validation]
    cases = (*(resolved.cases if resolved else questions), *held_out)
    policy = QueryPolicy.untrained(trained.retriever.encoder, setup.pool.roles)
    answers = recovered_answers(folder, cases, len(actions(setup.pool.roles)))
    asked = answers_under(
        actions(setup.pool.roles), model, setup.pool, cases[len(answers) :], style=editor.style, limit=editor.limit,
        rule=method.rule,
    )  # fmt: skip
    yield PhaseStarted("asking", len(cases), len(answers))
    with usage_recorded(folder, "answers", model), closing(asked):
        for case_answers in asked:
            files.append(folder / files.ANSWERS, [asdict(case_answers)])
            answers.append(case_answers)
            yield case_answers
    policy, expected = train_query_policy(
        policy, cases[: len(train)], answers[: len(train)], price=method.shot_price
    )
    trained = replace(trained, per_query=policy)
    checkpoint.save(trained, folder)
    yield expected
    if guarantee is None:
        return
    most = max(
        sum(probe.aspect is guarantee.aspect for probe in case.probes)
        for case in setup.dataset.cases
    )
    certified = certify(
        policy, held_out, answers[len(train) :], guarantee, max_probes=most, price=method.shot_price
    )
    keys = policy.trained_on | {edit.key for case in held_out for edit in case.edits}
    policy = replace(policy.shifted(certified.offset), trained_on=keys)
    checkpoint.save(replace(trained, per_query=policy, promise=certified), folder)
    yield certified


def new_editor(
    method: Method, setup: Setup, encoder: TextEncoder, *, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """An untrained DR-IKE. encoder: under the head, which the seed of the setup draws. limit: on the prompts."""
    retriever, most, flip = (
        Retriever(encoder, form=method.form, seed=setup.pool.seed),
        method.max_shots,
        method.flip,
    )
    budgets = {
        "threshold": Threshold(0.0, most, flip),
        "all": Fraction(1.0, most),
        "half": Fraction(0.5, most),
    }
    return InContextEditor(
        "DR-IKE", setup.pool, RankAndCut(retriever, budgets[method.budget]), method.style, limit
    )


def scored_probes(method: Method, case: EditCase) -> list[Probe]:
    """What the reward asks of a case under each prefix; where it compares, the distractor is asked for, too."""
    probe = rewrite_probe(case.edit)
    wrong = probe.distractor if method.judge == LIKELIHOOD.name else None
    return [probe] if wrong is None else [probe, replace(probe, target=wrong)]


def recovered_episodes(folder: Path) -> list[EpisodeRecord]:
    """The recorded episodes of a stopped training run; its file is cut to whole episodes. Raises RunError."""
    path = folder / "episodes.jsonl"
    records = files.read_lines(path, EpisodeRecord, "train again")
    files.keep_lines(path, len(records))
    return records


def recovered_answers(folder: Path, cases: Sequence[EditCase], choices: int) -> list[CaseAnswers]:
    """Recorded answers to the first of `cases` under so many choices; the file is cut to them. Raises RunError."""
    path = folder / files.ANSWERS
    answers = files.read_lines(path, CaseAnswers, "remove the file to have the model asked again")
    shapes = [(of_case.case_id, [len(row) for row in of_case.correct]) for of_case in answers]
    if shapes != [(case.case_id, [choices] * len(case.asked)) for case in cases[: len(answers)]]:
        raise RunError(
            f"{path} is about other probes: remove the file to have the model asked again"
        )
    files.keep_lines(path, len(answers))
    return answers
