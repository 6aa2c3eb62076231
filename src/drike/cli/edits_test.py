"""`drike edits test`: ask a model about stored edits, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from drike.cli.console import draw, note, say
from drike.cli.dry_run import count_only
from drike.cli.edit import NOTHING
from drike.cli.edits import FILE, Store, edit_id
from drike.cli.encoding import watched_encoder
from drike.cli.opening import DEFAULTS, OpenedModel, open_model, open_setup, open_trained_run
from drike.cli.options import METHOD, AskModel, GateOptions, ModelOptions, RunOptions, command, option
from drike.cli.watching import metered
from drike.deployment.edit_checks import Check, check, verification_table
from drike.deployment.edited_model import EditedModel
from drike.editors.catalog import NO_RETAINS, PER_QUERY, make
from drike.editors.editor import Editor
from drike.gates import store_gate
from drike.gates.verification import require_uncertainty
from drike.models.served.spending import ApiOptions
from drike.runs.run import TrainedRun
from drike.stores import log as stores
from drike.stores.log import EditStore
from drike.stores.opening import open_store
from drike.stores.records import EditVersion, StoreError
from drike.support.table import Table, counted

_MAX_ROWS = 60  # of a table of checks; of more checks only those that failed are shown


@command()
def test(
    edits: Annotated[list[int] | None, edit_id("[ID...]")] = None, *,
    store: Store = FILE, run: Path | None = None, model: ModelOptions,
    editor: Annotated[str | None, option("NAME", "Editor to use (default: that of the run; else copies and updates "
                                         "alone)", METHOD)] = None,
    gating: GateOptions, ask: AskModel = False, api: ApiOptions, dry_run: bool = False,
) -> None:  # fmt: skip
    """Ask a model about edits in force, before and after: every paraphrase, alias and negative exemplar."""
    base = open_trained_run(run) if run else None
    with closing(open_store(store, create=False)) as opened_store:
        decider = store_gate.open_gate(opened_store, gating.gate, gating.gate_threshold)
        if ask:
            require_uncertainty(decider, "give --gate calibrated, or leave --ask out")
        in_force = {version.id: version for version in stores.snapshot(opened_store).in_force(datetime.now(UTC))}
        chosen = _chosen(opened_store, in_force, edits)
        opened = open_model(model, api, base.run if base else DEFAULTS, at=RunOptions(dry_run=dry_run))
        writer = _editor(editor, base, opened)
        if store_gate.needs_recalibration(decider, len(in_force)):
            note(f"{store} has grown by a fifth since its gate was calibrated: run drike edits calibrate again")
        encoder = watched_encoder(decider, gating.relations)
        edited = EditedModel(opened.model, writer, opened_store, gate=decider, encoder=encoder, ask=ask)

        def work() -> tuple[list[Check], Table | None]:
            checks = check(edited, chosen)
            return checks, verification_table(decider, list(in_force.values()), encoder, opened.model) if ask else None

        if count_only(opened.model, opened.api, lambda counting: work()):
            return
        with metered(opened.model):
            checks, verified = work()
    _show(checks, f"Stored edits on {opened.name}, by {writer.name}")
    if verified:
        draw(verified)
    wrong = sum(bool(asked.problem) for asked in checks)
    about = f"{counted(len(checks), 'question')} about {counted(len(chosen), 'edit')}"
    say(f"{about}: {wrong:,} not as they should be")
    if failed := sum(asked.failed for asked in checks):
        raise StoreError(f"{failed:,} questions about the edits fail: see the last column")


def _chosen(store: EditStore, in_force: Mapping[int, EditVersion], edits: Sequence[int] | None) -> list[EditVersion]:
    """The edits to ask about; all in force by default. Raises StoreError for one that is not in force, and for none."""
    for id in edits or ():
        if id not in in_force:
            latest = stores.versions(store, id)[-1].record
            raise StoreError(f"edit {id} is not in force ({latest.status}): test one that drike edits list shows")
    if not in_force:
        raise StoreError(f"no edit is in force in {store.name}: add one (drike edits add)")
    return [in_force[id] for id in edits] if edits else list(in_force.values())


def _editor(name: str | None, base: TrainedRun | None, opened: OpenedModel) -> Editor:
    """The named editor, or that of the run, with the run's demonstrations; without either, copies and updates."""
    run, split, trained = (base.run, base.split, base.trained) if base else (DEFAULTS, None, None)
    encoder = run.encoder if base or name else "hashing"
    setup = open_setup(
        run.data, encoder=encoder, seed=run.seed, split=split, train=0, test=0, target=run.zsre_target,
        paraphrases=run.paraphrases, pool=run.pool,
    )  # fmt: skip
    name = name or (NO_RETAINS if trained is None else PER_QUERY if trained.per_query else "dr-ike")
    return make(name.casefold(), pool=setup.pool, model=opened.model, trained=trained, limit=opened.limit)


def _show(checks: Sequence[Check], title: str) -> None:
    """Draw the checks; where there are many, only those that found a problem."""
    shown = checks if len(checks) <= _MAX_ROWS else [check for check in checks if check.problem]
    rows = tuple(
        (str(asked.edit.id) if asked.edit else "", asked.kind, asked.answers.decision.query,
         asked.answers.before or NOTHING, asked.answers.after or NOTHING, asked.answers.reason,
         asked.problem or "as it should be")
        for asked in shown
    )  # fmt: skip
    if rows:
        draw(Table(title, ("edit", "kind", "question", "before", "after", "decision", ""), rows, wide=True))
