"""Questions that an edit will answer, and near misses, as a model writes them on the admin port.

The upstream is asked once; a person strikes out what is wrong, and the rest is stored with the
model as its author.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from drike.edits.record import EditRecord, EditVersion
from drike.gateway.control.changes import AdminCall, Json
from drike.gateway.control.trials import Trials
from drike.gateway.http.keys import KeyRole
from drike.gateway.http.relay import while_connected
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.requests import one_message
from drike.live.suggestions import (
    QUESTIONS,
    Neighbourhood,
    Suggestion,
    checked_suggestions,
    fields_with,
    request,
    tokens_for,
    written_suggestions,
)
from drike.stores import moves
from drike.stores.authorship import changeable
from drike.stores.edit_store import EditStore, versions_of

_LONGEST_MODEL = 100  # characters of a name
_MOST_KEPT = 2 * QUESTIONS


@dataclass(frozen=True, eq=False)
class Suggesting:
    """The endpoints. trials: by which the upstream is asked."""

    trials: Trials

    async def suggest(self, call: AdminCall) -> Json:
        """Ask the upstream what people would ask for exactly this edit, and what near it."""
        call.require(KeyRole.PROPOSE)
        model = _model(call)
        versions = await call.read(lambda: versions_of(call.feed.store, call.id))
        record = changeable(versions)
        chat = one_message(model, request(record), max_tokens=tokens_for())
        with self.trials.limits.trial(call.principal):
            self.trials.limits.spend(call.principal, 1)
            async with while_connected(call.request.receive):
                written = await self.trials.answer(chat.body, call.feed)

        def work() -> list[Suggestion]:
            return written_suggestions(written, record, QUESTIONS, _neighbourhood(call))

        suggested = await in_daemon_thread(work)
        return {
            "version": versions[-1].version,
            "model": model,
            "suggestions": list(map(asdict, suggested)),
        }

    async def keep(self, call: AdminCall) -> Json:
        """Store the suggestions that a person kept, with their author.

        Raises ValueError for one that must not be stored.
        """
        call.require(KeyRole.PROPOSE)
        lines = _lines(call)
        author = f"model {_model(call)}"
        version = call.field("version", int)
        reason = call.field("reason", str) or f"questions by {author}"
        by = call.principal.author
        waits = not call.principal.role.includes(KeyRole.APPROVE)
        neighbourhood = await in_daemon_thread(_neighbourhood, call)

        def make(store: EditStore) -> Sequence[EditVersion]:
            record = changeable(versions_of(store, call.id))
            kept = _checked(record, lines, neighbourhood)
            fields = fields_with(record, kept, author)
            return moves.change(
                store, call.id, fields, author=by, reason=reason, propose=waits, version=version
            )

        return await call.write(make)


def _model(call: AdminCall) -> str:
    """The model that is asked. Raises ValueError."""
    model = call.field("model", str) or "default"
    if len(model) > _LONGEST_MODEL:
        raise ValueError(f"model has more than {_LONGEST_MODEL} characters")
    return str(model)


def _neighbourhood(call: AdminCall) -> Neighbourhood:
    """What the other edits in force say."""
    edits = call.feed.index.edits.values()
    return Neighbourhood.of(edit.record for edit in edits if edit.id != call.id)


def _lines(call: AdminCall) -> list[tuple[str, bool]]:
    """The texts that were kept, each with whether it is a near miss. Raises ValueError."""
    given = call.values.get("texts")
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_KEPT:
        raise ValueError(f"texts must be a list of 1 to {_MOST_KEPT} suggestions")
    lines = []
    for one in given:
        text, never = (one.get("text"), one.get("never")) if isinstance(one, dict) else (None, None)
        if not isinstance(text, str) or type(never) is not bool:
            raise ValueError('each of texts must be as {"text": "...", "never": false}')
        lines.append((text, never))
    return lines


def _checked(
    record: EditRecord, lines: Sequence[tuple[str, bool]], neighbourhood: Neighbourhood
) -> list[Suggestion]:
    """Texts as suggestions that pass the checks. Raises ValueError."""
    suggested = checked_suggestions(lines, record, _MOST_KEPT, neighbourhood)
    for one in suggested:
        if one.problem:
            raise ValueError(f"{one.text!r} {one.problem}: leave it out")
    return suggested
