"""`drike edits`: what its commands share, and how edits come into a store: by hand, from files, by a model."""

import getpass
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import typer

from drike.cli.console import note, say, say_lines
from drike.cli.options import FILE, ModelOptions, as_flags, command
from drike.edits.conflicts import conflict_keys
from drike.edits.edit import Edit, EditCase
from drike.edits.record import EditRecord, EditVersion, MissingStoreError, Status, StoreError
from drike.edits.record_checks import checked
from drike.edits.record_json import to_json
from drike.errors import UsageError
from drike.live.alike import watch_meaning
from drike.models import ApiOptions, LanguageModel
from drike.stores import moves
from drike.stores.edit_store import EditStore, required_approvals, versions_of
from drike.stores.export import lines_of, restore, whole_store
from drike.stores.finding import Search, find
from drike.stores.folder import sync_folder
from drike.stores.imports import Imported, ReadRow, import_edits
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.tables import edits_of, scan, write_refused
from drike.support.files import write_text
from drike.support.table import counted
from drike.text.words import mentions

Texts = list[str] | None
_NewStatus = Literal["active", "shadow", "proposed", "draft"]
AMBIGUOUS = "it counts where its capitals or the question's relation tell; a longer alias is found everywhere"
_LISTS = {
    "alias": "aliases",
    "object_alias": "object_aliases",
    "paraphrase": "paraphrases",
    "never": "negatives",
}
_ARROW = re.compile("->|=>|\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}")


def parse_fact(text: str, cases: Sequence[EditCase]) -> Edit:
    """An edit from "QUERY -> OBJECT", with subject and relation of the cases that have the query. Raises UsageError."""
    parts = [part.strip() for part in _ARROW.split(text)]
    if len(parts) != 2 or not all(any(map(str.isalnum, part)) for part in parts):
        remedy = 'write --fact "QUERY -> OBJECT", such as "The capital of Peru is -> Oslo"'
        raise UsageError(f"{text!r} is not a fact: {remedy}")
    query, target = parts
    target = target.rstrip(".") if target.count(".") == 1 else target
    known = next(
        (case.edit for case in cases if query in {probe.query for probe in case.probes[:3]}), None
    )
    if known is not None and known.subject is not None and mentions(query, known.subject):
        return Edit(query, target, known.target_true, known.subject, known.relation)
    subjects = {
        case.edit.subject
        for case in cases
        if case.edit.subject and mentions(query, case.edit.subject)
    }
    return Edit(query, target, subject=max(subjects, key=len, default=None))


def store_at(store: str, *, create: bool = False, watched: bool = False) -> closing[EditStore]:
    """A store, which the block closes. watched: for edits that mean the same as others. Raises StoreError."""
    opened = open_store(store, create=create)
    return closing(watch_meaning(opened) if watched else opened)


def in_force(store: EditStore) -> tuple[EditVersion, ...]:
    """The edits in force now."""
    return snapshot(store).in_force(datetime.now(UTC))


def author() -> str | None:
    """Who uses the command line, by the operating system; None if it does not say."""
    with suppress(OSError, KeyError):  # a user of a container may have no name
        return getpass.getuser()
    return None


def print_changes(changes: Iterable[EditVersion]) -> None:
    """Print each change on a line: version, time, author, status, validity, fact and reason."""

    def line(change: EditVersion) -> str:
        record = change.record
        begin, end = (
            record.valid_from and f"from {record.valid_from}",
            record.valid_to and f"to {record.valid_to}",
        )
        parts = (
            f"{change.id}@{change.version}",
            change.created_at,
            record.author,
            record.status,
            begin,
            end,
        )
        return f"{' '.join(filter(None, parts))}: {record.fact}" + (
            f" ({record.reason})" if record.reason else ""
        )

    say_lines(map(line, changes))


@dataclass(frozen=True, kw_only=True)
class EditFields:
    """The fields that an edit may have beside its fact."""

    target_true: str | None = None
    alias: Texts = None
    object_alias: Texts = None
    relation: str | None = None
    paraphrase: Texts = None
    never: Texts = None
    only: Texts = None
    valid_from: str | None = None
    valid_to: str | None = None
    owner: str | None = None
    review_by: str | None = None
    review_every: str | None = None
    source: str | None = None

    def values(self) -> dict[str, Any]:
        """The fields of a record that are given. Raises UsageError."""
        given = {_LISTS.get(name, name): value for name, value in vars(self).items() if value}
        if every := given.pop("review_every", None):  # which counts from now
            given = {"review_days": days_in(every), "review_by": None} | given
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }


def days_in(text: str) -> int:
    """A number of days, as "90d". Raises UsageError."""
    if (match := re.fullmatch(r"(\d{1,4})d?", text)) is None:
        raise UsageError(f"{text!r} is no number of days: write 90d")
    return int(match[1])


@command()
def add(
    *, fact: str, subject: str, more: EditFields, status: _NewStatus = "active", propose: int | None = None,
    model: str | None = None, yes: bool = False, supersede: bool = False, reason: str | None = None, store: str = FILE,
    log: Path | None = None,
) -> None:  # fmt: skip
    """Add an edit."""
    from drike.gates.edit_names import common_questions, name_report, naming

    if propose is None and (model or yes):
        raise UsageError(
            "--model and --yes are for proposed paraphrases: add --propose with their number"
        )
    edit = parse_fact(fact, ())  # before the store is opened, which makes its file
    given = {**more.values(), "status": Status(status), "author": author(), "reason": reason}
    record = checked(EditRecord(subject, edit.query, edit.target_new, **given))
    questions: Sequence[str] = common_questions()
    if log is not None:
        from drike.gateway.logs import read_questions

        questions = [asked.said for asked in read_questions(log)]
    writer = (
        None if propose is None else open_writer(ModelOptions(model), ApiOptions(), ask=not yes)
    )
    with store_at(store, create=True, watched=True) as opened:
        entered = moves.entering(opened, record, decides=True)
        changes = opened.put(entered, supersede=supersede)
        if changes[0].number == 1:
            say(f"{opened.name} is a new store of edits")
        print_changes(changes)
        if entered.status is not record.status:
            count = counted(required_approvals(opened), "approval")
            say(f"It is proposed, as this store requires {count} (drike edits approve)")
        if writer and propose:
            print_changes(reworded(opened, changes[-1:], propose, writer, ask=not yes))
        report = name_report(changes[-1], in_force(opened))
    if report.short:
        say("Also found as " + ", ".join(f'"{name}"' for name in report.short))
    for name, ids in report.ambiguous.items():
        shared = f" ({' and '.join(f'edit {id}' for id in ids[:3])} may be meant)" if ids else ""
        note(f'"{name}" may mean something else{shared}: {AMBIGUOUS}')
    if named := naming(changes[-1], questions):
        kind = "common" if log is None else "logged"
        share = f"{len(named):,} of {len(questions):,} {kind} questions, such as {named[0]!r}"
        remedy = "if they do not concern it, give a longer name, or such questions as --never"
        note(f"a subject or alias of this edit is named in {share}: {remedy}")
    elif log is not None:
        say(f"No subject or alias of this edit is named in {len(questions):,} logged questions")


@command()
def reword(
    edits: list[int] | None = None, *, propose: int = 4, store: str = FILE, model: ModelOptions, yes: bool = False,
    api: ApiOptions,
) -> None:  # fmt: skip
    """Let a model propose paraphrases of edits; without ID, of those in force that have none."""
    writer = open_writer(model, api, ask=not yes)
    with store_at(store) as opened:
        chosen = [
            version
            for version in (() if edits else in_force(opened))
            if not version.record.paraphrases
        ]
        chosen += [versions_of(opened, edit)[-1] for edit in edits or ()]
        print_changes(reworded(opened, chosen, propose, writer, ask=not yes))


def open_writer(options: ModelOptions, api: ApiOptions, *, ask: bool) -> LanguageModel:
    """Open the model that proposes paraphrases. ask: the user, which to store. Raises UsageError, ModelError."""
    if options.model is None:
        raise UsageError("paraphrases take a model that follows instructions: give --model")
    if ask and not sys.stdin.isatty():
        remedy = "give --yes to store all that pass the checks"
        raise UsageError(f"nobody can look at the proposed paraphrases here: {remedy}")
    from drike.cli.running import DEFAULTS, open_model  # heavy, and not needed to refuse

    return open_model(options, api, DEFAULTS).model


def reworded(
    store: EditStore,
    edits: Sequence[EditVersion],
    count: int,
    writer: LanguageModel,
    *,
    ask: bool,
) -> Iterator[EditVersion]:
    """Show up to `count` proposed paraphrases an edit; yield edits with those that pass, or (`ask`) the user picks."""
    from drike.cli.running import metered
    from drike.gates.confirmation import proposals

    taken = frozenset[str]().union(*(conflict_keys(edit.record) for edit in in_force(store)))
    with metered(writer):
        for edit, of_edit in zip(
            edits, proposals(writer, [edit.record for edit in edits], count, taken), strict=True
        ):
            say(f"Edit {edit.id}: {edit.record.fact}")
            for number, proposal in enumerate(of_edit, 1):
                problem = f" ({proposal.problem})" if proposal.problem else ""
                say(f"  {'-' if problem else number}  {proposal.text}{problem}")
            usable = [proposal.text for proposal in of_edit if not proposal.problem]
            if not (picked := _picked(usable) if ask and usable else usable):
                say("  none is stored")
                continue
            new, why = (
                {"paraphrases": (*edit.record.paraphrases, *picked)},
                f"paraphrases by {writer.info.name}",
            )
            yield from moves.change(
                store, edit.id, new, author=author(), reason=why, version=edit.version
            )


def _picked(texts: Sequence[str]) -> list[str]:
    while True:
        answer = typer.prompt(
            "Which ones should be stored? Numbers, all or none", default="all"
        ).casefold()
        numbers = (
            range(1, len(texts) + 1) if answer == "all" else map(int, re.findall(r"[0-9]+", answer))
        )
        picked = [texts[number - 1] for number in numbers if 0 < number <= len(texts)]
        if picked or answer == "none":
            return picked


@command()
def calibrate(
    *, false_fire: float = 0.002, confidence: float = 0.95, remove: bool = False, store: str = FILE
) -> None:
    """Calibrate a gate on paraphrases and negative exemplars, and certify a bound on its false matches."""
    from drike.gates.calibration import default_gate, to_json
    from drike.live import store_gate

    with store_at(store) as opened:
        if remove:
            opened.save_gate("")
            return say(f"{opened.name} has the default gate from now on")
        known = in_force(opened)
        say(store_gate.requirements(known, false_fire, confidence))
        encoder = store_gate.encoder_of(default_gate())
        assert encoder is not None  # noqa: S101 - this gate has one
        gate, certificate = store_gate.calibrate(known, encoder, false_fire, confidence)
        say(f"{counted(len(known), 'edit')} in force: {certificate.sentence}")
        if certificate.threshold is None:
            raise StoreError("no gate was stored: the one in use stays as it was")
        opened.save_gate(to_json(gate))
        say(f"{opened.name} has this gate from now on, with threshold {certificate.threshold:.3f}")


@command()
def import_(
    source: Path, *, columns: str | None = None, refused: Path | None = None, dry_run: bool = False,
    supersede: bool = False, store: str = FILE,
) -> None:  # fmt: skip
    """Add the edits of FILE: CSV or JSON with subject, query and target_new, or a published data set."""
    from drike.gates.edit_names import ambiguous_names
    from drike.research.datasets.published_edits import PublishedForms

    whole = whole_store(source)
    if whole and not dry_run:
        with store_at(store, create=True) as opened:
            if snapshot(opened).revision == 0 and not required_approvals(opened):
                restore(opened, whole)
                return say(
                    f"{opened.name} is now what the store in {source} was: {counted(whole.changes, 'change')}"
                )
    read, encoding = scan(source) if whole is None else ([], "utf-8")
    if encoding != "utf-8":
        note(f"{source} is read as {encoding}")
    if whole is None:
        rows = edits_of(read, _columns(columns), PublishedForms())
    else:
        rows = whole.edits(str(source))
    imported = _imported(
        rows,
        store,
        supersede=supersede,
        dry_run=dry_run or all(isinstance(row, str) for row in rows),
    )
    say_lines(f"Refused: {as_flags(str(problem))}" for problem in imported.refused)
    counts = f"{len(imported.added):,} added, {imported.repeated:,} stored already, {len(imported.refused):,} refused"
    say(f"{source}: {counts}" + (" (nothing was changed)" if dry_run else ""))
    if ambiguous := ambiguous_names(imported.added):
        names = ", ".join(f'"{name}"' for name in ambiguous[:3])
        note(
            f"{counted(len(ambiguous), 'name')} may mean something else, such as {names}: {AMBIGUOUS}"
        )
    if imported.refused:
        out = refused or source.with_name(f"{source.name}.refused.csv")
        if written := not dry_run and whole is None:
            write_refused(out, read, imported)
        where = f"listed above, and in {out}" if written else "listed above"
        raise StoreError(
            f"{source} has refused rows ({where}): correct them, and import them again"
        )


def _columns(text: str | None) -> dict[str, str]:
    """What columns are called, by their names in a file. Raises UsageError."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    if not all(name.strip() and meant.strip() for name, _, meant in pairs):
        raise UsageError(
            f"{text!r} names no columns: write --columns question=query,answer=target_new"
        )
    return {name.strip(): meant.strip() for name, _, meant in pairs}


def _imported(rows: Sequence[ReadRow], store: str, *, supersede: bool, dry_run: bool) -> Imported:
    """Import edits; a dry run's are given up, and need no store: none is made where all rows are refused."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_at(store, create=not dry_run, watched=True))
        except MissingStoreError:
            empty = Path(stack.enter_context(TemporaryDirectory())) / FILE
            opened = stack.enter_context(store_at(str(empty), create=True, watched=True))
        stack.enter_context(suppress(typer.Abort))
        stack.enter_context(opened.transaction())
        imported = import_edits(opened, rows, supersede=supersede, author=author())
        if dry_run:
            raise typer.Abort  # the transaction, not the command
    return imported


@command()
def export(out: Path, *, everything: bool = False, store: str = FILE) -> None:
    """Write the edits to FILE.jsonl, which drike edits import reads."""
    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} does not end in .jsonl: give the file of JSON lines such a name")
    with store_at(store) as opened:
        current = snapshot(opened)
        edits = (to_json(version.record) for version in reversed(find(current, Search())))
        lines = list(lines_of(opened) if everything else edits)
    write_text(out, "".join(f"{line}\n" for line in lines))
    edits_and_changes = (
        f"{counted(len(current.edits), 'edit')} and {counted(current.revision, 'change')}"
    )
    say(
        f"{out}: {f'{edits_and_changes} exported, without the inbox' if everything else f'{len(lines):,} exported'}"
    )


@command()
def sync(folder: Path, *, retire_missing: bool = False, store: str = FILE) -> None:
    """Keep one JSON file for each edit in FOLDER, and take over what changed there; fails if both sides changed."""
    with store_at(store, create=True, watched=True) as opened:
        synced = sync_folder(opened, folder, author=author(), retire_missing=retire_missing)
    print_changes(synced.changes)
    say_lines(f"Left alone: {as_flags(name)}" for name in synced.left)
    written, taken = counted(len(synced.written), "file"), counted(len(synced.changes), "change")
    say(f"{folder}: {written} written, {taken} taken over")
    if left := len(synced.left):
        raise StoreError(
            f"{counted(left, 'edit')} left alone (listed above): correct the files, sync again"
        )
