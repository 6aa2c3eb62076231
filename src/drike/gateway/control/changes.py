"""What people do on the admin port: change edits, and work on reports of wrong answers."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from drike.edits.record import EditRecord, EditVersion, Status, UnavailableError
from drike.edits.record_json import fields_of, record_of, to_values
from drike.edits.times import stamp
from drike.gates.edit_names import short_names
from drike.gateway.errors import RequestError
from drike.gateway.feed import EditFeed
from drike.gateway.health import summary
from drike.gateway.http.keys import KeyRole, Principal
from drike.gateway.http.relay import while_connected
from drike.gateway.http.threads import in_daemon_thread
from drike.live import drafts
from drike.stores import moves
from drike.stores.approvals import carried_author, claimed_author
from drike.stores.authorship import changeable
from drike.stores.edit_store import (
    APPROVALS_SET,
    EditStore,
    require_approvals,
    required_approvals,
    versions_of,
)
from drike.stores.inbox import MOST_PAGED, Inbox, ReportState
from drike.support.records import read
from drike.text.words import MAX_NAME

SECONDS_FOR_STORE = 5.0  # that others may hold
Json = dict[str, Any]
Result = TypeVar("Result")
Make = Callable[[EditStore], Sequence[EditVersion] | None]

# Changes that add a text, and the field of a record that they add it to.
_TEXTS = {"negatives": "negatives", "wordings": "paraphrases"}
# Who may propose may add texts and change fields, too: for them these are proposals.
_ROLES = {
    **dict.fromkeys(("propose", "change", *_TEXTS), KeyRole.PROPOSE),
    **dict.fromkeys(
        ("approve", "reject", "review", "retire", "rollback", "status"), KeyRole.APPROVE
    ),
}
_MOST_SHORT_NAMES = 50  # that are shown of an edit
_STATUSES = (Status.DRAFT, Status.SHADOW, Status.ACTIVE)


@dataclass(frozen=True)
class AdminCall:
    """A request that its sender may send. feed: the edits that it sees. values: what it posts."""

    request: Request
    principal: Principal
    feed: EditFeed
    values: Json

    @property
    def id(self) -> int:
        """The edit that the path names. Raises RequestError for what no store uses as an id."""
        text = self.request.path_params["id"]
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise RequestError(
                404, "no_such_edit", f"there is no edit {text:.40}: ids are whole numbers"
            )
        return int(text)

    def number(self, name: str, default: int) -> int:
        """A number in the address. Raises ValueError."""
        text = self.request.query_params.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise ValueError(f"{name} must be a number")
        return int(text)

    def field(self, name: str, kind: type) -> Any:
        """A field of what was posted; None if it is missing. Raises ValueError for another type."""
        value = self.values.get(name)
        if type(value) not in (kind, type(None)):
            raise ValueError(f"{name} must be a {'text' if kind is str else 'number'}")
        return value

    def require(self, role: KeyRole) -> None:
        """Raise RequestError if the sender may not do what the role is for."""
        if not self.principal.role.includes(role):
            raise RequestError(
                403, "forbidden", f"this needs a key for {role}: ask somebody who has one"
            )

    async def write(self, make: Make, *, of_inbox: bool = False) -> Json:
        """Make changes, all or none, and answer once they are in force.

        None are made if the store is late, or the client has hung up. of_inbox: whether they change
        reports, too. Raises StoreError.
        """
        # Of the changes and what gives them up, the first to take it decides.
        settled = threading.Lock()

        def work() -> Sequence[EditVersion]:
            store = self.feed.store
            inbox = Inbox(store.database).transaction() if of_inbox else nullcontext()
            with inbox, store.transaction():
                changes = make(self.feed.store) or ()
                if not settled.acquire(blocking=False):
                    raise UnavailableError("the change was given up")
            self.feed.refresh()
            return changes

        working = asyncio.ensure_future(in_daemon_thread(work))
        try:
            async with asyncio.timeout(SECONDS_FOR_STORE), while_connected(self.request.receive):
                changes = await asyncio.shield(working)
        except (TimeoutError, ClientDisconnect):
            working.add_done_callback(lambda done: done.exception())  # nobody else may ask for it
            if settled.acquire(blocking=False):
                raise self.late("nothing was changed, try again") from None
            changes = await working  # it is being committed
        return {"changes": [edit_json(edit, self.feed) for edit in changes]}

    async def read(self, work: Callable[[], Result]) -> Result:
        """What work returns that reads the store. Raises StoreError if the store is late."""
        try:
            async with asyncio.timeout(SECONDS_FOR_STORE):
                return await in_daemon_thread(work)
        except TimeoutError:
            raise self.late("try again") from None

    def late(self, outcome: str) -> UnavailableError:
        """The error of a store that is locked."""
        return UnavailableError(
            f"{self.feed.store.name} did not answer within {SECONDS_FOR_STORE:g} s: {outcome}"
        )


async def names(call: AdminCall) -> Json:
    """The short forms by which an edit would be found beside its subject and aliases."""
    call.require(KeyRole.PROPOSE)
    record = record_of({"target_new": "", **call.values})
    if any(len(name) > MAX_NAME for name in record.names):
        raise ValueError(f"a name has more than {MAX_NAME} characters: shorten it")
    return {"short": short_names(record)[:_MOST_SHORT_NAMES]}


async def add(call: AdminCall) -> Json:
    """Add an edit.

    It is a proposal where its author may not decide, or the store requires approvals.
    """
    principal = call.principal
    fields = dict(call.values)
    supersede = fields.pop("supersede", False) is True
    record = record_of(fields)
    if principal.name:
        author = carried_author(record.author, principal.author)
    elif record.author is None:
        author = principal.author
    else:
        author = claimed_author(record.author, principal.author)
    record = replace(record, author=author, move=None)
    if not (record.status.in_use or record.status in (Status.DRAFT, Status.PROPOSED)):
        call.require(KeyRole.APPROVE)
    decides = principal.role.includes(KeyRole.APPROVE)

    def put(store: EditStore) -> Sequence[EditVersion]:
        entering = moves.entering(store, record, decides=decides)
        return store.put(entering, supersede=supersede)

    return await call.write(put)


async def change(call: AdminCall) -> Json:
    """Make a new version of an edit.

    Raises RequestError, and ValueError for values that do not suit the change.
    """
    edit_id = call.id
    name = call.request.path_params["change"]
    if name not in _ROLES:
        raise RequestError(404, "no_such_path", f"an edit has no {name}")
    call.require(_ROLES[name])
    why = {"author": call.principal.author, "reason": call.field("reason", str)}
    version = call.field("version", int)
    if name == "approve" and version is None:
        raise ValueError("version is missing: give the number of the version that you have seen")
    until = call.field("until", str)
    supersede = call.values.get("supersede") is True
    into = call.values.get("into")
    status = None if into is None else read(Status, into)
    acts: Mapping[str, Make] = {
        "propose": lambda store: moves.propose(store, edit_id, into=status, **why),
        "approve": lambda store: moves.approve(
            store, edit_id, version=version, supersede=supersede, **why
        ),
        "reject": lambda store: moves.reject(store, edit_id, version=version, **why),
        "review": lambda store: moves.review(store, edit_id, until=until, **why),
        "retire": lambda store: moves.retire(store, edit_id, **why),
        "rollback": lambda store: moves.rollback(store, edit_id, version, **why),
    }
    if name in acts:
        return await call.write(acts[name])

    changes_of = _changes(name, call)
    may_decide = call.principal.role.includes(KeyRole.APPROVE)
    is_proposal = call.values.get("propose") is True or not may_decide

    def make(store: EditStore) -> Sequence[EditVersion]:
        record = changeable(versions_of(store, edit_id)) if name in _TEXTS else None
        return moves.change(
            store,
            edit_id,
            changes_of(record),
            propose=is_proposal,
            version=version,
            supersede=supersede,
            **why,
        )

    return await call.write(make)


def _changes(name: str, call: AdminCall) -> Callable[[EditRecord | None], dict[str, Any]]:
    """The fields that a change sets, given the record if it adds a text. Raises ValueError."""
    if name == "change":
        fields = fields_of(call.values.get("changes"))
        return lambda record: dict(fields)
    if name == "status":
        status = read(Status, call.values.get("status", ""))
        if status not in _STATUSES:
            raise ValueError(
                f"status is {', '.join(_STATUSES)}; for {status} there are other moves"
            )
        return lambda record: {"status": status}
    text = call.field("text", str)
    if text is None:
        raise ValueError("text is missing")
    field = _TEXTS[name]
    return lambda record: {field: (*getattr(record, field), text)}


async def approvals(call: AdminCall) -> Json:
    """How many people must approve what an edit says, which POST sets."""
    store = call.feed.store
    if call.request.method == "POST":
        call.require(KeyRole.ADMIN)
        number = call.field("needed", int)
        if number is None or not 0 <= number <= moves.MOST_APPROVALS:
            raise ValueError(f"needed must be a number from 0 to {moves.MOST_APPROVALS}")
        await call.write(lambda store: require_approvals(store, number, call.principal.author))

    def work() -> Json:
        history = store.settings.history(APPROVALS_SET)
        return {"needed": required_approvals(store), "set": history[::-1]}

    return await call.read(work)


async def inbox(call: AdminCall) -> Json:
    """A page of open reports, or of those of another state, in groups.

    It has `next` if there are more, which is given as `after` to see them.
    """
    state = read(ReportState, call.request.query_params.get("state", ReportState.OPEN))
    after = call.number("after", 0)
    most = min(max(call.number("limit", MOST_PAGED), 1), MOST_PAGED)

    def work() -> Json:
        page = Inbox(call.feed.store.database).page(state, after=after, most=most)
        listed = [
            {"edit": g.edit and summary(g.edit), "reports": list(map(asdict, g.reports))}
            for g in drafts.grouped(page.reports, call.feed.index)
        ]
        shown: Json = {"groups": listed, "total": page.total}
        return shown if page.next is None else {**shown, "next": page.next}

    return await call.read(work)


async def report(call: AdminCall) -> Json:
    """A report."""
    number = call.request.path_params["number"]
    found = await call.read(lambda: Inbox(call.feed.store.database).report(number))
    return asdict(found)


async def draft(call: AdminCall) -> Json:
    """Draft an edit from reports of the same, and close them."""
    numbers = _numbers(call)
    author = call.principal.author
    return await call.write(
        lambda store: drafts.draft(store, numbers, call.feed.index, author=author), of_inbox=True
    )


async def close(call: AdminCall) -> Json:
    """Close reports, all or none, for a reason."""
    reason = call.field("reason", str)
    author = call.principal.author
    return await _for_each(
        call,
        lambda store, number: Inbox(store.database).close(number, author=author, reason=reason),
    )


async def wrong(call: AdminCall) -> Json:
    """Make open reports of samples, all or none."""
    return await _for_each(
        call, lambda store, number: Inbox(store.database).mark_wrong(number, call.principal.author)
    )


async def _for_each(call: AdminCall, act: Callable[[EditStore, int], object]) -> Json:
    numbers = _numbers(call)

    def make(store: EditStore) -> None:
        for number in numbers:
            act(store, number)

    return await call.write(make, of_inbox=True)


def _numbers(call: AdminCall) -> list[int]:
    """The reports that a request names. Raises ValueError."""
    numbers = call.values.get("reports")
    are_numbers = isinstance(numbers, list) and all(type(number) is int for number in numbers)
    if not numbers or not are_numbers:
        raise ValueError("reports must be a list of numbers of reports")
    return list(numbers)


def edit_json(edit: EditVersion, feed: EditFeed | None = None) -> Json:
    """A version of an edit.

    As a feed knows it, also whether it is in force, due for review, or to be changed.
    """
    values: Json = {
        "id": edit.id,
        "version": edit.version,
        "created_at": edit.created_at,
        "number": edit.number,
        **to_values(edit.record),
    }
    if feed is None:
        return values
    in_force = feed.index.edits.get(edit.id)
    is_latest = feed.snapshot.edits.get(edit.id) == edit
    proposal = feed.snapshot.proposals.get(edit.id)
    if proposal == edit:
        proposal = None
    return {
        **values,
        "in_force": in_force is not None and in_force.version == edit.version,
        "due": is_latest and moves.is_due(edit.record, stamp(datetime.now(UTC))),
        "proposal": None if proposal is None else edit_json(proposal),
    }
