"""`drike edits tune`: choose the placement of facts that works on a model, and keep it in the store."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path

from drike.cli.console import draw, note, say
from drike.cli.dry_run import count_only
from drike.cli.edits import in_force, store_at
from drike.cli.options import FILE, ModelOptions, RunOptions, command
from drike.cli.running import DEFAULTS, metered, open_model, open_setup, open_trained_run
from drike.edits.edit import Aspect
from drike.edits.record import StoreError, as_stored
from drike.edits.times import stamp
from drike.gateway.proving import tuning
from drike.gateway.proving.tuning import Kind, TuningQuestion
from drike.models.served import ApiOptions
from drike.research.editors.placements import placements
from drike.research.runs.run import TrainedRun
from drike.support.table import Number, Table

_UNSURE = 0.3  # in S: by more than this another placement may be better
_KINDS = {
    Aspect.REWRITE: Kind.OWN,
    Aspect.PARAPHRASE: Kind.WORDING,
    Aspect.NEIGHBORHOOD: Kind.OTHER,
}


@command()
def tune_(
    *, store: str = FILE, run: Path | None = None, model: ModelOptions, questions: int = 128, token_price: float = 0.05,
    remove: bool = False, api: ApiOptions, dry_run: bool = False,
) -> None:  # fmt: skip
    """Choose by a model's answers how facts are put before its questions, for drike serve."""
    with store_at(store) as opened_store:
        if remove:
            tuning.save_choice(opened_store, None)
            return say(f"{opened_store.name} has the usual placement from now on")
        base, edits = open_trained_run(run) if run else None, in_force(opened_store)
        if not (base or edits):
            raise StoreError(
                f"no edit is in force in {opened_store.name}: add one (drike edits add), or give --run"
            )
        asked = _of_run(base, questions) if base else tuning.questions_of(edits, questions)
        settings, at = base.run if base else DEFAULTS, RunOptions(dry_run=dry_run)
        opened = open_model(model, api, settings, at=at)
        if (
            model.template is None
            and opened.template == "plain"
            and getattr(opened.model, "chats", False)
        ):
            opened = open_model(
                replace(model, template="chat"), api, settings, at=at
            )  # as drike serve asks it
        chat = opened.template == "chat"
        plan = tuning.Tuning(opened.model, placements(chat), asked, chat, token_price)
        if count_only(
            opened.model,
            opened.api,
            lambda counting: list(tuning.tune(replace(plan, tolerance=-1.0))),
        ):
            return
        with metered(opened.model):
            for latest in tuning.tune(plan):
                out = ", ".join(trial.placement for trial in latest.trials[latest.left :])
                say(
                    f"{latest.calls:,} calls: {latest.left} placements left"
                    + (f"; out: {out}" if out else "")
                )
        server = opened.model.info.identity.get("server")
        tuning.save_choice(opened_store, tuning.ChosenPlacement(
            latest.trials[0].placement, opened.name, str(server) if server else None, plan.chat,
            stamp(datetime.now(UTC)), len({question.edit.id for question in plan.questions}), plan.kinds,
            latest.trials, latest.calls, plan.grid, plan.confidence, latest.better,
        ))  # fmt: skip
        draw(_table(latest, plan, opened.name))
        say(f"{opened_store.name} has the placement {latest.trials[0].placement} from now on")
        rest = (
            "every other one is worse"
            if latest.left == 1
            else f"none is better by more than {latest.better:.2f}"
        )
        say(f"At confidence {plan.confidence:g} {rest}, in S less the price of tokens")
        if latest.better > _UNSURE:
            note(
                "the questions are few: add edits and paraphrases, or give a training run (--run), and choose again"
            )
        say(f"{latest.calls:,} calls; all questions under all placements take {plan.grid:,}")


def _of_run(base: TrainedRun, most: int) -> list[TuningQuestion]:
    """The probes of the run's training edits."""
    by_kind = {kind: list[TuningQuestion]() for kind in Kind}
    cases = open_setup(replace(base.run, encoder="hashing"), split=base.split).split.train
    for edit, case in zip(as_stored([case.edit for case in cases]), cases, strict=True):
        for probe in case.probes:
            kind = _KINDS[probe.aspect]
            by_kind[kind].append(TuningQuestion(kind, edit, probe.query))
    return [question for questions in by_kind.values() for question in questions[:most]]


def _table(latest: tuning.Round, plan: tuning.Tuning, model: str) -> Table:
    def row(place: int, trial: tuning.Trial) -> tuple[str | Number, ...]:
        said = (
            "chosen"
            if place == 0
            else "left"
            if place < latest.left
            else f"out after {trial.asked:,}"
        )
        rates = (Number(rate, ".2f") for rate in (*trial.rates, trial.s))
        return (
            trial.placement,
            *rates,
            Number(trial.tokens, ".0f"),
            Number(trial.gain if place else None, ".2f"),
            said,
        )

    header = ("placement", *plan.kinds, "S", "tokens", "may gain", "")
    return Table(
        f"Placements of facts on {model}", header, tuple(starmap(row, enumerate(latest.trials)))
    )
