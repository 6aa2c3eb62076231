"""`drike edits tune`: choose the placement of facts that works on a model, and keep it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated

from drike.cli import models, setups
from drike.cli.commands import METHOD, command, flag, option
from drike.cli.console import draw, note, say
from drike.cli.dry_run import count_only
from drike.cli.models import DEFAULTS, OpenedModel
from drike.cli.options import (
    FILE,
    ApiFlags,
    DryRun,
    ModelOptions,
    RunOptions,
    Store,
    TrainingRun,
)
from drike.cli.stored_edits import in_force, store_at
from drike.edits.edit import Aspect
from drike.edits.record import StoreError, as_stored
from drike.edits.times import stamp
from drike.gateway.proving import tuning
from drike.gateway.proving.questions import EditQuestion
from drike.live.live_edits import LiveEdits
from drike.research.editors.placements import placements_before
from drike.research.runs.run import RunSettings, TrainedRun
from drike.stores.edit_store import EditStore
from drike.stores.verifications import QuestionKind
from drike.support.table import Cell, Number, Table

_UNSURE = 0.3  # in S: by more than this another placement may be better
_KINDS = {
    Aspect.REWRITE: QuestionKind.QUERY,
    Aspect.PARAPHRASE: QuestionKind.WORDING,
    Aspect.NEIGHBORHOOD: QuestionKind.NEAR,
}


@command()
def tune_(
    *,
    run: TrainingRun = None,
    store: Store = FILE,
    model: ModelOptions,
    token_price: Annotated[
        float,
        option(
            "--token-price",
            "X",
            METHOD,
            "What a thousand tokens must gain, in S",
            min=0.0,
            max=10.0,
        ),
    ] = 0.05,
    questions: Annotated[
        int,
        option("--questions", "N", METHOD, "Most questions of each kind", min=1, max=100000),
    ] = 128,
    remove: Annotated[
        bool, flag("--remove", METHOD, "Go back to the usual placement instead")
    ] = False,
    dry_run: DryRun = False,
    api: ApiFlags,
) -> None:
    """Choose by a model's answers how facts are put before its questions."""
    with store_at(store) as opened_store:
        if remove:
            tuning.save_choice(opened_store, None)
            say(f"{opened_store.name} has the usual placement from now on")
            return
        base = setups.open_trained_run(run) if run else None
        asked = _questions(opened_store, base, questions)
        at = RunOptions(dry_run=dry_run)
        opened = _open_model(model, api, base.run if base else DEFAULTS, at)
        chat = opened.template == "chat"
        plan = tuning.Tuning(
            opened.model,
            placements_before(opened.model, chat=chat),
            asked,
            chat,
            token_price,
            is_found=None if base else _found_by_gate(opened_store),
        )
        until_the_end = replace(plan, tolerance=-1.0)
        if count_only(opened.model, opened.api, lambda counting: list(tuning.tune(until_the_end))):
            return
        with models.metered(opened.model):
            latest = _last_round(plan, opened.name)
        choice = _choice(latest, plan, opened)
        tuning.save_choice(opened_store, choice)
        draw(_table(latest, plan, opened.name))
        say(f"{opened_store.name} has the placement {choice.placement} from now on")
        _say_how_sure(latest, choice)


def _questions(store: EditStore, base: TrainedRun | None, most: int) -> list[EditQuestion]:
    """What is asked: of a training run, or about the edits in force. Raises StoreError for none."""
    edits = in_force(store)
    if base:
        return _questions_of_run(base, most)
    if not edits:
        raise StoreError(
            f"no edit is in force in {store.name}: add one (drike edits add), or give --run"
        )
    return tuning.questions_of(edits, most)


def _questions_of_run(base: TrainedRun, most: int) -> list[EditQuestion]:
    """The probes of the run's training edits."""
    settings = replace(base.run, encoder="hashing")
    cases = setups.open_setup(settings, split=base.split).split.train
    edits = as_stored([case.edit for case in cases])
    by_aspect: dict[Aspect, list[EditQuestion]] = {aspect: [] for aspect in _KINDS}
    for edit, case in zip(edits, cases, strict=True):
        for probe in case.probes:
            question = EditQuestion(edit, _KINDS[probe.aspect], probe.query)
            by_aspect[probe.aspect].append(question)
    questions: list[EditQuestion] = []
    for questions_of_aspect in by_aspect.values():
        questions += questions_of_aspect[:most]
    return questions


def _open_model(
    options: ModelOptions, api: ApiFlags, settings: RunSettings, at: RunOptions
) -> OpenedModel:
    """The model, which chats if it can, as drike serve asks it."""
    opened = models.open_model(options, api, settings, at=at)
    can_chat = getattr(opened.model, "chats", False)
    if options.template is None and opened.template == "plain" and can_chat:
        chatting = replace(options, template="chat")
        return models.open_model(chatting, api, settings, at=at)
    return opened


def _found_by_gate(store: EditStore) -> Callable[[EditQuestion], bool]:
    """Whether the store's gate finds the edit of a question. Raises StoreError."""
    live = LiveEdits(store).refresh()

    @cache  # a question is asked under every placement, and counted
    def is_found(question: EditQuestion) -> bool:
        applied = live.gate.decide(question.text, live.view.index).applied
        return any(edit.id == question.edit.id for edit in applied)

    return is_found


def _last_round(plan: tuning.Tuning, model: str) -> tuning.Round:
    """Ask until a placement is chosen; what is known by then is shown if that is interrupted."""
    latest: tuning.Round | None = None
    try:
        for latest in tuning.tune(plan):
            _say_round(latest)
    except KeyboardInterrupt:
        if latest:
            draw(_table(latest, plan, model))
            note("stopped before a placement was chosen: the store keeps the one it has")
        raise
    assert latest is not None  # noqa: S101 - there are questions
    return latest


def _say_round(latest: tuning.Round) -> None:
    first = latest.trials[0]
    out = ", ".join(trial.placement for trial in latest.trials[latest.left :])
    left_out = f"; out: {out}" if out else ""
    left = f"{latest.left} placements left, {first.placement} first (S {first.s:.2f})"
    say(f"{latest.calls:,} calls: {left}{left_out}")


def _choice(
    latest: tuning.Round, plan: tuning.Tuning, opened: OpenedModel
) -> tuning.ChosenPlacement:
    server = opened.model.info.identity.get("server")
    return tuning.ChosenPlacement(
        placement=latest.trials[0].placement,
        model=opened.name,
        server=str(server) if server else None,
        chat=plan.chat,
        chosen_at=stamp(datetime.now(UTC)),
        edits=len({question.edit.id for question in plan.questions}),
        kinds=plan.kinds,
        trials=latest.trials,
        calls=latest.calls,
        grid=plan.grid,
        confidence=plan.confidence,
        better=latest.better,
    )


def _say_how_sure(latest: tuning.Round, choice: tuning.ChosenPlacement) -> None:
    if latest.left == 1:
        others = "every other one is worse"
    else:
        others = f"none is better by more than {latest.better:.2f}"
    say(f"At confidence {choice.confidence:g} {others}, in S less the price of tokens")
    if latest.better > _UNSURE:
        note(
            "the questions are few: add edits and paraphrases, or give a training run (--run), "
            "and choose again"
        )
    say(f"{latest.calls:,} calls; all questions under all placements take {choice.grid:,}")


def _table(latest: tuning.Round, plan: tuning.Tuning, model: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for place, trial in enumerate(latest.trials):
        if place == 0:
            state = "chosen"
        elif place < latest.left:
            state = "left"
        else:
            state = f"out after {trial.asked:,}"
        rows.append(
            (
                trial.placement,
                *(Number(rate, ".2f") for rate in (*trial.rates, trial.s)),
                Number(trial.tokens, ".0f"),
                Number(trial.gain if place else None, ".2f"),
                state,
            )
        )
    header = ("placement", *plan.kinds, "S", "tokens", "may gain", "")
    return Table(f"Placements of facts on {model}", header, tuple(rows))
