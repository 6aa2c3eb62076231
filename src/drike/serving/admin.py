"""The admin application, on a port of its own: the edits of a tenant, decisions and their reasons, health and metrics.

Everything is JSON; errors are {"error": {"message", "code"}}. POST takes `Content-Type: application/json`. Where keys
are in use, a request needs `Authorization: Bearer KEY` with a key for `edit`; its tenant's edits are all it sees.

    GET  /admin/v1/status                 {"mode", "upstream", "problems": [...], "edits", "revision", "tenant", "role"}
    GET  /admin/v1/edits?q=&status=&after=&limit=   {"edits": [EDIT...], "total"}; newest first, retired ones only if
                                          status=retired or status=all; q: words of names, query or object;
                                          after: leave out this many; limit: at most (default 50, 500 at most)
    GET  /admin/v1/edits/ID               {"versions": [EDIT...]}, the latest last
    POST /admin/v1/edits                  the fields of an edit, and "supersede": true to retire those it contradicts
                                          -> {"changes": [EDIT...]}, the new one last. 409 where it contradicts or
                                          repeats active edits: {"error", "rivals": [EDIT...], "repeated"}
    POST /admin/v1/edits/ID/retire        {"reason"?}
    POST /admin/v1/edits/ID/rollback      {"version"?, "reason"?}
    POST /admin/v1/edits/ID/negatives     {"text", "reason"?}: never fire on this
    POST /admin/v1/edits/ID/wordings      {"text", "reason"?}: should have fired
                                          all four -> {"changes": [EDIT...]}
    GET  /admin/v1/decide?q=TEXT&model=&ask=   DECISION; changes and keeps nothing. Where the gateway asks the upstream
                                          in doubt, so does this; not with ask=no
    POST /admin/v1/try                    {"query", "model"?, "max_tokens"?} -> {"decision", "before", "after"}: asks
                                          the upstream twice, in chat, without and with the edits that fire
    GET  /admin/v1/fired?limit=           {"fired": [SEEN...], "missed": [SEEN...]}, the last ones first; missed are
                                          those that considered an edit. They are kept in memory only, 200 of each
    GET  /admin/v1/calibration            {"bins": [{"probability", "share", "count"}...]}: the gate on the
                                          store's own wordings and negative exemplars (see `reliability.curve`)
    GET  /          a page for all this
    GET  /healthz   200 while the process answers
    GET  /readyz    200 {"ready": true}, or 503 {"ready": false, "problems": [...]}
    GET  /metrics   for Prometheus; a key for `admin` where keys are in use

    EDIT      the fields of an entry (docs/edits.md) and "id", "version", "created_at", "number", "in_force"
    DECISION  {"query", "fired": [EDIT...], "considered": [{"edit": EDIT, "probability", "name", "features"}...],
              "reason"}; where the upstream was asked in doubt, one that is considered has "answer": yes, no or failed
    SEEN      {"at", "request", "decision": DECISION}

A change is in force in this gateway when it is acknowledged. No request of a chat ever changes an edit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from drike.errors import DrikeError
from drike.gates.decision import Decision
from drike.gates.index import EditIndex
from drike.gates.names import words
from drike.gates.reliability import Bin, curve
from drike.models.served.address import is_loopback
from drike.serving import page
from drike.serving.feed import EditFeed, Seen
from drike.serving.gateway import Gateway, bearer
from drike.serving.keys import Principal, Role
from drike.serving.relay import RequestError
from drike.serving.tenants import Tenants
from drike.serving.upstream import Call, UpstreamError
from drike.stores import log as stores
from drike.stores.records import ConflictError, EditVersion, Status, UnavailableError, entry_of

_LARGEST = 1 << 20  # bytes of a request
_MOST_LISTED, _SHOWN_CANDIDATES = 500, 10
_CHAT = Call("POST", "/chat/completions", [(b"content-type", b"application/json")], b"")
Endpoint = Callable[[Request], Awaitable[Response]]


def application(gateway: Gateway, tenants: Tenants) -> Starlette:
    """The admin application; its lifespan is also the gateway's."""
    admin = Admin(gateway, tenants)
    edit = "/admin/v1/edits/{id:int}"
    routes = [
        *page.routes(),
        Route("/admin/v1/status", admin.guarded(admin.status)),
        Route("/admin/v1/edits", admin.guarded(admin.edits), methods=["GET"]),
        Route("/admin/v1/edits", admin.guarded(admin.add), methods=["POST"]),
        Route(edit, admin.guarded(admin.versions)),
        Route(edit + "/{change:str}", admin.guarded(admin.change), methods=["POST"]),
        Route("/admin/v1/decide", admin.guarded(admin.decide)),
        Route("/admin/v1/try", admin.guarded(admin.ask), methods=["POST"]),
        Route("/admin/v1/fired", admin.guarded(admin.matched)),
        Route("/admin/v1/calibration", admin.guarded(admin.calibration)),
        Route("/healthz", healthy),
        Route("/readyz", admin.ready),
        Route("/metrics", admin.guarded(admin.metrics, Role.ADMIN)),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await gateway.upstream.open()
        following = asyncio.create_task(tenants.follow())
        yield
        following.cancel()
        await gateway.upstream.close()
        gateway.close()

    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: not_offered})


async def not_offered(request: Request, problem: Exception) -> Response:
    """Refuse a path or a method that no route has."""
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    return _error(status, "no_such_path", f"the admin port does not offer {request.method} {request.url.path}")


async def healthy(request: Request) -> Response:
    """Say that the process answers."""
    return JSONResponse({"healthy": True})


class Admin:
    """The endpoints, for one gateway and its tenants."""

    def __init__(self, gateway: Gateway, tenants: Tenants) -> None:
        self._gateway = gateway
        self._tenants = tenants
        self._curves: dict[str, tuple[EditIndex, tuple[Bin, ...]]] = {}

    def guarded(self, endpoint: Callable[[Request, Principal], Awaitable[Any]], role: Role = Role.EDIT) -> Endpoint:
        """The endpoint for requests that may ask it, with errors as JSON."""

        async def answer(request: Request) -> Response:
            try:
                result = await endpoint(request, self._permit(request, role))
                return result if isinstance(result, Response) else JSONResponse(result)
            except RequestError as problem:
                return _error(problem.status, problem.code, str(problem))
            except ConflictError as problem:
                more = {"rivals": [_edit(one) for one in problem.rivals], "repeated": problem.repeated}
                return _error(409, "conflict", str(problem), **more)
            except UnavailableError as problem:
                return _error(503, "unavailable", str(problem))
            except (DrikeError, ValueError) as problem:
                return _error(400, "bad_request", str(problem))

        return answer

    async def status(self, request: Request, grant: Principal) -> dict[str, object]:
        """What the gateway is doing."""
        live = await self._live(grant)
        return {
            "mode": self._gateway.settings.mode, "upstream": self._gateway.upstream.name, "tenant": grant.tenant,
            "role": grant.role, "problems": await self._problems(), "edits": len(live.index.edits),
            "revision": live.snapshot.revision,
        }  # fmt: skip

    async def edits(self, request: Request, grant: Principal) -> dict[str, object]:
        """Edits that hold all words of q."""
        live = await self._live(grant)
        asked, status = set(words(request.query_params.get("q", ""))), request.query_params.get("status")
        if status not in (None, "all", *Status):
            raise RequestError(400, "bad_request", f"status is all, {', '.join(Status)}")
        found = await asyncio.to_thread(_matching, live, asked, status)
        after, limit = _number(request, "after", 0), min(_number(request, "limit", 50), _MOST_LISTED)
        return {"edits": [_edit(one, live) for one in found[after : after + limit]], "total": len(found)}

    async def versions(self, request: Request, grant: Principal) -> dict[str, object]:
        """All versions of an edit."""
        live = await self._live(grant)
        if request.path_params["id"] not in live.snapshot.edits:
            raise RequestError(404, "no_such_edit", f"there is no edit {request.path_params['id']}")
        found = await asyncio.to_thread(stores.versions, live.store, request.path_params["id"])
        return {"versions": [_edit(one, live) for one in found]}

    async def add(self, request: Request, grant: Principal) -> dict[str, object]:
        """Add an edit."""
        values = await _body(request)
        supersede = values.pop("supersede", False) is True
        entry = entry_of(values)
        entry = replace(entry, author=_author(grant, entry.author))
        return await self._write(grant, lambda live: live.store.put(entry, supersede=supersede))

    async def change(self, request: Request, grant: Principal) -> dict[str, object]:
        """Make a new version of an edit."""
        values, how, id = await _body(request), request.path_params["change"], request.path_params["id"]
        reason, text = values.get("reason"), values.get("text")
        if not isinstance(reason, str | None):
            raise RequestError(400, "bad_request", "reason is no text")
        author = _author(grant)
        if how == "retire":
            return await self._write(grant, lambda live: stores.retire(live.store, id, author=author, reason=reason))
        if how == "rollback":
            version = values.get("version")
            if type(version) not in (int, type(None)):
                raise RequestError(400, "bad_request", "version is no number")
            return await self._write(
                grant, lambda live: stores.rollback(live.store, id, version, author=author, reason=reason)
            )
        if how not in ("negatives", "wordings"):
            raise RequestError(404, "no_such_path", f"an edit has no {how}")
        if not isinstance(text, str):
            raise RequestError(400, "bad_request", "text is missing")

        def append(live: EditFeed) -> Sequence[EditVersion]:
            *_, latest = stores.versions(live.store, id)
            entry = replace(latest.record, author=author, reason=reason)
            entry = (
                replace(entry, negatives=(*entry.negatives, text))
                if how == "negatives"
                else replace(entry, wordings=(*entry.wordings, text))
            )
            return live.store.put(entry, replaces=latest)

        return await self._write(grant, append)

    async def decide(self, request: Request, grant: Principal) -> dict[str, object]:
        """The decision on a query, which is not kept."""
        live, given = await self._live(grant), request.query_params
        query, ask = given.get("q", ""), given.get("ask") != "no"
        decision = await self._decided(live, _chat(given.get("model", "default"), query), ask=ask)
        return _decision(decision, live)

    async def ask(self, request: Request, grant: Principal) -> dict[str, object]:
        """Ask the upstream without and with the edits that fire."""
        values = await _body(request)
        query, model, most = values.get("query"), values.get("model", "default"), values.get("max_tokens", 64)
        if not isinstance(query, str) or not isinstance(model, str) or type(most) is not int:
            raise RequestError(400, "bad_request", "query, model or max_tokens is missing, or is not of its type")
        live = await self._live(grant)
        chat = _chat(model, query, max_tokens=most)
        decision = await self._decided(live, chat)
        body = json.dumps(chat).encode()
        after = await asyncio.to_thread(self._gateway.edited, b"/chat/completions", body, decision)
        calls = [replace(_CHAT, body=one) for one in dict.fromkeys((body, after))]
        texts = [await self._answer(call) for call in calls]
        found = _decision(decision, live)
        return {"decision": found, "before": texts[0], "after": texts[-1]}

    async def matched(self, request: Request, grant: Principal) -> dict[str, object]:
        """The last decisions on requests."""
        live, limit = await self._live(grant), _number(request, "limit", 50)
        return {
            name: [_seen(one, live) for one in list(seen)[::-1][:limit]]
            for name, seen in (("fired", live.matched), ("missed", live.missed))
        }

    async def calibration(self, request: Request, grant: Principal) -> dict[str, object]:
        """How well the gate's probabilities hold on the tenant's own texts."""
        live = await self._live(grant)
        index, bins = self._curves.get(grant.tenant, (None, ()))
        if index is not live.index:
            index = live.index
            bins = await asyncio.to_thread(curve, live.gate, index)
            self._curves[grant.tenant] = index, bins
        return {"bins": [asdict(one) for one in bins]}

    async def ready(self, request: Request) -> Response:
        """Whether requests would be answered."""
        problems = await self._problems()
        if not problems:
            return JSONResponse({"ready": True})
        return JSONResponse({"ready": False, "problems": problems}, 503)

    async def metrics(self, request: Request, grant: Principal) -> Response:
        """Everything that is counted."""
        metrics = self._gateway.metrics
        metrics.edits.set(sum(len(live.index.edits) for live in self._tenants.lives.values()))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    def _permit(self, request: Request, role: Role) -> Principal:
        """Check host, origin, key and type of content. Raises RequestError."""
        keyless = self._tenants.keys is None
        host = request.headers.get("host", "")
        if keyless and not is_loopback(request.url.hostname):
            raise RequestError(403, "wrong_host", "without keys this port answers on localhost and 127.0.0.1 only")
        origin = request.headers.get("origin")
        embedded = request.headers.get("sec-fetch-site") == "cross-site"  # as an image: such a GET has no Origin
        if embedded or (origin and origin.partition("://")[2] != host):
            raise RequestError(403, "wrong_origin", "another site's page may not ask this")
        if request.method == "POST" and not request.headers.get("content-type", "").startswith("application/json"):
            raise RequestError(415, "wrong_type", "send Content-Type: application/json")
        grant = self._gateway.access(bearer(request.scope))
        if grant is None or not grant.role.includes(role):
            status, code = (401, "invalid_api_key") if grant is None else (403, "forbidden")
            raise RequestError(status, code, f"this needs a key for {role}: send it as Authorization: Bearer KEY")
        return grant

    async def _live(self, grant: Principal) -> EditFeed:
        return await self._tenants.live(grant.tenant)

    async def _problems(self) -> list[str]:
        upstream = await self._gateway.upstream.problem()
        return [*([upstream] if upstream else []), *self._tenants.problems()]

    async def _write(self, grant: Principal, make: Callable[[EditFeed], Sequence[EditVersion]]) -> dict[str, object]:
        """Make changes, and answer when they are in force here."""
        live = await self._live(grant)

        def work() -> dict[str, object]:
            changes = make(live)
            live.refresh()
            return {"changes": [_edit(one, live) for one in changes]}

        return await asyncio.to_thread(work)

    async def _decided(self, live: EditFeed, chat: dict[str, Any], *, ask: bool = True) -> Decision:
        """The decision on a chat, as the gateway makes it. ask: ask the upstream in doubt, if the gateway does."""
        decision = await asyncio.to_thread(live.decide, [chat["messages"][0]["content"]])
        if not (ask and self._gateway.settings.ask and decision.uncertain):
            return decision
        return await self._gateway.resolved(decision, _CHAT, chat, self._gateway.deadline(live))

    async def _answer(self, call: Call) -> str:
        """The text of the upstream's answer. Raises RequestError."""
        try:
            async with self._gateway.upstream.exchange(call) as reply:
                raw = b"".join([chunk async for chunk in reply.chunks])
            found = json.loads(raw)
            return str(found["choices"][0]["message"]["content"] if reply.status == 200 else found["error"]["message"])
        except UpstreamError as error:
            raise RequestError(error.status, "upstream_error", str(error)) from None
        except (ValueError, LookupError, TypeError):
            raise RequestError(502, "upstream_error", "the upstream's answer is not in OpenAI's form") from None


def _chat(model: str, query: str, **more: object) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": query}], **more}


def _error(status: int, code: str, sentence: str, **more: object) -> Response:
    return JSONResponse({"error": {"message": sentence, "code": code}, **more}, status)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request. Raises RequestError."""
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _LARGEST:
            raise RequestError(413, "body_too_large", "the body has more than 1 MB")
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestError(400, "bad_request", "the body is no JSON object")
    return found


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RequestError(400, "bad_request", f"{name} is a number")
    return int(text)


def _matching(live: EditFeed, asked: set[str], status: str | None) -> Sequence[EditVersion]:
    """Edits with this status that hold all these words, the latest change first."""
    edits = sorted(live.snapshot.edits.values(), key=lambda one: -one.number)
    if status is None:
        edits = [one for one in edits if one.record.status is not Status.RETIRED]
    elif status != "all":
        edits = [one for one in edits if one.record.status == status]
    texts = (" ".join((*one.record.names, one.record.query, one.record.target_new, str(one.id))) for one in edits)
    return [one for one, text in zip(edits, texts, strict=True) if asked <= set(words(text))] if asked else edits


def _author(grant: Principal, claimed: str | None = None) -> str:
    """Who made a change, for the history: the key, whatever name its holder gives."""
    who = f"key {grant.key}" if grant.key else f"admin port, {grant.tenant}"
    return who if claimed is None else f"{claimed} ({who})"


def _edit(stored: EditVersion, live: EditFeed | None = None) -> dict[str, object]:
    versions = {"id": stored.id, "version": stored.version, "created_at": stored.created_at, "number": stored.number}
    return {**versions, **asdict(stored.record), **({} if live is None else {"in_force": live.has(stored)})}


def _decision(decision: Decision, live: EditFeed) -> dict[str, object]:
    candidates = [
        {
            "edit": _edit(one.edit, live),
            "probability": one.probability,
            "name": one.name,
            "features": dict(one.features),
            **({"answer": one.answer} if one.answer else {}),
        }
        for one in decision.candidates[:_SHOWN_CANDIDATES]
    ]
    matched = [_edit(one, live) for one in decision.matched]
    return {"query": decision.query, "fired": matched, "considered": candidates, "reason": decision.reason}


def _seen(seen: Seen, live: EditFeed) -> dict[str, object]:
    return {"at": seen.at, "request": seen.request, "decision": _decision(seen.decision, live)}
