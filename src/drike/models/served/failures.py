"""What servers say when they fail, and which failures may pass if the same is asked again.

Some say so with status 200, and even beside what they had written of an answer by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from drike.errors import ServerError
from drike.support.records import encodable

_LONGEST_MESSAGE = 200  # characters
# Names, without case and underscores, under which the JSON of a failure says what it is.
_ERRORS = ("error", "errors", "err", "exception", "fault")
_SAID = (
    *("message", "detail", "msg", "errormessage", "errormsg", "statusmsg", "faultstring"),
    *("errordescription", "description", "reason", "cause", "title", "info"),
)
_AROUND = ("header", "baseresp", "output", "data")  # in which some APIs put either
_DEPTH = 4  # of objects and lists within each other in which a message is looked for
# Names under which an API says how it went, even beside an answer.
_CODES = ("code", "errorcode", "statuscode")
_STATES = ("status", "state", "object", "type")
_WELL = ("ok", "success", "succeeded", "successful")  # messages beside codes of their own
_BROKEN = ("error", "failed", "failure", "fail", "cancelled", "aborted")
# Parts of a `finish_reason` that is no end of an answer.
_FAILED = (
    *("error", "fail", "abort", "cancel", "time_out", "timeout", "timed_out", "insufficient"),
    *(
        "interrupt",
        "overload",
        "shutdown",
        "exception",
        "crash",
        "preempt",
        "reject",
        "unavailable",
    ),
    *("deadline", "disconnect", "expired", "killed", "internal", "malformed", "unspecified"),
)
_NO_ENDS = ("load", "unload", "oom", "unknown", "other")  # whole ones
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


def require_success(body: object, url: str, hide: Callable[[str], str]) -> None:
    """Raise ServerError, with the server's own words, for a failure sent with status 200."""
    failure = failure_in(body, hide)
    if failure is not None:
        raise ServerError(f"{url} failed ({failure}): try again later, or ask another server")


def failure_in(body: object, hide: Callable[[str], str]) -> str | None:
    """What a server says of a failure in the JSON of an answer with status 200.

    None if it did not fail. hide: takes the key out of a text.
    """
    if not isinstance(body, dict):
        return error_message(body, hide) or None
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    for part in (body, choice, message):
        if isinstance(part, dict) and _has_error(part):
            return error_message(part, hide) or "it gives no reason"
    if _is_broken(body):
        return error_message(body, hide) or error_message(body.get("body"), hide) or "no reason"

    if choice is None and "text" not in body:  # SGLang's own API answers with a text
        return error_message(body, hide) or ("it gives no choice" if choices == [] else None)

    finish = _finish(choice) or _finish(body.get("meta_info"))
    folded = finish.casefold()
    if folded in _NO_ENDS or any(part in folded for part in _FAILED):
        return error_message({"message": f"its finish_reason is {finish}"}, hide)
    return None


def _has_error(part: Mapping[str, Any]) -> bool:
    """Whether a part of an answer has an error that says something."""
    return any(_is_set(part.get(name)) for name in ("error", "errors"))


def _is_set(value: object) -> bool:
    """Whether a value is not empty: of an object, whether one of its own is not."""
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _is_broken(body: Mapping[str, Any]) -> bool:
    """Whether an answer says by a code or a state, and not by an error, that the server failed."""
    named = _by_name(body)
    if named.get("success") is False:
        return True
    if any(named.get(name) in _BROKEN for name in _STATES if isinstance(named.get(name), str)):
        return True
    if str(named.get("message", named.get("msg"))).casefold() in _WELL:
        return False
    around = [_by_name(named.get(name)) for name in ("header", "baseresp")]
    codes = [part.get(name) for part in (named, *around) for name in _CODES]
    return any(_is_code_of_failure(code) for code in codes)


def _is_code_of_failure(code: object) -> bool:
    """Whether a code is a number other than 0 and the statuses of success."""
    if isinstance(code, str) and code.isdecimal():
        code = int(code[:9])
    is_number = isinstance(code, int) and not isinstance(code, bool)
    return is_number and code != 0 and not 200 <= cast("int", code) < 300


def _by_name(values: object) -> dict[str, Any]:
    """The values of an object by their names without case and underscores; {} for all else."""
    if not isinstance(values, dict):
        return {}
    return {str(name).casefold().replace("_", ""): value for name, value in values.items()}


def _said(body: object, depth: int) -> str:
    """The text of an error in the forms of several APIs; "" if there is none."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body  # a page of a proxy says nothing
    if not depth or not isinstance(body, list | dict):
        return ""
    if isinstance(body, list):  # such as Gemini's, or FastAPI's `detail`
        return "; ".join(filter(None, (_said(item, depth - 1) for item in body[:3])))
    named = _by_name(body)
    around = [named.get(name) for name in _AROUND]
    parts = [named.get(name) for name in (*_ERRORS, *_SAID)]
    parts += [part for part in around if isinstance(part, dict)]
    texts = (_said(part, depth - 1) for part in parts)
    text = next(filter(None, texts), "")
    if text:
        return text
    errors = named.get("errors")  # by field, as some frameworks list them
    return _said(list(errors.values()), depth - 1) if isinstance(errors, dict) else ""


def _finish(part: object) -> str:
    """Why an answer ended, "" if that is not said; SGLang gives it as an object with a message."""
    finish = part.get("finish_reason") if isinstance(part, dict) else None
    if isinstance(finish, dict):
        finish = " ".join(str(finish.get(name, "")) for name in ("type", "message")).strip()
    return finish if isinstance(finish, str) else ""
