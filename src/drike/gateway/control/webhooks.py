"""Webhooks about edits that need a person: proposed, approved, slipping in live traffic, or due for review.

Each is POSTed as JSON, at least once, in order (docs/how-to/watch-live-traffic.md). What was sent stands in the store,
so that moves made while no gateway runs are told later, and of several gateways one sends.
"""

import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from drike.edits.record import EditVersion, Move, Status, StoreError
from drike.edits.times import stamp
from drike.errors import UsageError
from drike.gateway.health import health
from drike.models.served import is_exposed, is_http, key_in
from drike.stores.edit_store import EditStore
from drike.stores.moves import due
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import TrafficCounts
from drike.support.records import parse, read

SECRET = "DRIKE_NOTIFY_SECRET"  # noqa: S105 - the variable with the key of signatures
_LOG = logging.getLogger(__name__)
_SENT, _SENDER = (
    "notified",
    "notifier",
)  # settings of a store: what was sent, and who sends until when
_INTERVAL, _LEASE, _TIMEOUT = 1.0, 30.0, 10.0  # seconds
_LONGEST_PAUSE, _LOOKS_AT_TRAFFIC = (
    60.0,
    300.0,
)  # seconds: after failures, and between looks at counts and reviews
_DAYS = 7  # of traffic
_MOVES = {Move.PROPOSE: "proposed", Move.APPROVE: "approved"}

Send = Callable[
    [bytes, Mapping[str, str]], None
]  # a body and headers; raises OSError unless they were taken


@dataclass(frozen=True)
class Sent:
    """What was sent: changes up to `change`; by edit, the review that was due and the version that slipped."""

    change: int = 0
    due: Mapping[str, str] = field(default_factory=dict)
    slipping: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something to tell. id: the same however often it is sent. sent: what was sent once it is."""

    id: str
    name: str
    edit: EditVersion
    sent: Sent
    more: Mapping[str, object] = field(default_factory=dict)

    def body(self, tenant: str) -> bytes:
        """The JSON that is sent."""
        edit, names = (
            self.edit,
            ("subject", "query", "target_new", "status", "author", "reason", "owner"),
        )
        about = {"id": edit.id, "version": edit.version, "at": edit.created_at}
        about |= {name: getattr(edit.record, name) for name in names}
        return json.dumps(
            {"event": self.name, "tenant": tenant, "edit": about, **self.more}
        ).encode()


def _of_attention(store: EditStore, edits: Snapshot, sent: Sent, now: datetime) -> Iterator[Event]:
    """An event for each review that has become due, and each edit whose answers fall short. Raises StoreError."""
    for edit in due(edits, now):
        until = edit.record.review_by or ""
        if sent.due.get(str(edit.id)) != until:
            sent = replace(sent, due={**sent.due, str(edit.id): until})
            yield Event(f"due-{edit.id}-{until}", "due", edit, sent, {"review_by": until})
    for line in health(
        edits, TrafficCounts(store.database).since((now - timedelta(days=_DAYS - 1)).date())
    ):
        edit, first = line.edit, edits.unchanged[line.edit.id]
        if line.verdict == "below" and sent.slipping.get(str(edit.id)) != first:
            sent = replace(sent, slipping={**sent.slipping, str(edit.id): first})
            more = {"took": asdict(line.took), "answers": line.judged}
            yield Event(f"slipping-{edit.id}@{first}", "slipping", edit, sent, more)


class Notifier:
    """Sends events from a thread. stores: those that are open, by tenant, each with what was last read of it."""

    def __init__(
        self, stores: Callable[[], Mapping[str, tuple[EditStore, Snapshot]]], send: Send, secret: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._stores, self._send, self._secret, self._clock = stores, send, secret, clock
        self._token, self._stopped = secrets.token_hex(8), threading.Event()
        self._looked: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="drike-notify", daemon=True)

    def start(self) -> None:
        """Send events from now on."""
        self._thread.start()

    def close(self) -> None:
        """Send no more events."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT)

    def send_new(self) -> None:
        """Send what is new, of each tenant in order. Raises OSError where it was not taken, StoreError, ValueError."""
        problems = list[Exception]()
        for tenant, (store, edits) in self._stores().items():
            try:
                if self._may_send(store):
                    self._send_new_of(tenant, store, edits)
            except (StoreError, ValueError) as problem:  # those of others are sent
                problems.append(problem)
        if problems:
            raise problems[0]

    def _send_new_of(self, tenant: str, store: EditStore, edits: Snapshot) -> None:
        known = store.settings.get(_SENT)
        sent = read(Sent, parse(known)) if known else Sent(edits.revision)
        changes = store.changes(max(sent.change - 1, 0))
        if sent.change and not changes:  # an older copy has taken the place of the store
            sent = replace(sent, change=edits.revision)
        changes = [change for change in changes if change.number > sent.change]
        for change in changes:
            move = change.record.move  # an approval is told once it puts an edit in use
            if move is Move.PROPOSE or (
                move is Move.APPROVE and change.record.status is not Status.PROPOSED
            ):
                name, told = _MOVES[move], replace(sent, change=change.number)
                sent = self._tell(
                    tenant, store, Event(f"change-{change.number}", name, change, told)
                )
        if time.monotonic() >= self._looked.get(tenant, 0.0):
            for event in _of_attention(store, edits, sent, self._clock()):
                sent = self._tell(tenant, store, event)
            self._looked[tenant] = time.monotonic() + _LOOKS_AT_TRAFFIC
        sent = replace(sent, change=changes[-1].number if changes else sent.change)
        if known != (text := json.dumps(asdict(sent))):
            store.settings.save(_SENT, text)

    def _tell(self, tenant: str, store: EditStore, event: Event) -> Sent:
        if not self._may_send(
            store
        ):  # a slow receiver must not end the time for which this gateway sends
            raise StoreError(f"another gateway sends the events of {tenant} now")
        body, at = event.body(tenant), stamp(self._clock())
        signature = hmac.new(
            self._secret.encode(), at.encode() + b"." + body, hashlib.sha256
        ).hexdigest()
        headers = {
            "x-drike-event": f"{tenant}-{event.id}",
            "x-drike-timestamp": at,
            "Content-Type": "application/json",
        }
        self._send(body, {**headers, "x-drike-signature": f"sha256={signature}"})
        store.settings.save(_SENT, json.dumps(asdict(event.sent)))
        return event.sent

    def _may_send(self, store: EditStore) -> bool:
        """Whether this gateway sends the events of a store, for the next seconds."""
        now = time.time()
        holder, _, until = (store.settings.get(_SENDER) or "").partition(" ")
        expired = (
            not now <= float(until or 0) <= now + 2 * _LEASE
        )  # later: a clock that was ahead has written it
        if holder != self._token and not expired:
            return False
        if expired or float(until) < now + _LEASE / 2:
            with store.transaction():
                if store.settings.get(_SENDER) not in (None, f"{holder} {until}"):
                    return False  # another one was quicker
                store.settings.save(_SENDER, f"{self._token} {now + _LEASE}")
        return True

    def _run(self) -> None:
        pause = _INTERVAL
        while not self._stopped.wait(pause):
            try:
                self.send_new()
                pause = _INTERVAL
            except (
                Exception
            ) as problem:  # of any kind: a receiver may answer anything, and is asked again
                if pause == _INTERVAL:
                    _LOG.warning(
                        "events about edits cannot be sent, and are tried again: %s", problem
                    )
                pause = min(2 * pause, _LONGEST_PAUSE)


def webhook(address: str) -> tuple[Send, str]:
    """What sends to an address, and the key of its signatures, from $DRIKE_NOTIFY_SECRET. Raises UsageError."""
    try:
        url = urlsplit(address)
        if not is_http(url) or url.username or url.port == 0:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--notify {address} is not an address: give it as https://host/path"
        ) from None
    if is_exposed(url):
        raise UsageError(
            f"http://{url.hostname} is not encrypted: let --notify be an https address"
        )
    if (secret := key_in(SECRET)) is None:
        raise UsageError(
            f"events are signed: set ${SECRET} to a secret that their receiver knows, too"
        )
    opener = urllib.request.build_opener(_NoRedirects)

    def send(body: bytes, headers: Mapping[str, str]) -> None:
        request = urllib.request.Request(address, body, dict(headers), method="POST")  # noqa: S310 - checked above
        opener.open(request, timeout=_TIMEOUT).close()

    return send, secret


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: facts go to the address that was given."""
