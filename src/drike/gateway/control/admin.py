"""The admin application, on a port of its own (docs/reference/gateway.md). What it acknowledges is in force here."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from drike.edits.conflicts import ConflictError
from drike.edits.record import Status, UnavailableError
from drike.edits.times import stamp
from drike.errors import DrikeError
from drike.gates.decision import Decision
from drike.gates.index import EditIndex
from drike.gates.reliability import Bin, curve
from drike.gateway.answers import text_of
from drike.gateway.calls import Upstream, whole
from drike.gateway.control import changes as managing
from drike.gateway.control.changes import SECONDS_FOR_STORE, AdminCall, Json, edit_json
from drike.gateway.editing import TRIAL, RequestEditor
from drike.gateway.errors import RequestError, UpstreamError
from drike.gateway.feed import EditFeed
from drike.gateway.health import health, shadow_report
from drike.gateway.http.admission import permit
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.relay import read_values, while_connected
from drike.gateway.http.server import file_shortage
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.metrics import Metrics
from drike.gateway.options import Switch, switch, switches
from drike.gateway.proving.questions import questions_about
from drike.gateway.proving.verification import Verdict, by_concern, named
from drike.gateway.requests import one_message
from drike.gateway.tenants import Tenants
from drike.models.served.quirks import NEWER_LIMIT, OLDER_LIMIT, for_newer_models
from drike.stores.approvals import approvers
from drike.stores.edit_store import required_approvals, versions_of
from drike.stores.finding import Search, find
from drike.stores.moves import due
from drike.stores.traffic import TrafficCounts
from drike.support.records import read

_MAX_TRIALS, _TOKENS, _THOUGHTS = (
    16,
    64,
    2048,
)  # at once; tokens of an answer, and of one with thoughts
_UNKEPT = {"cache-control": "no-store"}
_MAX_LISTED, _MAX_CANDIDATES, _MAX_DAYS = 500, 10, 36_600
_PAGE = Path(__file__).parent / "page"  # static files that hold no data
_SCRIPTS = dict.fromkeys(("page.js", "edit.js", "inbox.js"), "javascript")
_PAGE_FILES = {"index.html": "html", "page.css": "css", **_SCRIPTS}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip


def application(admin: Admin) -> Starlette:
    """The admin application; its lifespan is also the gateway's."""
    routes = [
        Route("/healthz", _json({"healthy": True}), methods=["GET"]),
        Route("/readyz", admin.ready),
    ]
    routes.append(Route("/metrics", admin.counts))
    for name, kind in _PAGE_FILES.items():
        file = Response((_PAGE / name).read_bytes(), 200, _PAGE_HEADERS, f"text/{kind}")
        routes.append(Route("/" + name.removeprefix("index.html"), file, methods=["GET"]))
    for methods, path, endpoint in (
        ("GET", "/status", admin.status), ("GET", "/edits", admin.edits), ("POST", "/edits", managing.add),
        ("GET", "/edits/{id}", admin.versions), ("POST", "/edits/{id}/verify", admin.verify),
        ("POST", "/edits/{id}/{change}", managing.change), ("GET", "/inbox", managing.inbox),
        ("GET", "/inbox/{number:int}", managing.report), ("POST", "/inbox/draft", managing.draft),
        ("POST", "/inbox/close", managing.close), ("POST", "/inbox/wrong", managing.wrong),
        ("GET POST", "/approvals", managing.approvals), ("GET", "/decide", admin.decide), ("POST", "/try", admin.ask),
        ("GET", "/fired", admin.matched), ("GET POST", "/mode", admin.mode), ("GET", "/health", admin.health),
        ("GET", "/calibration", admin.calibration),
    ):  # fmt: skip
        routes.append(
            Route(f"/admin/v1{path}", partial(admin.of_tenant, endpoint), methods=methods.split())
        )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await admin.upstream.open()
        following = asyncio.create_task(admin.tenants.follow())
        yield
        following.cancel()
        await admin.upstream.close()

    refused = (HTTPException, ClientDisconnect, RequestError, UpstreamError, DrikeError, ValueError)
    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers=dict.fromkeys(refused, _refusal)
    )


async def _refusal(request: Request, problem: Exception) -> Response:
    """What is wrong with a request, as JSON."""
    match problem:
        case ClientDisconnect():
            return Response(status_code=499)
        case HTTPException():
            sentence = f"the admin port does not offer {request.method} {request.url.path}"
            return _error(problem.status_code, "no_such_path", sentence)
        case RequestError() | UpstreamError():
            return _error(problem.status, problem.code, str(problem))
        case ConflictError():
            rivals = [edit_json(edit) for edit in problem.rivals]
            return _error(409, "conflict", str(problem), rivals=rivals, repeated=problem.repeated)
        case UnavailableError():
            return _error(503, "unavailable", str(problem))
    return _error(400, "bad_request", str(problem))


@dataclass(frozen=True, eq=False)
class Admin:
    """The endpoints. editor, upstream: also for trial questions. keys: None admits everyone on this machine."""

    editor: RequestEditor
    upstream: Upstream
    tenants: Tenants
    metrics: Metrics
    keys: Keys | None = None
    trials: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_TRIALS))
    _curves: dict[str, tuple[EditIndex, tuple[Bin, ...]]] = field(default_factory=dict)

    async def of_tenant(
        self, endpoint: Callable[[AdminCall], Awaitable[Json]], request: Request
    ) -> Response:
        """What an endpoint answers, given the edits of the sender's tenant."""
        principal = permit(request, KeyRole.PROPOSE, self.keys)
        values = await read_values(request) if request.method == "POST" else {}
        return _json(
            await endpoint(
                AdminCall(request, principal, await self.tenants.feed(principal.tenant), values)
            )
        )

    async def status(self, call: AdminCall) -> Json:
        """What the gateway is doing."""
        feed, principal = call.feed, call.principal
        problems = await self._problems(self.tenants.problems_shown_to(principal))
        return {
            "mode": self.editor.mode_for(feed), "share": feed.switch.share, "upstream": self.upstream.name,
            "tenant": principal.tenant, "role": principal.role, "problems": problems, "edits": len(feed.index.edits),
            "revision": feed.snapshot.revision,
        }  # fmt: skip

    async def edits(self, call: AdminCall) -> Json:
        """Edits that hold all words of q, with a status, an owner, a subject, a review due within so many days."""
        given, by = call.request.query_params, None
        if "due" in given:
            by = stamp(datetime.now(UTC) + timedelta(days=min(call.number("due", 0), _MAX_DAYS)))
        wanted = Search(
            given.get("q", ""), given.get("status"), given.get("owner"), given.get("subject"), by
        )
        found = await in_daemon_thread(find, call.feed.snapshot, wanted)
        after, limit = call.number("after", 0), min(call.number("limit", 50), _MAX_LISTED)
        return {
            "edits": [edit_json(edit, call.feed) for edit in found[after : after + limit]],
            "total": len(found),
        }

    async def versions(self, call: AdminCall) -> Json:
        """All versions of an edit, and who has approved what is proposed."""
        feed, id = call.feed, call.id
        if id not in feed.snapshot.edits:
            raise RequestError(404, "no_such_edit", f"there is no edit {id}")
        try:
            async with asyncio.timeout(SECONDS_FOR_STORE):
                versions = await in_daemon_thread(versions_of, feed.store, id)
                needed = await in_daemon_thread(required_approvals, feed.store)
        except TimeoutError:
            raise call.late("try again") from None
        latest = versions[-1].record
        by = approvers(versions, replace(latest, status=latest.approved_as))
        asked = {"needed": needed, "by": sorted(by)} if latest.status is Status.PROPOSED else None
        return {"versions": [edit_json(version, feed) for version in versions], "approvals": asked}

    async def decide(self, call: AdminCall) -> Json:
        """The decision on a query, which is not recorded."""
        params = call.request.query_params
        chat = one_message(params.get("model", "default"), params.get("q", ""))
        decision, _ = await self.editor.trial(chat, call.feed, ask=params.get("ask") != "no")
        return _decision_json(decision, call.feed)

    async def ask(self, call: AdminCall) -> Json:
        """Ask the upstream without and with the edits that match."""
        values = call.values
        query, model, max_tokens = (
            values.get("query"),
            values.get("model", "default"),
            values.get("max_tokens", 64),
        )
        if not isinstance(query, str) or not isinstance(model, str) or type(max_tokens) is not int:
            raise ValueError("query, model or max_tokens is missing, or is not of its type")
        if self.trials.locked():
            raise RequestError(
                429, "busy", f"{_MAX_TRIALS} questions are being tried: try again in a second"
            )
        chat = one_message(model, query, max_tokens=max_tokens)
        async with self.trials, while_connected(call.request.receive):
            decision, edited = await self.editor.trial(chat, call.feed)
            texts = [await self.answer(body) for body in dict.fromkeys((chat.body, edited))]
        sent = json.loads(edited)["messages"][-1]["content"]
        return {
            "decision": _decision_json(decision, call.feed),
            "before": texts[0],
            "after": texts[-1],
            "sent": sent,
        }

    async def verify(self, call: AdminCall) -> Json:
        """Ask the upstream about an edit, a draft or a proposal, which is in force for these questions alone."""
        model = call.field("model", str) or "default"
        latest = (await in_daemon_thread(versions_of, call.feed.store, call.id))[-1]
        latest = replace(
            latest, record=replace(latest.record, only=())
        )  # whatever requests it is for
        trial = await in_daemon_thread(call.feed.trying, [latest])
        outcomes = list[Verdict]()
        async with self.trials, while_connected(call.request.receive):
            for question in (
                each for each in questions_about([latest], trial.index) if each.first is None
            ):
                chat = one_message(model, question.text, max_tokens=_TOKENS)
                decision, body = await self.editor.trial(chat, trial)
                unedited = None if question.kind.concerns else await self.answer(chat.body)
                said, edits = await self.answer(body), tuple(map(named, decision.matched))
                scope, stated = "fired" if edits else "abstained", question.edit.record.states(said)
                outcomes.append(Verdict(question, said, stated, edits, scope, unedited=unedited))
        concerned, others = by_concern(outcomes)
        failed = [outcome for outcome in outcomes if outcome.problem]
        return {
            "edit": latest.id, "version": latest.version, "asked": len(concerned),
            "took": sum(not outcome.problem for outcome in concerned), "others": len(others),
            "leaked": sum(bool(outcome.problem) for outcome in others),
            "failures": [{"question": o.question.text, "answer": o.answer, "problem": o.problem} for o in failed],
        }  # fmt: skip

    async def matched(self, call: AdminCall) -> Json:
        """The last decisions on requests."""
        feed, limit = call.feed, call.number("limit", 50)
        return {
            name: [
                vars(one) | {"decision": _decision_json(one.decision, feed)}
                for one in list(last)[::-1][:limit]
            ]
            for name, last in (("fired", feed.matched), ("missed", feed.missed))
        }

    async def mode(self, call: AdminCall) -> Json:
        """The mode of the tenant's requests, which POST switches, and how it was switched before."""
        feed, values = call.feed, call.values
        if call.request.method == "POST":
            call.require(KeyRole.APPROVE)
            if "mode" not in values or values.keys() - {"mode", "share", "reason"}:
                raise ValueError(
                    "give mode (null takes a switch back), share and reason if you like, and nothing else"
                )
            new = read(
                Switch,
                {"share": 1.0, "reason": None, **values, "author": call.principal.author, "at": ""},
            )
            if not 0 <= new.share <= 1:
                raise ValueError("share must be between 0 and 1")
            await call.write(lambda store: switch(store, new))
        made = await in_daemon_thread(switches, feed.store)
        status = {
            "mode": self.editor.mode_for(feed),
            "share": feed.switch.share,
            "started": self.editor.mode,
        }
        return {**status, "switched": [asdict(each) for each in reversed(made)]}

    async def health(self, call: AdminCall) -> Json:
        """How edits fared in the answers of the last days, and what the requests in shadow say."""
        feed, since = (
            call.feed,
            datetime.now(UTC).date() - timedelta(days=min(max(call.number("days", 7), 1), 400) - 1),
        )
        await in_daemon_thread(feed.watch.flush, feed.store)
        counts = await in_daemon_thread(TrafficCounts(feed.store.database).since, since)
        sentences, in_shadow = shadow_report(feed.snapshot, counts)
        fared = {"edits": health(feed.snapshot, counts), "shadow": in_shadow}
        listed = {
            name: [edit.values for edit in edits[:_MAX_LISTED]] for name, edits in fared.items()
        }
        return {**listed, "sentences": sentences, "problem": feed.watch.problem}

    async def calibration(self, call: AdminCall) -> Json:
        """How well the gate's probabilities hold on the tenant's own texts."""
        index, tenant = call.feed.index, call.principal.tenant
        known, bins = self._curves.get(tenant, (None, ()))
        if known is not index:
            bins = await in_daemon_thread(curve, call.feed.gate, index)
            self._curves[tenant] = index, bins
        return {"bins": [asdict(bin) for bin in bins]}

    async def ready(self, request: Request) -> Response:
        """Whether requests of the default tenant would be answered."""
        problems = await self._problems(self.tenants.public_problems)
        return (
            _json({"ready": False, "problems": problems}, 503)
            if problems
            else _json({"ready": True})
        )

    async def counts(self, request: Request) -> Response:
        """All metrics."""
        permit(request, KeyRole.ADMIN, self.keys)
        feeds, now = tuple(self.tenants.feeds.values()), datetime.now(UTC)
        self.metrics.edits.set(sum(len(feed.index.edits) for feed in feeds))
        self.metrics.proposed.set(sum(len(feed.snapshot.proposals) for feed in feeds))
        self.metrics.due.set(sum(len(due(feed.snapshot, now)) for feed in feeds))
        return Response(
            generate_latest(self.metrics.registry),
            media_type="text/plain; version=0.0.4",
            headers=_UNKEPT,
        )

    async def _problems(self, of_edits: Sequence[str]) -> list[str]:
        return [*filter(None, (await self.upstream.problem(), file_shortage())), *of_edits]

    async def answer(self, body: bytes) -> str:
        """The text of the upstream's answer to a chat. Raises UpstreamError, also for one that it refuses."""
        try:
            async with self.upstream.exchange(replace(TRIAL, body=body)) as reply:
                answer = json.loads(await whole(reply))
            if reply.status == 400 and (values := json.loads(body)).get(OLDER_LIMIT):
                thinking = {**for_newer_models(values), NEWER_LIMIT: _THOUGHTS}
                return await self.answer(json.dumps(thinking).encode())
            if reply.status != 200:
                raise UpstreamError(
                    f"the upstream refuses the question: {answer['error']['message']}"
                )
            return text_of({"choices": [answer["choices"][0]]})
        except (ValueError, LookupError, TypeError, RecursionError):
            raise UpstreamError("the upstream's answer is not in OpenAI's form") from None


def _error(status: int, code: str, sentence: str, **more: object) -> Response:
    return _json({"error": {"message": sentence, "code": code}, **more}, status)


def _json(value: object, status: int = 200) -> Response:
    """JSON that nothing on the way keeps: it is of this moment, and for one key."""
    return Response(json.dumps(value), status, _UNKEPT, "application/json")


def _decision_json(decision: Decision, feed: EditFeed) -> Json:
    candidates = [
        {
            "edit": edit_json(candidate.edit, feed),
            "probability": candidate.probability,
            "name": candidate.name,
        }
        | {"features": dict(candidate.features)}
        | ({"answer": candidate.answer} if candidate.answer else {})
        for candidate in decision.candidates[:_MAX_CANDIDATES]
    ]
    matched = [edit_json(edit, feed) for edit in decision.matched]
    return {
        "query": decision.query,
        "fired": matched,
        "considered": candidates,
        "reason": decision.reason,
    }
