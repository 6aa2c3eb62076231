"""Other edits that still match a question which one of them shall not match, on the admin port."""

from __future__ import annotations

from drike.gateway.control.changes import AdminCall, Json
from drike.gateway.errors import RequestError
from drike.gateway.health import summary
from drike.gateway.http.keys import KeyRole
from drike.live.same_question import (
    SameQuestion,
    give_negatives,
    of_same_relation,
    same_questions,
)

_LONGEST = 8000  # characters of a question


async def alike(call: AdminCall) -> Json:
    """The edits that match a question about their subjects; POST lets none of them match it."""
    call.require(KeyRole.PROPOSE)
    if call.request.method == "GET":
        found = await _found(call, call.request.query_params.get("text", ""))
        return {"edits": [{"edit": summary(same.edit), "text": same.text} for same in found]}

    found = await _found(call, call.field("text", str) or "")
    author = call.principal.author
    reason = call.field("reason", str)
    propose = not call.principal.role.includes(KeyRole.APPROVE)
    return await call.write(
        lambda store: give_negatives(store, found, author=author, reason=reason, propose=propose)
    )


async def _found(call: AdminCall, text: str) -> list[SameQuestion]:
    """The other edits that match the question. Raises RequestError, ValueError."""
    if not text or len(text) > _LONGEST:
        raise ValueError(f"text must be a question of {_LONGEST:,} characters at most")
    state = call.feed.live.state
    edit = call.feed.snapshot.edits.get(call.id)
    if edit is None:
        raise RequestError(404, "no_such_edit", f"there is no edit {call.id}: look at the list")
    index = state.view.index

    def work() -> list[SameQuestion]:
        others = of_same_relation(edit, index.edits.values())
        found = same_questions(text, edit, others, lambda query: state.gate.decide(query, index))
        return list(found)

    return await call.read(work)
