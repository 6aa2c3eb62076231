"""What servers say when they fail, and which failures may pass if the same is asked again.

Some say so with status 200, and even beside what they had written of an answer by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drike.errors import ServerError
from drike.support.records import encodable

_LONGEST_MESSAGE = 200  # characters
_ERRORS = ("error", "errors")  # where the JSON of a failure has what is said of it
_SAID = (
    *("message", "detail", "msg", "error_message", "errorMessage", "error_msg"),
    *("error_description", "description", "reason", "title"),
)
_DEPTH = 4  # of objects and lists within each other in which a message is looked for
# Parts of a `finish_reason` that is no end of an answer.
_FAILED = ("error", "fail", "abort", "cancel", "timeout", "time_out", "insufficient", "interrupt")
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

    "" if there is none in a form that is known. hide: takes the key out of a text.
    """
    line = encodable(" ".join(hide(_said(body, _DEPTH)).split()))
    if len(line) <= _LONGEST_MESSAGE:
        return line
    return f"{line[:_LONGEST_MESSAGE]}..."


def require_success(body: Mapping[str, Any], url: str, hide: Callable[[str], str]) -> None:
    """Raise ServerError, with the server's own words, for a failure sent with status 200."""
    failure = failure_in(body, hide)
    if failure is not None:
        raise ServerError(f"{url} failed ({failure}): try again later, or ask another server")


def failure_in(body: Mapping[str, Any], hide: Callable[[str], str]) -> str | None:
    """What a server says of a failure in the JSON of an answer with status 200.

    None if it did not fail. hide: takes the key out of a text.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    for part in (body, choice):
        if isinstance(part, dict) and any(part.get(name) for name in _ERRORS):
            return error_message(part, hide) or "it gives no reason"

    if choice is None and "text" not in body:  # SGLang's own API answers with a text
        message = error_message(body, hide)
        if message:
            return message
        return "it gives no choice" if choices == [] else None

    finish = _finish(choice) or _finish(body.get("meta_info"))
    if any(part in finish.casefold() for part in _FAILED):
        return error_message({"message": f"its finish_reason is {finish}"}, hide)
    return None


def _said(body: object, depth: int) -> str:
    """The text of an error in the forms of several APIs; "" if there is none."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body  # a page of a proxy says nothing
    if not depth or not isinstance(body, list | dict):
        return ""
    if isinstance(body, list):  # such as Gemini's, or FastAPI's `detail`
        return "; ".join(filter(None, (_said(item, depth - 1) for item in body[:3])))
    for name in (*_ERRORS, *_SAID):
        message = _said(body.get(name), depth - 1)
        if message:
            return message
    return ""


def _finish(part: object) -> str:
    """Why an answer ended, "" if that is not said; SGLang gives it as an object with a message."""
    finish = part.get("finish_reason") if isinstance(part, dict) else None
    if isinstance(finish, dict):
        finish = " ".join(str(finish.get(name, "")) for name in ("type", "message")).strip()
    return finish if isinstance(finish, str) else ""
