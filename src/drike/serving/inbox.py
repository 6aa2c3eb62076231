"""The inbox on the admin port: reports of wrong answers in groups, drafts from them, and what proves a draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from drike.gates.drafting import MOST_SHOWN, grouped
from drike.gates.drafting import draft as drafted
from drike.serving.moves import field
from drike.serving.relay import while_connected
from drike.serving.requests import one_message
from drike.serving.threads import in_daemon_thread
from drike.serving.verifying import EditOutcome, by_concern, named, questions_about
from drike.stores import log, reports
from drike.stores.log import EditStore
from drike.stores.records import EditVersion, Status
from drike.stores.reports import ReportState
from drike.support.records import read

if TYPE_CHECKING:  # it imports this module
    from drike.serving.admin import Admin, AdminCall

_TOKENS = 64  # of an answer
Json = dict[str, Any]


async def groups(call: AdminCall) -> Json:
    """The first open reports, or those of another state, in groups."""
    state = read(ReportState, call.request.query_params.get("state", ReportState.OPEN))

    def work() -> Json:
        found = reports.reports(call.feed.store, state)
        groups = grouped(found[:MOST_SHOWN], call.feed.index)
        listed = [{"edit": _edit(group.edit), "reports": list(map(asdict, group.reports))} for group in groups]
        return {"groups": listed, "total": len(found)}

    return await in_daemon_thread(work)


async def report(call: AdminCall) -> Json:
    """A report."""
    return asdict(await in_daemon_thread(reports.report, call.feed.store, call.request.path_params["number"]))


async def draft(call: AdminCall) -> Json:
    """Draft an edit from reports of the same, and close them."""
    numbers, author = _numbers(call), call.principal.author
    return await call.write(lambda store: drafted(store, numbers, call.feed.index, author=author))


async def close(call: AdminCall) -> Json:
    """Close reports, all or none, for a reason."""
    reason, author = field(call.values, "reason", str), call.principal.author
    return await _for_each(call, lambda store, number: reports.close(store, number, author=author, reason=reason))


async def wrong(call: AdminCall) -> Json:
    """Make open reports of samples, all or none."""
    return await _for_each(call, lambda store, number: reports.mark_wrong(store, number, call.principal.author))


async def verify(admin: Admin, call: AdminCall) -> Json:
    """Ask the upstream about an edit, a draft or a proposal, which is in force for these questions alone."""
    model = field(call.values, "model", str) or "default"
    latest = (await in_daemon_thread(log.versions, call.feed.store, call.id))[-1]
    tried = replace(latest, record=replace(latest.record, status=Status.ACTIVE))
    trial = await in_daemon_thread(call.feed.trying, [tried])
    outcomes = list[EditOutcome]()
    async with admin.trials, while_connected(call.request.receive):
        for question in questions_about([tried], trial.index):
            if question.first is None:
                chat = one_message(model, question.text, max_tokens=_TOKENS)
                decision, body = await admin.editor.trial(chat, trial)
                unedited = None if question.kind.concerns else await admin.answer(chat.body)
                said, edits = await admin.answer(body), tuple(map(named, decision.matched))
                scope, stated = "fired" if edits else "abstained", question.edit.record.states(said)
                outcomes.append(EditOutcome(question, said, stated, edits, scope, None, unedited, None, 0.0))
    concerned, others = by_concern(outcomes)
    failures = [
        {"question": outcome.question.text, "answer": outcome.answer, "problem": outcome.problem}
        for outcome in outcomes
        if outcome.problem
    ]
    return {
        "edit": latest.id, "version": latest.version, "asked": len(concerned),
        "took": sum(not outcome.problem for outcome in concerned), "others": len(others),
        "leaked": sum(bool(outcome.problem) for outcome in others), "failures": failures,
    }  # fmt: skip


async def _for_each(call: AdminCall, change: Callable[[EditStore, int], object]) -> Json:
    numbers = _numbers(call)

    def make(store: EditStore) -> None:
        for number in numbers:
            change(store, number)

    return await call.write(make)


def _numbers(call: AdminCall) -> list[int]:
    """The reports that a request names. Raises ValueError."""
    numbers = call.values.get("reports")
    if not isinstance(numbers, list) or not numbers or any(type(number) is not int for number in numbers):
        raise ValueError("reports must be a list of numbers of reports")
    return numbers


def _edit(edit: EditVersion | None) -> Json | None:
    if edit is None:
        return None
    record = edit.record
    return {"id": edit.id, "version": edit.version, "query": record.query, "target_new": record.target_new}
