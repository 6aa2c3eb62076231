"""`drike train` and `drike evaluate`: the paper's algorithm and its table, in the folders of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from drike.cli import running
from drike.cli.console import console, draw, note, say, this_command
from drike.cli.dry_run import CountingModel, count_only, count_own_answers
from drike.cli.options import RUN_DECIDES, VALUES, DataOptions, ModelOptions, RunOptions, command
from drike.edits.edit import ASPECTS_OF_S, EditCase
from drike.encoders import load_encoder
from drike.errors import GuaranteeError, UsageError
from drike.gates.by_name import Named
from drike.gates.confirmation import require_uncertainty
from drike.gates.edit_names import common_questions
from drike.gateway.logs import read_questions
from drike.live.store_gate import encoder_of, open_gate, usual_gate
from drike.models import ApiOptions, LanguageModel, Usage
from drike.prompts import demonstration_block
from drike.research.datasets.generated import GENERATED, with_generated
from drike.research.edited_model import SimulatedStores
from drike.research.editors import catalog
from drike.research.editors.budgets import Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor, TokenLimit, ranks_retains
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import AnsweredCases, answers_under
from drike.research.evaluation.evaluate import evaluate as outcomes_of
from drike.research.evaluation.judge import RULES, Judge, Rule, RuleName
from drike.research.evaluation.metrics import Outcome
from drike.research.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.research.report import tables
from drike.research.report.gate_tables import deployed_tables
from drike.research.report.training_tables import by_epoch
from drike.research.runs import evaluating, training
from drike.research.runs.run import EVALUATIONS, PhaseStarted, Prepared, Setup, read_usage
from drike.research.training.algorithm1 import Episode
from drike.research.training.s_objective import Expected, actions, check_possible, training_cases
from drike.support.files import write_text
from drike.support.table import as_markdown, as_text, counted

CALIBRATE_ON = 100  # edits held out for a guarantee
VALUES_OF_EDITORS = (
    f"NAMES are {', '.join(catalog.NAMES)}; {', '.join(catalog.NEED_TRAINING)} need --run."
)
TABLES = "table.md"


@command(VALUES, running.Resumable)
def train(
    *, data: DataOptions, edits: int | None = None, model: ModelOptions, method: training.Method, at: RunOptions,
    api: ApiOptions,
) -> None:  # fmt: skip
    """Train DR-IKE's retriever and budget on a model's right and wrong answers."""
    options = running.options_in(locals())
    guarantee = _checked(method, at.replicas)
    of_data = running.data_settings(running.DEFAULTS, data, method.encoder)
    folder = at.resume or running.new_run(at.out, "train")
    setup = running.open_setup(
        of_data, train=edits, test=data.test, editable=data.editable, subset=data.subset,
        validation=(method.calibrate_on or CALIBRATE_ON) if guarantee else 0,
    )  # fmt: skip
    if guarantee:
        check_possible(guarantee, setup.split.validation)
    opened = running.open_model(model, api, running.DEFAULTS, at=at)
    method = replace(method, judge=Judge(opened.model, method.rule).rule.name)
    if count_only(
        opened.model, api, lambda counting: _count_training(counting, setup, method, opened.limit)
    ):
        return
    settings = options | {
        "data": of_data.data, "model": opened.name, "seed": of_data.seed, "encoder": of_data.encoder,
        "zsre_target": of_data.zsre_target, "template": opened.template, "judge": method.judge,
    }  # fmt: skip
    refused: GuaranteeError | None = None
    with running.recorded_at(folder, setup, opened, settings, options, command="train", at=at):
        head_encoder = load_encoder(method.policy_encoder or of_data.encoder)
        editor = training.new_editor(method, setup, head_encoder, limit=opened.limit)
        try:
            watch_training(folder, setup, opened, editor, method)
            if method.is_per_query:
                watch_query_policy(folder, setup, opened.model, editor, method, guarantee=guarantee)
        except GuaranteeError as problem:  # the policy is saved as it was trained
            refused = problem
    say(f"\nSaved in {folder}. Evaluate it: {this_command()} evaluate --run {folder}")
    if refused is not None:
        raise refused


def _checked(method: training.Method, replicas: int) -> Guarantee | None:
    """What --guarantee asks for. Raises UsageError for options that do not go together."""
    if method.parallel_edits < replicas:
        remedy = f"give --parallel-edits {2 * replicas}, which also changes what is learned, or fewer --replicas"
        raise UsageError(
            f"--parallel-edits {method.parallel_edits} leaves some of {replicas} replicas idle: {remedy}"
        )
    if method.promise is None:
        if method.calibrate_on is not None:
            raise UsageError(
                '--calibrate-on holds edits out for a guarantee: add --guarantee, as "rr>=.85"'
            )
        return None
    if not method.is_per_query:
        raise UsageError(
            "--guarantee is for the policy that decides for each query: add --objective s"
        )
    return Guarantee.parse(method.promise)


def _count_training(
    counting: CountingModel, setup: Setup, method: training.Method, limit: TokenLimit | None
) -> None:
    """Count the most calls that all epochs can take, and those for the answers under each mix.

    An epoch tries every prefix of every edit's retains, the longest retains first, or with a limit as many prefixes as
    fit with the shortest retains.
    """
    style = method.style
    questions = {case.edits: training.scored_probes(method, case) for case in setup.split.train}
    for candidates in setup.pool.for_groups(list(questions)):
        probes = questions[candidates.edits]
        queries = [probe.query for probe in probes]
        blocks = {
            retain: demonstration_block(retain, style.retain) for retain in candidates.retains
        }
        lengths = {retain: (counting.count(block), len(block)) for retain, block in blocks.items()}
        longest = sorted(candidates.retains, key=lengths.__getitem__, reverse=True)
        count = min(method.max_shots, len(longest))
        if limit is not None:
            count = limit.fitting(count, lambda j: style.show(candidates, longest[-j:], queries))  # noqa: B023 - called at once
        for j in range(1, count + 1):
            for prompt, probe in zip(
                style.show(candidates, longest[:j], queries), probes, strict=True
            ):
                counting.add(f"{prompt.text} {probe.target}")
    done = counting.calls, counting.read, counting.written
    counting.calls, counting.read, counting.written = (method.epochs * number for number in done)
    if method.is_per_query:
        rule = Judge(counting, method.rule).rule
        resolved = count_own_answers(
            counting, training_cases(setup.split.train, setup.pool.seed), rule
        )
        cases = (*resolved.cases, *setup.split.validation)
        list(answers_under(
            actions(setup.pool.roles), counting, setup.pool, cases, style=style, limit=limit, rule=method.rule
        ))  # fmt: skip


def watch_training(
    folder: Path, setup: Setup, opened: running.OpenedModel, editor: InContextEditor[RankAndCut],
    method: training.Method,
) -> None:  # fmt: skip
    """Train to the end; show the running epoch as a bar, every finished one as a line, and the model's work."""
    ranker, cases, epoch, model = (
        editor.selector.ranker,
        len(setup.split.train),
        list[Episode](),
        opened.model,
    )
    assert isinstance(ranker, Retriever)  # noqa: S101 - only these are trained

    def show(event: training.TrainingEvent) -> str | None:
        match event:
            case Prepared():
                head = (
                    f"{ranker.form} over {ranker.encoder.name} ({ranker.parameters:,} parameters)"
                )
                data = f"{counted(cases, 'edit')} of {setup.split.ids.title}, {counted(method.epochs, 'epoch')}"
                say(f"Training on {data}, model {model.info.name}, head {head}")
                show_prepared(event, "episodes")
            case PhaseStarted():
                names = f"{'epoch':>5} {'ESR':>6} {'mean k':>7} {'sigma':>7} {'tokens':>10} {'calls':>7} {'seconds':>8}"
                console.print(names, style="bold")
            case Episode():
                if len(epoch) == cases:  # the next epoch begins
                    epoch.clear()
                epoch.append(event)
                return _epoch_so_far(epoch, finished=len(epoch) == cases)
        return None

    past = training.recovered_episodes(folder)
    events = training.run_training(
        folder, setup, model, editor, method, described=opened.described, past=past
    )
    try:
        running.watch(events, show, model)
    finally:
        if (used := read_usage(folder).get("training", Usage())).tokens:
            draw(tables.work({"training": used}))


def _epoch_so_far(episodes: Sequence[Episode], *, finished: bool) -> str:
    """The figures of the running epoch; those of a finished one are also printed as a line."""
    [epoch] = by_epoch(episodes)
    sigma = as_text(epoch.threshold)
    esr, k, calls = f"{epoch.esr:.3f}", f"{epoch.mean_k:.2f}", f"{epoch.calls:,}"
    tokens = "n/a" if epoch.prompt_tokens is None else f"{epoch.prompt_tokens:,}"
    if finished:
        console.print(
            f"{epoch.epoch:>5} {esr:>6} {k:>7} {sigma:>7} {tokens:>10} {calls:>7} {epoch.seconds:>8.1f}"
        )
    cut = f"sigma {sigma}" if epoch.share is None else f"share {sigma}"
    return f"epoch {epoch.epoch}  ESR {esr}  k {k}  {cut}  tokens {tokens}  calls {calls}"


def watch_query_policy(
    folder: Path, setup: Setup, model: LanguageModel, editor: InContextEditor[RankAndCut], method: training.Method, *,
    guarantee: Guarantee | None = None,
) -> None:  # fmt: skip
    """Train the policy that decides for each query, and show what comes of it. Raises GuaranteeError."""

    def show(event: training.QueryPolicyEvent) -> None:
        match event:
            case PhaseStarted():
                say(
                    f"\nAsking every probe of {event.total} edits alone and under each mix, for DR-IKE-Q"
                )
                if event.done:
                    say(f"Recovered {event.done} of {event.total} edits")
            case Expected():
                if absent := [aspect.value for aspect in ASPECTS_OF_S if aspect not in event.means]:
                    note(
                        f"no training edit has a {' or a '.join(absent)} probe, so the policy learns from none"
                    )
                means = ", ".join(
                    f"{aspect.value} {mean:.3f}" for aspect, mean in event.means.items()
                )
                tokens = f"{event.tokens:.0%} of the tokens of all demonstrations"
                say(f"Expected on these edits: S {event.score:.3f} ({means}) with {tokens}")
            case CertifiedGuarantee():
                say(
                    f"Guaranteed: {event.sentence} (measured there: {event.measured:.3f}, shift {event.offset:g})"
                )

    running.watch(
        training.run_query_policy(folder, setup, model, editor, method, guarantee=guarantee),
        show,
        model,
    )


def show_prepared(event: Prepared, unit: str) -> None:
    """Print how much of a stopped run is recovered, and the notes on the demonstrations."""
    if event.recovered:
        say(f"Recovered {event.recovered} of {event.total} {unit}")
    for sentence in event.notes:
        say(sentence, "dim")


@command(f"{RUN_DECIDES}\n\n{VALUES_OF_EDITORS}\n\n{VALUES}", running.Resumable)
def evaluate(
    *, run: Path | None = None, data: DataOptions, model: ModelOptions, editors: str | None = None,
    sigmas: str | None = None, judge: RuleName | None = None, probes: Literal["published", "all"] = "published",
    write: bool = False, encoder: str | None = None, stored: str | None = None,
    gate: Literal["named", "calibrated", "careful", "eager"] | None = None, unrelated: Path | None = None,
    ask: bool = False, at: RunOptions, api: ApiOptions,
) -> None:  # fmt: skip
    """Measure ESR, PC, RR, S, ESM and GSM of editors on edits that were not trained on."""
    if stored and not (gate or at.resume):  # older runs, which name no gate, go on by names
        gate = "named" if isinstance(usual_gate(), Named) else "calibrated"
    options = running.options_in(locals())
    names = (
        list(dict.fromkeys(name.strip().casefold() for name in editors.split(",")))
        if editors
        else []
    )
    for name in [*names, *(["dr-ike"] if sigmas else [])]:
        catalog.require_editor(name, trained=run is not None)
    thresholds = parse_sigmas(sigmas)
    if stored and stored != "all" and not (stored.isdecimal() and int(stored)):
        raise UsageError(f"--stored takes a number of edits, at least 1, or all, not {stored!r}")
    if not stored and (gate or unrelated or ask):
        raise UsageError(
            "--gate, --unrelated and --ask are for --stored: ask for edits in force, as --stored all"
        )
    if ask:
        require_uncertainty(
            open_gate(None, gate or "named"), "give --gate calibrated, or leave --ask out"
        )
    folder, notes = at.resume or running.new_run(at.out, "evaluate", run), list[str]()
    base, setup, settings = running.open_edits(run, data, encoder, at)
    trained, earlier = (base.trained, base.run) if base else (None, running.DEFAULTS)
    if probes == "all":
        cases = with_generated(setup.split.test, setup.pool.seed)
        setup, notes = replace(setup, split=replace(setup.split, test=cases)), [GENERATED]
    opened = running.open_model(model, api, earlier, at=at, cache=False)
    rule = Judge(opened.model, RULES.get(judge or earlier.judge or "")).rule
    make = partial(catalog.make, pool=setup.pool, trained=trained, limit=opened.limit)
    chosen = [
        *map(make, names or catalog.usual(trained)),
        *(swept(make("dr-ike"), thresholds) if thresholds else ()),
    ]
    deployment = None
    if stored:
        size = None if stored == "all" else int(stored)
        deployment = open_deployment(
            setup, size, gate or "named", unrelated, opened.model if ask else None
        )
    asked, test = [*chosen, *(deployment.editors(chosen) if deployment else [])], setup.split.test
    if count_only(
        opened.model,
        opened.api,
        lambda counting: _count_asked(counting, test, asked, rule, write=write),
    ):
        return
    settings |= {
        "sigmas": sigmas, "probes": probes, "write": write, "model": opened.name, "template": opened.template,
        "judge": rule.name, "prompt_tokens": model.prompt_tokens or earlier.prompt_tokens, "replicas": at.replicas,
        "tokenizer": opened.api.tokenizer, "editors": [editor.name for editor in chosen], "stored": stored,
        "gate": deployment.name if deployment else None, "unrelated": None if unrelated is None else str(unrelated),
    }  # fmt: skip
    with running.recorded_at(
        folder, setup, opened, settings, options, command="evaluate", at=at, base=base
    ):
        evaluation = watch_evaluation(
            folder, setup, opened.model, chosen, rule=rule, write=write, notes=notes
        )
        if deployment is not None:
            watch_deployed(folder, deployment, opened.model, chosen, evaluation)
    its_own = data.data is None and (opened.name, rule.name) == (
        earlier.model,
        earlier.judge or rule.name,
    )
    if its_own and (certified := trained and trained.promise):
        of_policy = evaluation.outcomes.get("DR-IKE-Q", [])
        correct = [
            o.correct
            for o in of_policy
            if o.aspect is certified.promise.aspect and o.correct is not None
        ]
        if correct:
            say(
                f"\nGuarantee of DR-IKE-Q: {certified.sentence}; measured on these test edits: {fmean(correct):.3f}"
            )
    note_long_prompts(evaluation.outcomes, opened.limit)
    shown = folder.parents[1] if folder.parent.name == EVALUATIONS else folder
    say(f"\nOutcomes and tables are in {folder}. Report them: {this_command()} report {shown}")


def _count_asked(
    counting: CountingModel,
    cases: Sequence[EditCase],
    editors: Sequence[Editor],
    rule: Rule,
    *,
    write: bool,
) -> None:
    resolved = count_own_answers(counting, cases, rule)
    for editor in editors:
        list(
            outcomes_of(
                editor, counting, resolved.cases, rule=rule, write=write, allow_trained=True
            )
        )
    if resolved.asked:
        say(f"{resolved.asked} questions are put to the unedited model first")


def watch_evaluation(
    folder: Path, setup: Setup, model: LanguageModel, editors: Sequence[Editor], *, notes: Sequence[str] = (),
    **how: Any,
) -> evaluating.Evaluation:  # fmt: skip
    """Evaluate editors on the test edits with a bar; save and print the tables. how: as `run_evaluation` takes it."""

    def show(event: evaluating.EvaluationEvent) -> None:
        if isinstance(event, AnsweredCases):
            say(
                f"{event.asked} questions were put to the unedited model first, whose answer is right or shows what it "
                f"knows; left out are {event.unusable} without an answer that can be judged, {event.unknown} whose "
                f"facts it does not know and {event.new} answered with the new object"
            )
        elif isinstance(event, Prepared):
            show_prepared(event, "edits")

    evaluation = running.watch(
        evaluating.run_evaluation(folder, setup, model, editors, **how), show, model
    )
    assert isinstance(evaluation, evaluating.Evaluation)  # noqa: S101 - its last event
    data, rule, summaries = (
        f"{setup.split.ids.title}, {len(evaluation.cases)}",
        evaluation.rule,
        evaluation.summaries,
    )
    title = f"{data} test edits, model {model.info.name}, judged by {rule.name}"
    differing = [tables.disagreement(evaluation.both_ways)] if evaluation.both_ways else []
    others = tables.aspects(summaries, *notes), tables.hops(summaries), tables.costs(summaries)
    shown = [
        table
        for table in (tables.table1(summaries, title, rule.caption, *differing), *others)
        if table
    ]
    shown += tables.paired(
        evaluation.counts, tables.compared(list(evaluation.counts)), "Paired differences"
    )
    write_text(folder / TABLES, "\n".join(map(as_markdown, shown)))
    draw(*shown)
    usages = {
        name: used for name, used in read_usage(folder).items() if name in evaluation.outcomes
    }
    if any(used.tokens for used in usages.values()):
        draw(tables.work(usages))
    if cached := [name for name, used in usages.items() if model.info.served and used.cached]:
        note(
            f"some answers of {', '.join(cached)} came from the cache, so their seconds do not measure the model"
        )
    return evaluation


def watch_deployed(
    folder: Path, deployment: evaluating.Deployment, model: LanguageModel, editors: Sequence[Editor],
    paper: evaluating.Evaluation,
) -> None:  # fmt: skip
    """Evaluate editors behind the gate; draw tables, and add them to those of `paper`, of queries under their edit."""
    events = evaluating.run_deployed(
        folder, deployment, model, editors, paper.cases, rule=paper.rule
    )
    deployed = running.watch(events, lambda event: None, model)
    assert isinstance(deployed, evaluating.DeployedEvaluation)  # noqa: S101 - its last event
    size, cases = f"{deployment.size:,} edits in force", f"{len(paper.cases)} test edits"
    title = f"{size}, {cases}, model {model.info.name}, gate {deployment.name}"
    shown = deployed_tables(
        paper.outcomes, deployed.outcomes, deployed.decisions, title, paper.rule.caption
    )
    write_text(
        folder / TABLES, "\n".join([(folder / TABLES).read_text("utf-8"), *map(as_markdown, shown)])
    )
    draw(*shown)


def open_deployment(
    setup: Setup, size: int | None, gate: str, unrelated: Path | None, model: LanguageModel | None
) -> evaluating.Deployment:
    """Stores of the data's editable rows, those that are tested on among them. Raises UsageError, DataError."""
    opened, editable = open_gate(None, gate), {*setup.split.ids.editable, *setup.split.ids.test}
    edits = [
        edit for case in setup.dataset.cases if case.case_id in editable for edit in case.edits
    ]
    stores = SimulatedStores(edits, size, encoder=encoder_of(opened), seed=setup.pool.seed)
    questions = (
        common_questions()
        if unrelated is None
        else [asked.said for asked in read_questions(unrelated)]
    )
    return evaluating.Deployment(opened, stores, questions, model)


def note_long_prompts(outcomes: Mapping[str, Sequence[Outcome]], limit: TokenLimit | None) -> None:
    """Say how many prompts of each editor are over the limit even without retains."""
    for name, of_editor in outcomes.items():
        if limit and (
            over := sum((outcome.prompt_tokens or 0) > limit.tokens for outcome in of_editor)
        ):
            longer = f"{over} of {len(of_editor)} prompts of {name} are longer than {limit.tokens} tokens"
            note(f"{longer}, although all retains that can be dropped are")


def parse_sigmas(text: str | None) -> list[float]:
    """Thresholds from a comma-separated option. Raises UsageError for what is no probability."""
    sigmas = []
    for part in filter(None, (text or "").replace(" ", "").split(",")):
        try:
            sigmas.append(Threshold(float(part)).sigma)
        except ValueError:
            raise UsageError(
                f"--sigmas takes probabilities such as .03,.06, not {part!r}"
            ) from None
    return list(dict.fromkeys(sigmas))


def swept(dr_ike: Editor, sigmas: Sequence[float]) -> list[InContextEditor[RankAndCut]]:
    """DR-IKE with fixed thresholds in place of its own budget, as "DR-IKE (sigma .06)"."""
    assert ranks_retains(dr_ike)  # noqa: S101 - DR-IKE does
    selector = dr_ike.selector
    own = selector.budget if isinstance(selector.budget, Threshold) else Threshold()
    named = {
        f"{dr_ike.name} (sigma {repr(sigma).removeprefix('0')})": replace(own, sigma=sigma)
        for sigma in sigmas
    }
    return [
        replace(dr_ike, name=name, selector=replace(selector, budget=budget))
        for name, budget in named.items()
    ]
