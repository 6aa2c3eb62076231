"""`drike edits add` and `reword`: edits by hand, and questions that are suggested for them."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from drike.cli.commands import DATA, METHOD, MODEL, command, flag, option
from drike.cli.console import note, say
from drike.cli.options import (
    FILE,
    AnyEditIds,
    ApiFlags,
    DryRun,
    ModelOptions,
    Reason,
    RunOptions,
    Store,
    Supersede,
)
from drike.cli.stored_edits import (
    AMBIGUOUS,
    EditFields,
    author,
    in_force,
    note_what_never_covers,
    parse_fact,
    print_changes,
    store_at,
)
from drike.cli.suggesting import numbered, open_writer, reworded
from drike.edits.record import EditRecord, EditVersion, Status
from drike.edits.record_checks import checked
from drike.errors import UsageError
from drike.live.suggestions import QUESTIONS, suggestions
from drike.models import ApiOptions
from drike.stores import moves
from drike.stores.edit_store import EditStore, required_approvals, versions_of
from drike.support.table import counted

_NewStatus = Literal["active", "shadow", "proposed", "draft"]

_PROPOSE = option(
    "--propose",
    "N",
    DATA,
    "Suggest up to N questions that an edit will answer, and N that it must not",
    also="--wordings",
    min=1,
    max=20,
)
_Yes = Annotated[bool, flag("--yes", METHOD, "Store all suggested questions that pass the checks")]


@command()
def add(
    *,
    fact: Annotated[str, option("--fact", "FACT", DATA, 'The new fact, as "QUERY -> OBJECT"')],
    subject: Annotated[str, option("--subject", "NAME", DATA, "What the fact is about")],
    store: Store = FILE,
    log: Annotated[
        Path | None,
        option(
            "--log",
            "FILE",
            DATA,
            "Questions, or requests as JSON lines: count those that name its subject",
        ),
    ] = None,
    propose: Annotated[int | None, _PROPOSE] = None,
    model: Annotated[
        str | None,
        option(
            "--model", "MODEL", MODEL, "Writes these questions (default: templates of relations)"
        ),
    ] = None,
    yes: _Yes = False,
    supersede: Supersede = False,
    reason: Reason = None,
    more: EditFields,
    status: Annotated[
        _NewStatus,
        option(
            "--status",
            "NAME",
            METHOD,
            "active, shadow, proposed or draft",
            choices=get_args(_NewStatus),
        ),
    ] = "active",
) -> None:
    """Add an edit."""
    if propose is None and (model or yes):
        raise UsageError(
            "--model and --yes are for suggested questions: add --propose with their number"
        )
    edit = parse_fact(fact, ())  # before the store is opened, which makes its file
    fields = more.values() | {"status": Status(status), "author": author(), "reason": reason}
    record = checked(EditRecord(subject, edit.query, edit.target_new, **fields))
    questions = _questions(log)
    writer = None
    if propose is not None:
        writer = open_writer(ModelOptions(model), ApiOptions(), ask=not yes)

    record = _with_names_looked_at(record)

    with store_at(store, create=True, watched=True) as opened:
        entered = _put(opened, record, supersede=supersede)
        if writer and propose:
            print_changes(reworded(opened, [entered], propose, writer, ask=not yes))
        others = in_force(opened)
    _note_ambiguous_names(entered, others)
    note_what_never_covers(record)
    _say_questions(entered, questions, are_logged=log is not None)


def _questions(log: Path | None) -> Sequence[str]:
    """The questions of a log, or common ones."""
    if log is None:
        from drike.gates.edit_names import common_questions

        return common_questions()
    from drike.gateway.logs import read_questions

    return [question.said for question in read_questions(log)]


def _put(store: EditStore, record: EditRecord, *, supersede: bool) -> EditVersion:
    """Store an edit, and say what became of it; return its version."""
    entering = moves.entering(store, record, decides=True)
    changes = store.put(entering, supersede=supersede)
    if changes[0].number == 1:
        say(f"{store.name} is a new store of edits")
    print_changes(changes)
    if entering.status is not record.status:
        approvals = counted(required_approvals(store), "approval")
        say(f"It is proposed, as this store requires {approvals} (drike edits approve)")
    return changes[-1]


def _with_names_looked_at(record: EditRecord) -> EditRecord:
    """Say under which short forms an edit will be found; in a terminal, let people strike some."""
    from drike.gates.edit_names import short_names

    names = short_names(record)
    if not names:
        return record
    is_asked = sys.stdin.isatty()
    forms = [f'"{name}"' for name in names]
    if is_asked:
        forms = [f"{number}. {form}" for number, form in enumerate(forms, 1)]
    say(f"Also found as {', '.join(forms)} (--not-name strikes one out)")
    struck = _picked_names(names) if is_asked else []
    return replace(record, not_names=(*record.not_names, *struck))


def _picked_names(names: Sequence[str]) -> list[str]:
    """Those of some names that the user strikes out, by their numbers or as they are."""
    while True:
        answer = typer.prompt("Which ones should not count? Their numbers, or none", default="none")
        said = answer.strip().strip("\"'").casefold()
        if said == "none":
            return []
        of_this_name = [name for name in names if name.casefold() == said]
        picked = of_this_name or numbered(names, answer)
        if picked:
            return picked


def _note_ambiguous_names(edit: EditVersion, others: Sequence[EditVersion]) -> None:
    """Say which of the names of an edit are ambiguous."""
    from drike.gates.edit_names import name_report

    for name, ids in name_report(edit, others).ambiguous.items():
        rivals = " and ".join(f"edit {edit_id}" for edit_id in ids[:3])
        shared = f" ({rivals} may be meant)" if ids else ""
        note(f'"{name}" may mean something else{shared}: {AMBIGUOUS}')


def _say_questions(edit: EditVersion, questions: Sequence[str], *, are_logged: bool) -> None:
    """Say how many questions name an edit's subject: it may not be what they mean."""
    from drike.gates.edit_names import naming

    naming_it = naming(edit, questions)
    if naming_it:
        kind = "logged" if are_logged else "common"
        share = f"{len(naming_it):,} of {len(questions):,} {kind} questions"
        remedy = "if they do not concern it, give a longer name, or such questions as --never"
        note(
            f"a subject or alias of this edit is named in {share}, such as {naming_it[0]!r}: "
            f"{remedy}"
        )
    elif are_logged:
        say(f"No subject or alias of this edit is named in {len(questions):,} logged questions")


@command()
def reword(
    edits: AnyEditIds = None,
    *,
    store: Store = FILE,
    propose: Annotated[int, _PROPOSE] = QUESTIONS,
    model: ModelOptions,
    yes: _Yes = False,
    dry_run: DryRun = False,
    api: ApiFlags,
) -> None:
    """Suggest questions that edits will answer, and some that they must not."""
    with store_at(store) as opened:
        if edits:
            chosen = [versions_of(opened, edit_id)[-1] for edit_id in edits]
        else:
            chosen = [edit for edit in in_force(opened) if not edit.record.written_by]
        if dry_run:
            _draw_price(chosen, propose, model, api)
            return
        writer = open_writer(model, api, ask=not yes)
        if writer.model is not None and writer.model.info.served and chosen:
            _draw_price(chosen, propose, model, api)
        print_changes(reworded(opened, chosen, propose, writer, ask=not yes))


def _draw_price(
    edits: Sequence[EditVersion], count: int, options: ModelOptions, api: ApiOptions
) -> None:
    """Draw the most that the questions of edits can cost. Raises UsageError without a model."""
    if options.model is None:
        raise UsageError("templates cost nothing: give --model, or leave --dry-run out")
    from drike.cli import models
    from drike.cli.dry_run import count_only

    counting = models.open_model(options, api, models.DEFAULTS, at=RunOptions(dry_run=True))
    records = [edit.record for edit in edits]
    count_only(counting.model, counting.api, lambda model: suggestions(model, records, count))
