"""Show what is suggested for edits, let a person strike it out, and store the rest."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import typer

from drike.cli.console import say
from drike.cli.options import ModelOptions
from drike.cli.stored_edits import author, in_force
from drike.edits.record import EditRecord, EditVersion
from drike.errors import UsageError
from drike.live.relation_templates import TEMPLATES, templated
from drike.live.suggestions import (
    Neighbourhood,
    Suggestion,
    author_of,
    fields_with,
    suggestions,
)
from drike.models import ApiOptions, LanguageModel
from drike.stores import moves
from drike.stores.edit_store import EditStore

Item = TypeVar("Item")

_AT_ONCE = 16  # edits about which a model is asked before what it wrote is stored
_NUMBER = re.compile(r"[0-9]+")

# Suggestions for each of some records, so many at most of each kind.
Suggest = Callable[[Sequence[EditRecord], int, Neighbourhood], list[list[Suggestion]]]


@dataclass(frozen=True)
class Writer:
    """Who suggests questions. model: None where templates do."""

    author: str
    suggest: Suggest
    model: LanguageModel | None = None


def open_writer(options: ModelOptions, api: ApiOptions, *, ask: bool) -> Writer:
    """Open the model of the options, or else the templates of relations.

    ask: the user, which questions to store. Raises UsageError, ModelError, EncoderError.
    """
    if ask and not sys.stdin.isatty():
        remedy = "give --yes to store all that pass the checks"
        raise UsageError(f"nobody can look at the suggested questions here: {remedy}")
    if options.model is None:
        return _templates()
    from drike.cli import models  # heavy, and not needed to refuse

    model = models.open_model(options, api, models.DEFAULTS).model

    def suggest(
        records: Sequence[EditRecord], count: int, neighbourhood: Neighbourhood
    ) -> list[list[Suggestion]]:
        return suggestions(model, records, count, neighbourhood)

    return Writer(author_of(model), suggest, model)


def _templates() -> Writer:
    from drike.live.store_gate import encoder_of, usual_gate

    encoder = encoder_of(usual_gate())
    if encoder is None:
        raise UsageError(
            "the templates of relations take the default gate's encoder: install it "
            "(pip install 'drike[encoder]'), or give a --model"
        )

    def suggest(
        records: Sequence[EditRecord], count: int, neighbourhood: Neighbourhood
    ) -> list[list[Suggestion]]:
        return [templated(record, encoder, count, neighbourhood) for record in records]

    return Writer(TEMPLATES, suggest)


def reworded(
    store: EditStore, edits: Sequence[EditVersion], count: int, writer: Writer, *, ask: bool
) -> Iterator[EditVersion]:
    """Show what is suggested for each edit, and store what passes the checks.

    ask: let the user pick among it. Some edits are stored before others are asked about, so that a
    stopped command goes on where it was. Yields the changes.
    """
    neighbourhood = Neighbourhood.of(edit.record for edit in in_force(store))
    with _metered(writer.model):
        for start in range(0, len(edits), _AT_ONCE):
            edits_at_once = edits[start : start + _AT_ONCE]
            records = [edit.record for edit in edits_at_once]
            suggested = writer.suggest(records, count, neighbourhood)
            for edit, of_edit in zip(edits_at_once, suggested, strict=True):
                kept = _kept(edit, of_edit, ask=ask)
                if kept:
                    yield from moves.change(
                        store,
                        edit.id,
                        fields_with(edit.record, kept, writer.author),
                        author=author(),
                        reason=f"questions by {writer.author}",
                        version=edit.version,
                    )


def _metered(model: LanguageModel | None) -> AbstractContextManager[None]:
    """Print what a served model used."""
    if model is None:
        return nullcontext()
    from drike.cli.models import metered

    return metered(model)


def _kept(edit: EditVersion, suggested: Sequence[Suggestion], *, ask: bool) -> list[Suggestion]:
    """Show the suggestions for an edit; return those that the user keeps, else the usable ones."""
    say(f"Edit {edit.id}: {edit.record.fact}")
    usable = [one for one in suggested if not one.problem]
    number = 0
    for never, heading in ((False, "will answer"), (True, "must not answer")):
        of_kind = [one for one in suggested if one.never is never]
        if of_kind:
            say(f" It {heading}:")
        for one in of_kind:
            number += not one.problem
            problem = f" ({one.problem})" if one.problem else ""
            say(f"  {'-' if problem else number}  {one.text}{problem}")
    kept = _picked(usable) if ask and usable else usable
    if not kept:
        say("  none is stored")
    return kept


def numbered(items: Sequence[Item], answer: str) -> list[Item]:
    """Those of some items whose numbers, from 1, an answer has."""
    numbers = map(int, _NUMBER.findall(answer))
    return [items[number - 1] for number in numbers if 0 < number <= len(items)]


def _picked(usable: Sequence[Suggestion]) -> list[Suggestion]:
    """Those that the user picks, by their numbers."""
    while True:
        answer = typer.prompt(
            "Which ones should be stored? Numbers, all or none", default="all"
        ).casefold()
        if answer == "all":
            return list(usable)
        picked = numbered(usable, answer)
        if picked or answer == "none":
            return picked
