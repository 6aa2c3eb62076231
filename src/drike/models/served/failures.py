"""What servers say when they fail, and which failures may pass if the same is asked again."""

from __future__ import annotations

from collections.abc import Callable

from drike.support.records import encodable

_LONGEST_MESSAGE = 200  # characters
_TOO_LONG = ("context length", "context window", "too long", "maximum context")


def may_pass(status: int) -> bool:
    """Whether a request that failed with this status may succeed later.

    So it is after a time-out (408), a conflict (409), at a rate limit (429), and for all of 5xx.
    """
    return status in (408, 409, 429) or status >= 500


def is_too_long(status: int, message: str) -> bool:
    """Whether a server refuses a request because its prompt is too long.

    message: the server's own.
    """
    if status == 413:
        return True
    return status == 400 and any(words in message.casefold() for words in _TOO_LONG)


def error_message(body: object, hide: Callable[[str], str]) -> str:
    """The error message in the JSON of an answer, on one line and shortened.

    "" if there is none in the API's form. hide: takes the key out of a text.
    """
    if isinstance(body, list) and len(body) == 1:  # Gemini's form
        [body] = body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict):
        return ""
    text = body.get("message") or body.get("detail")
    if not isinstance(text, str):
        return ""
    line = encodable(" ".join(hide(text).split()))
    if len(line) <= _LONGEST_MESSAGE:
        return line
    return f"{line[:_LONGEST_MESSAGE]}..."
