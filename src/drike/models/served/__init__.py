"""Models behind an API: their names and keys, their options, and the limits on calls and money at which a run stops.

A name is SERVICE:MODEL or SERVICE:MODEL@ADDRESS. A key is read from the environment: from the service's own variable if
the request goes to the service's own address, from DRIKE_API_KEY otherwise, so that no server is sent another one's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from drike.errors import ModelError, ServerError, SpendingLimitError
from drike.models.protocols import Usage
from drike.support.records import encodable

_PORTS = {"transformers": 8000, "vllm": 8000, "sglang": 30000, "llamacpp": 8080, "ollama": 11434}
# Service -> where its API begins, and the variable that holds its key ("" for servers that users run themselves).
SERVICES = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    **{name: (f"http://localhost:{port}/v1", "") for name, port in _PORTS.items()},
}
KEY = "DRIKE_API_KEY"
CHARACTERS_PER_TOKEN = 4
_CAUTIOUS = 3  # characters a token while an answer is awaited, so that a limit is not exceeded
_LARGEST = 1e6  # nats; a larger value is no log-probability
_MOST_TOKENS = 10**9  # that a server's count may be


@dataclass(frozen=True)
class Address:
    """A model's service, its name there, the API's URL (with a slash at the end), and the variable with the key."""

    service: str
    model: str
    url: str
    key_variable: str


def is_served(name: str) -> bool:
    """Whether a name is that of a model behind an API."""
    service, colon, _ = name.partition(":")
    return bool(colon) and service.casefold() in SERVICES


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def key_in(variable: str) -> str | None:
    """The key in a variable of the environment; None if it is not set. Raises ModelError for what is no key."""
    key = os.environ.get(variable) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelError(f"${variable} holds characters that no key has: set it again")
    return key


def parse_address(name: str, *, allow_http: bool = False) -> Address:
    """Parse a name, which must be one that `is_served`. Raises ModelError, also for http elsewhere unless allowed."""
    service, _, rest = name.partition(":")
    service = service.casefold()
    begins, variable = SERVICES[service]
    model, at, where = rest.rpartition("@http")
    model, where = (model, f"http{where}") if at else (rest, begins)
    if "://" in model:
        raise ModelError(
            f"{name!r} contains no address of a server: write {service}:MODEL@https://host/v1"
        )
    try:
        url, home = urlsplit(where), urlsplit(begins)
        own = (url.scheme, url.hostname, url.port) == (home.scheme, home.hostname, home.port)
    except ValueError as error:
        raise ModelError(f"{where} is no address ({error}): give it as https://host/v1") from None
    if not model or not url.hostname or url.scheme not in ("http", "https"):
        raise ModelError(
            f"{name!r} names no model: write {service}:MODEL, or {service}:MODEL@https://host/v1"
        )
    if url.username or url.password or url.query or url.fragment:
        raise ModelError(
            f"the address of {service}:{model} contains more than a path: put the key into ${KEY}"
        )
    if url.scheme == "http" and not is_loopback(url.hostname) and not allow_http:
        raise ModelError(
            f"http://{url.hostname} is not encrypted: use https, or `allow_http` if the network is yours"
        )
    return Address(service, model, where.rstrip("/") + "/", (own and variable) or KEY)


@dataclass(frozen=True)
class ApiOptions:
    """Options of a served model; each is also an option of the commands.

    allow_http: send prompts unencrypted to another machine. concurrency: requests, and edits, at a time. deadline:
    seconds for an answer, retries included. thinking_tokens: added to the length of every answer, for models that think
    before they write. reasoning_effort: passed on. text_only: never ask for log-probabilities. no_cache: neither use
    nor keep answers on disk. price_in, price_out: money per million tokens read and written. max_calls, max_cost:
    limits on requests and money, in any currency. tokenizer: folder or hub name of one that counts the model's tokens.
    """

    allow_http: bool = False
    concurrency: int = 8
    deadline: float = 120.0
    thinking_tokens: int = 0
    reasoning_effort: str | None = None
    text_only: bool = False
    no_cache: bool = False
    price_in: float | None = None
    price_out: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    tokenizer: str | None = None

    def cost(self, read: float, written: float) -> float | None:
        """The cost of tokens read and written; None without a price."""
        if self.price_in is None and self.price_out is None:
            return None
        return ((self.price_in or 0.0) * read + (self.price_out or 0.0) * written) / 1e6

    def after(self, used: Usage) -> ApiOptions:
        """The same options, with limits reduced by `used`."""
        money = self.cost(used.prompt_tokens, used.completion_tokens) or 0.0
        calls = None if self.max_calls is None else max(0, self.max_calls - used.requests)
        cost = None if self.max_cost is None else max(0.0, self.max_cost - money)
        return replace(self, max_calls=calls, max_cost=cost)


def estimated_tokens(text: str) -> int:
    """Tokens of a text at four characters each, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def is_logprob(value: object) -> bool:
    """Whether a value is a number that a log-probability, or a difference of two, can have."""
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[arg-type]  # false for NaN


class TokenCounts(NamedTuple):
    """Tokens read, written, and found in the server's own prefix cache; None if the response does not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


def token_counts(body: Mapping[str, Any], url: str) -> TokenCounts:
    """The token counts of an answer. Raises ServerError for one that cannot be right."""
    usage = next(
        (part for part in (body.get("usage"), body.get("meta_info")) if isinstance(part, dict)), {}
    )
    details = usage.get("prompt_tokens_details")
    cached = (details if isinstance(details, dict) else usage).get(
        "cached_tokens"
    )  # the latter is SGLang's own form
    counts = TokenCounts(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    for name, value in counts._asdict().items():
        if value is not None and not (type(value) is int and 0 <= value <= _MOST_TOKENS):
            shown = value if isinstance(value, int | float) else type(value).__name__
            raise ServerError(f"{url} reports {shown} {name} tokens: is it the address of an API?")
    return counts


def error_message(body: object, hide: Callable[[str], str]) -> str:
    """The server's own error message, without the key, then shortened; "" if it sends none in the API's form."""
    if isinstance(body, list) and len(body) == 1:  # Gemini's form
        [body] = body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else None
    if not isinstance(text, str):
        return ""
    line = encodable(" ".join(hide(text).split()))
    return line if len(line) <= 200 else f"{line[:200]}..."


class Meter:
    """Counts requests and answers, and refuses requests that would exceed a limit; threads may share it.

    Of `options`, max_calls limits requests over the network, retries included; max_cost money, with a cautious estimate
    of requests in flight. Raises ModelError for max_cost without a price.
    """

    def __init__(self, options: ApiOptions) -> None:
        if options.max_cost is not None and options.cost(0, 0) is None:
            raise ModelError(
                "a limit on money needs prices: give `price_in` and `price_out`, per million tokens"
            )
        if any(
            map(math.isnan, filter(None, (options.max_cost, options.price_in, options.price_out)))
        ):
            raise ModelError(
                "prices and limits are numbers, not nan: no cost would ever exceed such a limit"
            )
        self.usage = Usage(money=options.cost(0, 0))
        self._cost, self._max_calls, self._max_cost = (
            options.cost,
            options.max_calls,
            options.max_cost,
        )
        self._reserved = 0.0
        self._counting = Lock()

    def sent(self) -> None:
        """Count a request that is about to be sent. Raises SpendingLimitError if it would exceed max_calls."""
        with self._counting:
            if self._max_calls is not None and self.usage.requests >= self._max_calls:
                used_up = f"the {self._max_calls} requests that `max_calls` leaves are used up"
                raise SpendingLimitError(f"{used_up}: allow more to continue")
            self.usage += Usage(requests=1)

    @contextmanager
    def reserved(self, text: str, max_tokens: int) -> Iterator[None]:
        """Reserve money while an answer is awaited. Raises SpendingLimitError if it could exceed max_cost."""
        amount = self._cost(len(text) / _CAUTIOUS, max_tokens) or 0.0
        with self._counting:
            spent = self.usage.money or 0.0
            if self._max_cost is not None and spent + self._reserved + amount > self._max_cost:
                used = f"{spent:.4f} of the {self._max_cost:g} that `max_cost` leaves are spent"
                raise SpendingLimitError(
                    f"{used}, and the next call could exceed it: allow more to continue"
                )
            self._reserved += amount
        try:
            yield
        finally:
            with self._counting:
                self._reserved -= amount

    def answered(self, text: str, counts: TokenCounts, max_tokens: int) -> None:
        """Count an answer to `text`. Tokens that are None are estimated, those of the answer at most `max_tokens`."""
        read = estimated_tokens(text) if counts.prompt is None else counts.prompt
        written = max_tokens if counts.completion is None else counts.completion
        cached, estimated = (
            min(counts.cached or 0, read),
            counts.prompt is None or counts.completion is None,
        )
        used = Usage(
            calls=1,
            prompts=1,
            prompt_tokens=read,
            completion_tokens=written,
            estimated=int(estimated),
        )
        with self._counting:
            self.usage += replace(
                used, tokens_computed=read + written - cached, money=self._cost(read, written)
            )
