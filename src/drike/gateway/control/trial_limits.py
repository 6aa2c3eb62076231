"""How much of the upstream people on the admin port may use, so that nobody shuts others out."""

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from drike.gateway.errors import RequestError
from drike.gateway.http.keys import KeyRole, Principal

# Trials at once; a trial is a question that is tried, or a verification of an edit.
_MOST_OF_TENANT = 8
_MOST_OF_KEY = 2
# Requests to the upstream that a key may cause in a minute, in each process.
_CALLS_BY_ROLE = {KeyRole.PROPOSE: 60, KeyRole.APPROVE: 120, KeyRole.ADMIN: 240}
_MINUTE = 60.0


class _Spent(NamedTuple):
    """Requests that a trial was allowed to send to the upstream, and when."""

    at: float
    calls: int


class TrialLimits:
    """What trials are running, and what keys have spent on them in the last minute.

    Tenants share nothing of it, so that none can shut another one out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running_of_tenant = Counter[str]()
        self._running_of_key = Counter[tuple[str, str]]()
        self._spent_by_key = defaultdict[tuple[str, str], deque[_Spent]](deque)

    @contextmanager
    def trial(self, principal: Principal) -> Iterator[None]:
        """Let a trial run. Raises RequestError, at once, for one too many."""
        key = (principal.tenant, principal.key)
        most_of_key = _MOST_OF_KEY if principal.key else _MOST_OF_TENANT
        if self._running_of_key[key] >= most_of_key:
            raise _busy(f"{most_of_key} trials of this key are under way")
        if self._running_of_tenant[principal.tenant] >= _MOST_OF_TENANT:
            raise _busy(f"{_MOST_OF_TENANT} trials of this tenant are under way")

        self._running_of_key[key] += 1
        self._running_of_tenant[principal.tenant] += 1
        try:
            yield
        finally:
            self._running_of_key[key] -= 1
            self._running_of_tenant[principal.tenant] -= 1

    def spend(self, principal: Principal, calls: int) -> None:
        """Count requests to the upstream. Raises RequestError where a key has no more of them."""
        most = _CALLS_BY_ROLE[principal.role]
        if calls > most:
            raise RequestError(
                400,
                "too_many_questions",
                f"this takes {calls} requests to the model, and a key for {principal.role} has "
                f"{most} a minute: prove it by command (drike edits verify)",
            )
        now = self._clock()
        spent = self._spent_by_key[principal.tenant, principal.key]
        while spent and spent[0].at <= now - _MINUTE:
            spent.popleft()
        seconds = _seconds_until(spent, most - calls, now)
        if seconds:
            raise RequestError(
                429,
                "too_many_trials",
                f"this takes {calls} requests to the model, and this key has {most} a minute: "
                f"try again in {seconds} s",
                retry_after=seconds,
            )
        spent.append(_Spent(now, calls))


def _seconds_until(spent: Iterable[_Spent], most: int, now: float) -> int:
    """In how many seconds only so much of what was spent in the last minute is left; 0 for now."""
    excess = sum(one.calls for one in spent) - most
    seconds = 0.0
    for one in spent:
        if excess <= 0:
            break
        excess -= one.calls
        seconds = one.at + _MINUTE - now
    return math.ceil(seconds)


def _busy(what: str) -> RequestError:
    return RequestError(429, "busy", f"{what}: try again in a second")
