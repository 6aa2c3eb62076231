"""The tree of all commands, with the sentence that help has on each."""

from typing import Annotated

import typer

from drike.cli.groups import CommandGroup, LazyCommand, group
from drike.support.extras import version_and_extras

# The panels of `drike --help`.
_START, _EDIT, _RESULTS, _DATA = "Start here", "Edit models", "Read results", "Data"

_EDITS = (
    LazyCommand("add", "drike.cli.edits_add:add", "Add an edit."),
    LazyCommand(
        "reword",
        "drike.cli.edits_add:reword",
        "Let a model propose paraphrases of edits; without ID, of those in force that have none.",
    ),
    LazyCommand(
        "import",
        "drike.cli.edits_files:import_",
        "Add the edits of FILE: CSV or JSON with subject, query and target_new, or a "
        "published data set.",
    ),
    LazyCommand(
        "export",
        "drike.cli.edits_files:export",
        "Write the edits to FILE.jsonl, which drike edits import reads.",
    ),
    LazyCommand(
        "sync",
        "drike.cli.edits_files:sync",
        "Keep one JSON file for each edit in FOLDER, and take over what changed there; fails "
        "if both sides changed.",
    ),
    LazyCommand(
        "calibrate",
        "drike.cli.edits_calibrate:calibrate",
        "Calibrate a gate on paraphrases and negative exemplars, and certify a bound on its "
        "false matches.",
    ),
    LazyCommand("list", "drike.cli.edits_list:list_", "List the edits."),
    LazyCommand(
        "show",
        "drike.cli.edits_list:show",
        "Show an edit with its versions; without ID, show all changes of the store.",
    ),
    LazyCommand(
        "diff",
        "drike.cli.edits_list:diff",
        "Show what changed between two times, whichever comes first: edits added, changed and "
        "retired.",
    ),
    LazyCommand(
        "propose",
        "drike.cli.edits_life:propose",
        "Propose a draft, what was rejected, or to put an edit into another status.",
    ),
    LazyCommand(
        "approve",
        "drike.cli.edits_life:approve",
        "Show what is proposed, and approve it; it is in force once enough people have.",
    ),
    LazyCommand(
        "reject",
        "drike.cli.edits_life:reject",
        "Reject what is proposed; what was in force before stays.",
    ),
    LazyCommand(
        "change",
        "drike.cli.edits_life:change",
        "Change an edit, or what is proposed; repeatable options add to what it has.",
    ),
    LazyCommand(
        "review",
        "drike.cli.edits_life:review",
        "Confirm edits that are in force, all or none, until their next review.",
    ),
    LazyCommand("retire", "drike.cli.edits_life:retire", "Take edits out of force."),
    LazyCommand(
        "rollback",
        "drike.cli.edits_life:rollback",
        "Go back to an earlier version of an edit; this makes a new version.",
    ),
    LazyCommand(
        "approvals",
        "drike.cli.edits_life:approvals",
        "Show how many people other than its author must approve what an edit says; with N, "
        "require so many.",
    ),
    LazyCommand(
        "due",
        "drike.cli.edits_health:due",
        "List the edits whose review is due, which stay in force; fails if there are any.",
    ),
    LazyCommand(
        "inbox",
        "drike.cli.edits_inbox:inbox",
        "List reports of wrong answers, or show one; draft an edit from one, or close it.",
    ),
    LazyCommand(
        "health",
        "drike.cli.edits_health:health",
        "Show how often answers in live traffic took each edit; fails where that is below "
        "--at-least.",
    ),
    LazyCommand(
        "report",
        "drike.cli.edits_health:report",
        "Show what came, in any mode, and what switching on edits in shadow would do.",
    ),
    LazyCommand(
        "replay",
        "drike.cli.edits_health:replay",
        "Show which requests of LOG would get an edit, the least certain first; nothing is "
        "sent or written.",
    ),
    LazyCommand(
        "tune",
        "drike.cli.edits_tune:tune_",
        "Choose by a model's answers how facts are put before its questions, for drike serve.",
    ),
    LazyCommand(
        "verify",
        "drike.cli.edits_verify:verify",
        "Prove on a model that edits take and do not leak: requests go the way of drike "
        "serve, and answers are judged.",
    ),
    LazyCommand(
        "test",
        "drike.cli.edits_verify:verify",
        "Prove on a model that edits take and do not leak: requests go the way of drike "
        "serve, and answers are judged.",
        hidden=True,
    ),
)
_KEYS = (
    LazyCommand("add", "drike.cli.keys:add", "Make a key and print it; only its SHA-256 is kept."),
    LazyCommand("list", "drike.cli.keys:list_", "List the keys."),
    LazyCommand(
        "revoke", "drike.cli.keys:revoke", "Revoke keys; a running gateway refuses them at once."
    ),
)
_DATA_SETS = (
    LazyCommand(
        "inspect",
        "drike.cli.data:inspect",
        "Print counts, what was left out and why, how paraphrases were cut, and an example.",
    ),
)
_COMMANDS = (
    LazyCommand(
        "demo",
        "drike.cli.demo:demo",
        "Train DR-IKE on TinyFacts with the embedded model, print the paper's table, and edit "
        "one fact.",
        panel=_START,
    ),
    LazyCommand(
        "tour",
        "drike.cli.pages:tour",
        "Show what drike does, on one page: answers before and after, how questions find "
        "edits, recorded results (needs drike[local]).",
        panel=_START,
    ),
    LazyCommand(
        "doctor",
        "drike.cli.doctor:doctor",
        "Print what drike finds on this machine; exits with code 1 if the demo or --model "
        "cannot run.",
        panel=_START,
    ),
    LazyCommand(
        "train",
        "drike.cli.train:train",
        "Train DR-IKE's retriever and budget on a model's right and wrong answers.",
        panel=_EDIT,
    ),
    LazyCommand(
        "evaluate",
        "drike.cli.evaluate:evaluate",
        "Measure ESR, PC, RR, S, ESM and GSM of editors on edits that were not trained on.",
        panel=_EDIT,
    ),
    LazyCommand(
        "edit",
        "drike.cli.edit:edit",
        "Edit a model in its prompt and show its answers before and after; queries that "
        "concern no edit are left alone.",
        panel=_EDIT,
    ),
    LazyCommand(
        "serve",
        "drike.cli.serve:serve",
        "Serve a model with edits in force: applications change their base URL, nothing else.",
        panel=_EDIT,
    ),
    group("edits", "Keep edits in a store, with their versions and history.", _EDITS, panel=_EDIT),
    group("keys", "Make, list and revoke keys of drike serve.", _KEYS, panel=_EDIT),
    LazyCommand(
        "report",
        "drike.cli.pages:report",
        "Write runs as one HTML page that needs no network, with their tables as Markdown "
        "beside it.",
        panel=_RESULTS,
    ),
    group("data", "Look at data sets.", _DATA_SETS, panel=_DATA),
)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version_and_extras())
        raise typer.Exit


_typer = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@_typer.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            metavar="",
            help="Print the version and exit",
        ),
    ] = False,
) -> None:
    """In-context knowledge editing for language models whose weights you cannot touch."""


app = typer.main.get_group(_typer)
for _command in _COMMANDS:
    app.add_command(_command)
