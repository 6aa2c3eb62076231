"""Paraphrases that a model proposes for stored edits: for `drike edits add` and `drike edits reword`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import typer

from drike.cli.console import say
from drike.cli.options import ModelOptions, RunOptions
from drike.errors import UsageError
from drike.gates.rewording import proposals
from drike.models import ApiOptions, LanguageModel
from drike.stores import log as stores
from drike.stores.log import EditStore
from drike.stores.records import EditVersion, conflict_keys


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
    store: EditStore, edits: Sequence[EditVersion], count: int, writer: LanguageModel, *, ask: bool, author: str | None
) -> Iterator[EditVersion]:
    """Show up to `count` proposed paraphrases an edit; yield edits with those that pass, or (`ask`) the user picks."""
    from drike.cli.watching import metered

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
            record = replace(edit.record, paraphrases=(*edit.record.paraphrases, *picked), author=author)
            yield from store.put(replace(record, reason=f"paraphrases by {writer.info.name}"), replaces=edit)


def _picked(texts: Sequence[str]) -> list[str]:
    """The texts that the user picks by number."""
    while True:
        answer = typer.prompt("Which ones should be stored? Numbers, all or none", default="all").casefold()
        numbers = range(1, len(texts) + 1) if answer == "all" else map(int, re.findall(r"[0-9]+", answer))
        picked = [texts[number - 1] for number in numbers if 0 < number <= len(texts)]
        if picked or answer == "none":
            return picked
