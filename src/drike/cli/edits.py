"""`drike edits`: a store of edits, with their versions and history."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from drike.cli.console import counted, draw, note, say
from drike.cli.costs import CountingModel, metered, show_bound
from drike.cli.edit import NOTHING, parse_fact
from drike.cli.opening import DEFAULTS, WatchedEncoder, open_model, open_setup, open_trained_run
from drike.cli.options import (
    DATA,
    METHOD,
    MODEL,
    OUTPUT,
    AnyGate,
    Command,
    ModelOptions,
    RunOptions,
    flag,
    option,
    takes_options,
)
from drike.cli.reword import open_writer, reworded
from drike.deployment.edit_checks import check, doubts
from drike.deployment.edited_model import EditedModel
from drike.editors.catalog import NO_RETAINS, PER_QUERY, make
from drike.errors import UsageError
from drike.gates import store_gate as kept
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.gates.questions import common_questions
from drike.gates.verification import require_uncertainty
from drike.models.served.options import ApiOptions
from drike.report import Table
from drike.serving.requests import read_questions
from drike.stores import log as stores
from drike.stores.importing import Imported, import_edits, read_edits
from drike.stores.log import Snapshot
from drike.stores.opening import open_store
from drike.stores.records import EditRecord, EditVersion, Status, StoreError, checked, to_json, to_values
from drike.support.files import write_text

app = typer.Typer(help="Keep edits in a store, with their versions and history.", no_args_is_help=True)

_FILE = "edits.db"
Store = Annotated[str, option("STORE", "File, or postgresql://USER@HOST/DATABASE (default: edits.db)", DATA)]
Supersede = Annotated[bool, flag("--supersede", "Retire the active edits that it contradicts", METHOD)]
Retired = Annotated[bool, flag("--all", "Retired edits too", OUTPUT)]
Reason = Annotated[str | None, option("TEXT", "Why, for the history", OUTPUT)]
Yes = Annotated[bool, flag("--yes", "Store all proposed wordings that pass the checks", METHOD)]
Texts = list[str] | None
_MOST_ROWS = 60  # of a test; of a longer one only what is wrong is shown


def _id(metavar: str) -> Any:
    return typer.Argument(help="As drike edits list shows it", metavar=metavar, min=1, max=2**63 - 1, hidden=True)


@app.command("add", cls=Command)
@takes_options
def add(
    *,
    fact: Annotated[str, option("FACT", 'The new fact, as "QUERY -> OBJECT"', DATA)],
    subject: Annotated[str, option("NAME", "What the fact is about", DATA)],
    alias: Annotated[Texts, option("NAME", "Another name of the subject; repeatable", DATA)] = None,
    relation: Annotated[str | None, option("NAME", "Name of the relation (default: the query's words)", DATA)] = None,
    wording: Annotated[Texts, option("QUERY", "The query in other words; repeatable", DATA)] = None,
    wordings: Annotated[
        int | None, option("N", "Let --model propose up to N wordings more, to be looked at", DATA, least=1, most=20)
    ] = None,
    model: Annotated[
        str | None, option("MODEL", "Proposes the --wordings: one that follows instructions", MODEL)
    ] = None,
    yes: Yes = False,
    never: Annotated[Texts, option("QUERY", "A question that is not concerned; repeatable", DATA)] = None,
    status: Annotated[str, option("NAME", "active, shadow or draft", METHOD, among=("active", "shadow", "draft"))] = (
        "active"
    ),
    valid_from: Annotated[str | None, option("TIME", "When it begins to hold, as 2026-12-31", METHOD)] = None,
    valid_to: Annotated[str | None, option("TIME", "When it no longer holds", METHOD)] = None,
    source: Annotated[str | None, option("TEXT", "Where the fact comes from", OUTPUT)] = None,
    reason: Reason = None,
    supersede: Supersede = False,
    log: Annotated[
        Path | None, option("FILE", "Questions, or requests as JSON lines: count those that it fires on", DATA)
    ] = None,
    store: Store = _FILE,
) -> None:
    """Add an edit."""
    if wordings is None and (model or yes):
        raise UsageError("--model and --yes are for proposed wordings: give their number as --wordings, too")
    edit = parse_fact(fact, ())
    # Checked before the store is opened, which makes its file.
    entry = checked(EditRecord(
        subject, edit.query, edit.target_new, relation=relation, aliases=tuple(alias or ()),
        paraphrases=tuple(wording or ()), negatives=tuple(never or ()), status=Status(status), valid_from=valid_from,
        valid_to=valid_to, source=source, author=_author(), reason=reason,
    ))  # fmt: skip
    logged = [(question,) for question in common_questions()] if log is None else read_questions(log)
    writer = None if wordings is None else open_writer(ModelOptions(model), ApiOptions(), ask=not yes)
    with closing(open_store(store)) as opened:
        changes = opened.put(entry, supersede=supersede)
        _tell(changes)
        if writer and wordings:
            with metered(writer):
                _tell(reworded(opened, changes[-1:], wordings, writer, ask=not yes, author=_author()))
    index = EditIndex.of(changes[-1:])
    hits = [queries[0] for queries in logged if any(Named().decide(query, index).matched for query in queries)]
    kind = "common" if log is None else "logged"
    if hits:
        note(
            f"a subject or alias of this edit is named in {len(hits):,} of {len(logged):,} {kind} questions, such as "
            f"{hits[0]!r}: if they do not concern it, give a longer name, or such questions as --never"
        )
    elif log is not None:
        say(f"No subject or alias of this edit is named in {len(logged):,} logged questions")


@app.command("import", cls=Command)
@takes_options
def import_(
    source: Annotated[Path, typer.Argument(help="CSV, JSON lines or a data set", metavar="FILE", hidden=True)],
    *,
    supersede: Supersede = False,
    store: Store = _FILE,
) -> None:
    """Add the edits of FILE: CSV or JSON with subject, query and target_new, or a published data set."""
    rows = read_edits(source)
    if all(isinstance(row, str) for row in rows):  # no reason to make the store's file
        done = Imported((), 0, tuple(map(str, rows)))
    else:
        with closing(open_store(store)) as opened:
            done = import_edits(opened, rows, supersede=supersede, author=_author())
    for problem in done.refused:
        say(f"Refused: {problem}")
    counts = f"{len(done.added):,} added, {done.repeated:,} in force already, {len(done.refused):,} refused"
    say(f"{source}: {counts}")
    if done.refused:
        raise StoreError(f"{source} has refused rows (listed above): correct them, and import the file again")


@app.command("list", cls=Command)
@takes_options
def list_(*, retired: Retired = False, store: Store = _FILE) -> None:
    """List the edits."""
    with closing(open_store(store, create=False)) as opened:
        found, name = stores.snapshot(opened), opened.name
    edits = _chosen(found, retired)
    _tell(edits)
    say(f"{name}: {counted(len(edits), 'edit')}, {counted(found.revision, 'change')}")


@app.command("show", cls=Command)
@takes_options
def show(edit: Annotated[int | None, _id("[ID]")] = None, *, store: Store = _FILE) -> None:
    """Show an edit with its versions; without ID, show all changes of the store."""
    with closing(open_store(store, create=False)) as opened:
        versions = opened.changes() if edit is None else stores.versions(opened, edit)
    if edit is not None:
        for name, value in to_values(versions[-1].record).items():
            if value:
                say(f"{name}: {' | '.join(value) if isinstance(value, tuple) else value}")
    _tell(versions)


@app.command("reword", cls=Command)
@takes_options
def reword(
    edits: Annotated[list[int] | None, _id("[ID...]")] = None,
    *,
    wordings: Annotated[int, option("N", "Most wordings to propose for an edit", DATA, least=1, most=20)] = 4,
    store: Store = _FILE,
    model: ModelOptions,
    yes: Yes = False,
    api: ApiOptions,
) -> None:
    """Let a model put the queries of edits in other words; without ID, of those in force that have no wording."""
    writer = open_writer(model, api, ask=not yes)
    with closing(open_store(store, create=False)) as opened:
        if edits:
            chosen = [stores.versions(opened, edit)[-1] for edit in edits]
        else:
            in_force = stores.snapshot(opened).in_force(datetime.now(UTC))
            chosen = [one for one in in_force if not one.record.paraphrases]
        with metered(writer):
            _tell(reworded(opened, chosen, wordings, writer, ask=not yes, author=_author()))


@app.command("retire", cls=Command)
@takes_options
def retire(edits: Annotated[list[int], _id("ID...")], *, reason: Reason = None, store: Store = _FILE) -> None:
    """Take edits out of force."""
    with closing(open_store(store, create=False)) as opened, opened.transaction():
        changes = [change for edit in edits for change in stores.retire(opened, edit, author=_author(), reason=reason)]
    _tell(changes)


@app.command("rollback", cls=Command)
@takes_options
def rollback(
    edit: Annotated[int, _id("ID")],
    *,
    version: Annotated[int | None, option("N", "The version (default: the one before the latest)", METHOD)] = None,
    reason: Reason = None,
    supersede: Supersede = False,
    store: Store = _FILE,
) -> None:
    """Go back to an earlier version of an edit; this makes a new version."""
    with closing(open_store(store, create=False)) as opened:
        _tell(stores.rollback(opened, edit, version, author=_author(), reason=reason, supersede=supersede))


@app.command("test", cls=Command)
@takes_options
def test(
    edits: Annotated[list[int] | None, _id("[ID...]")] = None,
    *,
    store: Store = _FILE,
    run: Path | None = None,
    model: ModelOptions,
    editor: Annotated[
        str | None, option("NAME", "Editor to use (default: that of the run; else copies and updates alone)", METHOD)
    ] = None,
    gate: AnyGate = None,
    ask: Annotated[bool, flag("--ask", "Ask the model, yes or no, where the gate is in doubt", METHOD)] = False,
    api: ApiOptions,
    dry_run: bool = False,
) -> None:
    """Ask a model about edits in force, before and after: every wording, alias and negative exemplar."""
    base = None if run is None else open_trained_run(run)
    given = base.run if base else DEFAULTS
    with closing(open_store(store, create=False)) as opened:
        decider = kept.open_gate(opened, gate)
        if ask:
            require_uncertainty(
                decider, "give --gate calibrated, or calibrate one for the store (drike edits calibrate)"
            )
        found = stores.snapshot(opened)
        in_force = {one.id: one for one in found.in_force(datetime.now(UTC))}
        for one in edits or ():
            if one not in in_force:
                latest = stores.versions(opened, one)[-1].record
                raise StoreError(f"edit {one} is not in force ({latest.status}): test one that drike edits list shows")
        chosen = [in_force[one] for one in edits] if edits else list(in_force.values())
        if not chosen:
            raise StoreError(f"no edit is in force in {opened.name}: add one (drike edits add)")
        setup = open_setup(
            given.data, encoder=given.encoder if base or editor else "hashing", seed=given.seed,
            split=base.split if base else None, train=0, test=0, target=given.zsre_target,
        )  # fmt: skip
        asked = open_model(model, api, given, at=RunOptions(dry_run=dry_run))
        name = editor or (None if base is None else PER_QUERY if base.trained.per_query else "dr-ike")
        trained = base.trained if base else None
        if name is None:
            made = make(NO_RETAINS, pool=setup.pool)
        else:
            made = make(name.casefold(), pool=setup.pool, model=asked.model, trained=trained, limit=asked.limit)
        if kept.needs_recalibration(decider, len(in_force)):
            note(f"{store} has grown by a fifth since its gate was calibrated: run drike edits calibrate again")
        encoder = WatchedEncoder(decider.encoder) if isinstance(decider, Calibrated) else None
        with metered(asked.model):
            checks = check(EditedModel(asked.model, made, opened, gate=decider, encoder=encoder, ask=ask), chosen)
            asked_in_doubt = doubts(decider, list(in_force.values()), encoder, asked.model) if ask else None
    if isinstance(asked.model, CountingModel):
        return show_bound(asked.model, asked.api)
    wrong = [one for one in checks if one.problem]
    shown = checks if len(checks) <= _MOST_ROWS else wrong
    rows = tuple(
        (str(one.edit.id) if one.edit else "", one.kind, one.answers.decision.query, one.answers.before or NOTHING,
         one.answers.after or NOTHING, one.answers.reason, one.problem or "as it should be")
        for one in shown
    )  # fmt: skip
    header = ("edit", "kind", "question", "before", "after", "decision", "")
    if rows:
        draw(Table(f"Stored edits on {asked.name}, by {made.name}", header, rows, wide=True))
    if asked_in_doubt:
        draw(asked_in_doubt)
    failed = sum(one.failed for one in checks)
    about = f"{counted(len(checks), 'question')} about {counted(len(chosen), 'edit')}"
    say(f"{about}: {len(wrong):,} not as they should be")
    if failed:
        raise StoreError(f"{failed:,} questions about the edits fail: see the last column")


@app.command("calibrate", cls=Command)
@takes_options
def calibrate(
    *,
    false_fire: Annotated[
        float, option("X", "Most false fires per question that must not fire", METHOD, least=1e-6, most=0.5)
    ] = 0.002,
    confidence: Annotated[float, option("X", "How sure the bound is", METHOD, least=0.5, most=0.9999)] = 0.95,
    remove: Annotated[bool, flag("--remove", "Go back to the default gate instead", METHOD)] = False,
    store: Store = _FILE,
) -> None:
    """Calibrate a gate on wordings and negative exemplars, and certify how often it fires falsely at most."""
    with closing(open_store(store, create=False)) as opened:
        if remove:
            kept.save_gate(opened, Named())
            return say(f"{opened.name} has the default gate from now on")
        in_force = stores.snapshot(opened).in_force(datetime.now(UTC))
        gate, found = kept.calibrate(in_force, WatchedEncoder(default_gate().encoder), false_fire, confidence)
        say(f"{counted(len(in_force), 'edit')} in force: {found.sentence}")
        if found.threshold is None:
            raise StoreError("no gate was kept: the one in use stays as it was")
        kept.save_gate(opened, gate)
        say(f"{opened.name} has this gate from now on, with threshold {found.threshold:.3f}")


@app.command("export", cls=Command)
@takes_options
def export(
    out: Annotated[Path, typer.Argument(help="A file of JSON lines", metavar="FILE", hidden=True)],
    *,
    retired: Retired = False,
    store: Store = _FILE,
) -> None:
    """Write the edits to FILE.jsonl, which drike edits import reads."""
    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} is no name for JSON lines: let it end in .jsonl")
    with closing(open_store(store, create=False)) as opened:
        lines = [to_json(one.record) for one in _chosen(stores.snapshot(opened), retired)]
    write_text(out, "".join(f"{line}\n" for line in lines))
    say(f"{out}: {len(lines):,} exported")


def _author() -> str | None:
    with suppress(OSError, KeyError):  # a user of a container may have no name
        return getpass.getuser()
    return None


def _chosen(found: Snapshot, retired: bool) -> list[EditVersion]:
    return [one for one in found.edits.values() if retired or one.record.status is not Status.RETIRED]


def _tell(changes: Iterable[EditVersion]) -> None:
    """Print a line a change: version, time, author, status, validity, fact and reason."""
    for one in changes:
        entry = one.record
        begin, end = entry.valid_from and f"from {entry.valid_from}", entry.valid_to and f"to {entry.valid_to}"
        parts = (f"{one.id}@{one.version}", one.created_at, entry.author, entry.status, begin, end)
        say(f"{' '.join(filter(None, parts))}: {entry.fact}" + (f" ({entry.reason})" if entry.reason else ""))
