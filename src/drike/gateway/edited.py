"""A request once it is edited: what is passed on in its place, and what is to be counted of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from starlette.datastructures import MutableHeaders

from drike.edits.record import EditVersion
from drike.gateway.answers import PassingAnswer
from drike.gateway.calls import UpstreamCall
from drike.gateway.options import Mode


@dataclass(frozen=True)
class EditedRequest:
    """A body to pass on, and what became of the request.

    scope: fired, abstained, degraded, unread or off, for the header x-drike-scope. edits: that
    match, those of later turns first. contradicted: ids of edits whose old object a tool or
    document states. asked: the edits that the answer is about. doubted: those about which the gate
    was in doubt. tokens: that facts add, or would if edits were on. question: the last one, where
    samples are kept.

    keep: keeps what was decided, under the upstream's id of the conversation. note: takes the
    answer to be counted, once it has passed; None where it passes elsewhere. again: writes a body
    with the facts twice, for an answer that slips; None where none is asked for again.
    """

    body: bytes
    scope: str
    mode: Mode
    edits: tuple[EditVersion, ...] = ()
    contradicted: tuple[int, ...] = ()
    keep: Callable[[str], None] | None = None
    model: object = None
    asked: tuple[EditVersion, ...] = ()
    doubted: tuple[EditVersion, ...] = ()
    tokens: int = 0
    note: Callable[[PassingAnswer | None], None] = lambda answer: None
    again: Callable[[], Awaitable[bytes]] | None = None
    question: str = ""

    def in_place_of(self, call: UpstreamCall) -> UpstreamCall:
        """The call with this body.

        A changed body is not compressed; nor may an answer be that is read.
        """
        headers = MutableHeaders(raw=list(call.headers))
        if self.body is not call.body:
            del headers["content-encoding"]
        if self.keep or self.asked:
            del headers["accept-encoding"]
            headers.append("accept-encoding", "identity")
        return replace(call, body=self.body, headers=headers.raw)

    @property
    def headers(self) -> dict[str, str]:
        """What the client is told, as headers."""
        values = {
            "x-drike-scope": self.scope,
            "x-drike-mode": str(self.mode),
            "x-drike-conflict": ",".join(map(str, self.contradicted)),
            "x-drike-edits": ",".join(f"{edit.id}@{edit.version}" for edit in self.edits),
        }
        return {name: value for name, value in values.items() if value}
