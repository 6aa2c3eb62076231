"""Wordings that a model proposes for stored edits, for `drike edits add` and `drike edits reword`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import typer

from drike.cli.console import say
from drike.cli.opening import DEFAULTS, open_model
from drike.cli.options import ModelOptions, RunOptions
from drike.errors import UsageError
from drike.gates.rewording import proposals
from drike.models.protocols import LanguageModel
from drike.models.served.options import ApiOptions
from drike.stores import log as stores
from drike.stores.log import EditStore
from drike.stores.records import EditVersion, conflict_keys


def open_writer(asked: ModelOptions, api: ApiOptions, *, ask: bool) -> LanguageModel:
    """Open the model that proposes wordings. ask: which of them to store. Raises UsageError, ModelError."""
    if asked.model is None:
        raise UsageError("wordings take a model that follows instructions: give --model")
    if ask and not sys.stdin.isatty():
        raise UsageError("nobody can look at the proposed wordings here: give --yes to store all that pass the checks")
    return open_model(asked, api, DEFAULTS, at=RunOptions()).model


def reworded(
    opened: EditStore, edits: Sequence[EditVersion], count: int, writer: LanguageModel, *, ask: bool, author: str | None
) -> Iterator[EditVersion]:
    """Show the wordings that a model proposes, store those that are chosen, and yield the changes.

    ask: which to store; else all that pass the checks.
    """
    in_force = stores.snapshot(opened).in_force(datetime.now(UTC))
    taken = frozenset[str]().union(*(conflict_keys(one.record) for one in in_force))
    for edit, found in zip(edits, proposals(writer, [one.record for one in edits], count, taken), strict=True):
        say(f"Edit {edit.id}: {edit.record.fact}")
        for number, one in enumerate(found, 1):
            say(f"  -  {one.text} ({one.problem})" if one.problem else f"  {number}  {one.text}")
        good = [one.text for one in found if not one.problem]
        kept = _kept(good) if ask and good else good
        if not kept:
            say("  none is stored")
            continue
        entry = replace(edit.record, paraphrases=(*edit.record.paraphrases, *kept), author=author)
        yield from opened.put(replace(entry, reason=f"wordings by {writer.info.name}"), replaces=edit)


def _kept(texts: Sequence[str]) -> list[str]:
    """Those that the user picks by their numbers."""
    while True:
        given = typer.prompt("Which shall be stored? Numbers, all or none", default="all").casefold()
        numbers = range(1, len(texts) + 1) if given == "all" else map(int, re.findall(r"[0-9]+", given))
        picked = [texts[number - 1] for number in numbers if 0 < number <= len(texts)]
        if picked or given == "none":
            return picked
