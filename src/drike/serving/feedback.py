"""Reports of wrong answers that applications send: POST /feedback. Each is kept in the inbox of its tenant's store."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from drike.serving.feed import EditFeed
from drike.serving.keys import Principal
from drike.serving.relay import Limits, RequestError
from drike.serving.requests import parse
from drike.serving.threads import in_daemon_thread
from drike.stores import reports
from drike.stores.reports import FullInboxError

PATH = b"/feedback"
LIMITS = Limits(body=64 << 10)
_MOST, _SECONDS = 60, 60.0  # reports of a key in a time
_SECONDS_FOR_STORE = 5.0  # that others may hold


@dataclass(frozen=True, eq=False)
class Feedback:
    """Takes reports, of each key so many a minute."""

    _taken: dict[tuple[str, str], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_MOST))
    )

    async def take(self, body: bytes, feed: EditFeed, principal: Principal) -> dict[str, object]:
        """Keep a report; return its number. Raises RequestError, StoreError."""
        taken, now = self._taken[principal.tenant, principal.key], time.monotonic()
        if len(taken) == _MOST and taken[0] > now - _SECONDS:
            raise RequestError(429, "too_many_reports", f"this key has sent {_MOST} reports in a minute: wait for one")
        try:
            report = reports.report_of(parse(body))
        except ValueError as problem:
            raise RequestError(400, "bad_request", str(problem)) from None
        taken.append(now)
        author = principal.author if principal.key else None
        try:
            async with asyncio.timeout(_SECONDS_FOR_STORE):
                [added] = await in_daemon_thread(reports.add, feed.store, [report], author)
        except FullInboxError as problem:
            raise RequestError(429, "inbox_full", str(problem)) from None
        except TimeoutError:
            raise RequestError(503, "unavailable", "the store is busy: send the report again") from None
        return {"report": added.number}
