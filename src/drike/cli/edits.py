"""`drike edits`: a store of edits, with their versions and history; facts on the command line."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from drike.cli.console import note, say, say_lines
from drike.cli.options import DATA, METHOD, MODEL, OUTPUT, ModelOptions, RunOptions, command, flag, option
from drike.edits import Edit, EditCase
from drike.errors import UsageError
from drike.models import ApiOptions, LanguageModel
from drike.stores import log as stores
from drike.stores import moves
from drike.stores.approvals import required_approvals
from drike.stores.log import EditStore
from drike.stores.opening import open_store
from drike.stores.records import EditRecord, EditVersion, Status, StoreError, checked, conflict_keys
from drike.support.table import counted
from drike.words import mentions

FILE = "edits.db"
Store = Annotated[str, option("STORE", "File, or postgresql://USER@HOST/DATABASE (default: edits.db)", DATA)]
Supersede = Annotated[bool, flag("--supersede", "Retire the active edits that it contradicts", METHOD)]
Retired = Annotated[bool, flag("--all", "Retired edits too", OUTPUT)]
Reason = Annotated[str | None, option("TEXT", "Why, for the history", OUTPUT)]
Yes = Annotated[bool, flag("--yes", "Store all proposed paraphrases that pass the checks", METHOD)]
Texts = list[str] | None
_NewStatus = Literal["active", "shadow", "proposed", "draft"]
AMBIGUOUS = "it counts where its capitals or the question's relation tell; a longer alias is found everywhere"
_PROPOSE, _PARAPHRASE = ("--propose", "--wordings"), ("--paraphrase", "--wording")
_LISTS = {"alias": "aliases", "object_alias": "object_aliases", "paraphrase": "paraphrases", "never": "negatives"}
_ARROW = "->"
_ARROWS = re.compile("\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}|=>")


def parse_fact(text: str, cases: Sequence[EditCase]) -> Edit:
    """An edit from "QUERY -> OBJECT", with subject and relation of the cases that have the query. Raises UsageError."""
    parts = [part.strip() for part in _ARROWS.sub(_ARROW, text).split(_ARROW)]
    if len(parts) != 2 or not all(any(map(str.isalnum, part)) for part in parts):
        raise UsageError(
            f'{text!r} is not a fact: write --fact "QUERY -> OBJECT", such as "The capital of Peru is -> Oslo"'
        )
    query, target = parts
    target = target.rstrip(".") if target.count(".") == 1 else target
    known = next((case.edit for case in cases if query in {probe.query for probe in case.probes[:3]}), None)
    if known is not None and known.subject is not None and mentions(query, known.subject):
        return Edit(query, target, known.target_true, known.subject, known.relation)
    subjects = {case.edit.subject for case in cases if case.edit.subject and mentions(query, case.edit.subject)}
    return Edit(query, target, subject=max(subjects, key=len, default=None))


def store_at(store: str, *, create: bool = False, watched: bool = False) -> closing[EditStore]:
    """A store, which the block closes. watched: for edits that mean the same as others. Raises StoreError."""
    opened = open_store(store, create=create)
    if watched:
        from drike.gates.alike import watch_meaning  # it takes long to import

        opened = watch_meaning(opened)
    return closing(opened)


def edit_id(metavar: str) -> Any:
    """An argument of typer that takes ids of edits."""
    return typer.Argument(help="As drike edits list shows it", metavar=metavar, min=1, max=2**63 - 1, hidden=True)


@dataclass(frozen=True, kw_only=True)
class EditFields:
    """The fields that an edit may have beside its fact."""

    alias: Annotated[Texts, option("NAME", "Another name of the subject; repeatable", DATA)] = None
    object_alias: Annotated[Texts, option("NAME", "Another name of the new object; repeatable", DATA)] = None
    relation: Annotated[str | None, option("NAME", "Name of the relation (default: the query's words)", DATA)] = None
    paraphrase: Annotated[Texts, option("QUERY", "The query in other words; repeatable", DATA, *_PARAPHRASE)] = None
    never: Annotated[Texts, option("QUERY", "A question that it does not concern; repeatable", DATA)] = None
    only: Annotated[
        Texts, option("COND", "Only for these requests, as model=gpt-* or x-region=eu; repeatable", METHOD)
    ] = None
    valid_from: Annotated[str | None, option("TIME", "When it begins to hold, as 2026-12-31", METHOD)] = None
    valid_to: Annotated[str | None, option("TIME", "When it no longer holds", METHOD)] = None
    owner: Annotated[str | None, option("NAME", "Who answers for it", METHOD)] = None
    review_by: Annotated[str | None, option("TIME", "When it is to be reviewed", METHOD)] = None
    review_every: Annotated[str | None, option("90d", "Days until each review", METHOD)] = None
    source: Annotated[str | None, option("TEXT", "Where the fact comes from", OUTPUT)] = None

    def values(self) -> dict[str, Any]:
        """The fields of a record that are given. Raises UsageError."""
        options = {_LISTS.get(field.name, field.name): getattr(self, field.name) for field in fields(EditFields)}
        every = options.pop("review_every")
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        begun = {} if every is None else {"review_days": days(every), "review_by": None}  # which counts from now
        return begun | {name: value for name, value in given.items() if value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class NewEdit(EditFields):
    """The fields of a new edit."""

    fact: Annotated[str, option("FACT", 'The new fact, as "QUERY -> OBJECT"', DATA)]
    subject: Annotated[str, option("NAME", "What the fact is about", DATA)]
    status: Annotated[_NewStatus, option("NAME", "active, shadow, proposed or draft", METHOD)] = "active"
    reason: Reason = None

    def record(self) -> EditRecord:
        """The record to store. Raises UsageError, RecordError."""
        edit = parse_fact(self.fact, ())
        more = {**self.values(), "status": Status(self.status), "author": author(), "reason": self.reason}
        return checked(EditRecord(self.subject, edit.query, edit.target_new, **more))


def days(text: str) -> int:
    """A number of days, as "90d". Raises UsageError."""
    match = re.fullmatch(r"(\d{1,4})d?", text)
    if match is None:
        raise UsageError(f"{text!r} is no number of days: write 90d")
    return int(match[1])


@command()
def add(
    *, edit: NewEdit,
    propose: Annotated[int | None, option("N", "Let --model propose up to N paraphrases", DATA, *_PROPOSE, minimum=1,
                                          maximum=20)] = None,
    model: Annotated[str | None, option("MODEL", "Proposes paraphrases: one that follows instructions", MODEL)] = None,
    yes: Yes = False, supersede: Supersede = False, store: Store = FILE,
    log: Annotated[Path | None, option("FILE", "Questions, or requests as JSON lines: count those that name its "
                                       "subject", DATA)] = None,
) -> None:  # fmt: skip
    """Add an edit."""
    from drike.gates.naming import common_questions, name_report, naming

    if propose is None and (model or yes):
        raise UsageError("--model and --yes are for proposed paraphrases: add --propose with their number")
    record = edit.record()  # before the store is opened, which makes its file
    questions: Sequence[str] = common_questions()
    if log is not None:
        from drike.serving.requests import read_questions

        questions = [asked.said for asked in read_questions(log)]
    writer = None if propose is None else open_writer(ModelOptions(model), ApiOptions(), ask=not yes)
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
        report = name_report(changes[-1], stores.snapshot(opened).in_force(datetime.now(UTC)))
    if report.short:
        say("Also found as " + ", ".join(f'"{name}"' for name in report.short))
    for name, ids in report.ambiguous.items():
        shared = f" ({' and '.join(f'edit {id}' for id in ids[:3])} may be meant)" if ids else ""
        note(f'"{name}" may mean something else{shared}: {AMBIGUOUS}')
    named = naming(changes[-1], questions)
    kind = "common" if log is None else "logged"
    if named:
        share = f"{len(named):,} of {len(questions):,} {kind} questions, such as {named[0]!r}"
        remedy = "if they do not concern it, give a longer name, or such questions as --never"
        note(f"a subject or alias of this edit is named in {share}: {remedy}")
    elif log is not None:
        say(f"No subject or alias of this edit is named in {len(questions):,} logged questions")


@command()
def reword(
    edits: Annotated[list[int] | None, edit_id("[ID...]")] = None, *,
    propose: Annotated[int, option("N", "Most paraphrases to propose for an edit", DATA, *_PROPOSE, minimum=1,
                                   maximum=20)] = 4,
    store: Store = FILE, model: ModelOptions, yes: Yes = False, api: ApiOptions,
) -> None:  # fmt: skip
    """Let a model propose paraphrases of edits; without ID, of those in force that have none."""
    writer = open_writer(model, api, ask=not yes)
    with store_at(store) as opened:
        in_force = () if edits else stores.snapshot(opened).in_force(datetime.now(UTC))
        chosen = [version for version in in_force if not version.record.paraphrases]
        chosen += [stores.versions(opened, edit)[-1] for edit in edits or ()]
        print_changes(reworded(opened, chosen, propose, writer, ask=not yes))


@command()
def retire(edits: Annotated[list[int], edit_id("ID...")], *, reason: Reason = None, store: Store = FILE) -> None:
    """Take edits out of force."""
    with store_at(store) as opened, opened.transaction():
        changes = [change for edit in edits for change in stores.retire(opened, edit, author=author(), reason=reason)]
    print_changes(changes)


@command()
def rollback(
    edit: Annotated[int, edit_id("ID")], *,
    version: Annotated[int | None, option("N", "The version (default: the one before the latest)", METHOD)] = None,
    reason: Reason = None, supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Go back to an earlier version of an edit; this makes a new version."""
    with store_at(store, watched=True) as opened:
        print_changes(stores.rollback(opened, edit, version, author=author(), reason=reason, supersede=supersede))


@command()
def calibrate(
    *,
    false_fire: Annotated[float, option("X", "Largest share of matches among questions that must not match", METHOD,
                                        minimum=1e-6, maximum=0.5)] = 0.002,
    confidence: Annotated[float, option("X", "How sure the bound is", METHOD, minimum=0.5, maximum=0.9999)] = 0.95,
    remove: Annotated[bool, flag("--remove", "Go back to the default gate instead", METHOD)] = False,
    store: Store = FILE,
) -> None:  # fmt: skip
    """Calibrate a gate on paraphrases and negative exemplars, and certify a bound on its false matches."""
    from drike.cli.encoding import watched_encoder
    from drike.gates import store_gate
    from drike.gates.calibration import default_gate

    with store_at(store) as opened:
        if remove:
            store_gate.save_gate(opened, None)
            return say(f"{opened.name} has the default gate from now on")
        in_force = stores.snapshot(opened).in_force(datetime.now(UTC))
        say(store_gate.requirements(in_force, false_fire, confidence))
        encoder = watched_encoder(default_gate())
        assert encoder is not None  # noqa: S101 - this gate has one
        gate, certificate = store_gate.calibrate(in_force, encoder, false_fire, confidence)
        say(f"{counted(len(in_force), 'edit')} in force: {certificate.sentence}")
        if certificate.threshold is None:
            raise StoreError("no gate was stored: the one in use stays as it was")
        store_gate.save_gate(opened, gate)
        say(f"{opened.name} has this gate from now on, with threshold {certificate.threshold:.3f}")


def author() -> str | None:
    """Who uses the command line, by the operating system; None if it does not say."""
    with suppress(OSError, KeyError):  # a user of a container may have no name
        return getpass.getuser()
    return None


def print_changes(changes: Iterable[EditVersion]) -> None:
    """Print each change on a line: version, time, author, status, validity, fact and reason."""

    def line(change: EditVersion) -> str:
        record = change.record
        begin, end = record.valid_from and f"from {record.valid_from}", record.valid_to and f"to {record.valid_to}"
        parts = (f"{change.id}@{change.version}", change.created_at, record.author, record.status, begin, end)
        return f"{' '.join(filter(None, parts))}: {record.fact}" + (f" ({record.reason})" if record.reason else "")

    say_lines(map(line, changes))


def open_writer(options: ModelOptions, api: ApiOptions, *, ask: bool) -> LanguageModel:
    """Open the model that proposes paraphrases. ask: the user, which to store. Raises UsageError, ModelError."""
    if options.model is None:
        raise UsageError("paraphrases take a model that follows instructions: give --model")
    if ask and not sys.stdin.isatty():
        remedy = "give --yes to store all that pass the checks"
        raise UsageError(f"nobody can look at the proposed paraphrases here: {remedy}")
    from drike.cli.opening import DEFAULTS, open_model  # heavy, and not needed to refuse

    return open_model(options, api, DEFAULTS, at=RunOptions()).model


def reworded(
    store: EditStore, edits: Sequence[EditVersion], count: int, writer: LanguageModel, *, ask: bool
) -> Iterator[EditVersion]:
    """Show up to `count` proposed paraphrases an edit; yield edits with those that pass, or (`ask`) the user picks."""
    from drike.cli.watching import metered
    from drike.gates.verification import proposals

    in_force = stores.snapshot(store).in_force(datetime.now(UTC))
    taken = frozenset[str]().union(*(conflict_keys(edit.record) for edit in in_force))
    with metered(writer):
        proposed = proposals(writer, [edit.record for edit in edits], count, taken)
        for edit, of_edit in zip(edits, proposed, strict=True):
            say(f"Edit {edit.id}: {edit.record.fact}")
            for number, proposal in enumerate(of_edit, 1):
                problem = f" ({proposal.problem})" if proposal.problem else ""
                say(f"  {'-' if problem else number}  {proposal.text}{problem}")
            usable = [proposal.text for proposal in of_edit if not proposal.problem]
            picked = _picked(usable) if ask and usable else usable
            if not picked:
                say("  none is stored")
                continue
            record = replace(edit.record, paraphrases=(*edit.record.paraphrases, *picked), author=author())
            yield from store.put(replace(record, reason=f"paraphrases by {writer.info.name}"), replaces=edit)


def _picked(texts: Sequence[str]) -> list[str]:
    """The texts that the user picks by number."""
    while True:
        answer = typer.prompt("Which ones should be stored? Numbers, all or none", default="all").casefold()
        numbers = range(1, len(texts) + 1) if answer == "all" else map(int, re.findall(r"[0-9]+", answer))
        picked = [texts[number - 1] for number in numbers if 0 < number <= len(texts)]
        if picked or answer == "none":
            return picked
