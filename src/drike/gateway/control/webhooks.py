"""Webhooks about edits that need a person: proposed, approved, slipping in traffic, due for review.

Each is POSTed as JSON, at least once, in order (docs/how-to/watch-live-traffic.md). What was sent
stands in the store, so that moves made while no gateway runs are told later, and of several
gateways one sends.
"""

import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from unicodedata import bidirectional
from urllib.parse import urlsplit

from drike.edits.record import EditVersion, Move, Status, StoreError
from drike.edits.times import stamp
from drike.errors import UsageError
from drike.gateway.control.report_events import report_events
from drike.gateway.control.sent import Sent
from drike.gateway.health import ALARMS, counts_of_health, health_of_edits
from drike.models.served import is_exposed, is_http, is_loopback, key_in
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox
from drike.stores.moves import due
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import TrafficCounts
from drike.support.records import parse, read
from drike.support.secrets_in_text import without_secrets
from drike.support.table import visible

SECRET = "DRIKE_NOTIFY_SECRET"  # noqa: S105 - the variable with the key of signatures
_LOG = logging.getLogger(__name__)
# Settings of a store: what was sent, and who sends until when.
_SENT = "notified"
_SENDER = "notifier"
# Seconds.
_INTERVAL = 1.0
_LONGEST_PAUSE = 60.0  # after failures
_LOOK_EVERY = 300.0  # at counts and reviews
_LEASE = 30.0  # for which one gateway sends
_TIMEOUT = 10.0
_TRIES = 8  # of an event that its receiver refuses: about three minutes
# Answers by which a receiver refuses an event for good, and those among them to be tried again.
_REFUSALS = range(300, 500)
_PASSING = (408, 409, 421, 423, 425, 429)
_DAYS = 7  # of traffic
_FIELDS = ("subject", "query", "target_new", "status", "author", "reason", "owner")
# Classes of letters and numbers that are read from right to left, or turn what stands beside them.
_TURNING = ("R", "AL", "AN")
_MOVES = {Move.PROPOSE: "proposed", Move.APPROVE: "approved"}

# Sends a body with headers; raises OSError unless they were taken.
Send = Callable[[bytes, Mapping[str, str]], None]


class Tellable(Protocol):
    """What is told."""

    @property
    def id(self) -> str:
        """The same however often it is sent."""

    @property
    def sent(self) -> Sent:
        """What counts as sent once it is."""

    def body(self, tenant: str) -> bytes:
        """The JSON that is sent."""


@dataclass(frozen=True)
class Event:
    """Something to tell.

    id: the same however often it is sent. sent: what counts as sent once this event is.
    """

    id: str
    name: str
    edit: EditVersion
    sent: Sent
    more: Mapping[str, object] = field(default_factory=dict)

    def body(self, tenant: str) -> bytes:
        """The JSON that is sent."""
        edit = self.edit
        values: dict[str, object] = {"id": edit.id, "version": edit.version, "at": edit.created_at}
        for name in _FIELDS:
            values[name] = getattr(edit.record, name)
        shown = {name: _isolated(value) for name, value in values.items() if _may_turn(value)}
        more = {"shown": shown, **self.more} if shown else self.more
        body = {"event": self.name, "tenant": tenant, "edit": values, **more}
        return json.dumps(body).encode()


def _may_turn(value: object) -> bool:
    """Whether a text has letters or signs that are not read from left to right."""
    if not isinstance(value, str):
        return False
    return value != visible(value) or any(bidirectional(sign) in _TURNING for sign in value)


def _isolated(value: object) -> str:
    """A text as people may see it: signs of direction by number, and its letters by themselves."""
    return f"\u2068{visible(str(value))}\u2069"


def _reviews(edits: Snapshot, sent: Sent, now: datetime) -> Iterator[Event]:
    """An event for each review that has become due."""
    for edit in due(edits, now):
        until = edit.record.review_by or ""
        if sent.due.get(str(edit.id)) != until:
            sent = replace(sent, due={**sent.due, str(edit.id): until})
            yield Event(f"due-{edit.id}-{until}", "due", edit, sent, {"review_by": until})


def _slips(store: EditStore, edits: Snapshot, sent: Sent, now: datetime) -> Iterator[Event]:
    """An event for each edit whose answers fall short, or fall off. Raises StoreError."""
    counts = counts_of_health(TrafficCounts(store.database), now.date(), _DAYS)
    first_day = (now - timedelta(days=_DAYS - 1)).date()
    for edit_health in health_of_edits(edits, counts, first_day=first_day):
        edit = edit_health.edit
        verdict = edit_health.verdict
        key = f"{edit.id} fell" if verdict == "fell" else str(edit.id)
        version = edits.unchanged[edit.id]  # since which the edit says the same
        if verdict not in ALARMS or sent.slipping.get(key) == version:
            continue
        sent = replace(sent, slipping={**sent.slipping, key: version})
        more = {
            "took": asdict(edit_health.took),
            "answers": edit_health.judged,
            "why": edit_health.words,
        }
        name = key.replace(" ", "-")
        yield Event(f"slipping-{name}@{version}", "slipping", edit, sent, more)


@dataclass(frozen=True)
class _Pause:
    """How long a tenant whose events could not be sent is left in peace, and until when."""

    seconds: float
    until: float


class Notifier:
    """Sends events from a thread.

    stores: those that are open, by tenant, each with what was last read of it.
    """

    def __init__(
        self,
        stores: Callable[[], Mapping[str, tuple[EditStore, Snapshot]]],
        send: Send,
        secret: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._stores = stores
        self._send = send
        self._secret = secret
        self._clock = clock
        self._token = secrets.token_hex(8)  # by which others know who sends
        self._stopped = threading.Event()
        self._next_look: dict[str, float] = {}  # at counts and reviews, by tenant
        self._reports_at: dict[str, int] = {}  # the revision at which reports were told of
        self._pauses: dict[str, _Pause] = {}  # after failures, by tenant
        self._tries: dict[tuple[str, str], int] = {}  # of refused events, by tenant and event
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
        """Send what is new, of each tenant in order.

        Raises the first problem once all tenants had their turn: OSError where an event was not
        taken, StoreError, ValueError.
        """
        problems = [
            self._problem_of(tenant, store, edits)
            for tenant, (store, edits) in self._stores().items()
        ]
        for problem in problems:
            if problem is not None:
                raise problem

    def _send_due(self) -> None:
        """Send what is new of those tenants that need not wait after a failure."""
        for tenant, (store, edits) in self._stores().items():
            before = self._pauses.get(tenant)
            if before is not None and time.monotonic() < before.until:
                continue
            problem = self._problem_of(tenant, store, edits)
            if problem is None:
                self._pauses.pop(tenant, None)
                continue
            if before is None:
                _LOG.warning(
                    "events about edits of %s cannot be sent, and are tried again: %s",
                    tenant,
                    problem,
                )
            seconds = min(2 * before.seconds, _LONGEST_PAUSE) if before else _INTERVAL
            self._pauses[tenant] = _Pause(seconds, time.monotonic() + seconds)

    def _problem_of(self, tenant: str, store: EditStore, edits: Snapshot) -> Exception | None:
        """Send what is new of a tenant; return what prevented it, which concerns no other one."""
        try:
            if self._may_send(store):
                self._send_new_of(tenant, store, edits)
        except Exception as problem:  # a receiver may answer anything, and is asked again
            return problem
        return None

    def _send_new_of(self, tenant: str, store: EditStore, edits: Snapshot) -> None:
        text = store.settings.get(_SENT)
        sent = read(Sent, parse(text)) if text else Sent(edits.revision)
        changes = store.changes(max(sent.change - 1, 0))
        if sent.change and not changes:  # an older copy has taken the place of the store
            sent = replace(sent, change=edits.revision)
        changes = [change for change in changes if change.number > sent.change]
        sent = self._tell_changes(tenant, store, changes, sent)
        if time.monotonic() >= self._next_look.get(tenant, 0.0):
            for event in _reviews(edits, sent, self._clock()):
                sent = self._tell(tenant, store, event)
            for event in _slips(store, edits, sent, self._clock()):
                sent = self._tell(tenant, store, event)
            self._reports_at.pop(tenant, None)
            self._next_look[tenant] = time.monotonic() + _LOOK_EVERY
        if self._reports_at.get(tenant) != edits.revision:
            sent = self._tell_of_reports(tenant, store, edits, sent)
        if changes:
            sent = replace(sent, change=changes[-1].number)
        new_text = json.dumps(asdict(sent))
        if new_text != text:
            store.settings.save(_SENT, new_text)

    def _tell_of_reports(self, tenant: str, store: EditStore, edits: Snapshot, sent: Sent) -> Sent:
        """Tell what became of reports, when edits have changed, or the time to look has come."""
        if not sent.reports_from:
            sent = replace(sent, reports_from=Inbox(store.database).last_number() + 1)
        for event in report_events(tenant, store, edits, sent):
            sent = self._tell(tenant, store, event)
        self._reports_at[tenant] = edits.revision
        return sent

    def _tell_changes(
        self, tenant: str, store: EditStore, changes: Sequence[EditVersion], sent: Sent
    ) -> Sent:
        """Tell of proposals, and of approvals that put an edit in use."""
        for change in changes:
            move = change.record.move
            is_in_use = change.record.status is not Status.PROPOSED
            if move is Move.PROPOSE or (move is Move.APPROVE and is_in_use):
                told = replace(sent, change=change.number)
                event = Event(f"change-{change.number}", _MOVES[move], change, told)
                sent = self._tell(tenant, store, event)
        return sent

    def _tell(self, tenant: str, store: EditStore, event: Tellable) -> Sent:
        """Send an event, and note that it is sent."""
        # A slow receiver may have used up the lease, so that another gateway sends by now.
        if not self._may_send(store):
            raise StoreError(f"another gateway sends the events of {tenant} now")
        body = event.body(tenant)
        time_sent = stamp(self._clock())
        headers = {
            "x-drike-event": f"{tenant}-{event.id}",
            "x-drike-timestamp": time_sent,
            "Content-Type": "application/json",
            "x-drike-signature": f"sha256={self._signature(time_sent, body)}",
        }
        try:
            self._send(body, headers)
        except urllib.error.HTTPError as refusal:
            if not self._is_given_up(tenant, event, refusal):
                raise
        self._tries.pop((tenant, event.id), None)
        store.settings.save(_SENT, json.dumps(asdict(event.sent)))
        return event.sent

    def _is_given_up(self, tenant: str, event: Tellable, refusal: urllib.error.HTTPError) -> bool:
        """Whether a refused event has had its tries, so that it holds up those after it no more."""
        if refusal.code not in _REFUSALS or refusal.code in _PASSING:
            return False
        key = (tenant, event.id)
        tries = self._tries.get(key, 0) + 1
        self._tries[key] = tries
        if tries < _TRIES:
            return False
        _LOG.error(
            "the event %s of %s is dropped, as its receiver refused it %d times: %s",
            event.id,
            tenant,
            tries,
            refusal,
        )
        return True

    def _signature(self, time_sent: str, body: bytes) -> str:
        signed = time_sent.encode() + b"." + body
        return hmac.new(self._secret.encode(), signed, hashlib.sha256).hexdigest()

    def _may_send(self, store: EditStore) -> bool:
        """Whether this gateway sends the events of a store, for the next seconds."""
        now = time.time()
        lease = store.settings.get(_SENDER)
        holder, _, end = (lease or "").partition(" ")
        ends_at = float(end or 0)
        # An end that is further off was written by a clock that was ahead.
        is_valid = now <= ends_at <= now + 2 * _LEASE
        if is_valid and holder != self._token:
            return False
        if is_valid and ends_at >= now + _LEASE / 2:
            return True
        with store.transaction():
            if store.settings.get(_SENDER) not in (None, f"{holder} {end}"):
                return False  # another one was quicker
            store.settings.save(_SENDER, f"{self._token} {now + _LEASE}")
        return True

    def _run(self) -> None:
        is_failing = False
        while not self._stopped.wait(_INTERVAL):
            try:
                self._send_due()
                is_failing = False
            except Exception as problem:  # the stores cannot be listed now
                if not is_failing:
                    _LOG.warning("events about edits cannot be sent now: %s", problem)
                is_failing = True


def webhook(address: str) -> tuple[Send, str]:
    """What sends to an address, and the key of its signatures, from $DRIKE_NOTIFY_SECRET.

    Raises UsageError.
    """
    try:
        url = urlsplit(address)
        if not is_http(url) or "@" in url.netloc or url.port == 0:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--notify {without_secrets(address)} is not an address: give it as https://host/path"
        ) from None
    if is_exposed(url):
        raise UsageError(
            f"http://{url.hostname} is not encrypted: let --notify be an https address"
        )
    secret = key_in(SECRET)
    if secret is None:
        raise UsageError(
            f"events are signed: set ${SECRET} to a secret that their receiver knows, too"
        )
    handlers: list[type | urllib.request.BaseHandler] = [_NoRedirects]
    if is_loopback(url.hostname):  # which a proxy does not reach, and what it is sent is in clear
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)

    def send(body: bytes, headers: Mapping[str, str]) -> None:
        request = urllib.request.Request(  # noqa: S310 - checked above
            address, body, dict(headers), method="POST"
        )
        opener.open(request, timeout=_TIMEOUT).close()

    return send, secret


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: facts go to the address that was given."""
