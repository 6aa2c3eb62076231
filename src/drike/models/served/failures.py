"""How a request to a server fails, and the error each failure becomes.

What may pass becomes a `ServerError`, what will not a `RefusedError`, either in one sentence with the remedy. Answers
are limited in size; one that is not JSON is treated as a failed connection, so that the client retries it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from drike.errors import ModelError, RefusedError, ServerError

BODY_LIMIT = 8 * 1024 * 1024  # bytes; log-probabilities of a prompt at the end of a long window take about half of it
_DEFLATED = 64  # a compressed answer may grow, so it may be this many times smaller
_EMPTY, _NO_JSON = "gives an empty answer", "answers with something that is not JSON"
_TOO_LONG = ("context length", "context window", "too long", "maximum context")


@dataclass(frozen=True)
class Server:
    """A server as its errors describe it. deadline: seconds for one answer. remedy: what to do about a refused key."""

    url: str
    remedy: str
    deadline: float
    attempts: int


def too_late(server: Server) -> ServerError:
    """The error of a call that missed its deadline."""
    return ServerError(
        f"{server.url} gave no whole answer within {server.deadline:g} seconds: allow more with --deadline, "
        "or ask less at a time with --concurrency"
    )


def explained(error: openai.OpenAIError, server: Server, asked: str) -> ModelError:
    """The error that a failed request becomes. asked: what for, in words. Its sentence may still contain a key."""
    if isinstance(error, openai.APIStatusError):
        return _of_status(error.status_code, _message(error), server, asked)
    if isinstance(error, openai.APITimeoutError):
        return ServerError(
            f"{server.url} was silent for {server.deadline / server.attempts:g} seconds, {server.attempts} times: "
            "is it up, and is --deadline long enough for it?"
        )
    if str(error.__cause__) in (_EMPTY, _NO_JSON):
        return ServerError(f"{server.url} {error.__cause__}, {server.attempts} times: is it the address of an API?")
    reason = type(error.__cause__ or error).__name__
    return ServerError(f"{server.url} cannot be reached ({reason}): start the server, or mend the address")


def _of_status(status: int, message: str, server: Server, asked: str) -> ModelError:
    said = f"{status}: {message}" if message else str(status)
    if status == 429:
        remedy = f"still limits the rate after {server.attempts} attempts: lower --concurrency, or go on later"
    elif status in (408, 409) or status >= 500:
        remedy = f"failed {server.attempts} times: try again later"
    elif status in (401, 403):
        remedy = f"refuses the key: {server.remedy}"
    elif status == 404:
        remedy = f"has no {asked}: mend the model's name or the address, or choose the other one of --template"
    elif status == 413 or (status == 400 and any(word in message.casefold() for word in _TOO_LONG)):
        remedy = "finds the prompt too long: give fewer demonstrations"
    elif status < 400:
        remedy = "sends us elsewhere: give the address where the API is now"
    else:
        remedy = "refuses the request: choose another model or other options"
    sentence = f"{server.url} {remedy} ({said})"
    passing = status in (408, 409, 429) or status >= 500
    return ServerError(sentence) if passing else RefusedError(sentence, status)


def checked(body: object, url: str) -> dict[str, Any]:
    """The JSON object of an answer. Raises ServerError for another value, and for an error sent with status 200."""
    if not isinstance(body, dict):
        raise ServerError(f"{url} answered with something that is no JSON object: is it the address of an API?")
    if isinstance(body.get("error"), dict) and not body.get("choices"):
        raise ServerError(f"{url} failed ({_brief(str(body['error'].get('message')))}): try again later")
    return body


def _message(error: openai.APIStatusError) -> str:
    """What the server says was wrong, shortened; "" if it says nothing in the API's form."""
    body = error.body
    if isinstance(body, list) and len(body) == 1:  # Gemini's form
        [body] = body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else None
    return _brief(text) if isinstance(text, str) else ""


def _brief(text: str) -> str:
    line = " ".join(text.split())
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= 200 else f"{line[:200]}..."


class _Bounded(httpx2.AsyncByteStream):
    """A response body that ends in an error where it grows too large."""

    def __init__(self, stream: Any, limit: int, url: str) -> None:
        self._stream, self._left, self._url = stream, limit, url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise RefusedError(
                    f"{self._url} answers with more than {BODY_LIMIT >> 20} MB: is it the right address?"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def read_within_bounds(response: httpx2.Response) -> None:
    """Read a response within bounds. What is no JSON is made a failure of the connection, so that it is tried again."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    where = str(response.request.url.copy_with(query=None))
    response.stream = _Bounded(response.stream, BODY_LIMIT if plain else BODY_LIMIT // _DEFLATED, where)
    await response.aread()
    if response.is_success:
        try:
            json.loads(response.content.decode("utf-8"))
        except (ValueError, RecursionError):
            kind = _NO_JSON if response.content.strip() else _EMPTY
            raise httpx2.RemoteProtocolError(kind, request=response.request) from None
    elif response.status_code == 402 or (response.status_code == 429 and b"insufficient_quota" in response.content):
        status = response.status_code
        raise RefusedError(f"the account has no money left ({status}): top it up, or use another key", status)
