"""Why a request gets no answer of the upstream, and the form in which its client is told."""

from __future__ import annotations

import json
import logging
import traceback

_LOG = logging.getLogger(__name__)


class RequestError(Exception):
    """A request that is refused.

    code: for programs. scope: for x-drike-scope, where it was decided. retry_after: seconds after
    which another try may succeed, where the status is 429.
    """

    def __init__(
        self,
        status: int,
        code: str,
        sentence: str,
        scope: str | None = None,
        retry_after: int = 1,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.scope = scope
        self.retry_after = retry_after


class UpstreamError(Exception):
    """The upstream did not answer. status: what the client gets."""

    code = "upstream_error"
    scope: str | None = None  # the decision on the request stands
    retry_after = 1

    def __init__(self, sentence: str, status: int = 502) -> None:
        super().__init__(sentence)
        self.status = status


class KeyInRequestError(UpstreamError):
    """A request is not passed on, as it has a key of a gateway. part: of the request."""

    code = "key_in_request"

    def __init__(self, part: str) -> None:
        super().__init__(
            f"the {part} has a key of a gateway, which must not go upstream: leave it out, and "
            "send the key as Authorization: Bearer KEY",
            400,
        )


ENDING = RequestError(503, "ending", "the gateway is being stopped: try again")


def error_body(sentence: str, code: str) -> bytes:
    """An error as OpenAI's and Anthropic's clients read it."""
    error = {"message": sentence, "type": "drike_error", "param": None, "code": code}
    return json.dumps({"type": "error", "error": error}).encode()


def report(error: Exception) -> None:
    """Log where an error arose, without its text, which might quote a request."""
    if isinstance(error, TimeoutError):
        return
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames]
    _LOG.error("%s in %s", type(error).__name__, " > ".join(places))
