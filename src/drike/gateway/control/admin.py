"""The admin application, on a port of its own. What it acknowledges is in force here."""

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
from drike.edits.record import EditVersion, Status, UnavailableError
from drike.edits.times import stamp
from drike.errors import DrikeError
from drike.gates.index import EditIndex
from drike.gates.reliability import Bin, curve
from drike.gateway.calls import Upstream
from drike.gateway.control import changes
from drike.gateway.control.alike import alike
from drike.gateway.control.changes import AdminCall, Json, edit_json
from drike.gateway.control.suggesting import Suggesting
from drike.gateway.control.trials import Trials, decision_json
from drike.gateway.editing import RequestEditor
from drike.gateway.errors import RequestError, UpstreamError
from drike.gateway.health import (
    EditHealth,
    counts_of_health,
    health_of_edits,
    of_days,
    shadow_report,
)
from drike.gateway.http.admission import permit
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.relay import read_values
from drike.gateway.http.server import file_shortage
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.metrics import Metrics
from drike.gateway.options import Switch, switch, switches
from drike.gateway.tenants import Tenants
from drike.stores.approvals import approvers
from drike.stores.edit_store import required_approvals, versions_of
from drike.stores.finding import Search, find
from drike.stores.moves import due
from drike.stores.traffic import Counts, TrafficCounts
from drike.support.records import read
from drike.support.table import counted

Endpoint = Callable[[AdminCall], Awaitable[Json]]

_UNKEPT = {"cache-control": "no-store"}
_MAX_LISTED = 500
_MOST_OF_EDIT = 20  # unanswered questions of an edit that are listed
_SECONDS_TO_JUDGE = 1.0  # what has passed, before health is shown
_MAX_DAYS = 36_600
_PAGE = Path(__file__).parent / "page"  # static files that hold no data
# The files of the page: where each is found, and of what type it is.
_PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/edit.js": ("edit.js", "text/javascript"),
    "/inbox.js": ("inbox.js", "text/javascript"),
}
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def application(admin: Admin) -> Starlette:
    """The admin application; its lifespan is also the gateway's."""
    routes = [
        Route("/healthz", _json({"healthy": True}), methods=["GET"]),
        Route("/readyz", admin.ready),
        Route("/metrics", admin.counts),
    ]
    for path, (name, media_type) in _PAGE_FILES.items():
        file = Response((_PAGE / name).read_bytes(), 200, _PAGE_HEADERS, media_type)
        routes.append(Route(path, file, methods=["GET"]))
    for methods, path, endpoint in _endpoints(admin, Trials(admin.editor, admin.upstream)):
        handler = partial(admin.of_tenant, endpoint)
        routes.append(Route(f"/admin/v1{path}", handler, methods=methods.split()))

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


def _endpoints(admin: Admin, trials: Trials) -> tuple[tuple[str, str, Endpoint], ...]:
    """The methods and the path of each endpoint that knows the sender's tenant."""
    suggesting = Suggesting(trials)
    return (
        ("GET", "/status", admin.status),
        ("GET", "/edits", admin.edits),
        ("POST", "/edits", changes.add),
        ("POST", "/names", changes.names),
        ("GET", "/edits/{id}", admin.versions),
        ("POST", "/edits/{id}/verify", trials.verify),
        ("GET POST", "/edits/{id}/alike", alike),
        ("POST", "/edits/{id}/suggest", suggesting.suggest),
        ("POST", "/edits/{id}/suggested", suggesting.keep),
        ("POST", "/edits/{id}/{change}", changes.change),
        ("GET", "/inbox", changes.inbox),
        ("GET", "/inbox/{number:int}", changes.report),
        ("POST", "/inbox/draft", changes.draft),
        ("POST", "/inbox/close", changes.close),
        ("POST", "/inbox/wrong", changes.wrong),
        ("GET POST", "/approvals", changes.approvals),
        ("GET", "/decide", trials.decide),
        ("POST", "/try", trials.ask),
        ("GET", "/fired", admin.matched),
        ("GET", "/unanswered", admin.unanswered),
        ("GET POST", "/mode", admin.mode),
        ("GET", "/health", admin.health),
        ("GET", "/calibration", admin.calibration),
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
            response = _error(problem.status, problem.code, str(problem))
            if problem.status == 429:
                response.headers["retry-after"] = str(problem.retry_after)
            return response
        case ConflictError():
            rivals = [edit_json(edit) for edit in problem.rivals]
            return _error(409, "conflict", str(problem), rivals=rivals, repeated=problem.repeated)
        case UnavailableError():
            return _error(503, "unavailable", str(problem))
    return _error(400, "bad_request", str(problem))


def _no_shortage() -> str | None:
    """Nothing is known of another port."""
    return None


@dataclass(frozen=True, eq=False)
class Admin:
    """The endpoints.

    keys: None admits everyone on this machine. shortage: why the gateway's own port would refuse
    all requests now, if it would.
    """

    editor: RequestEditor
    upstream: Upstream
    tenants: Tenants
    metrics: Metrics
    keys: Keys | None = None
    shortage: Callable[[], str | None] = _no_shortage
    _curves: dict[str, tuple[EditIndex, tuple[Bin, ...]]] = field(default_factory=dict)

    async def of_tenant(self, endpoint: Endpoint, request: Request) -> Response:
        """What an endpoint answers, given the edits of the sender's tenant."""
        principal = permit(request, KeyRole.PROPOSE, self.keys)
        values = await read_values(request) if request.method == "POST" else {}
        feed = await self.tenants.feed(principal.tenant)
        return _json(await endpoint(AdminCall(request, principal, feed, values)))

    async def status(self, call: AdminCall) -> Json:
        """What the gateway is doing."""
        feed = call.feed
        principal = call.principal
        return {
            "mode": self.editor.mode_for(feed),
            "share": feed.switch.share,
            "upstream": self.upstream.name,
            "tenant": principal.tenant,
            "role": principal.role,
            "problems": await self._problems(self.tenants.problems_shown_to(principal)),
            "edits": len(feed.index.edits),
            "revision": feed.snapshot.revision,
        }

    async def edits(self, call: AdminCall) -> Json:
        """Edits that hold all words of q.

        status, owner, subject: only those with these. due: only with a review within so many days.
        """
        params = call.request.query_params
        due_by = None
        if "due" in params:
            days = min(call.number("due", 0), _MAX_DAYS)
            due_by = stamp(datetime.now(UTC) + timedelta(days=days))
        search = Search(
            params.get("q", ""),
            params.get("status"),
            params.get("owner"),
            params.get("subject"),
            due_by,
        )
        found = await in_daemon_thread(find, call.feed.snapshot, search)
        first = call.number("after", 0)
        limit = min(call.number("limit", 50), _MAX_LISTED)
        listed = found[first : first + limit]
        return {
            "edits": [edit_json(edit, call.feed) for edit in listed],
            "total": len(found),
        }

    async def versions(self, call: AdminCall) -> Json:
        """All versions of an edit, and who has approved what is proposed."""
        feed = call.feed
        if call.id not in feed.snapshot.edits:
            raise RequestError(404, "no_such_edit", f"there is no edit {call.id}")

        def work() -> tuple[Sequence[EditVersion], int]:
            return versions_of(feed.store, call.id), required_approvals(feed.store)

        versions, needed = await call.read(work)
        latest = versions[-1].record
        approvals = None
        if latest.status is Status.PROPOSED:
            proposed = replace(latest, status=latest.approved_as)
            approvals = {"needed": needed, "by": sorted(approvers(versions, proposed))}
        listed = [edit_json(version, feed) for version in versions]
        return {"versions": listed, "approvals": approvals}

    async def matched(self, call: AdminCall) -> Json:
        """The last decisions on requests."""
        limit = call.number("limit", 50)
        listed: Json = {}
        for name, decisions in (("fired", call.feed.matched), ("missed", call.feed.missed)):
            latest_first = list(decisions)[::-1]
            listed[name] = [
                vars(decided) | {"decision": decision_json(decided.decision, call.feed)}
                for decided in latest_first[:limit]
            ]
        return listed

    async def unanswered(self, call: AdminCall) -> Json:
        """By edit, the questions that named its subject and got nothing, the most asked first."""
        feed = call.feed
        limit = call.number("limit", 50)
        by_edit = await in_daemon_thread(feed.unanswered.by_edit, feed.index)
        listed = [
            {
                "edit": edit_json(feed.index.edits[edit_id], feed),
                "asked": sum(question.asked for question in questions),
                "questions": [asdict(question) for question in questions[:_MOST_OF_EDIT]],
            }
            for edit_id, questions in list(by_edit.items())[:limit]
            if edit_id in feed.index.edits
        ]
        return {"edits": listed}

    async def mode(self, call: AdminCall) -> Json:
        """The mode of the tenant's requests, which POST switches, and all earlier switches."""
        feed = call.feed
        if call.request.method == "POST":
            call.require(KeyRole.APPROVE)
            new = _switch_of(call)
            await call.write(lambda store: switch(store, new))
        made = await call.read(lambda: switches(feed.store))
        return {
            "mode": self.editor.mode_for(feed),
            "share": feed.switch.share,
            "started": self.editor.mode,
            "switched": [asdict(each) for each in reversed(made)],
        }

    async def health(self, call: AdminCall) -> Json:
        """How edits fared in the answers of the last days, and what the requests in shadow say."""
        feed = call.feed
        days = min(max(call.number("days", 7), 1), 400)
        today = datetime.now(UTC).date()
        first_day = today - timedelta(days=days - 1)

        def work() -> tuple[list[EditHealth], Counts]:
            feed.watch.flush(feed.store, _SECONDS_TO_JUDGE)
            counts = counts_of_health(TrafficCounts(feed.store.database), today, days)
            health = health_of_edits(feed.snapshot, counts, first_day=first_day)
            return health, of_days(counts, first_day)

        edits, counts = await call.read(work)
        sentences, in_shadow = shadow_report(feed.snapshot, counts)
        return {
            "edits": [edit.values for edit in edits[:_MAX_LISTED]],
            "shadow": [edit.values for edit in in_shadow[:_MAX_LISTED]],
            "sentences": sentences,
            "problem": feed.watch.problem or _of_waiting(feed.watch.waiting),
        }

    async def calibration(self, call: AdminCall) -> Json:
        """How well the gate's probabilities hold on the tenant's own texts."""
        index = call.feed.index
        tenant = call.principal.tenant
        index_of_bins, bins = self._curves.get(tenant, (None, ()))
        if index_of_bins is not index:
            bins = await in_daemon_thread(curve, call.feed.gate, index)
            self._curves[tenant] = index, bins
        return {"bins": [asdict(bin) for bin in bins]}

    async def ready(self, request: Request) -> Response:
        """Whether requests of the default tenant would be answered."""
        problems = await self._problems(self.tenants.public_problems)
        if problems:
            return _json({"ready": False, "problems": problems}, 503)
        return _json({"ready": True})

    async def counts(self, request: Request) -> Response:
        """All metrics."""
        permit(request, KeyRole.ADMIN, self.keys)
        feeds = tuple(self.tenants.feeds.values())
        now = datetime.now(UTC)
        self.metrics.edits.set(sum(len(feed.index.edits) for feed in feeds))
        self.metrics.proposed.set(sum(len(feed.snapshot.proposals) for feed in feeds))
        self.metrics.due.set(sum(len(due(feed.snapshot, now)) for feed in feeds))
        return Response(
            generate_latest(self.metrics.registry),
            media_type="text/plain; version=0.0.4",
            headers=_UNKEPT,
        )

    async def _problems(self, problems_of_edits: Sequence[str]) -> list[str]:
        """What is wrong with the upstream, this process, and the edits."""
        problems = (await self.upstream.problem(), file_shortage(), self.shortage())
        return [*(problem for problem in problems if problem), *problems_of_edits]


def _switch_of(call: AdminCall) -> Switch:
    """The switch of the mode that a request asks for. Raises ValueError."""
    values = call.values
    if "mode" not in values or values.keys() - {"mode", "share", "reason"}:
        raise ValueError(
            "give mode (null takes a switch back), share and reason if you like, and nothing else"
        )
    author = {"author": call.principal.author, "at": ""}
    new = read(Switch, {"share": 1.0, "reason": None, **values, **author})
    if not 0 <= new.share <= 1:
        raise ValueError("share must be between 0 and 1")
    return new


def _error(status: int, code: str, sentence: str, **more: object) -> Response:
    return _json({"error": {"message": sentence, "code": code}, **more}, status)


def _json(value: object, status: int = 200) -> Response:
    """JSON that nothing on the way keeps: it is of this moment, and for one key."""
    return Response(json.dumps(value), status, _UNKEPT, "application/json")


def _of_waiting(answers: int) -> str | None:
    """That some answers are missing in the counts; None if none is."""
    return f"{counted(answers, 'answer')} not judged yet: look again" if answers else None
