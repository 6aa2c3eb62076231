"""What a gateway traces of a request: here nothing.

`telemetry` sends it to a collector. It is imported only where an operator asks for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from drike.gateway.calls import UpstreamCall
from drike.gateway.edited import EditedRequest


class RequestTrace:
    """The trace of a request, which is told what happens in this order; this one forgets it.

    reads: whether it is told of the answer, too.
    """

    reads = False

    def decided(self, edited: EditedRequest) -> None:
        """The request has been edited."""

    def sent(self, call: UpstreamCall, edited: EditedRequest) -> UpstreamCall:
        """The call as it is passed on, with the place in the trace for the upstream."""
        return call

    def first_chunk(self) -> None:
        """The answer begins."""

    def take(self, values: object) -> None:
        """The answer, or an event of one, has these values."""

    def judged(self, text: str | None, outcomes: Sequence[str]) -> None:
        """The answer has been judged, in another thread. text: None where it was not read."""

    def answered(self, *, waits: bool) -> None:
        """The answer has passed, or failed. waits: whether it will be judged."""

    def ended(self, status: int, outcome: str) -> None:
        """The request has been answered with this status. outcome: as x-drike-scope says it."""


class Traces:
    """Traces requests; this one traces nothing."""

    def begin(self, call: UpstreamCall, path: str, began: float) -> RequestTrace:
        """The trace of a request. began: by `time.perf_counter`."""
        return NO_TRACE

    def close(self) -> None:
        """Send what waits, in a few seconds at most."""


NO_TRACE = RequestTrace()
NO_TRACES = Traces()
