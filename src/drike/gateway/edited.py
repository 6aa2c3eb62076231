"""A request once it is edited: what is passed on in its place, and what is to be counted of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from starlette.datastructures import MutableHeaders

from drike.edits.record import EditVersion
from drike.gates.decision import Decision
from drike.gateway.answers import PassingAnswer
from drike.gateway.calls import UpstreamCall
from drike.gateway.options import Mode
from drike.gateway.requests import EditableRequest

LONGEST_QUESTION = 4_000  # characters


@dataclass(frozen=True)
class EditedRequest:
    """A body to pass on, and what became of the request.

    scope: fired, abstained, degraded, unread or off, for the header x-drike-scope. edits: those
    that match, of later turns first. contradicted: ids of edits whose old object a tool or document
    states. asked: the edits that the answer is about. doubted: those about which the gate was
    uncertain. tokens: how many the facts add, or would add if the mode were on. question: the last
    one, cut, by which the answer is judged. unedited: as of `UpstreamCall`. decision: the one on
    the last turn, for traces. request: what was read, for traces.

    keep: called with the upstream's id of the conversation, remembers what was decided under it;
    None where there is nothing to remember. note: called once the answer has passed, counts it;
    given None where the answer passes elsewhere. again: writes a body with the facts twice, in case
    the answer slips; None where there is no second try.
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
    unedited: bytes | None = None
    decision: Decision | None = None
    request: EditableRequest | None = None

    def in_place_of(self, call: UpstreamCall) -> UpstreamCall:
        """The call with this body.

        A changed body is sent uncompressed, and an answer that is read must come uncompressed.
        """
        headers = MutableHeaders(raw=list(call.headers))
        if self.body is not call.body:
            del headers["content-encoding"]
        if self.keep or self.asked:
            del headers["accept-encoding"]
            headers.append("accept-encoding", "identity")
        return replace(call, body=self.body, headers=headers.raw, unedited=self.unedited)

    @property
    def left_out(self) -> tuple[EditVersion, ...]:
        """The edits that the last question asks for, too, beyond what is stated at once."""
        return self.decision.left_out if self.decision else ()

    @property
    def headers(self) -> dict[str, str]:
        """What the client is told, as headers."""
        values = {
            "x-drike-scope": self.scope,
            "x-drike-mode": str(self.mode),
            "x-drike-conflict": ",".join(map(str, self.contradicted)),
            "x-drike-left-out": ",".join(f"{edit.id}@{edit.version}" for edit in self.left_out),
            "x-drike-edits": ",".join(f"{edit.id}@{edit.version}" for edit in self.edits),
        }
        return {name: value for name, value in values.items() if value}
