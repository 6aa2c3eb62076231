"""The inbox on the admin port: reports of wrong answers in groups, drafts from them, and what proves a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.routing import Route

from drike.gates.drafting import MOST_SHOWN, draft, grouped
from drike.serving.keys import Principal
from drike.serving.relay import RequestError, read_values, while_connected
from drike.serving.requests import CHAT, one_message
from drike.serving.threads import in_daemon_thread
from drike.serving.upstream import UpstreamCall
from drike.serving.verifying import EditOutcome, EditQuestion, by_concern, named, questions_about
from drike.stores import log, reports
from drike.stores.log import EditStore
from drike.stores.records import EditVersion, Status
from drike.stores.reports import ReportState
from drike.support.records import read

if TYPE_CHECKING:  # it imports this module
    from drike.serving.admin import Admin

_TOKENS = 64  # of an answer
Json = dict[str, Any]


def routes(admin: Admin) -> list[Route]:
    """The routes of the inbox, and the one that verifies an edit."""
    inbox, guarded = Inbox(admin), admin.guarded
    return [
        Route("/admin/v1/inbox", guarded(inbox.groups)),
        Route("/admin/v1/inbox/draft", guarded(inbox.draft), methods=["POST"]),
        Route("/admin/v1/inbox/close", guarded(inbox.close), methods=["POST"]),
        Route("/admin/v1/inbox/wrong", guarded(inbox.wrong), methods=["POST"]),
        Route("/admin/v1/inbox/{number:int}", guarded(inbox.report)),
        Route("/admin/v1/edits/{id:int}/verify", guarded(inbox.verify), methods=["POST"]),
    ]


@dataclass(frozen=True)
class Inbox:
    """The endpoints."""

    admin: Admin

    async def groups(self, request: Request, principal: Principal) -> Json:
        """The first open reports, or those of another state, in groups."""
        feed = await self.admin.tenants.feed(principal.tenant)
        state = read(ReportState, request.query_params.get("state", ReportState.OPEN))

        def work() -> Json:
            found = reports.reports(feed.store, state)
            groups = grouped(found[:MOST_SHOWN], feed.index)
            listed = [{"edit": _edit(group.edit), "reports": list(map(asdict, group.reports))} for group in groups]
            return {"groups": listed, "total": len(found)}

        return await in_daemon_thread(work)

    async def report(self, request: Request, principal: Principal) -> Json:
        """A report."""
        feed = await self.admin.tenants.feed(principal.tenant)
        return asdict(await in_daemon_thread(reports.report, feed.store, request.path_params["number"]))

    async def draft(self, request: Request, principal: Principal) -> Json:
        """Draft an edit from reports of the same, and close them."""
        numbers, _ = await _named(request)
        feed = await self.admin.tenants.feed(principal.tenant)
        return await self.admin.write(
            request, principal, lambda store: draft(store, numbers, feed.index, author=principal.author)
        )

    async def close(self, request: Request, principal: Principal) -> Json:
        """Close reports, all or none, for a reason."""
        numbers, reason = await _named(request)

        def make(store: EditStore) -> None:
            for number in numbers:
                reports.close(store, number, author=principal.author, reason=reason)

        return await self.admin.write(request, principal, make)

    async def wrong(self, request: Request, principal: Principal) -> Json:
        """Make open reports of samples, all or none."""
        numbers, _ = await _named(request)

        def make(store: EditStore) -> None:
            for number in numbers:
                reports.mark_wrong(store, number, principal.author)

        return await self.admin.write(request, principal, make)

    async def verify(self, request: Request, principal: Principal) -> Json:
        """Ask the upstream about an edit, a draft or a proposal, which is in force for these questions alone."""
        model = (await read_values(request)).get("model", "default")
        if not isinstance(model, str):
            raise RequestError(400, "bad_request", "model must be a text")
        feed = await self.admin.tenants.feed(principal.tenant)
        latest = (await in_daemon_thread(log.versions, feed.store, request.path_params["id"]))[-1]
        tried = replace(latest, record=replace(latest.record, status=Status.ACTIVE))
        trial = await in_daemon_thread(feed.trying, [tried])
        asked = [question for question in questions_about([tried], trial.index) if question.first is None]
        outcomes = list[EditOutcome]()
        async with self.admin.trials, while_connected(request.receive):
            for question in asked:
                chat = one_message(model, question.text, max_tokens=_TOKENS)
                call = UpstreamCall("POST", CHAT, [(b"content-type", b"application/json")], b"")
                decision, body = await self.admin.editor.trial(chat, call, trial, ask=True)
                bare = None if question.kind.concerns else await self.admin.answer(replace(call, body=chat.body))
                answer = await self.admin.answer(replace(call, body=body))
                outcomes.append(_outcome(question, answer, decision.matched, bare))
        return _verified(latest, outcomes)


def _outcome(question: EditQuestion, answer: str, matched: Sequence[EditVersion], unedited: str | None) -> EditOutcome:
    edits, said = tuple(map(named, matched)), question.edit.record.states(answer)
    return EditOutcome(question, answer, said, edits, "fired" if edits else "abstained", None, unedited, None, 0.0)


def _verified(edit: EditVersion, outcomes: Sequence[EditOutcome]) -> Json:
    concerned, others = by_concern(outcomes)
    failures = [
        {"question": outcome.question.text, "answer": outcome.answer, "problem": outcome.problem}
        for outcome in outcomes
        if outcome.problem
    ]
    return {
        "edit": edit.id, "version": edit.version, "asked": len(concerned),
        "took": sum(not outcome.problem for outcome in concerned), "others": len(others),
        "leaked": sum(bool(outcome.problem) for outcome in others), "failures": failures,
    }  # fmt: skip


async def _named(request: Request) -> tuple[list[int], str | None]:
    """The numbers of the reports that a request names, and a reason. Raises RequestError."""
    values = await read_values(request)
    numbers, reason = values.get("reports"), values.get("reason")
    if not isinstance(numbers, list) or not numbers or any(type(number) is not int for number in numbers):
        raise RequestError(400, "bad_request", "reports must be a list of numbers of reports")
    if not isinstance(reason, str | None):
        raise RequestError(400, "bad_request", "reason must be a text")
    return numbers, reason


def _edit(edit: EditVersion | None) -> Json | None:
    if edit is None:
        return None
    record = edit.record
    return {"id": edit.id, "version": edit.version, "query": record.query, "target_new": record.target_new}
