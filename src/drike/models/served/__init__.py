"""Models behind an API: their names and keys, their options, and the limits on calls and money at which a run stops.

A name is SERVICE:MODEL or SERVICE:MODEL@ADDRESS. A key is read from the environment: from the service's own variable if
the request goes to the service's own address, from DRIKE_API_KEY otherwise, so that no server is sent another one's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from threading import Lock
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from drike.errors import ModelError, SpendingLimitError
from drike.models.protocols import Usage

# Service -> where its API begins, and the variable that holds its key ("" for servers that users run themselves).
SERVICES = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "transformers": ("http://localhost:8000/v1", ""),
    "vllm": ("http://localhost:8000/v1", ""),
    "sglang": ("http://localhost:30000/v1", ""),
    "llamacpp": ("http://localhost:8080/v1", ""),
    "ollama": ("http://localhost:11434/v1", ""),
}
KEY = "DRIKE_API_KEY"
_FIRST_LETTERS = {"openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"), "gemini": ("gemini-",)}
CHARACTERS_PER_TOKEN = 4
_CAUTIOUS = 3  # characters a token while an answer is awaited, so that a limit is not exceeded


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


def service_for(name: str) -> str | None:
    """The service that has models with names like `name`; None if no such service is known."""
    known = {} if "/" in name else _FIRST_LETTERS
    return next((service for service, starts in known.items() if name.casefold().startswith(starts)), None)


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
    """Parse SERVICE:MODEL[@ADDRESS]. Raises ModelError, also for unencrypted ones elsewhere unless `allow_http`."""
    service, _, rest = name.partition(":")
    service = service.casefold()
    if service not in SERVICES:
        raise ModelError(f"{service!r} is no service: choose one of {', '.join(SERVICES)}")
    home, variable = SERVICES[service]
    model, at, where = rest.rpartition("@http")
    model, where = (model, f"http{where}") if at else (rest, home)
    if "://" in model:
        raise ModelError(f"{name!r} contains no address of a server: write {service}:MODEL@https://host/v1")
    try:
        url = urlsplit(where)
        own = _origin(url) == _origin(urlsplit(home))
    except ValueError as error:
        raise ModelError(f"{where} is no address ({error}): give it as https://host/v1") from None
    if not model or not url.hostname or url.scheme not in ("http", "https"):
        raise ModelError(f"{name!r} names no model: write {service}:MODEL, or {service}:MODEL@https://host/v1")
    if url.username or url.password or url.query or url.fragment:
        raise ModelError(f"the address of {service}:{model} contains more than a path: put the key into ${KEY}")
    if url.scheme == "http" and not is_loopback(url.hostname) and not allow_http:
        raise ModelError(f"http://{url.hostname} is not encrypted: use https, or `allow_http` if the network is yours")
    return Address(service, model, where.rstrip("/") + "/", (own and variable) or KEY)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port


@dataclass(frozen=True)
class Price:
    """Money per million tokens read and written, in any currency; None if not stated."""

    read: float | None = None
    written: float | None = None

    def of(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        """The cost of tokens; None without a price."""
        if self.read is None and self.written is None:
            return None
        return ((self.read or 0.0) * prompt_tokens + (self.written or 0.0) * completion_tokens) / 1e6


@dataclass(frozen=True)
class ApiOptions:
    """Options of a served model; each is also an option of the commands.

    allow_http: send prompts unencrypted to another machine. concurrency: requests, and edits, at a time. deadline:
    seconds for an answer, retries included. thinking_tokens: added to the length of every answer, for models that think
    before they write. reasoning_effort: passed on. text_only: never ask for log-probabilities. no_cache: neither use
    nor keep answers on disk. price_in, price_out: money per million tokens read and written. max_calls, max_cost:
    limits on requests and money. tokenizer: folder or hub name of one that counts the model's tokens.
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

    @property
    def price(self) -> Price:
        """The price of tokens."""
        return Price(self.price_in, self.price_out)

    def after(self, used: Usage) -> ApiOptions:
        """The same options, with limits reduced by `used`."""
        money = self.price.of(used.prompt_tokens, used.completion_tokens) or 0.0
        calls = None if self.max_calls is None else max(0, self.max_calls - used.requests)
        cost = None if self.max_cost is None else max(0.0, self.max_cost - money)
        return replace(self, max_calls=calls, max_cost=cost)


def estimated_tokens(text: str) -> int:
    """Tokens of a text at four characters each, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


class TokenCounts(NamedTuple):
    """Tokens read, written, and found in the server's own prefix cache; None if the response does not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


class Meter:
    """Counts requests and answers, and refuses requests that would exceed a limit; threads may share it.

    max_calls: of requests over the network, retries included. max_cost: of money, with a cautious estimate of requests
    in flight. Raises ModelError for max_cost without a price.
    """

    def __init__(
        self, price: Price | None = None, *, max_calls: int | None = None, max_cost: float | None = None
    ) -> None:
        self.price = price or Price()
        if max_cost is not None and self.price.of(0, 0) is None:
            raise ModelError("a limit on money needs prices: give `price_in` and `price_out`, per million tokens")
        if any(math.isnan(number) for number in (max_cost, self.price.read, self.price.written) if number is not None):
            raise ModelError("prices and limits are numbers, not nan: no cost would ever exceed such a limit")
        self.usage = Usage(money=self.price.of(0, 0))
        self._max_calls = max_calls
        self._max_cost = max_cost
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
        amount = self.price.of(len(text) / _CAUTIOUS, max_tokens) or 0.0
        with self._counting:
            spent = self.usage.money or 0.0
            if self._max_cost is not None and spent + self._reserved + amount > self._max_cost:
                used = f"{spent:.4f} of the {self._max_cost:g} that `max_cost` leaves are spent"
                raise SpendingLimitError(f"{used}, and the next call could exceed it: allow more to continue")
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
        cached, estimated = min(counts.cached or 0, read), counts.prompt is None or counts.completion is None
        used = Usage(calls=1, prompts=1, prompt_tokens=read, completion_tokens=written, estimated=int(estimated))
        with self._counting:
            self.usage += replace(used, tokens_computed=read + written - cached, money=self.price.of(read, written))
